"""Where a project stands, in numbers and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poolwise.labelling.items import Items
from poolwise.labelling.store import ModelRecord, Proposal
from poolwise.labelling.store.events import Fold

# Models shown of the learning curve.
_SHOWN = 8


@dataclass(frozen=True)
class Status:
    """Where a project stands.

    Attributes:
        items: how many items there are.
        labelled: how many of them have a label.
        classes: how many items have each class.
        conflicts: items to which people gave different labels.
        unlabelable: items that cannot be labelled.
        unsure: items that somebody skipped or did not know, without a label.
        gone: labelled items that are not in the data any more.
        people: how many labels each person gave.
        batch: the newest batch, None if there is none.
        batch_done: how many of its items have a label.
        models: the models so far.
        stale: labels that the newest model does not know.
        batch_aside: how many of the batch's items were answered without a label.
    """

    items: int
    labelled: int
    classes: Mapping[str, int]
    conflicts: int
    unlabelable: int
    unsure: int
    gone: int
    people: Mapping[str, int]
    batch: Proposal | None
    batch_done: int
    models: Sequence[ModelRecord]
    stale: int
    batch_aside: int = 0

    def lines(self) -> list[str]:
        """What a person wants to know, one line each."""
        said = [f"{self.labelled:,} of {self.items:,} items have a label"]
        if self.classes:
            said.append("classes: " + ", ".join(f"{name} {count:,}" for name, count in self.classes.items()))
        if any(self.people):
            shown = (f"{name or 'unnamed people'} {count:,}" for name, count in self.people.items())
            said.append("labels by: " + ", ".join(shown))
        for count, one, many in (
            (self.conflicts, "item on which people disagree", "items on which people disagree"),
            (self.unlabelable, "item cannot be labelled", "items cannot be labelled"),
            (self.unsure, "item was skipped, or nobody knew", "items were skipped, or nobody knew"),
            (self.gone, "labelled item is not in the data any more", "labelled items are not in the data any more"),
        ):
            if count:
                said.append(f"{count:,} {one if count == 1 else many}")
        if self.batch is not None:
            aside = f", {self.batch_aside:,} without a label" if self.batch_aside else ""
            done = self.batch_done + self.batch_aside
            said.append(f"batch {self.batch.number}: {done:,} of {len(self.batch.picks):,} answered{aside}")
        said += self._curve()
        if self.stale and self.models:
            said.append(f"{self.stale:,} label{' is' if self.stale == 1 else 's are'} newer than the newest model")
        return said

    def _curve(self) -> list[str]:
        if not self.models:
            several = sum(count > 0 for count in self.classes.values()) > 1
            return ["no model yet: " + ("the next batch trains one" if several else "it needs labels of two classes")]
        said = [f"model {self.models[-1].number}: {self.models[-1].name}"]
        measured = [model for model in self.models if model.accuracy is not None]
        if not measured:
            return [*said, "its accuracy is not known yet: no item that was drawn to measure it has a label"]
        said.append("labels  accuracy on items drawn at random (95 % interval)")
        said += [accuracy_line(model) for model in measured[-_SHOWN:]]
        return said


def accuracy_line(model: ModelRecord) -> str:
    """The accuracy of a model with its interval."""
    return (
        f"{model.labels:6,}  {model.accuracy or 0:.0%} ({model.low or 0:.0%} to {model.high or 0:.0%}, "
        f"{model.correct:,} of {model.checked:,} right)"
    )


def make_status(items: Items, fold: Fold, batch: Proposal | None, models: Sequence[ModelRecord], newer: int) -> Status:
    """Where a project stands, from what the store says.

    Args:
        items: the items.
        fold: the current labels.
        batch: the newest batch.
        models: the models so far.
        newer: labels that the newest model does not know.
    """
    classes = dict.fromkeys(fold.classes, 0)
    people: dict[str, int] = {}
    labelled = conflicts = unlabelable = unsure = gone = 0
    for name, current in fold.items.items():
        if name not in items.position:
            gone += current.label is not None
            continue
        if current.label is None:
            unlabelable += current.unlabelable
            unsure += not current.unlabelable
            continue
        labelled += 1
        conflicts += current.conflict
        classes[current.label] = classes.get(current.label, 0) + 1
        for answer in current.answers:
            if answer.kind == "label":
                people[answer.person] = people.get(answer.person, 0) + 1
    answered = [fold.items[name] for name in (batch.ids if batch is not None else ()) if name in fold.items]
    done = sum(current.label is not None for current in answered)
    return Status(
        len(items), labelled, classes, conflicts, unlabelable, unsure, gone, people, batch, done, models, newer,
        len(answered) - done,
    )  # fmt: skip
