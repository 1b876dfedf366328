"""What a learner asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from poolwise.arrays import Array
from poolwise.predictions.traffic import Traffic
from poolwise.selection.batch import Diagnostics, Prefilter
from poolwise.selection.display import PickedPoints


@dataclass(frozen=True, eq=False)
class Query(PickedPoints):
    """Examples to label.

    Attributes:
        indices: `[n]` int64 positions in the data, in picking order.
        scores: `[n]` float64 gain of each when it was picked.
        diagnostics: what the selection of the whole batch knows about itself; None for a batch drawn without a model.
    """

    indices: Array
    scores: Array
    diagnostics: Diagnostics | None

    def part(self, kept_n: Array) -> "Query":
        """The examples where a mask is true."""
        return Query(self.indices[kept_n], self.scores[kept_n], self.diagnostics)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        diagnostics = None if self.diagnostics is None else self.diagnostics.as_dict()
        return {"indices": self.indices.tolist(), "scores": self.scores.tolist(), "diagnostics": diagnostics}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The query that `as_dict` was made of."""
        saved = values["diagnostics"]
        arrays: dict[str, Any] = {
            name: np.array(saved[name]) for name in ("information", "standard_error") if saved and saved[name]
        }
        if saved and saved.get("prefilter"):
            arrays["prefilter"] = Prefilter(**saved["prefilter"])
        if saved and saved.get("traffic"):
            arrays["traffic"] = Traffic(**saved["traffic"])
        diagnostics = None if saved is None else Diagnostics(**{**saved, **arrays})
        return cls(np.array(values["indices"], np.int64), np.array(values["scores"], float), diagnostics)
