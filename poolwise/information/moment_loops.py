"""Moments of a point and the bounds that they give, for loops that are compiled (see `kept_loops`); float32.

`moments` says what is computed, and why rounding is allowed for in whatever order sums are added up.
"""

import numpy as np

from poolwise.arrays import Array

_0, _HUGE = np.float32(0), np.float32(1e30)


def fill_moments(
    ratios_K_C: Array,
    means_C: Array,
    coordinates_q_K: Array,
    places_F_2: Array,
    roots_F: Array,
    room_R_C: Array,
    out_F: Array,
) -> None:
    """The features of one point (see `moments.Layout`).

    Args:
        ratios_K_C: its deviations.
        means_C: its averaged prediction.
        coordinates_q_K: from deviations to coordinates.
        places_F_2: of which two rows of the room each entry is the product: the coordinates come first, then entries.
        roots_F: what its sum is multiplied by.
        room_R_C: room for coordinates, entries, and two rows more.
        out_F: where the features are put.
    """
    (K, C), Q, F = ratios_K_C.shape, len(coordinates_q_K), len(places_F_2)
    lengths_C, t_C = room_R_C[Q + F], room_R_C[Q + F + 1]
    for c in range(C):
        t_C[c] = _0
    for q in range(Q):
        e_C = room_R_C[q]
        for c in range(C):
            e_C[c] = _0
        for k in range(K):
            factor, ratios_C = coordinates_q_K[q, k], ratios_K_C[k]
            for c in range(C):
                e_C[c] += factor * ratios_C[c]
        for c in range(C):
            t_C[c] += e_C[c] * e_C[c]
    for f in range(F):
        first_C, second_C, entry_C = room_R_C[places_F_2[f, 0]], room_R_C[places_F_2[f, 1]], room_R_C[Q + f]
        total = _0
        for c in range(C):
            entry_C[c] = first_C[c] * second_C[c]
            total += entry_C[c] * means_C[c]
        out_F[f] = total * roots_F[f]
    for c in range(C):
        lengths_C[c] = np.sqrt(t_C[c])
        t_C[c] *= means_C[c]
    for f in range(F, len(out_F) - 1):
        total = _0
        for c in range(C):
            total += t_C[c]
            t_C[c] *= lengths_C[c]
        out_F[f] = total
    out_F[len(out_F) - 1] = np.sqrt(out_F[F])


def bound_pairs(
    features_F: Array,
    picks_F_B: Array,
    ends_S: Array,
    below_P_S: Array,
    above_P_S: Array,
    margins_2_O: Array,
    sums_S_t: Array,
    lower_t: Array,
    upper_t: Array,
) -> None:
    """Bounds of the pairs of a point with some others.

    Args:
        features_F: the features of the point.
        picks_F_B: those of the others, in columns.
        ends_S: where the entries of each order end.
        below_P_S: coefficients of polynomials from below.
        above_P_S: coefficients of polynomials from above.
        margins_2_O: what products of the last features are multiplied by to allow for rounding, below and above.
        sums_S_t: room for the sums of the moments.
        lower_t: where the bounds from below are put; its length says how many of the others are meant.
        upper_t: where those from above are put.
    """
    count, first = len(lower_t), 0
    for s in range(len(ends_S)):
        sum_t = sums_S_t[s, :count]
        for t in range(count):
            sum_t[t] = _0
        for f in range(first, ends_S[s]):
            factor, picks_t = features_F[f], picks_F_B[f, :count]
            for t in range(count):
                sum_t[t] += factor * picks_t[t]
        first = ends_S[s]
    for t in range(count):
        lower_t[t], upper_t[t] = -_HUGE, _HUGE
    last_t = sums_S_t[len(ends_S), :count]
    for p in range(len(below_P_S)):
        _polynomial(below_P_S[p], sums_S_t, last_t)
        for t in range(count):
            lower_t[t] = max(lower_t[t], last_t[t])
    for p in range(len(above_P_S)):
        _polynomial(above_P_S[p], sums_S_t, last_t)
        for t in range(count):
            upper_t[t] = min(upper_t[t], last_t[t])
    first = len(features_F) - margins_2_O.shape[1]
    for o in range(margins_2_O.shape[1]):
        f = first + o
        down, up, picks_t = features_F[f] * margins_2_O[0, o], features_F[f] * margins_2_O[1, o], picks_F_B[f, :count]
        for t in range(count):
            lower_t[t] -= down * picks_t[t]
            upper_t[t] += up * picks_t[t]


def _polynomial(coefficients_S: Array, sums_S_t: Array, out_t: Array) -> None:
    """The sum of moments that a polynomial means."""
    first, first_t = coefficients_S[0], sums_S_t[0]
    for t in range(len(out_t)):
        out_t[t] = first * first_t[t]
    for s in range(1, len(coefficients_S)):
        factor, sum_t = coefficients_S[s], sums_S_t[s]
        for t in range(len(out_t)):
            out_t[t] += factor * sum_t[t]
