"""What people said in Label Studio, as events of the store.

Each saved version of an annotation is one event. Its number and times are the name of the request, so reading the same
annotation again, from the server or from a file, stores nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from poolwise.errors import LabelError
from poolwise.labelling.items import Items
from poolwise.labelling.store import Event, Store
from poolwise.labelling.store.events import Fold

DELETED = "(deleted in Label Studio)"
"""Who skipped an item whose task was deleted."""


@dataclass(frozen=True)
class Task:
    """A task of this project.

    Attributes:
        id: its number in Label Studio.
        item: the item.
        annotations: what people said about it, as Label Studio has it.
        complete: whether these are all the annotations of the task, so that one which is missing was deleted.
    """

    id: int
    item: str
    annotations: Sequence[Mapping[str, Any]] = ()
    complete: bool = False


@dataclass
class Taken:
    """What became of annotations.

    Attributes:
        labels: how many were stored.
        changed: how many of them replace an earlier answer of the same person.
        skipped: tasks that somebody skipped.
        cleared: answers that were taken back.
        deleted: tasks that were deleted before anybody answered.
        foreign: tasks that are not of this project.
        unknown: classes that the project does not have, with how many annotations wait for them.
        unclear: annotations without a class, or with several.
        known: annotations that were stored before.
        classes: classes that are new.
    """

    labels: int = 0
    changed: int = 0
    skipped: int = 0
    cleared: int = 0
    deleted: int = 0
    foreign: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    unclear: int = 0
    known: int = 0
    classes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.labels or self.skipped or self.cleared or self.deleted or self.classes)

    def __str__(self) -> str:
        many = "" if self.labels == 1 else "s"
        parts = [f"{self.labels:,} new label{many}" + (f", {self.changed:,} of them changed" if self.changed else "")]
        if self.skipped:
            parts.append(f"{self.skipped:,} skipped")
        if self.cleared:
            parts.append(f"{self.cleared:,} taken back")
        if self.deleted:
            parts.append(f"{self.deleted:,} tasks were deleted, and are not sent again")
        if self.classes:
            parts.append(f"new classes: {', '.join(self.classes)}")
        return "; ".join(parts)

    def notes(self) -> list[str]:
        """What a person should know, and what to do."""
        said = []
        if self.unknown:
            named = ", ".join(f"{name!r} ({count:,})" for name, count in sorted(self.unknown.items())[:5])
            said.append(
                f"{sum(self.unknown.values()):,} annotations have classes that the project does not have: {named}. "
                "They wait in Label Studio: correct them there, or take them with --new-classes."
            )
        if self.unclear:
            said.append(
                f"{self.unclear:,} annotations have no class or several, and are left out. Choose one in Label Studio."
            )
        if self.foreign:
            said.append(f"{self.foreign:,} tasks are not of this project, and are left alone.")
        return said


def is_tasks(found: object) -> bool:
    """Whether a value is what Label Studio exports as JSON."""
    return isinstance(found, list) and all(
        isinstance(task, dict) and isinstance(task.get("annotations"), list) for task in found
    )


def own_tasks(found: Iterable[Mapping[str, Any]], uid: str, items: Items) -> tuple[list[Task], int]:
    """The tasks of this project, and how many others there are.

    A task belongs to the project if its meta data says so. A text that was imported by hand belongs to it if an item
    has exactly that text: an id alone could be that of other data.
    """
    own, foreign = [], 0
    for task in found:
        item = _item(task, uid, items)
        if item is None:
            foreign += 1
            continue
        annotations = [entry for entry in task.get("annotations") or () if isinstance(entry, Mapping)]
        count = (task.get("total_annotations"), task.get("cancelled_annotations"))
        complete = all(isinstance(n, int) for n in count) and len(annotations) == sum(n or 0 for n in count)
        own.append(Task(int(task.get("id") or 0), item, annotations, complete))
    return own, foreign


def _item(task: Mapping[str, Any], uid: str, items: Items) -> str | None:
    meta, data = task.get("meta"), task.get("data")
    if isinstance(meta, Mapping) and meta.get("poolwise") == uid and str(meta.get("item")) in items.position:
        return str(meta["item"])
    if not isinstance(data, Mapping) or items.texts is None:
        return None
    place = items.position.get(str(data.get("item")))
    return str(data["item"]) if place is not None and items.texts[place] in data.values() else None


@dataclass(frozen=True)
class Reader:
    """Reads annotations of one project of Label Studio.

    Attributes:
        origin: where answers come from; only answers of this origin are ever taken back.
        control: the name of the choices; None for any.
        people: the names of users by their numbers.
        person: who made annotations without a user.
        new_classes: whether annotations may have classes that the project does not have.
    """

    origin: str
    control: str | None = None
    people: Mapping[int, str] = field(default_factory=dict)
    person: str = ""
    new_classes: bool = False

    def plan(
        self, tasks: Sequence[Task], gone: Mapping[int, str], fold: Fold, stored: Mapping[str, str]
    ) -> tuple[Taken, list[Event]]:
        """The events that store what is new, and what to say about it.

        Args:
            tasks: the tasks of this project.
            gone: the items of tasks that were deleted, by the numbers of the tasks.
            fold: the current labels.
            stored: names of requests that are in the store, and who made them.
        """
        taken = Taken()
        known = dict.fromkeys(fold.classes)
        authors = {name.rpartition(" ")[0]: person for name, person in stored.items()}
        events: list[tuple[str, Event]] = []
        for task in tasks:
            for entry in task.annotations:
                event = self._event(task.item, entry, taken)
                if event is None:
                    continue
                if event.request_id in stored:
                    taken.known += 1
                    continue
                if event.label is not None and event.label not in known:
                    if not self.new_classes and fold.classes:
                        taken.unknown[event.label] = taken.unknown.get(event.label, 0) + 1
                        continue
                    known[event.label] = None
                earlier = authors.get(str(event.request_id).rpartition(" ")[0])  # under another name, from a file
                events.append((str(entry.get("updated_at")), replace(event, person=earlier or event.person)))
        taken.classes = [name for name in known if name not in fold.classes]
        planned = [Event("class", label=name, origin=self.origin) for name in taken.classes]
        for _, event in sorted(events, key=lambda pair: pair[0]):
            before = fold.items[event.item].by(event.person) if event.item in fold.items else None
            taken.labels += event.kind == "label"
            taken.skipped += event.kind == "skip"
            taken.changed += event.kind == "label" and before is not None
            planned.append(event)
        planned += self._taken_back(tasks, fold, taken)
        planned += self._deleted(gone, tasks, fold, taken, stored)
        return taken, planned

    def _event(self, item: str, entry: Mapping[str, Any], taken: Taken) -> Event | None:
        kind, label = "skip", None
        if not entry.get("was_cancelled"):
            result = entry.get("result")
            choices = [
                choice
                for part in (result if isinstance(result, list) else ())
                if isinstance(part, Mapping) and self.control in (None, part.get("from_name"))
                for choice in _choices(part)
            ]
            if len(choices) != 1 or not choices[0].strip():
                taken.unclear += 1
                return None
            kind, label = "label", choices[0].strip()
        return Event(
            kind, item, label, self._name(entry.get("completed_by")), self.origin,
            at=_seconds(entry.get("updated_at")), request_id=_request(entry),
        )  # fmt: skip

    def _name(self, user: object) -> str:
        """The name of the user who made an annotation; Label Studio gives a number, or the user."""
        if isinstance(user, Mapping):
            return str(user.get("email") or self._name(user.get("id")))[:200]
        if isinstance(user, int) and user in self.people:
            return self.people[user][:200]
        return self.person if user is None else f"Label Studio user {user}"[:200]

    def _taken_back(self, tasks: Sequence[Task], fold: Fold, taken: Taken) -> list[Event]:
        """Answers whose annotations were deleted in Label Studio, while their tasks are still there."""
        there: dict[str, set[str] | None] = {}
        for task in tasks:
            people = there.setdefault(task.item, set())
            if not task.complete:
                there[task.item] = None  # somebody's annotations may be hidden from us
            elif people is not None:
                people.update(self._name(entry.get("completed_by")) for entry in task.annotations)
        events = []
        for item, people in there.items():
            for answer in fold.items[item].answers if people is not None and item in fold.items else ():
                if answer.origin == self.origin and answer.person not in (people or ()) and answer.person != DELETED:
                    events.append(Event("clear", item, None, answer.person, self.origin))
        taken.cleared += len(events)
        return events

    def _deleted(
        self, gone: Mapping[int, str], tasks: Sequence[Task], fold: Fold, taken: Taken, stored: Mapping[str, str]
    ) -> list[Event]:
        """A task that was deleted before anybody answered counts as skipped."""
        there = {task.item for task in tasks}
        events = []
        for number, item in gone.items():
            request = f"{self.origin} task {number} deleted"[-200:]
            if item not in there and item not in fold.items and request not in stored:
                events.append(Event("skip", item, None, DELETED, self.origin, request_id=request))
        taken.deleted += len(events)
        return events


def take(store: Store, reader: Reader, tasks: Sequence[Task], gone: Mapping[int, str], strict: bool = False) -> Taken:
    """Store what people said in Label Studio, once.

    Args:
        store: where it goes.
        reader: reads annotations.
        tasks: tasks of this project.
        gone: the items of tasks that were deleted, by the numbers of the tasks.
        strict: whether classes that the project does not have are an error, and nothing is stored.
    """
    stored, taken = store.requests(), Taken()

    def decide(fold: Fold) -> list[Event]:
        nonlocal taken
        taken, events = reader.plan(tasks, gone, fold, stored)
        if strict and taken.unknown:
            raise LabelError(f"{taken.notes()[0]} Nothing was stored.")
        return events

    store.decide(decide)
    return taken


def _choices(part: Mapping[str, Any]) -> list[str]:
    value = part.get("value")
    found = value.get("choices") if isinstance(value, Mapping) else None
    return [str(choice) for choice in found] if isinstance(found, list) else []


def _request(entry: Mapping[str, Any]) -> str:
    return f"label-studio {entry.get('id')} {entry.get('created_at')} {entry.get('updated_at')}"[:200]


def _seconds(written: object) -> float | None:
    try:
        return datetime.fromisoformat(str(written)).timestamp()
    except ValueError:
        return None
