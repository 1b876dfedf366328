"""People with access, each by a token of which only a hash is stored."""

import hashlib
import secrets

import sqlalchemy as sa

from poolwise.errors import LabelError
from poolwise.labelling.store.events import check_text
from poolwise.labelling.store.records import Person
from poolwise.labelling.store.schema import people


def _hashed(token: str) -> str:
    # A token has 256 random bits, so a plain hash of it cannot be guessed.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def add(connection: sa.Connection, name: str, now: float) -> str:
    """Add a person, or give a new token to one; the old token ends."""
    name = name.strip()
    if not name:
        raise LabelError("a person needs a name.")
    check_text(name, "name", 200)
    token = secrets.token_urlsafe(32)
    values = {"token": _hashed(token), "added": now, "revoked": None}
    changed = connection.execute(sa.update(people).where(people.c.name == name).values(**values))
    if not changed.rowcount:
        connection.execute(sa.insert(people).values(name=name, **values))
    return token


def find(connection: sa.Connection, token: str) -> str | None:
    """The name of the person with this token, None if there is none or their access has ended."""
    query = sa.select(people.c.name).where(people.c.token == _hashed(token), people.c.revoked.is_(None))
    name: str | None = connection.execute(query).scalar()
    return name


def revoke(connection: sa.Connection, name: str, now: float) -> bool:
    """End a person's access; whether they had any."""
    mine = (people.c.name == name) & people.c.revoked.is_(None)
    return connection.execute(sa.update(people).where(mine).values(revoked=now, token=None)).rowcount > 0


def listed(connection: sa.Connection) -> list[Person]:
    """Everybody, in the order in which they were added."""
    query = sa.select(people.c.name, people.c.added, people.c.revoked).order_by(people.c.added, people.c.name)
    return [Person(*row) for row in connection.execute(query)]
