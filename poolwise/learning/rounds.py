"""The record of one round: how many labels it was trained on, how good the model is, and what was asked for next."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from poolwise.learning.made_by import MadeBy


@dataclass(frozen=True)
class Round:
    """One round of active learning.

    Attributes:
        round: its number, from 0.
        labelled: how many examples the model was trained on.
        metrics: how good it is on the test set, or None without one.
        validation: how good it is on the validation set, or None without one.
        agreement: Cohen's kappa with the model of the round before, on the unlabelled examples. None if it was not
            tracked (see `tracked`), or if there was no such model.
        seconds: time taken to train, predict and select.
        indices: positions in the data of the batch that was asked for next; none in the last round.
        scores: the gain of each when it was picked; None in a batch that was drawn at random.
        diagnostics: how the selection went, see `Diagnostics`.
        final: why no further labels were asked for, or None.
        origin: `"method"`; for a batch without a model, `"first"` if it was selected and `"random"` if it was drawn.
        tracked: whether the agreement of successive models was tracked in this round.
        made_by: the encoder, model and method that made the batch, see `MadeBy`; None in the last round, and in rounds
            that were saved before this was recorded.

    Example:
        >>> entry = Round(0, 10, metrics={"accuracy": 0.5}, indices=(3, 1, 4))
        >>> entry
        Round(0: 10 labels, accuracy 0.5, asked for 3)
        >>> entry.as_dict()["labelled"]
        10
    """

    round: int
    labelled: int
    metrics: dict[str, float] | None = None
    validation: dict[str, float] | None = None
    agreement: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    indices: tuple[int, ...] = ()
    scores: tuple[float | None, ...] = ()
    diagnostics: dict[str, Any] | None = None
    final: str | None = None
    origin: Literal["method", "first", "random"] = "method"
    tracked: bool = False
    made_by: MadeBy | None = None

    def __repr__(self) -> str:
        parts = [f"{self.labelled} labels"]
        parts += [f"{name} {value:.4g}" for name, value in (self.metrics or {}).items() if name == "accuracy"]
        parts += [f"asked for {len(self.indices)}"] if self.indices else []
        parts += [] if self.final is None else [self.final]
        return f"Round({self.round}: {', '.join(parts)})"

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The round that `as_dict` turned into a dictionary.

        Args:
            values: the dictionary.
        """
        entry = dict(values)
        entry["made_by"] = MadeBy.from_dict(entry.get("made_by"))
        return cls(**{**entry, "indices": tuple(entry["indices"]), "scores": tuple(entry["scores"])})
