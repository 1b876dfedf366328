"""What the pages know, kept in memory so that every answer is quick. The store has the truth."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import LabelError, PoolwiseError
from poolwise.labelling.agreement import Agreement, Answers
from poolwise.labelling.measuring import measured_again
from poolwise.labelling.predicted import Predicted, load_predicted
from poolwise.labelling.project import Project
from poolwise.labelling.reasons import AGAIN, BETWEEN, CHECK, FEW_CHECKS, RANDOM, WAITING, before_label
from poolwise.labelling.store import Current, Event, ModelRecord, Pick, Proposal
from poolwise.labelling.store.events import Fold

LEASE = 300.0
"""Seconds after which the items of a person who has gone come back."""

MOST = 50
"""Items that one browser may have at once."""

# Seconds: how old batches and models in memory may be, and how long people wait for the first batch.
_AGE, _PATIENCE = 1.0, 6.0

# Items that are looked at together, in search of some to offer.
_BLOCK = 256

# Answers of a person that are remembered, to go back to after a reload.
_REMEMBERED = 20

# Characters of a text that are sent at first.
_BEGINNING = 20_000

# Seconds after which somebody who does nothing is no longer counted as being there.
_AWAY = 60.0

KINDS = ("label", "skip", "unsure", "unlabelable", "clear", "correct")
"""What can be said about an item on the page."""


@dataclass(frozen=True)
class Known:
    """Batches and models, as of one moment.

    Attributes:
        batches: the newest two, oldest first.
        picks: the pick of each item in them, the newest one.
        models: the models of the learning curve, oldest first, each measured on all held-out labels.
        predicted: what the newest model says; None if there is no model.
        before: what the model before it says.
        queue: the items of the batches, those of the newest one first.
        fillers: positions of other items, in the order in which they are offered once the batches are done.
    """

    batches: Sequence[Proposal] = ()
    picks: Mapping[str, Pick] = field(default_factory=dict)
    models: Sequence[ModelRecord] = ()
    predicted: Predicted | None = None
    before: Predicted | None = None
    queue: Sequence[str] = ()
    fillers: Array = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class Said:
    """What somebody said about an item.

    Attributes:
        request: a name for it, so that it is stored once however often it is sent.
        item: the item.
        kind: one of `KINDS`.
        label: the class.
    """

    request: str
    item: str
    kind: str
    label: str | None = None


class Desk:
    """Hands out items and takes answers.

    Args:
        project: the project.
        lease: seconds that a person keeps items.
    """

    def __init__(self, project: Project, lease: float = LEASE) -> None:
        self.project, self.store, self.items = project, project.store, project.items
        self._lease, self._started = lease, time.monotonic()
        self._fold, self._known = Fold(), Known()
        self._answers = Answers()
        self._last = 0
        self._lock = threading.Lock()
        self._seen: dict[str, float] = {}
        self._recent: dict[str, dict[str, None]] = {}  # the last items that each person answered, oldest first
        self._later: dict[str, dict[str, None]] = {}  # the items that each person skipped
        self._counts: Counter[str] = Counter()
        self._batch, self._done = frozenset[str](), 0  # the items of the newest batch, and how many are answered
        self._once = project.description.twice == 0
        self._empty = project.items.empty()
        self._shuffled = np.random.default_rng(project.description.seed).permutation(len(self.items))
        self._learning, self._news, self._ended = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="desk", daemon=True)
        self.store.listen(self._heard)
        self.refresh()
        self.learn()

    def start(self) -> None:
        """Begin to notice new batches and models, and labels that other processes add."""
        self._thread.start()

    def stop(self) -> None:
        """End that."""
        self._ended.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()

    # What is known

    def refresh(self) -> None:
        """Read what other processes have stored. It takes as long for the millionth label as for the first."""
        with self._lock:
            self._take_all(self.store.events(self._last))

    def _heard(self, events: Sequence[Event]) -> None:
        """Take the events that this server has just stored; those that other processes stored before are read."""
        with self._lock:
            missed = events and events[0].id > self._last + 1
            self._take_all(self.store.events(self._last) if missed else events)

    def _take_all(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.id > self._last:
                self._take(event)
                self._last = event.id

    def _take(self, event: Event) -> None:
        item, fold = event.item, self._fold
        before = fold.items.get(item) if item is not None else None
        fold.add([event])
        self._answers.add(event)
        if event.kind == "rename-class":
            self._count()
        elif item is not None:
            after = fold.items.get(item)
            for current, change in ((before, -1), (after, 1)):
                if current is not None and current.label is not None:
                    self._counts[current.label] += change
            if item in self._batch:
                self._done += _done(after) - _done(before)
            self._remember(event.person, item, event.kind)

    def _remember(self, person: str, item: str, kind: str) -> None:
        mine, later = self._recent.setdefault(person, {}), self._later.setdefault(person, {})
        mine.pop(item, None)
        later.pop(item, None)
        if kind == "skip":
            later[item] = None
        if kind != "clear":
            mine[item] = None
            if len(mine) > _REMEMBERED:
                del mine[next(iter(mine))]

    def _count(self) -> None:
        """Count everything from the start."""
        items = self._fold.items
        self._counts = Counter(current.label for current in items.values() if current.label is not None)
        self._done = sum(_done(items.get(item)) for item in self._batch)

    def learn(self) -> None:
        """Read batches and models, which takes longer: not while somebody waits for an answer."""
        with self._learning:
            known = self._known
            have = (known.batches[-1].number if known.batches else 0, known.models[-1].number if known.models else 0)
            if self.store.newest() == have:
                return
            batches = self.store.batches(last=2)
            picks = {pick.item: pick for batch in batches for pick in batch.picks}
            newest = self.store.models(last=1)
            models, predicted, before = known.models, known.predicted, known.before
            if newest and (not models or models[-1].number != newest[-1].number):
                trained, folder = self.store.models(), self.project.folder / "models"
                predicted = load_predicted(trained[-1], folder)
                before = load_predicted(trained[-2], folder) if len(trained) > 1 else None
                models = measured_again(trained, folder, self.fold, self.store.check_items())
            queue = list(dict.fromkeys(pick.item for batch in reversed(batches) for pick in batch.picks))
            fillers = self._fillers(predicted, picks)
            with self._lock:
                self._known = Known(batches, picks, models, predicted, before, queue, fillers)
                self._batch = frozenset(batches[-1].ids) if batches else frozenset()
                self._count()

    def renewed(self) -> None:
        """Say that the background process has made something."""
        self._news.set()

    def _watch(self) -> None:
        while not self._ended.is_set():
            self._news.wait(_AGE)
            self._news.clear()
            with suppress(PoolwiseError):  # the disk may be full for a while; the next look tells
                self.refresh()
                self.learn()

    def _fillers(self, predicted: Predicted | None, picks: Mapping[str, Pick]) -> Array:
        """Items for people who are faster than the background process: what the model is least sure of, or any."""
        order = self._shuffled
        if predicted is not None and predicted.probs.shape[1] >= 2:
            top = np.partition(predicted.probs, -2, axis=1)
            doubt = np.argsort(top[:, -1] - top[:, -2], kind="stable")
            order = np.array([self.items.position.get(name, -1) for name in predicted.ids])[doubt]
        left = ~self._empty
        left[[self.items.position[name] for name in picks if name in self.items.position]] = False
        found: Array = order[(order >= 0) & left[order]]
        return found

    @property
    def known(self) -> Known:
        """Batches and models."""
        return self._known

    @property
    def fold(self) -> Fold:
        """The current labels, as of one moment; a copy."""
        with self._lock:
            now = self._fold
            return Fold(now.last, dict(now.items), list(now.classes))

    @property
    def classes(self) -> list[str]:
        """The classes, in the order of their creation."""
        return list(self._fold.classes)

    @property
    def answers(self) -> Answers:
        """Who said what, independently of the others."""
        return self._answers

    def agreement(self) -> Agreement | None:
        """How well people agree on items that more than one has labelled."""
        return self._answers.agreement()

    def counts(self) -> Counter[str]:
        """How many items have each class now."""
        return self._counts

    def people_here(self) -> int:
        """How many people asked for something in the last minute."""
        now = time.monotonic()
        return sum(now - at < _AWAY for at in list(self._seen.values()))

    # Items for people

    def work(self, person: str, want: int, *, fillers: bool = True) -> list[dict[str, Any]]:
        """Give a person items, those that they have already first.

        Args:
            person: who.
            want: how many items they want to have in all.
            fillers: whether to add items that no batch has, if the batches have too few.
        """
        self._seen[person] = time.monotonic()
        if not self._known.batches and self.impatient:
            self._begin()
        want = max(1, min(want, MOST))
        leased = self.store.lease(
            person,
            want,
            self._lease,
            self._queue(person, fillers),
            wanted=lambda item: self._open(item, person),
            most=self.project.people_for,
        )
        return [self.shown(item) for item in leased]

    def held_by_others(self, person: str) -> bool:
        """Whether others are working on items that this person could label."""
        leased = self.store.leased()
        return any(self._open(item, person) for other in leased if other != person for item in leased[other])

    def _queue(self, person: str, fillers: bool) -> Iterator[str]:
        """What could be labelled: the items of the newest batches, then others, then what this person put off."""
        known, later = self._known, dict(self._later.get(person, {}))
        yield from filterfalse(later.__contains__, known.queue)
        if fillers and known.batches:
            for start in range(0, len(known.fillers), _BLOCK):
                for place in known.fillers[start : start + _BLOCK].tolist():
                    if self.items.ids[place] not in later:
                        yield self.items.ids[place]
            yield from later

    def _open(self, item: str, person: str) -> bool:
        current = self._fold.items.get(item)
        if current is None:
            return item in self.items.position
        if item not in self.items.position or (self._once and current.label is not None):
            return False
        mine = current.by(person)
        labels = sum(answer.kind == "label" for answer in current.answers)
        can = (mine is None or mine.kind == "skip") and not current.unlabelable
        return can and labels < self.project.people_for(item)

    def _begin(self) -> None:
        """A first batch, drawn at random, for people who would have to wait for a better one."""
        with self._learning:
            if self.store.batches(last=1):
                return
            about = self.project.description
            names = [self.items.ids[p] for p in self._shuffled.tolist() if not self._empty[p]]
            drawn = [name for name in names if name not in self._fold.items][: about.batch_size]
            checks = round(len(drawn) * about.held_out)
            spread = {(2 * n + 1) * len(drawn) // (2 * checks) for n in range(checks)}
            picks = [Pick(name, None, CHECK if n in spread else WAITING, n in spread) for n, name in enumerate(drawn)]
            settings = {"asked": about.batch_size, "held_out": about.held_out, "waiting": True}
            last = self._fold.last
            self.store.add_batch(Proposal(picks, "random", seed=about.seed, settings=settings, after_event=last))
        self.learn()

    @property
    def impatient(self) -> bool:
        """Whether people have waited long enough for the first batch."""
        return time.monotonic() - self._started > _PATIENCE

    def why(self, item: str) -> str:
        """Why an item is offered, without what the model thinks it is."""
        pick = self._known.picks.get(item)
        if pick is not None:
            return before_label(pick.why)
        if item in self._fold.items:
            return AGAIN
        return RANDOM if self._known.predicted is None else BETWEEN

    def shown(self, item: str) -> dict[str, Any]:
        """An item as the page gets it."""
        place = self.items.position[item]
        shown: dict[str, Any] = {"id": item, "place": place, "why": self.why(item)}
        current = self._fold.items.get(item)
        if current is not None and current.label is not None:
            shown["label"] = current.label
        if self.items.files is not None:
            shown["image"] = f"/image/{place}"
        if self.items.texts is not None:
            text = self.items.texts[place]
            shown["text"] = text[:_BEGINNING]
            shown["more"] = max(0, len(text) - _BEGINNING)
        elif self.items.files is None:
            shown["text"] = self.items.shown(item)
            shown["more"] = 0
        return shown

    # Answers

    def recent(self, person: str) -> list[dict[str, Any]]:
        """The last items that a person answered, oldest first, each with the answer."""
        with self._lock:
            names = [name for name in self._recent.get(person, ()) if name in self.items.position]
            said = {name: self._fold.items[name].by(person) for name in names if name in self._fold.items}
        return [
            {**self.shown(name), "answer": {"kind": answer.kind, "label": answer.label}}
            for name, answer in said.items()
            if answer is not None
        ]

    def answer(self, person: str, given: Sequence[Said]) -> tuple[list[str], dict[str, str]]:
        """Store answers.

        Args:
            person: who.
            given: what they said.
        Returns:
            The requests that are on the disk now, and why others are refused.
        """
        self._seen[person] = time.monotonic()
        refused: dict[str, str] = {}
        events = []
        for said in given:
            event = Event(said.kind, said.item, said.label, person, self._origin(said), request_id=said.request)
            reason = self._refusal(event)
            if reason is None:
                events.append(event)
            else:
                refused[said.request] = reason
        stored = []
        for event, found in zip(events, self.store.append(*events), strict=True):
            if (found.item, found.kind, found.label, found.person) == (event.item, event.kind, event.label, person):
                stored.append(found.request_id or "")
            else:
                refused[event.request_id or ""] = "another answer was sent under the same name"
        return stored, refused

    @staticmethod
    def _origin(said: Said) -> str:
        return "review" if said.kind == "correct" else "page"

    def _refusal(self, event: Event) -> str | None:
        if event.kind not in KINDS or event.item not in self.items.position:
            return f"there is no item {event.item!r}"
        if event.label is not None and event.label not in self._fold.classes:
            self.refresh()
            if event.label not in self._fold.classes:
                return f"there is no class {event.label!r}"
        try:
            event.check()
        except LabelError as error:
            return str(error)
        return None

    def model_says(self, item: str) -> dict[str, Any] | None:
        """What the newest model says about an item: the class, and its share."""
        predicted, place = self._known.predicted, self.items.position.get(item)
        if predicted is None or place is None or place >= len(predicted.ids) or predicted.ids[place] != item:
            return None
        row = predicted.probs[place]
        best = int(row.argmax())
        return {"label": predicted.classes[best], "share": round(float(row[best]), 4)}

    # Where things stand

    def status(self) -> dict[str, Any]:
        """Numbers for the margin of the page."""
        known = self._known
        with self._lock:
            balance, done = [[name, self._counts[name]] for name in self._fold.classes], self._done
        batch = known.batches[-1] if known.batches else None
        model = known.models[-1] if known.models else None
        return {
            "classes": [name for name, _ in balance],
            "balance": balance,
            "labels": sum(count for _, count in balance),
            "items": len(self.items),
            "batch": None if batch is None else {"number": batch.number, "done": done, "total": len(self._batch)},
            "model": None
            if model is None
            else {
                "number": model.number,
                "labels": model.labels,
                "checked": model.checked,
                "correct": model.correct,
                "few": model.checked < FEW_CHECKS,
                "accuracy": model.accuracy,
                "low": model.low,
                "high": model.high,
            },
            "people": self.people_here(),
        }


def _done(current: Current | None) -> bool:
    return current is not None and (current.label is not None or bool(current.answers))
