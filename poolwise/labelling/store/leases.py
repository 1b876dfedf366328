"""Who is working on which item now, so that two people do not label the same one by accident."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from poolwise.labelling.store.schema import leases
from poolwise.labelling.store.together import Request

# Made once, since making a statement takes longer than SQLite needs to run it.
_MINE = leases.c.person == sa.bindparam("who")
_ENDED = sa.delete(leases).where(leases.c.until <= sa.bindparam("now"))
_ALL = sa.select(leases.c.item, leases.c.person, leases.c.place)
_RENEW = sa.update(leases).where(_MINE).values(until=sa.bindparam("then"))
_RELEASE = sa.delete(leases).where(_MINE & (leases.c.item == sa.bindparam("what")))
_INSERT = sa.insert(leases)
_HELD = sa.select(leases.c.item).where(_MINE & (leases.c.until >= sa.bindparam("then"))).order_by(leases.c.place)


@dataclass
class LeaseRequest(Request):
    """A person wants items: those that they have already, then the next of a queue that are free.

    Attributes:
        person: who.
        count: how many items they want to have.
        until: when the items come back.
        now: the time.
        queue: items, the most useful first; read no further than needed.
        wanted: whether this person could do an item.
        most: how many people may have an item at once.
        items: what they get.
    """

    person: str
    count: int
    until: float
    now: float
    queue: Iterable[str]
    wanted: Callable[[str], bool]
    most: Callable[[str], int]
    items: list[str] = field(default_factory=list)


def lease(connection: sa.Connection, requests: Sequence[LeaseRequest]) -> None:
    """Give items to people, one request after another.

    Args:
        connection: in a transaction that nobody else writes during.
        requests: who wants how many.
    """
    connection.execute(_ENDED, {"now": min(request.now for request in requests)})
    before: dict[str, dict[str, int]] = {}  # the items of each person, with their places
    holders: dict[str, set[str]] = {}
    for item, person, place in connection.execute(_ALL).all():
        before.setdefault(person, {})[item] = place
        holders.setdefault(item, set()).add(person)
    after = {request.person: dict(before.get(request.person, {})) for request in requests}
    for request in requests:
        try:
            _choose(request, after[request.person], holders)
        except Exception as error:  # of somebody's queue
            request.error = error
    gone = [{"who": who, "what": item} for who in after for item in before.get(who, {}) if item not in after[who]]
    if gone:
        connection.execute(_RELEASE, gone)
    kept = [{"who": r.person, "then": r.until} for r in requests if r.error is None and before.get(r.person)]
    if kept:
        connection.execute(_RENEW, kept)
    until = {request.person: request.until for request in requests}
    fresh = [
        {"item": item, "person": who, "place": place, "until": until[who]}
        for who, places in after.items()
        for item, place in places.items()
        if item not in before.get(who, {})
    ]
    if fresh:
        connection.execute(_INSERT, fresh)


def _choose(request: LeaseRequest, mine: dict[str, int], holders: dict[str, set[str]]) -> None:
    """Settle one request, and update `mine` and `holders`."""
    place = max(mine.values(), default=-1)
    for item in [item for item in mine if not request.wanted(item)]:
        del mine[item]
        holders[item].discard(request.person)
    for item in request.queue if len(mine) < request.count else ():
        others = holders.get(item)
        if item in mine or (others and len(others) >= request.most(item)) or not request.wanted(item):
            continue
        place += 1
        mine[item] = place
        holders.setdefault(item, set()).add(request.person)
        if len(mine) >= request.count:
            break
    request.items = sorted(mine, key=mine.__getitem__)[: request.count]


def held(connection: sa.Connection, person: str, until: float) -> list[str]:
    """The items that a person has at least until then."""
    return list(connection.execute(_HELD, {"who": person, "then": until}).scalars())


def renew(connection: sa.Connection, person: str, until: float, now: float) -> int:
    """Keep what a person has for longer; the number of items that they still have."""
    mine = (leases.c.person == person) & (leases.c.until > now)
    return connection.execute(sa.update(leases).where(mine).values(until=until)).rowcount


def release(connection: sa.Connection, person: str, items: Sequence[str] | None) -> None:
    """Give items back; None for all of a person."""
    mine = leases.c.person == person
    connection.execute(sa.delete(leases).where(mine if items is None else mine & leases.c.item.in_(list(items))))


def listed(connection: sa.Connection, now: float) -> dict[str, list[str]]:
    """The items that each person has now."""
    query = sa.select(leases.c.person, leases.c.item).where(leases.c.until > now).order_by(leases.c.place)
    found: dict[str, list[str]] = {}
    for person, item in connection.execute(query):
        found.setdefault(person, []).append(item)
    return found
