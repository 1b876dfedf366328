"""The store: an append-only log of events, and batches, models, leases and people beside it."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa

from poolwise.errors import FileError, StateError
from poolwise.labelling.store import leases, migrations, people, schema
from poolwise.labelling.store.databases import Database, open_database
from poolwise.labelling.store.events import Current, Event, Fold
from poolwise.labelling.store.records import Known, ModelRecord, Person, Pick, Proposal
from poolwise.labelling.store.sqlite import write_single
from poolwise.labelling.store.together import Request, Together

# Values in one statement; SQLite takes 32,766 of them.
_VALUES = 500

_EVENT = ("id", "kind", "item", "label", "person", "origin", "at", "request_id")

# Made once, since making a statement takes longer than SQLite needs to run it.
_COLUMNS = [schema.events.c[name] for name in _EVENT]
_LAST = sa.select(sa.func.max(schema.events.c.id))
_AFTER = sa.select(*_COLUMNS).where(schema.events.c.id > sa.bindparam("after")).order_by(schema.events.c.id)
_REQUESTED = sa.select(*_COLUMNS).where(schema.events.c.request_id.in_(sa.bindparam("names", expanding=True)))
_INSERT = sa.insert(schema.events)
_NEWEST = sa.select(
    sa.select(sa.func.max(schema.batches.c.number)).scalar_subquery(),
    sa.select(sa.func.max(schema.models.c.number)).scalar_subquery(),
)


def _event(row: sa.Row[Any]) -> Event:
    values: tuple[Any, ...] = tuple(row)
    number, kind, item, label, person, origin, at, request = values
    return Event(kind, item, label, person, origin, at, request, number)


@dataclass
class _Append(Request):
    """Events that a thread wants to be stored."""

    events: Sequence[Event]
    check: Callable[[Fold], None] | None = None
    stored: list[Event] = field(default_factory=list)


class Store:
    """The database of a project. When a call returns, what it stored is on the disk.

    Several threads and processes may use one store at once. Events are only appended, never changed: the current labels
    follow from them. Open a store with `Store.open`.

    Example:
        >>> with Store.open("labels.db") as store:
        ...     _ = store.append(Event("class", label="cat"), Event("label", "1.png", "cat", person="anna"))
        ...     store.current()["1.png"].label, store.classes()
        ('cat', ['cat'])
    """

    def __init__(self, database: Database, project: str = "") -> None:
        self._database, self._project = database, project
        self._fold, self._folding = Fold(), threading.Lock()
        self._appending, self._leasing = Together(self._append_all), Together(self._lease_all)
        self._heard: Callable[[Sequence[Event]], None] = lambda events: None
        with database.reading() as connection:
            current = migrations.is_current(connection, project)
        if not current:
            with database.writing() as connection:
                migrations.prepare(connection, project, database.where)

    @classmethod
    def open(cls, place: str | Path, project: str = "") -> Self:
        """Open a store. It is created if there is none, and brought up to date if it is from an earlier version.

        Args:
            place: a file for SQLite, or `postgresql://user@host/database`.
            project: the id of the project that it belongs to; a store of another project is refused.
        """
        database = open_database(place)
        try:
            return cls(database, project)
        except BaseException:
            database.close()
            raise

    @property
    def where(self) -> str:
        """The file, or the URL without its password."""
        return self._database.where

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def backup(self, path: str | Path) -> None:
        """Write a copy of the whole store to a new SQLite file, as it is at one moment.

        Args:
            path: the file, which must not exist yet.
        """
        target = Path(path)
        if target.exists():
            raise FileError(f"{target}: already exists. Name another file.")
        with TemporaryDirectory(dir=target.absolute().parent) as folder:
            place = Path(folder) / "copy.db"
            with Store.open(place, self._project) as copy:
                self._copy_to(copy)
            write_single(place, target)

    def _copy_to(self, other: "Store") -> None:
        with self._database.reading() as here, other._database.writing() as there:
            for table in schema.metadata.sorted_tables:
                there.execute(sa.delete(table))
                rows = [dict(row._mapping) for row in here.execute(sa.select(table))]
                if rows:
                    there.execute(sa.insert(table), rows)

    # Events

    def append(self, *events: Event, check: Callable[[Fold], None] | None = None) -> list[Event]:
        """Store events in one transaction: all of them, or none.

        Args:
            events: what happened. Where a `request_id` is known already, the stored event is returned instead.
            check: called with the current state before anything is stored, while nobody else can write; an error that
                it raises stops the transaction.
        Returns:
            The events as they are stored, with their numbers, in the order given.
        """
        for event in events:
            event.check()
        request = _Append(events, check)
        self._appending.do(request)
        return request.stored

    def listen(self, heard: Callable[[Sequence[Event]], None]) -> None:
        """Call a function with whatever `append` of this object stores, so that it need not be read again.

        Args:
            heard: called with the events of each transaction, in the order of their numbers. Events that other
                processes store are not passed on.
        """
        self._heard = heard

    def decide(self, plan: Callable[[Fold], Sequence[Event]]) -> list[Event]:
        """Store events that depend on the current state; nobody else can write in between.

        Args:
            plan: a function from the current state to the events. An error that it raises stops the transaction.
        Returns:
            The events as they are stored.
        """
        with self._database.writing() as connection:
            with self._folding:
                events = plan(self._catch_up(connection))
            for event in events:
                event.check()
            request = _Append(events)
            self._insert(connection, [request])
            return request.stored

    def _append_all(self, requests: Sequence[_Append]) -> None:
        with self._database.writing() as connection:
            fresh = self._insert(connection, requests)
        self._heard(fresh)

    def _insert(self, connection: sa.Connection, requests: Sequence[_Append]) -> list[Event]:
        """Insert what requests want to be stored; returns the events that are new."""
        names = [event.request_id for request in requests for event in request.events if event.request_id]
        known = self._known_requests(connection, names)
        number, now = self._last_event(connection), time.time()
        fresh: list[Event] = []
        for request in requests:
            if request.check is not None and not all(event.request_id in known for event in request.events):
                try:
                    with self._folding:
                        request.check(self._catch_up(connection))
                except Exception as error:
                    request.error = error
                    continue
            for event in request.events:
                added = known.get(event.request_id) if event.request_id is not None else None
                if added is None:
                    number += 1
                    added = replace(event, id=number, at=now if event.at is None else event.at)
                    fresh.append(added)
                    if added.request_id is not None:
                        known[added.request_id] = added
                request.stored.append(added)
        if fresh:  # last, so that no check sees events that are not committed yet
            connection.execute(_INSERT, [{name: getattr(event, name) for name in _EVENT} for event in fresh])
        return fresh

    def events(self, after: int = 0) -> list[Event]:
        """The events with a number above `after`, in order."""
        with self._database.reading() as connection:
            return self._events(connection, after)

    def requests(self) -> dict[str, str]:
        """The names of all requests that were stored, each with the person who made it."""
        query = sa.select(schema.events.c.request_id, schema.events.c.person)
        with self._database.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(query.where(schema.events.c.request_id.is_not(None)))}

    def last_event(self) -> int:
        """The number of the last event; 0 if there is none."""
        with self._database.reading() as connection:
            return self._last_event(connection)

    def fold(self) -> Fold:
        """A copy of the current labels and classes, as they are at one moment."""
        with self._database.reading() as connection, self._folding:
            now = self._catch_up(connection)
            return Fold(now.last, dict(now.items), list(now.classes))

    def current(self) -> dict[str, Current]:
        """The current label and answers of each item that has any, by its id."""
        return self.fold().items

    def classes(self) -> list[str]:
        """The classes, in the order of their creation."""
        return self.fold().classes

    def _catch_up(self, connection: sa.Connection) -> Fold:
        """Add what is new to the current labels; events that a transaction has not committed yet never get there."""
        return self._fold.add(self._events(connection, self._fold.last))

    @staticmethod
    def _events(connection: sa.Connection, after: int) -> list[Event]:
        return [_event(row) for row in connection.execute(_AFTER, {"after": after})]

    @staticmethod
    def _last_event(connection: sa.Connection) -> int:
        return connection.execute(_LAST).scalar() or 0

    @staticmethod
    def _known_requests(connection: sa.Connection, requests: Sequence[str]) -> dict[str | None, Event]:
        found: dict[str | None, Event] = {}
        for start in range(0, len(requests), _VALUES):
            for row in connection.execute(_REQUESTED, {"names": requests[start : start + _VALUES]}):
                event = _event(row)
                found[event.request_id] = event
        return found

    # Items

    def items(self) -> dict[str, Known]:
        """The items of the data, as they were last seen, by their ids."""
        columns = [schema.items.c[name] for name in ("id", "position", "digest", "stamp")]
        with self._database.reading() as connection:
            return {row.id: Known(*row) for row in connection.execute(sa.select(*columns))}

    def set_items(self, items: Iterable[Known]) -> None:
        """Store items that are new or have changed, and with position -1 those that are gone."""
        rows = [vars(item) for item in items]
        with self._database.writing() as connection:
            for start in range(0, len(rows), _VALUES):
                part = rows[start : start + _VALUES]
                connection.execute(sa.delete(schema.items).where(schema.items.c.id.in_([row["id"] for row in part])))
                connection.execute(sa.insert(schema.items), part)

    # Batches and models

    def add_batch(self, proposal: Proposal) -> Proposal:
        """Store a batch, and return it with its number.

        Args:
            proposal: the batch.
        """
        with self._database.writing() as connection:
            number = (connection.execute(sa.select(sa.func.max(schema.batches.c.number))).scalar() or 0) + 1
            added = replace(proposal, number=number, at=proposal.at or time.time())
            row = {"number": number, "at": added.at, "after_event": added.after_event, "model": added.model}
            connection.execute(sa.insert(schema.batches).values(**row, details=added.details()))
            picks = [{"batch": number, "rank": n, **vars(pick)} for n, pick in enumerate(added.picks)]
            if picks:
                connection.execute(sa.insert(schema.picks), picks)
        return added

    def batches(self, last: int | None = None) -> list[Proposal]:
        """The batches, oldest first.

        Args:
            last: only this many, the newest ones.
        """
        query = sa.select(schema.batches).order_by(schema.batches.c.number.desc())
        with self._database.reading() as connection:
            rows = list(connection.execute(query if last is None else query.limit(last)))
            first = min((row.number for row in rows), default=0)
            picks: dict[int, list[Pick]] = {row.number: [] for row in rows}
            found = sa.select(schema.picks).where(schema.picks.c.batch >= first)
            for row in connection.execute(found.order_by(schema.picks.c.batch, schema.picks.c.rank)):
                picks[row.batch].append(Pick(row.item, row.score, row.why, row.check))
        return [
            Proposal(
                picks[row.number],
                model=row.model,
                after_event=row.after_event,
                at=row.at,
                number=row.number,
                **self._json(row.details),
            )
            for row in reversed(rows)
        ]

    def newest(self) -> tuple[int, int]:
        """The numbers of the newest batch and of the newest model; 0 where there is none."""
        with self._database.reading() as connection:
            batch, model = connection.execute(_NEWEST).one()
        return batch or 0, model or 0

    def check_items(self) -> set[str]:
        """The items that were drawn at random to measure models with, and on which no model is trained."""
        with self._database.reading() as connection:
            return set(connection.execute(sa.select(schema.picks.c.item).where(schema.picks.c.check)).scalars())

    def add_model(self, record: ModelRecord) -> ModelRecord:
        """Store what is known about a model, and return it with its number.

        Args:
            record: what is known.
        """
        with self._database.writing() as connection:
            number = (connection.execute(sa.select(sa.func.max(schema.models.c.number))).scalar() or 0) + 1
            added = replace(record, number=number, at=record.at or time.time())
            connection.execute(sa.insert(schema.models).values(number=number, at=added.at, details=added.as_json()))
        return added

    def models(self, last: int | None = None) -> list[ModelRecord]:
        """The models, oldest first; their accuracies by `labels` are the learning curve.

        Args:
            last: only this many, the newest ones.
        """
        query = sa.select(schema.models).order_by(schema.models.c.number.desc())
        with self._database.reading() as connection:
            rows = list(connection.execute(query if last is None else query.limit(last)))
        return [ModelRecord(at=row.at, number=row.number, **self._json(row.details)) for row in reversed(rows)]

    def _json(self, text: str) -> dict[str, Any]:
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise FileError(f"{self.where}: damaged ({error}). Restore it from a copy.") from error

    # Leases: worth nothing after the machine has stopped, so nobody waits for the disk

    def lease(
        self,
        person: str,
        count: int,
        seconds: float,
        queue: Iterable[str],
        *,
        wanted: Callable[[str], bool] | None = None,
        most: Callable[[str], int] = lambda item: 1,
        now: float | None = None,
    ) -> list[str]:
        """Give a person items to work on. Items that they have already come first; items of others are left out.

        Args:
            person: who.
            count: how many items they want to have.
            seconds: for how long; then the items can go to somebody else.
            queue: items, the most useful first.
            wanted: says whether this person could do an item. By default, that is whether the item is in the queue,
                which is then read to its end.
            most: says how many people may have an item at once.
            now: the time, in seconds since 1970.
        """
        now = time.time() if now is None else now
        if wanted is None:
            queue = list(queue)
            wanted = set(queue).__contains__
        with self._database.reading() as connection:  # most of the time nothing has to be written
            held = leases.held(connection, person, now + seconds / 2)
        if len(held) >= count and all(map(wanted, held)):
            return held[:count]
        request = leases.LeaseRequest(person, count, now + seconds, now, queue, wanted, most)
        self._leasing.do(request)
        return request.items

    def _lease_all(self, requests: Sequence[leases.LeaseRequest]) -> None:
        with self._database.writing(durable=False) as connection:
            leases.lease(connection, requests)

    def renew(self, person: str, seconds: float, now: float | None = None) -> int:
        """Keep the items of a person for longer, and return how many they still have.

        Args:
            person: who.
            seconds: for how long, from now.
            now: the time, in seconds since 1970; by default now.
        """
        now = time.time() if now is None else now
        with self._database.writing(durable=False) as connection:
            return leases.renew(connection, person, now + seconds, now)

    def release(self, person: str, items: Sequence[str] | None = None) -> None:
        """Give back `items` of a person, by default all of them."""
        with self._database.writing(durable=False) as connection:
            leases.release(connection, person, items)

    def leased(self, now: float | None = None) -> dict[str, list[str]]:
        """The items that each person has now."""
        with self._database.reading() as connection:
            return leases.listed(connection, time.time() if now is None else now)

    # People

    def add_person(self, name: str) -> str:
        """Add a person, or give them a new token, and return the token. Only a hash of it is stored.

        Args:
            name: the name of the person.
        """
        with self._database.writing() as connection:
            return people.add(connection, name, time.time())

    def person_of(self, token: str) -> str | None:
        """The name of the person with this token; None if there is none, or if it was revoked."""
        with self._database.reading() as connection:
            return people.find(connection, token)

    def revoke(self, name: str) -> None:
        """End a person's access. Their labels stay.

        Args:
            name: the name of the person.
        """
        with self._database.writing() as connection:
            if not people.revoke(connection, name, time.time()):
                raise StateError(f"nobody called {name!r} has access.")

    def people(self) -> list[Person]:
        """Everybody who has or had access, in the order in which they were added."""
        with self._database.reading() as connection:
            return people.listed(connection)
