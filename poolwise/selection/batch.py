"""The result of a selection."""

from dataclasses import dataclass

import numpy as np

from poolwise.predictions.arrays import Array


@dataclass(frozen=True)
class Diagnostics:
    """What a selection knows about itself.

    Attributes:
        ceiling: `ln K`: the most that any batch can tell about which of the K posterior samples is right, in nats.
        information: `[B]` estimate of the joint information of the first 1, 2, … B picks, or None if it was skipped.
        saturated_at: how many picks were made before no remaining point had a gain above `tolerance`; None if that
            did not happen. `batch.indices[:saturated_at]` are the picks that were worth making.
        tolerance: the gain up to which a pick counts as worthless, in the units of the method's scores.
        standard_error: `[B]` standard error of each gain, for methods that estimate gains by sampling, else None.
        considered: how many points there were to choose from.
        pairs: how many pairs of points were compared.
        rows: how many rows of the pool were read after the first pass.
        seconds: wall time of the selection.
    """

    ceiling: float
    information: Array | None
    saturated_at: int | None
    tolerance: float
    standard_error: Array | None
    considered: int
    pairs: int
    rows: int
    seconds: float

    def __str__(self) -> str:
        lines = [f"considered {self.considered:,} points, compared {self.pairs:,} pairs, {self.seconds:.2f} s"]
        if self.information is not None:
            share = self.information[-1] / self.ceiling if self.ceiling else 1.0
            lines.append(
                f"information {self.information[-1]:.3f} of at most {self.ceiling:.3f} nats (ln K), {share:.0%}"
            )
        lines.append("not saturated" if self.saturated_at is None else f"saturated after {self.saturated_at} picks")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """Plain numbers and lists, for JSON."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Batch:
    """The points to label next.

    Attributes:
        indices: `[B]` int64 positions in the pool, in picking order.
        scores: `[B]` float64 gain of each pick when it was made.
        diagnostics: what the selection knows about itself.
        method: how the points were selected.
    """

    indices: Array
    scores: Array
    diagnostics: Diagnostics
    method: str

    def __len__(self) -> int:
        return len(self.indices)
