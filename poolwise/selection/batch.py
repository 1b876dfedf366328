"""The result of a selection."""

import math
from dataclasses import asdict, dataclass, fields

import numpy as np

from poolwise.arrays import Array, same
from poolwise.predictions.traffic import Traffic
from poolwise.selection.display import PickedPoints

# From this share of the ceiling on, the estimate of the information cannot be told from all of it.
_ALL = 0.995


@dataclass(frozen=True)
class Prefilter:
    """What a prefilter left out, and what that could have cost.

    A method's *bound* of a point is a number that its gain is never above, whatever was picked before.

    Attributes:
        name: the prefilter, such as `"top:100000"`.
        left_out: how many points it left out.
        largest: the largest bound of those; None if the method has no bounds.
        share: their share of the sum of all bounds; None likewise.
        lost: an upper bound on the gain lost: how much more than each pick the best of them could have gained, summed
            over the picks; None likewise. At 0, no point left out could have been better than any pick.
        same_until: how many picks are certain to be those from the whole pool; None for methods that draw.
        gained: the gain of all picks together; None if the method has no bounds.
    """

    name: str
    left_out: int
    largest: float | None = None
    share: float | None = None
    lost: float | None = None
    same_until: int | None = None
    gained: float | None = None

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
        if self.gained is not None and self.lost >= self.gained:
            return (
                f"{text}; what that cost is not known: the method's bounds are too loose to be useful here (they allow "
                f"up to {self.lost:.3g} of gain lost, and the picks gained {self.gained:.3g} in all){same}"
            )
        gained = "" if self.gained is None else f", where the picks gained {self.gained:.3g}"
        return (
            f"{text}; at most {self.lost:.3g} of gain lost in all{gained}: at a pick, none of them could gain more "
            f"than {self.largest:.3g}{same}"
        )


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """How a selection went: what it gained, what it compared, how long it took.

    Two diagnostics are equal if all but the time is equal.

    Attributes:
        ceiling: `ln K`: the most that any batch can tell about which of the K posterior samples is right, in nats.
        information: `[B]` estimate of the joint information of the first 1, 2, … B picks, or None if it was skipped.
        saturated_at: how many picks were made before no remaining point had a gain above `tolerance`; None if that
            did not happen. `batch.indices[:saturated_at]` are the picks that were worth making.
        tolerance: the gain up to which a pick counts as worthless, in the units of the method's scores.
        standard_error: `[B]` standard error of each gain, for methods that estimate gains by sampling, else None.
        considered: how many points there were to choose from.
        pairs: how many times two points were compared; two points that are compared twice count twice.
        rows: how many rows of the pool were read after the first pass.
        seconds: wall time of the selection.
        prefilter: what a prefilter left out and could have cost; None where there was none.
        traffic: what was moved between machines; None where the predictions are on this one.
        features: which features a learner gave to the method: `"network"`, `"fixed"`, `"array"` or `"function"`, and
            why, if the method prefers another kind. None if it read no features, or if there was no learner.
        notes: settings that the method chose by itself, one per line, such as the temperature of `uherding`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> known = pw.select(np.log(np.full((9, 3, 2), 0.5)), 2, "margin").diagnostics
        >>> known.considered, known.samples, round(known.ceiling, 3)
        (9, 3, 1.099)
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
    features: str | None = None
    notes: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Diagnostics):
            return NotImplemented
        names = (field.name for field in fields(self) if field.name != "seconds")
        return all(same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash((self.ceiling, self.saturated_at, self.considered, self.pairs, self.rows))

    @property
    def samples(self) -> int:
        """K, the number of posterior samples."""
        return round(math.exp(self.ceiling))

    def __str__(self) -> str:
        compared = f", made {self.pairs:,} comparisons of two points" if self.pairs else ""
        lines = [f"considered {self.considered:,} points{compared}, {self.seconds:.2f} s"]
        if self.information is not None and len(self.information):
            lines.append(self._about_information(self.information))
        if self.prefilter is not None:
            lines.append(str(self.prefilter))
        if self.traffic is not None:
            lines.append(str(self.traffic))
        if self.features is not None:
            lines.append(f"features: {self.features}")
        lines += self.notes
        lines.append(self._about_saturation())
        return "\n".join(lines)

    def _about_information(self, information_B: Array) -> str:
        if self.samples == 1:
            return "information: none, since one posterior sample cannot disagree with itself (ln K = 0)"
        text = f"information {information_B[-1]:.3f} of at most {self.ceiling:.3f} nats (ln K)"
        reached = np.flatnonzero(information_B >= _ALL * self.ceiling)
        if not len(reached):
            return f"{text}, {information_B[-1] / self.ceiling:.0%}"
        return f"{text}: the first {reached[0] + 1} picks tell all that K = {self.samples} posterior samples can tell"

    def _about_saturation(self) -> str:
        if self.saturated_at is not None:
            return f"saturated after {self.saturated_at} picks"
        information_B = self.information
        if information_B is None or not len(information_B) or information_B[-1] < _ALL * self.ceiling:
            return "not saturated"
        return (
            "the method's own scores did not run out, but the information did: more posterior samples would rank the "
            "later picks better"
        )

    def as_dict(self) -> dict[str, object]:
        """Plain numbers and lists, for JSON."""
        plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}
        nested = {"prefilter": self.prefilter, "traffic": self.traffic}
        plain["notes"] = list(self.notes)
        return {**plain, **{name: None if value is None else asdict(value) for name, value in nested.items()}}


@dataclass(frozen=True, eq=False)
class Batch(PickedPoints):
    """The points to label next. Two batches are equal if they have the same picks, gains and method.

    Attributes:
        indices: `[B]` int64 positions in the pool, in picking order.
        scores: `[B]` float64 gain of each pick when it was made.
        diagnostics: how the selection went, see `Diagnostics`.
        method: how the points were selected.
        ids: `[B]` names of the picks, where the predictions have names; else None.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> batch = pw.select(np.log(np.full((4, 3, 2), 0.5)), 2, "margin")
        >>> batch
        Batch(2 picks by margin: 0, 1; scores 1 to 1)
        >>> len(batch), batch == batch
        (2, True)
    """

    indices: Array
    scores: Array
    diagnostics: Diagnostics
    method: str
    ids: Array | None = None

    def __repr__(self) -> str:
        return f"Batch({len(self)} picks by {self.method}: {self._first_names()}; {self._score_range()})"
