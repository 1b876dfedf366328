"""Performance profiles over all settings at once (Dolan & Moré 2002), as in the appendix of the paper.

A problem p is one seed of one setting, a solver s a method, and t(p, s) its error rate at the end of the run. The
performance ratio is r(p, s) = t(p, s) / min_s t(p, s), and the profile ρ(τ, s) is the share of problems on which s is
at most τ times as bad as the best.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from poolwise.arrays import Array
from poolwise.reports.comparable import Comparable
from poolwise.reports.paired import CONFIDENCE
from poolwise.seeding import stream

# Points of a profile, and how often the problems are drawn again for its band.
_POINTS = 400
_DRAWS = 1_000


@dataclass(frozen=True)
class Profile:
    """The profile of one method.

    Attributes:
        label: the method.
        tau_T: `[T]` performance ratios, from 1 to the largest that occurs.
        share_T: `[T]` share of the problems on which the method is at most this many times as bad as the best.
        low_T: `[T]` lower end of the bootstrap band.
        high_T: `[T]` upper end.
        area: mean of the share over all ratios in between, from 0 to 1: the profile in one number.
        area_low: lower end of its bootstrap interval.
        area_high: upper end.
    """

    label: str
    tau_T: Array
    share_T: Array
    low_T: Array
    high_T: Array
    area: float
    area_low: float
    area_high: float


@dataclass(frozen=True)
class Problems:
    """The error rates that profiles are made of.

    Attributes:
        labels: the methods that every setting has.
        errors_P_S: `[P, S]` error rate at the end, of every problem and method.
        setting_P: `[P]` the number of the setting that each problem belongs to.
    """

    labels: tuple[str, ...]
    errors_P_S: Array
    setting_P: Array


def problems(groups: Iterable[Comparable]) -> Problems:
    """All seeds of all settings on which every method that the settings share has finished."""
    comparable = [group for group in groups if group.labelled]
    shared = set.intersection(*(set(group.runs) for group in comparable)) if comparable else set()
    labels = tuple(sorted(shared))
    rows, settings = [], []
    for number, group in enumerate(comparable):
        final = {label: group.values(label, "accuracy") for label in labels}
        for seed in sorted(set.intersection(*(set(values) for values in final.values())) if final else ()):
            errors_S = [1 - final[label][seed][-1] for label in labels]
            if np.isfinite(errors_S).all():
                rows.append(errors_S)
                settings.append(number)
    return Problems(labels, np.array(rows).reshape(len(rows), len(labels)), np.array(settings, np.int64))


def ratios(errors_P_S: Array) -> Array:
    """`[P, S]` performance ratios; where the best makes no error, the others are infinitely worse."""
    best_P_1 = errors_P_S.min(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors_P_S == best_P_1, 1.0, errors_P_S / best_P_1)


def areas(errors_P_S: Array, largest: float) -> Array:
    """`[P, S]` areas below the profile of each problem alone; their mean is that of a whole profile.

    Args:
        errors_P_S: `[P, S]` error rates.
        largest: the ratio up to which profiles are looked at, above 1.
    """
    return np.clip((largest - ratios(errors_P_S)) / (largest - 1), 0, 1)


def profiles(table: Problems, largest: float | None = None) -> list[Profile]:
    """The profile of every method, the largest area first; none for fewer than two methods or problems.

    Args:
        table: the problems.
        largest: the ratio up to which profiles are looked at; by default the largest that occurs.
    """
    if len(table.labels) < 2 or len(table.errors_P_S) < 2:
        return []
    ratio_P_S = ratios(table.errors_P_S)
    if largest is None:
        largest = max(float(ratio_P_S[np.isfinite(ratio_P_S)].max()), 1.01)
    tau_T = np.linspace(1, largest, _POINTS)
    within_P_S_T = ratio_P_S[:, :, None] <= tau_T * (1 + 1e-12)
    share_S_T = within_P_S_T.mean(0)
    draws = _draws(table.setting_P)
    draws_D_S_T = np.stack([within_P_S_T[drawn].mean(0) for drawn in draws])
    ends = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    low_S_T, high_S_T = np.quantile(draws_D_S_T, ends, axis=0)
    area_P_S = areas(table.errors_P_S, float(tau_T[-1]))
    low_S, high_S = np.quantile([area_P_S[drawn].mean(0) for drawn in draws], ends, axis=0)
    found = [
        Profile(
            label,
            tau_T,
            share_S_T[s],
            low_S_T[s],
            high_S_T[s],
            float(area_P_S[:, s].mean()),
            float(low_S[s]),
            float(high_S[s]),
        )
        for s, label in enumerate(table.labels)
    ]
    return sorted(found, key=lambda profile: -profile.area)


def _draws(setting_P: Array) -> list[Array]:
    """Problems drawn again: settings with replacement, then seeds within each, since seeds of a setting are alike."""
    generator = stream(0, "bootstrap of profiles")
    members = [np.flatnonzero(setting_P == setting) for setting in np.unique(setting_P)]
    drawn = [generator.integers(len(members), size=len(members)) for _ in range(_DRAWS)]
    return [np.concatenate([generator.choice(members[i], len(members[i])) for i in settings]) for settings in drawn]
