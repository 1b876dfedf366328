"""What a project gives back: batches to label, and what became of labels."""

from collections.abc import Sequence
from dataclasses import dataclass

from poolwise.labelling.store import ModelRecord


@dataclass(frozen=True)
class ToLabel:
    """One item of a batch, as a person gets it.

    Attributes:
        id: the item.
        content: its text, its file, or the beginning of its features.
        score: the gain that the method gave it, None where there is none.
        why: why it was chosen.
    """

    id: str
    content: str
    score: float | None
    why: str


@dataclass(frozen=True)
class Batch:
    """What to label next.

    Attributes:
        items: the items, the most useful first.
        number: the number of the batch.
        method: what chose it.
        model: the model behind it, None for a first batch.
        notes: what people should know about it.
        encoder: what made the features that it was chosen by, in words.
    """

    items: Sequence[ToLabel]
    number: int
    method: str
    model: ModelRecord | None
    notes: Sequence[str]
    encoder: str = ""

    @property
    def ids(self) -> list[str]:
        """The ids of the items."""
        return [item.id for item in self.items]

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class Added:
    """What became of labels.

    Attributes:
        new: items that had no label before.
        changed: items whose label was replaced.
        same: items that had this label already.
        empty: rows without a label.
        classes: classes that are new.
        skip: items that were skipped.
        unsure: items that the person did not know.
        unlabelable: items that cannot be labelled.
        foreign: tasks of Label Studio that are not of this project.
    """

    new: int = 0
    changed: int = 0
    same: int = 0
    empty: int = 0
    classes: Sequence[str] = ()
    skip: int = 0
    unsure: int = 0
    unlabelable: int = 0
    foreign: int = 0

    def __str__(self) -> str:
        parts = [f"{self.new:,} new label{'' if self.new == 1 else 's'}"]
        if self.changed:
            parts.append(f"{self.changed:,} replaced")
        for count, words in ((self.skip, "skipped"), (self.unsure, "not known")):
            if count:
                parts.append(f"{count:,} {words}")
        if self.unlabelable:
            parts.append(f"{self.unlabelable:,} cannot be labelled")
        if self.same:
            parts.append(f"{self.same:,} {'was' if self.same == 1 else 'were'} there already")
        if self.empty:
            parts.append(f"{self.empty:,} row{'' if self.empty == 1 else 's'} without a label left out")
        if self.classes:
            parts.append(f"new classes: {', '.join(self.classes)}")
        if self.foreign:
            parts.append(f"{self.foreign:,} tasks of other projects left alone")
        return "; ".join(parts)
