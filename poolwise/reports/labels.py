"""How many labels a method needs for an accuracy, and how many it saves against random.

Mean learning curves are made monotone first: each becomes the nearest curve that never falls (isotonic regression).
Otherwise noise would decide where a curve first reaches an accuracy, and always too early. Between the measurements are
straight lines. Intervals come from the bootstrap: seeds are drawn with replacement, the same for a method and for
random, and their curves are averaged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poolwise.arrays import Array
from poolwise.reports.comparable import Comparable
from poolwise.reports.paired import CONFIDENCE
from poolwise.seeding import stream

# How often the seeds are drawn again.
_DRAWS = 2_000
# With fewer seeds, drawing them again says nothing about others.
MIN_SEEDS = 3
# Means of the same accuracies can differ by rounding; accuracies differ by far more than this.
ROUNDING = 1e-12
# Steps between round accuracies, the widest first, and how many of them a table shows.
_STEPS, _COLUMNS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001), 4


@dataclass(frozen=True)
class LabelsNeeded:
    """Labels that a method needs for an accuracy.

    Attributes:
        label: the method.
        accuracy: the accuracy.
        seeds: how many runs the curve is the mean of.
        labels: how many labels; infinite if the curve never reaches the accuracy, NaN if it is not known.
        low: lower end of the bootstrap interval; NaN with too few seeds.
        high: upper end, infinite if the accuracy is never reached there.
    """

    label: str
    accuracy: float
    seeds: int
    labels: float
    low: float
    high: float


@dataclass(frozen=True)
class LabelsSaved:
    """Labels that a method saves on the way to the accuracy that random ends with.

    Attributes:
        label: the method.
        seeds: how many seeds it has in common with random.
        accuracy: what the monotone mean curve of random over these seeds ends with.
        labels: how many labels the method needs for it; infinite if it never reaches it.
        random_labels: how many labels random needs for it.
        share: `1 - labels / random_labels`; below 0 if random needs fewer, minus infinity if it is never reached, 0 if
            random ends no higher than where both begin.
        low: lower end of the bootstrap interval of the share; NaN with too few seeds.
        high: upper end.
    """

    label: str
    seeds: int
    accuracy: float
    labels: float
    random_labels: float
    share: float
    low: float
    high: float

    @property
    def reached(self) -> bool:
        """Whether the method reaches the accuracy."""
        return math.isfinite(self.labels)

    @property
    def sure(self) -> bool:
        """Whether the interval is above 0; False without an interval."""
        return self.low > ROUNDING


def labels_needed(group: Comparable, accuracies: Sequence[float]) -> list[LabelsNeeded]:
    """The labels that every method needs for each accuracy."""
    x_L = np.array(group.labelled, np.float64)
    made = []
    for label in group.runs:
        values_S_L = np.stack(list(group.values(label, "accuracy").values()))
        curves_D_L = monotone(_draws(len(values_S_L)) @ values_S_L)
        for accuracy in accuracies:
            needed_D = first_reach(curves_D_L, x_L, np.full(len(curves_D_L), accuracy))
            made.append(LabelsNeeded(label, accuracy, len(values_S_L), *_interval(needed_D, len(values_S_L))))
    return made


def labels_saved(group: Comparable) -> list[LabelsSaved]:
    """The labels that every method saves against random, the most first; nothing without random."""
    if group.baseline is None:
        return []
    x_L = np.array(group.labelled, np.float64)
    baseline = group.values(group.baseline, "accuracy")
    made = []
    for label in group.runs:
        values = group.values(label, "accuracy")
        seeds = sorted(values.keys() & baseline.keys())
        if label == group.baseline or not seeds:
            continue
        draws_D_S = _draws(len(seeds))
        method_D_L = draws_D_S @ np.stack([values[seed] for seed in seeds])
        random_D_L = draws_D_S @ np.stack([baseline[seed] for seed in seeds])
        target_D = monotone(random_D_L)[:, -1]
        begun_D = no_better_than_begun(method_D_L, random_D_L, target_D)
        needed_D, random_D = (
            np.where(begun_D, x_L[0], first_reach(monotone(curves_D_L), x_L, target_D))
            for curves_D_L in (method_D_L, random_D_L)
        )
        interval = _interval(1 - needed_D / random_D, len(seeds))
        made.append(
            LabelsSaved(label, len(seeds), float(target_D[0]), float(needed_D[0]), float(random_D[0]), *interval)
        )
    return sorted(made, key=lambda saved: (math.isnan(saved.share), -saved.share))


def round_accuracies(group: Comparable) -> list[float]:
    """A few round accuracies between the start of the curves and the end of the best."""
    means_L = [np.mean(list(group.values(label, "accuracy").values()), 0) for label in group.runs]
    starts = [mean_L[0] for mean_L in means_L if np.isfinite(mean_L[0])]
    ends = [mean_L[-1] for mean_L in means_L if np.isfinite(mean_L[-1])]
    if not starts or not ends:
        return []
    low, high = max(starts), max(ends)
    found: list[float] = []
    for step in _STEPS:
        first = math.floor(low / step + ROUNDING) + 1
        found = [round(step * number, 6) for number in range(first, math.floor(high / step + ROUNDING) + 1)]
        if len(found) >= _COLUMNS - 1:
            break
    return found[-_COLUMNS:]


def monotone(curves_D_L: Array) -> Array:
    """`[D, L]` for each curve the one that never falls and has the smallest squared distance from it.

    The value at i is the largest, over all a up to i, of the smallest mean from a to b, over all b from i on.

    Args:
        curves_D_L: `[D, L]` curves; a curve with a NaN gives NaN.

    Example:
        >>> monotone(np.array([[0.5, 0.7, 0.6, 0.8]])).round(2).tolist()
        [[0.5, 0.65, 0.65, 0.8]]
    """
    D, L = curves_D_L.shape
    sums_D_L1 = np.concatenate([np.zeros((D, 1)), curves_D_L.cumsum(1)], 1)
    found_D_L = np.full((D, L), -np.inf)
    for a in range(L):
        means_D_l = (sums_D_L1[:, a + 1 :] - sums_D_L1[:, a, None]) / np.arange(1, L - a + 1)
        smallest_D_l = np.minimum.accumulate(means_D_l[:, ::-1], 1)[:, ::-1]
        np.maximum(found_D_L[:, a:], smallest_D_l, out=found_D_L[:, a:])
    return found_D_L


def no_better_than_begun(one_D_L: Array, other_D_L: Array, accuracy_D: Array) -> Array:
    """`[D]` whether two curves that begin alike have an accuracy from the beginning.

    There the noise of later measurements would decide which of the monotone curves has it first.
    """
    alike_D = np.abs(one_D_L[:, 0] - other_D_L[:, 0]) <= ROUNDING
    found_D: Array = alike_D & (accuracy_D <= one_D_L[:, 0] + ROUNDING)
    return found_D


def first_reach(curves_D_L: Array, x_L: Array, targets_D: Array) -> Array:
    """`[D]` where each curve first reaches its target, by straight lines between its points; infinite if nowhere.

    Args:
        curves_D_L: `[D, L]` curves; a curve with a NaN gives NaN.
        x_L: `[L]` where their points are, ascending.
        targets_D: `[D]` a target for each.
    """
    reached_D_L = curves_D_L >= targets_D[:, None] - ROUNDING
    at_D = reached_D_L.argmax(1)
    before_D = np.maximum(at_D - 1, 0)
    rows_D = np.arange(len(curves_D_L))
    low_D, high_D = curves_D_L[rows_D, before_D], curves_D_L[rows_D, at_D]
    share_D = np.divide(targets_D - low_D, high_D - low_D, out=np.ones(len(rows_D)), where=high_D > low_D)
    found_D = x_L[before_D] + share_D.clip(0, 1) * (x_L[at_D] - x_L[before_D])
    found_D = np.where(reached_D_L.any(1), found_D, np.inf)
    return np.where(np.isnan(curves_D_L).any(1) | np.isnan(targets_D), np.nan, found_D)


def _draws(seeds: int) -> Array:
    """`[D, S]` weights of the seeds: all equal in the first row, then drawn again with replacement."""
    drawn_D_S = stream(0, "bootstrap of labels", seeds).multinomial(seeds, np.full(seeds, 1 / seeds), size=_DRAWS)
    return np.concatenate([np.full((1, seeds), 1 / seeds), drawn_D_S / seeds])


def _interval(values_D: Array, seeds: int) -> tuple[float, float, float]:
    """The first value, and the ends of the interval of the others; infinite ends are kept as such."""
    value = float(values_D[0])
    if seeds < MIN_SEEDS or np.isnan(values_D).any():
        return value, math.nan, math.nan
    drawn_D = np.sort(values_D[1:])
    outside = round((1 - CONFIDENCE) / 2 * len(drawn_D))
    return value, float(drawn_D[outside]), float(drawn_D[-1 - outside])
