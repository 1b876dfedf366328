"""What the store keeps besides events: items, batches, models and people."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Known:
    """An item as it was when it was last seen in the data.

    Attributes:
        id: what it is called.
        position: its row in the data, or its place in the list of files; -1 if it is gone.
        digest: a fingerprint of its content.
        stamp: what tells quickly whether a file has changed, such as its size and time; empty for rows.
    """

    id: str
    position: int
    digest: str
    stamp: str = ""


@dataclass(frozen=True)
class Pick:
    """One item of a batch.

    Attributes:
        item: its id.
        score: the gain that the method gave it; None where there is none.
        why: why it was chosen, in plain words.
        check: whether it was drawn at random to measure the model, and is never trained on.
    """

    item: str
    score: float | None = None
    why: str = ""
    check: bool = False


@dataclass(frozen=True)
class Proposal:
    """A batch: what to label next, and what chose it.

    Attributes:
        picks: the items, the most useful first.
        method: the selection method, or `"random"`.
        encoder: name and fingerprint of what made the features.
        model: the number of the model, None for a first batch.
        seed: of the selection.
        settings: anything else that the choice depends on.
        notes: in plain words, what people should know about the batch.
        after_event: the last event that the model knew of.
        at: when it was made, in seconds since 1970.
        number: its number, from 1; 0 before it is stored.
    """

    picks: Sequence[Pick]
    method: str
    encoder: str = ""
    model: int | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    after_event: int = 0
    at: float | None = None
    number: int = 0

    @property
    def ids(self) -> list[str]:
        """The ids of the items."""
        return [pick.item for pick in self.picks]

    def details(self) -> str:
        """What is stored as JSON."""
        return json.dumps(
            {
                "method": self.method,
                "encoder": self.encoder,
                "seed": self.seed,
                "settings": dict(self.settings),
                "notes": list(self.notes),
            }
        )


@dataclass(frozen=True)
class ModelRecord:
    """A model that was trained.

    Attributes:
        labels: how many labels it was trained on.
        classes: the classes, in the order of its predictions.
        name: what it is, in words.
        checked: how many labels it was measured on.
        correct: how many of these it predicts.
        accuracy: their share, None if there are none.
        low: lower end of the 95 % interval of the accuracy.
        high: upper end.
        seconds: how long training and prediction took.
        seed: of the training.
        after_event: the last event that it knew of.
        details: anything else, such as agreement with the model before.
        at: when it was made, in seconds since 1970.
        number: its number, from 1; 0 before it is stored.
    """

    labels: int
    classes: Sequence[str]
    name: str
    checked: int = 0
    correct: int = 0
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None
    seconds: float = 0.0
    seed: int = 0
    after_event: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    at: float | None = None
    number: int = 0

    def as_json(self) -> str:
        """What is stored as JSON."""
        return json.dumps({name: value for name, value in asdict(self).items() if name not in ("at", "number")})


@dataclass(frozen=True)
class Person:
    """Somebody who labels.

    Attributes:
        name: what to call them.
        added: when they were added, in seconds since 1970.
        revoked: when their access ended, None if it has not.
    """

    name: str
    added: float
    revoked: float | None = None
