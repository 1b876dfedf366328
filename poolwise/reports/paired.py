"""Paired comparison: runs of the same seed began alike, so what the seed decides cancels in their difference."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy.stats import t as student

from poolwise.arrays import Array

CONFIDENCE = 0.95
LEVEL = f"{100 * CONFIDENCE:.0f} %"

Verdict = Literal["better", "worse", "equivalent", "inconclusive", "no verdict"]

EQUIVALENT = 0.005
"""Accuracies are equivalent where the interval of their difference is within this much: half a point."""

# Runs that agree exactly can differ by rounding in their means; accuracies differ by far more than this.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Difference:
    """The mean difference of a method from the baseline, with its confidence interval.

    Attributes:
        mean: over the seeds.
        low: lower end of the interval; NaN with fewer than two seeds.
        high: upper end.
        seeds: how many seeds both have.
    """

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def verdict(self) -> Verdict:
        """What the interval says of two accuracies.

        `"equivalent"` if it is within half a point either way, also where it leaves out 0: a difference that small
        does not matter. `"inconclusive"` if it is wider and has 0 in it.
        """
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return "no verdict"
        return "equivalent" if max(-self.low, self.high) <= EQUIVALENT else self.sign

    @property
    def sign(self) -> Literal["better", "worse", "inconclusive"]:
        """On which side of 0 the interval is, however small the difference; `"inconclusive"` if there is none."""
        if self.low > _ROUNDING:
            return "better"
        return "worse" if self.high < -_ROUNDING else "inconclusive"

    @property
    def p_value(self) -> float:
        """Of the two-sided paired t-test of no difference, to which the interval belongs; NaN without an interval."""
        half = (self.high - self.low) / 2
        if math.isnan(half):
            return math.nan
        if half <= _ROUNDING:
            return float(abs(self.mean) <= _ROUNDING)
        errors = abs(self.mean) / half * reach(self.seeds) * math.sqrt(self.seeds)
        return float(2 * student.sf(errors, self.seeds - 1))


@cache
def reach(seeds: int) -> float:
    """Half the width of a confidence interval of the mean, in standard deviations over the seeds."""
    return float(student.ppf((1 + CONFIDENCE) / 2, seeds - 1)) / math.sqrt(seeds) if seeds > 1 else math.nan


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values of several tests so that one false alarm among all is as unlikely as in one test (Holm 1979).

    NaN, for a test that could not be made, stays NaN and does not count as a test.
    """
    adjusted = [math.nan] * len(p_values)
    made = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    largest = 0.0
    for rank, (p, i) in enumerate(made):
        largest = max(largest, min(1.0, (len(made) - rank) * p))
        adjusted[i] = largest
    return adjusted


def interval(differences_S_L: Array) -> tuple[Array, Array, Array]:
    """Mean over the seeds, lower and upper end of its confidence interval (Student's t), for each column.

    Args:
        differences_S_L: `[S, L]` differences, a row for each seed; S may be 0 or 1, which gives no interval.
    """
    S, L = differences_S_L.shape
    nothing_L = np.full(L, np.nan)
    if S == 0:
        return nothing_L, nothing_L, nothing_L
    mean_L = differences_S_L.mean(0)
    if S == 1:
        return mean_L, nothing_L, nothing_L
    half_L = reach(S) * differences_S_L.std(0, ddof=1)
    return mean_L, mean_L - half_L, mean_L + half_L


def difference(values: dict[int, float], baseline: dict[int, float]) -> Difference:
    """Compare two methods by one number per seed."""
    seeds = sorted(values.keys() & baseline.keys())
    differences_S_1 = np.array([[values[seed] - baseline[seed]] for seed in seeds]).reshape(-1, 1)
    mean, low, high = (float(column[0]) for column in interval(differences_S_1))
    return Difference(mean, low, high, len(seeds))
