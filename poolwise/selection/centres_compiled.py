"""The inner loops of `nearest_centres`, compiled by Numba. Bounds are those of Ding et al. 2015 (Yinyang k-means)."""

import numpy as np

from poolwise.arrays import Array
from poolwise.compiling import compiled, compiled_exactly

# After this many rows it is decided whether the bounds save enough.
_PROBED = 64
# If more distances than one in this many are needed, a matrix product of all is quicker.
_WORTH = 10


@compiled
def from_products(
    inner_n_G: Array,
    starts_T: Array,
    lengths_n: Array,
    doubt_n: Array,
    nearest_n: Array,
    lower_n_T: Array,
    unsure_n: Array,
) -> None:
    """The nearest centre of each row, and bounds on the others, from `<x, c> - |c|²/2` of all."""
    lowest = np.float32(-np.inf)
    for i in range(len(inner_n_G)):
        best, at, home = lowest, 0, 0
        for g in range(len(starts_T) - 1):
            first, second = lowest, lowest
            for j in range(starts_T[g], starts_T[g + 1]):
                value = inner_n_G[i, j]
                second = max(second, min(first, value))  # no branches, which the processor would guess wrongly
                first = max(first, value)
            if first > best:
                place = starts_T[g]
                while inner_n_G[i, place] != first:
                    place += 1
                if best > lowest:
                    least = np.sqrt(max(lengths_n[i] - 2 * best - doubt_n[i], 0.0))
                    lower_n_T[i, home] = min(lower_n_T[i, home], least)
                best, at, home, first = first, place, g, second
            lower_n_T[i, g] = np.sqrt(max(lengths_n[i] - 2 * first - doubt_n[i], 0.0))
        most = np.sqrt(max(lengths_n[i] - 2 * best, 0.0) + doubt_n[i])
        nearest_n[i] = at
        unsure_n[i] = lower_n_T[i].min() <= most


@compiled
def from_bounds(
    rows_n_D: Array,
    centres_G_D: Array,
    half_G: Array,
    starts_T: Array,
    group_G: Array,
    drift_T: Array,
    lengths_n: Array,
    doubt_n: Array,
    cluster_n: Array,
    nearest_n: Array,
    lower_n_T: Array,
    unsure_n: Array,
) -> bool:
    """The same from the bounds before, less how far centres have moved; False if that is not worth it."""
    products, D = 0, rows_n_D.shape[1]
    for i in range(len(rows_n_D)):
        if i == _PROBED and products * _WORTH > i * len(centres_G_D):
            return False
        row, own = rows_n_D[i], cluster_n[i]
        dot = np.float32(0.0)
        for d in range(D):
            dot += row[d] * centres_G_D[own, d]
        best, at = dot - half_G[own], own
        most = np.sqrt(max(lengths_n[i] - 2 * best, 0.0) + doubt_n[i])
        for g in range(len(drift_T)):
            lower_n_T[i, g] = max(lower_n_T[i, g] - drift_T[g], 0.0)
        for g in range(len(drift_T)):
            if lower_n_T[i, g] > most:
                continue
            products += starts_T[g + 1] - starts_T[g]
            first, place, second = -np.inf, 0, -np.inf
            for j in range(starts_T[g], starts_T[g + 1]):
                dot = np.float32(0.0)
                for d in range(D):
                    dot += row[d] * centres_G_D[j, d]
                value = dot - half_G[j]
                if value > first:
                    second, first, place = first, value, j
                elif value > second:
                    second = value
            if first > best:
                home = group_G[at]
                if home != g:
                    least = np.sqrt(max(lengths_n[i] - 2 * best - doubt_n[i], 0.0))
                    lower_n_T[i, home] = min(lower_n_T[i, home], least)
                best, at = first, place
                most = np.sqrt(max(lengths_n[i] - 2 * best, 0.0) + doubt_n[i])
            other = second if place == at else first
            lower_n_T[i, g] = np.sqrt(max(lengths_n[i] - 2 * other - doubt_n[i], 0.0))
        nearest_n[i] = at
        unsure_n[i] = lower_n_T[i].min() <= most
    return True


@compiled_exactly
def move(rows_n_D: Array, cluster_n: Array, nearest_n: Array, sums_G_D: Array) -> None:
    """Add rows to the sums of the nearest centres, then take them away from those of their clusters, if they differ."""
    for i in range(len(rows_n_D)):
        if cluster_n[i] != nearest_n[i]:
            row_D, sum_D = rows_n_D[i], sums_G_D[nearest_n[i]]
            for d in range(len(row_D)):
                sum_D[d] += row_D[d]
    for i in range(len(rows_n_D)):
        if cluster_n[i] != nearest_n[i] and cluster_n[i] >= 0:
            row_D, sum_D = rows_n_D[i], sums_G_D[cluster_n[i]]
            for d in range(len(row_D)):
                sum_D[d] -= row_D[d]
