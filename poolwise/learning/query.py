"""What a learner asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from poolwise.arrays import Array
from poolwise.learning.made_by import MadeBy
from poolwise.predictions.traffic import Traffic
from poolwise.selection.batch import Diagnostics, Prefilter
from poolwise.selection.display import PickedPoints

Origin = Literal["method", "first", "random"]


@dataclass(frozen=True, eq=False)
class Query(PickedPoints):
    """Examples to label.

    Attributes:
        indices: `[n]` int64 positions in the data, in picking order.
        scores: `[n]` float64 gain of each when it was picked; NaN in a batch that was drawn at random.
        diagnostics: how the selection of the whole batch went; None for a batch drawn without a model.
        origin: `"method"` if the learner's method selected the batch. While nothing is labelled there is no model:
            `"first"` if the method for the first batch selected it, `"random"` if it was drawn at random.
        ids: `[n]` the ids of the examples, or None if the pool has none.
        made_by: the encoder, model and method that made the batch.

    Example:
        >>> import numpy as np
        >>> query = Query(np.array([7, 2]), np.array([0.5, 0.25]), None)
        >>> query
        Query(2 examples: 7, 2; scores 0.5 to 0.25)
        >>> query.note
        ''
    """

    indices: Array
    scores: Array
    diagnostics: Diagnostics | None
    origin: Origin = "method"
    ids: Array | None = None
    made_by: MadeBy | None = None

    def __repr__(self) -> str:
        return f"Query({len(self)} examples: {self._first_names()}; {self.note or self._score_range()})"

    @property
    def note(self) -> str:
        """How a batch without a model was made, in words; empty for a batch that the method selected."""
        return note_of(self.origin)

    def part(self, kept_n: Array) -> "Query":
        """The examples where a mask is true.

        Args:
            kept_n: `[n]` the mask.
        """
        ids = None if self.ids is None else self.ids[kept_n]
        return replace(self, indices=self.indices[kept_n], scores=self.scores[kept_n], ids=ids)

    def without(self, indices_n: Array) -> "Query | None":
        """The query without some examples; None if nothing is left.

        Args:
            indices_n: positions in the data of the examples to leave out.
        """
        left_n = ~np.isin(self.indices, indices_n)
        return self.part(left_n) if left_n.any() else None

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON; a score that is NaN becomes None."""
        return {
            "indices": self.indices.tolist(),
            "scores": plain_scores(self.scores),
            "diagnostics": None if self.diagnostics is None else self.diagnostics.as_dict(),
            "origin": self.origin,
            "ids": None if self.ids is None else self.ids.tolist(),
            "made_by": None if self.made_by is None else self.made_by.as_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The query that `as_dict` turned into a dictionary.

        Args:
            values: the dictionary.
        """
        saved = values["diagnostics"]
        arrays: dict[str, Any] = {
            name: np.array(saved[name]) for name in ("information", "standard_error") if saved and saved[name]
        }
        if saved and saved.get("notes"):
            arrays["notes"] = tuple(saved["notes"])
        if saved and saved.get("prefilter"):
            arrays["prefilter"] = Prefilter(**saved["prefilter"])
        if saved and saved.get("traffic"):
            arrays["traffic"] = Traffic(**saved["traffic"])
        diagnostics = None if saved is None else Diagnostics(**{**saved, **arrays})
        # Version 0.1 wrote no origin; only a batch drawn at random had no diagnostics.
        origin: Origin = values.get("origin", "random" if saved is None else "method")
        scores = np.array(values["scores"], float)  # None becomes NaN
        ids = values.get("ids")
        named = None if ids is None else np.array([*ids, None], object)[:-1]  # never an array of numbers
        made_by = MadeBy.from_dict(values.get("made_by"))
        return cls(np.array(values["indices"], np.int64), scores, diagnostics, origin, named, made_by)


def note_of(origin: Origin) -> str:
    """How a batch without a model was made, in words; empty if the method selected it."""
    notes = {"random": "drawn at random", "first": "selected by its features"}
    return f"{notes[origin]}, because nothing was labelled yet" if origin in notes else ""


def plain_scores(scores_n: Array) -> list[float | None]:
    """Scores for JSON, which has no NaN."""
    return [None if np.isnan(score) else score for score in scores_n.tolist()]
