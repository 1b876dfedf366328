"""Who is working on which item now, so that two people do not label the same one by accident."""

from collections.abc import Callable, Iterable, Sequence

import sqlalchemy as sa

from poolwise.labelling.store.schema import leases


def lease(
    connection: sa.Connection,
    person: str,
    count: int,
    until: float,
    now: float,
    queue: Iterable[str],
    wanted: Callable[[str], bool],
    most: Callable[[str], int],
) -> list[str]:
    """Give items to a person: those that they have already, then the next of the queue that are free.

    Args:
        connection: in a transaction that nobody else writes during.
        person: who.
        count: how many items they want to have.
        until: when the items come back.
        now: the time.
        queue: the items that this person could do, the most useful first; read no further than needed.
        wanted: whether this person could still do an item that they have.
        most: how many people may have an item at once.
    """
    connection.execute(sa.delete(leases).where(leases.c.until <= now))
    taken: dict[str, int] = {}
    mine: list[tuple[int, str]] = []
    for item, owner, place in connection.execute(sa.select(leases.c.item, leases.c.person, leases.c.place)):
        if owner == person:
            mine.append((place, item))
        else:
            taken[item] = taken.get(item, 0) + 1
    kept = [item for _, item in sorted(mine) if wanted(item)]
    held = set(kept)
    if len(kept) < len(mine):
        release(connection, person, [item for _, item in mine if item not in held])
    fresh: list[str] = []
    for item in queue if len(kept) < count else ():
        if item not in held and taken.get(item, 0) < most(item):
            fresh.append(item)
            held.add(item)
            if len(kept) + len(fresh) >= count:
                break
    if kept:
        connection.execute(sa.update(leases).where(leases.c.person == person).values(until=until))
    if fresh:
        first = max((place for place, _ in mine), default=-1) + 1
        rows = [{"item": x, "person": person, "place": first + n, "until": until} for n, x in enumerate(fresh)]
        connection.execute(sa.insert(leases), rows)
    return [*kept, *fresh][:count]


def held(connection: sa.Connection, person: str, until: float) -> list[str]:
    """The items that a person has at least until then."""
    mine = (leases.c.person == person) & (leases.c.until >= until)
    return list(connection.execute(sa.select(leases.c.item).where(mine).order_by(leases.c.place)).scalars())


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
