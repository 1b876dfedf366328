"""The result of a selection."""

from dataclasses import asdict, dataclass

import numpy as np

from poolwise.arrays import Array
from poolwise.predictions.traffic import Traffic


@dataclass(frozen=True)
class Prefilter:
    """What a prefilter left out, and what that could have cost.

    A method's *bound* of a point is a number that its gain is never above, whatever was picked before.

    Attributes:
        name: the prefilter, such as `"top:100000"`.
        left_out: how many points it left out.
        largest: the largest bound of those; None if the method has no bounds.
        share: their part of the sum of all bounds; None likewise.
        lost: an upper bound on the gain lost: how much more than each pick the best of them could have gained, summed
            over the picks; None likewise. At 0, no point left out could have been better than any pick.
        same_until: how many picks are certain to be those from the whole pool; None for methods that draw.
    """

    name: str
    left_out: int
    largest: float | None = None
    share: float | None = None
    lost: float | None = None
    same_until: int | None = None

    def __str__(self) -> str:
        text = f"{self.name} left out {self.left_out:,} points"
        if self.left_out == 0:
            return text
        if self.lost is None or self.largest is None or self.share is None:
            return f"{text}; what that cost is not known, since the method has no bounds"
        text += f" with {self.share:.1%} of the sum of all bounds"
        if self.lost == 0:
            return f"{text}; no gain lost: none of them could gain more than {self.largest:.3g}, and every pick did"
        same = "" if self.same_until is None else f", and the first {self.same_until} picks are those of the whole pool"
        return (
            f"{text}; at most {self.lost:.3g} of gain lost in all: at a pick, none of them could gain more than "
            f"{self.largest:.3g}{same}"
        )


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
        prefilter: what a prefilter left out and could have cost; None where there was none.
        traffic: what was moved between machines; None where the predictions are on this one.
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
    prefilter: Prefilter | None = None
    traffic: Traffic | None = None

    def __str__(self) -> str:
        lines = [f"considered {self.considered:,} points, compared {self.pairs:,} pairs, {self.seconds:.2f} s"]
        if self.information is not None:
            share = self.information[-1] / self.ceiling if self.ceiling else 1.0
            lines.append(
                f"information {self.information[-1]:.3f} of at most {self.ceiling:.3f} nats (ln K), {share:.0%}"
            )
        if self.prefilter is not None:
            lines.append(str(self.prefilter))
        if self.traffic is not None:
            lines.append(str(self.traffic))
        lines.append("not saturated" if self.saturated_at is None else f"saturated after {self.saturated_at} picks")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """Plain numbers and lists, for JSON."""
        plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}
        nested = {"prefilter": self.prefilter, "traffic": self.traffic}
        return {**plain, **{name: None if value is None else asdict(value) for name, value in nested.items()}}


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
