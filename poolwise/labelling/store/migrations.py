"""From the tables of one version to those of the next, in one transaction with the new version number."""

from collections.abc import Callable, Mapping

import sqlalchemy as sa

from poolwise.errors import StateError
from poolwise.labelling.store import schema

Step = Callable[[sa.Connection], None]

STEPS: Mapping[int, Step] = {}
"""The step that leads to each version after the first."""


def prepare(connection: sa.Connection, project: str, where: str) -> None:
    """Make the tables, or bring them to the current version.

    Args:
        connection: in a transaction that nobody else writes during.
        project: the id of the project; a database that belongs to another one is refused.
        where: what to call the store in errors.
    """
    found = _read(connection)
    if not found:
        schema.metadata.create_all(connection)
        rows = [{"name": "version", "value": str(schema.VERSION)}, {"name": "project", "value": project}]
        connection.execute(sa.insert(schema.meta), rows)
        return
    version = int(found["version"]) if found.get("version", "").isdecimal() else 0
    if not 1 <= version <= schema.VERSION:
        raise StateError(
            f"{where}: its tables have version {found.get('version')}, and this Poolwise knows versions up to "
            f"{schema.VERSION}. Install a newer Poolwise to open it."
        )
    if project and found.get("project") and found["project"] != project:
        raise StateError(
            f"{where}: belongs to another project. Give each project its own database, for instance with `createdb`."
        )
    for number in range(version + 1, schema.VERSION + 1):
        STEPS[number](connection)
        change = sa.update(schema.meta).where(schema.meta.c.name == "version")
        connection.execute(change.values(value=str(number)))


def is_current(connection: sa.Connection, project: str) -> bool:
    """Whether there is nothing to prepare."""
    found = _read(connection)
    return found.get("version") == str(schema.VERSION) and found.get("project", "") in ("", project)


def _read(connection: sa.Connection) -> dict[str, str]:
    if not sa.inspect(connection).has_table(schema.meta.name):
        return {}
    rows = connection.execute(sa.select(schema.meta.c.name, schema.meta.c.value))
    return {row.name: row.value for row in rows}
