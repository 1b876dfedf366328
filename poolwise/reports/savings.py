"""The share of labels that a method saves against random: what a user pays for, in one number between −1 and 1.

1. The mean curve of a method, and that of random over the same seeds, each become the nearest curve that never falls
   (isotonic regression). Otherwise noise would decide where a curve first reaches an accuracy, and always too early.
2. The accuracy to compare at is the one that random ends with; or, if the method never reaches it, the one that the
   method ends with. Both curves reach it.
3. How many labels each needs for it, the first ones included, by straight lines between the measurements: m and r.
4. If random ends no higher than where both begin with the same labels, there is nothing to save: the share is 0. If
   the method ends no higher, but random does, it needs all its labels, and random only the first.
5. Else the share saved is `1 - m / r` if the method needs fewer. If it needs more, it is `-(1 - r / m)`, the share that
   random saves against the method. So 0.25 is a quarter of the labels, and a method and random change places by the
   sign alone, but where a curve does not rise.
"""

import math
from typing import NamedTuple

import numpy as np

from poolwise.arrays import Array
from poolwise.reports.comparable import Comparable
from poolwise.reports.labels import ROUNDING, first_reach, monotone, no_better_than_begun


class Saving(NamedTuple):
    """Labels that a method saves against random.

    Attributes:
        share: the share saved, from −1 to 1; NaN if a curve is not known.
        labels: how many labels the method needs.
        random_labels: how many random needs.
        accuracy: for which accuracy.
        reached: whether the method reaches the accuracy that random ends with.
    """

    share: float
    labels: float
    random_labels: float
    accuracy: float
    reached: bool


def saving(method_L: Array, random_L: Array, x_L: Array, *, smooth: bool = True, flat: bool = True) -> Saving:
    """Compare two mean curves.

    Args:
        method_L: `[L]` accuracies of the method.
        random_L: `[L]` accuracies of random.
        x_L: `[L]` the numbers of labels that both were measured at, ascending.
        smooth: whether curves are made monotone first; without it, one lucky measurement reaches an accuracy.
        flat: whether a curve that does not rise is a case of its own (4.); without it, noise decides there.

    Example:
        >>> import numpy as np
        >>> saving(np.array([0.5, 0.8, 0.9]), np.array([0.5, 0.65, 0.8]), np.array([20.0, 60.0, 100.0])).share
        0.4
    """
    if np.isnan(method_L).any() or np.isnan(random_L).any():
        return Saving(math.nan, math.nan, math.nan, math.nan, False)
    curves_2_L = np.stack([method_L, random_L])
    if smooth:
        curves_2_L = monotone(curves_2_L)
    accuracy = float(curves_2_L[:, -1].min())
    reached = bool(curves_2_L[0, -1] >= accuracy and curves_2_L[1, -1] == accuracy)
    if flat and no_better_than_begun(method_L[None], random_L[None], np.array([accuracy]))[0]:
        learnt = curves_2_L[1, -1] > random_L[0] + ROUNDING  # then it is the method that did not
        labels, random_labels = float(x_L[-1 if learnt else 0]), float(x_L[0])
        reached = not learnt
    else:
        labels, random_labels = (float(n) for n in first_reach(curves_2_L, x_L, np.full(2, accuracy)))
    share = 1 - labels / random_labels if labels <= random_labels else random_labels / labels - 1
    return Saving(share, labels, random_labels, accuracy, reached)


def saving_in(group: Comparable, label: str, *, smooth: bool = True, flat: bool = True) -> Saving:
    """What a method saves in a setting, by the mean curves over the seeds that it shares with random.

    Args:
        group: the runs of the setting.
        label: the method.
        smooth: as for `saving`.
        flat: as for `saving`.
    """
    assert group.baseline is not None, "needs runs of random"
    values, baseline = group.values(label, "accuracy"), group.values(group.baseline, "accuracy")
    seeds = sorted(values.keys() & baseline.keys())
    means = [np.mean([found[seed] for seed in seeds], 0) for found in (values, baseline)]
    return saving(means[0], means[1], np.array(group.labelled, np.float64), smooth=smooth, flat=flat)
