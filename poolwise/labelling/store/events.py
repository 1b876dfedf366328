"""What happened, and what follows from it: the current label of each item and the classes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from poolwise.errors import LabelError

KINDS = ("label", "correct", "skip", "unsure", "unlabelable", "clear", "class", "rename-class")
"""Kinds of events. `correct` is a label that overrules what everybody said before about the item."""

_ABOUT_CLASSES = ("class", "rename-class")
_WITH_LABEL = ("label", "correct", *_ABOUT_CLASSES)

# Characters. Longer ones are mistakes, and would fill the disk.
_LONGEST = {"item": 4_096, "label": 500, "person": 200, "origin": 200, "request_id": 200}


@dataclass(frozen=True)
class Event:
    """One answer of a person or a program, or one change of the classes.

    Attributes:
        kind: what happened:
            - `"label"`;
            - `"correct"`: a label that overrules all earlier ones of the item;
            - `"skip"` or `"unsure"`: no label from this person;
            - `"unlabelable"`: the item is not offered to anybody again;
            - `"clear"`: this person's answer is withdrawn;
            - `"class"`: a new class;
            - `"rename-class"`: `item` is the old name, `label` the new one.
        item: the id of the item.
        label: the name of the class.
        person: who did it.
        origin: where it came from, such as `"page"` or `"labels.csv"`.
        at: when, in seconds since 1970; None is now.
        request_id: a name for the request, so that one that is sent twice is stored once.
        id: its number in the store, from 1; 0 before it is stored.

    Example:
        >>> Event("label", "photo-7.png", "cat", person="anna").label
        'cat'
    """

    kind: str
    item: str | None = None
    label: str | None = None
    person: str = ""
    origin: str = ""
    at: float | None = None
    request_id: str | None = None
    id: int = 0

    def check(self) -> None:
        """Raise a `LabelError` if the event makes no sense."""
        if self.kind not in KINDS:
            raise LabelError(f"an event must be one of {', '.join(KINDS)}, not {self.kind!r}.")
        if self.item is None and self.kind != "class":
            raise LabelError(f"the event {self.kind!r} needs an item.")
        if (self.label is None or not self.label.strip()) == (self.kind in _WITH_LABEL):
            raise LabelError(
                f"the event {self.kind!r} {'needs a' if self.label is None else 'cannot have this'} label."
            )
        for name, longest in _LONGEST.items():
            check_text(getattr(self, name), name, longest)


def check_text(value: str | None, name: str, longest: int) -> None:
    """Refuse texts that cannot be stored in every database, or are absurdly long."""
    if value is None:
        return
    if not isinstance(value, str) or len(value) > longest:
        raise LabelError(f"{name} must be a text of at most {longest:,} characters, not {str(value)[:60]!r}.")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise LabelError(f"{name} has a character that cannot be stored: {value[:60]!r}. Leave it out.")


@dataclass(frozen=True)
class Answer:
    """What one person said last about an item.

    Attributes:
        kind: `"label"`, `"skip"`, `"unsure"` or `"unlabelable"`.
        label: the class, for a label.
        person: who.
        at: when.
        event: the number of the event.
        origin: where the answer came from.
    """

    kind: str
    label: str | None
    person: str
    at: float
    event: int
    origin: str = ""


@dataclass(frozen=True)
class Current:
    """What is known about an item now.

    Attributes:
        label: the class that most people gave, the newest one if there are equally many; None if there is none.
        person: who gave that label last.
        at: when.
        answers: the last answer of each person, oldest first.

    Example:
        >>> log = [Event("label", "a", "cat", "anna", id=1), Event("label", "a", "dog", "bert", id=2)]
        >>> current = Fold().add(log).items["a"]
        >>> current.label, current.conflict
        ('dog', True)
    """

    label: str | None
    person: str | None
    at: float | None
    answers: tuple[Answer, ...]

    @property
    def conflict(self) -> bool:
        """Whether people gave different labels."""
        return len({answer.label for answer in self.answers if answer.kind == "label"}) > 1

    @property
    def unlabelable(self) -> bool:
        """Whether somebody said that the item cannot be labelled, and nobody has labelled it."""
        return self.label is None and any(answer.kind == "unlabelable" for answer in self.answers)

    def by(self, person: str) -> Answer | None:
        """What this person said last, or None."""
        return next((answer for answer in self.answers if answer.person == person), None)


def _settled(answers: tuple[Answer, ...]) -> Current:
    """The current state of an item from the last answer of each person, oldest first."""
    labels = [answer for answer in answers if answer.kind == "label"]
    if not labels:
        return Current(None, None, None, answers)
    votes: dict[str | None, int] = {}
    for answer in labels:
        votes[answer.label] = votes.get(answer.label, 0) + 1
    winner = max((answer for answer in labels), key=lambda answer: (votes[answer.label], answer.event))
    return Current(winner.label, winner.person, winner.at, answers)


@dataclass
class Fold:
    """The current labels and classes, kept up to date event by event.

    Attributes:
        last: the number of the last event that is in it.
        items: the items about which something is known.
        classes: the classes, in order of creation.
    """

    last: int = 0
    items: dict[str, Current] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)

    def add(self, events: Iterable[Event]) -> "Fold":
        """Add events, in the order of their numbers."""
        for event in events:
            self.last = event.id
            if event.kind in _ABOUT_CLASSES:
                self._change_classes(event)
            elif event.item is not None:
                self._answer(event, event.item)
        return self

    def _answer(self, event: Event, item: str) -> None:
        before = self.items[item].answers if item in self.items else ()
        overruled = event.kind == "correct"
        answers = () if overruled else tuple(answer for answer in before if answer.person != event.person)
        if event.kind != "clear":
            kind = "label" if overruled else event.kind
            answers += (Answer(kind, event.label, event.person, event.at or 0.0, event.id, event.origin),)
        if answers:
            self.items[item] = _settled(answers)
        else:
            self.items.pop(item, None)

    def _change_classes(self, event: Event) -> None:
        assert event.label is not None
        if event.kind == "class":
            if event.label not in self.classes:
                self.classes.append(event.label)
            return
        old, new = event.item, event.label
        renamed = [new if name == old else name for name in self.classes]
        self.classes = list(dict.fromkeys(renamed))
        for item, current in self.items.items():
            if any(answer.label == old for answer in current.answers):
                answers = (replace(a, label=new) if a.label == old else a for a in current.answers)
                self.items[item] = _settled(tuple(answers))
