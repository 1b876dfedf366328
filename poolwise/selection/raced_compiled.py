"""The race of points for the next pick of LBB, compiled: with few classes, calls take longer than pairs.

First a point is compared with its most redundant pick, as bounds from moments tell (see `information.moments`). Then it
waits until no bound is above its own, and is compared with the other picks that could matter, until it drops out or its
gain is known. Gains are rounded differently than elsewhere, which decides nothing: the engine judges points that are so
close again, each alone.
"""

import numpy as np

from poolwise.arrays import Array
from poolwise.compiling import compiled

_0, _1, _HALF, _ROOT_2 = np.float32(0), np.float32(1), np.float32(0.5), np.float32(2**0.5)
# ln(2^n (1 + f)) = n ln(2) + f - f²/2 + f³ (a + b f + ... + i f⁸) to 3e-9, with 1 + f from sqrt(1/2) to sqrt(2): the
# polynomial agrees with the logarithm at Chebyshev's points.
_LN2 = np.float32(0.6931471805599453)
_A, _B, _C = np.float32(0.333333312), np.float32(-0.24999997), np.float32(0.200007157)
_D, _E, _F = np.float32(-0.166678023), np.float32(0.142490576), np.float32(-0.124256873)
_G, _H, _I = np.float32(0.116854199), np.float32(-0.114797338), np.float32(0.0697161147)
# float32: the bits of sqrt(1/2), and where the exponent begins.
_ROOT_HALF, _SHIFT = np.int32(0x3F3504F3), np.int32(23)
# 1 + δ counts as no less than this. It is multiplied by its logarithm, so the product is nothing.
_TINY = np.float32(1e-30)
# Undoes the rounding of scales.
_ROUND_DOWN = 1 - 2.0**-20


@compiled
def race(
    points_n: Array,
    bounds_n: Array,
    exact_n: Array,
    least: float,
    slack: float,
    normalised: bool,
    bald_N: Array,
    self_N: Array,
    overlap_N: Array,
    seen_N: Array,
    compared_N: Array,
    slots_n: Array,
    ratios_s_K_C: Array,
    means_s_C: Array,
    picks_t: Array,
    picked_ratios_B_K_C: Array,
    picked_means_B_C: Array,
    probes_F_B: Array,
    coordinates_q_K: Array,
) -> tuple[int, float, int]:
    """Compare points with picks until it is clear which has the largest gain.

    Args:
        points_n: points in the order of their bounds.
        bounds_n: bounds of their gains, which are improved.
        exact_n: whether each bound is the gain, which is noted.
        least: the gain below which a point does not matter.
        slack: how far rounding may move a gain.
        normalised: whether overlaps are correlations.
        bald_N: information of each point.
        self_N: `I_ii`, which is computed where it is 0; of picks it must be known.
        overlap_N: the largest overlap with a pick so far; this and the next two are kept up to date.
        seen_N: how many of the first picks the overlap takes into account.
        compared_N: one more pick that it takes into account, counted from 1; 0 is none.
        slots_n: where the points are in the next two arrays.
        ratios_s_K_C: deviations.
        means_s_C: averaged predictions.
        picks_t: the picks.
        picked_ratios_B_K_C: their deviations.
        picked_means_B_C: their averaged predictions.
        probes_F_B: what moments of points are multiplied with to bound their pairs, by pick.
        coordinates_q_K: see `features`.
    Returns:
        How many of the points were looked at, the new `least`, and how many pairs were computed.
    """
    count, C = len(picks_t), means_s_C.shape[1]
    features_F, upper_t = np.empty(len(probes_F_B), np.float32), np.empty(count, np.float32)
    scratch = np.empty((4, C * C), np.float32)
    waiting, waits, known, pairs = np.empty(len(points_n), np.int64), 0, 0, 0
    while True:
        place, waits = _foremost(waiting[:waits], bounds_n, least)
        whole = place >= 0
        if known < len(points_n) and (known == 0 or bounds_n[known] >= least):
            whole = whole and bounds_n[waiting[place]] >= bounds_n[known]
        elif not whole:
            return known, least, pairs
        if whole:
            n = waiting[place]
            waits -= 1
            waiting[place] = waiting[waits]
        else:
            n = known
            known += 1
        point = points_n[n]
        ratios_K_C, means_C = ratios_s_K_C[slots_n[n]], means_s_C[slots_n[n]]
        if normalised and self_N[point] == 0:
            self_N[point], pairs = pair(ratios_K_C, means_C, ratios_K_C, means_C, scratch), pairs + 1
        bald, overlap, t = bald_N[point], overlap_N[point], seen_N[point]
        root, weight, most = (np.sqrt(self_N[point]), bald, 1.0) if normalised else (1.0, 1.0, bald)
        features(ratios_K_C, means_C, coordinates_q_K, features_F)
        suspect = _bound(features_F, probes_F_B, t, compared_N[point] - 1, upper_t)
        # A bound is computed once, and compared as it is kept: two ways to compute it could round differently.
        bound, alone = bounds_n[n], not whole
        while t < count:
            # Alone, the suspect comes first; then it is seen which of the other picks could matter at all.
            other = suspect if alone else t
            if upper_t[other] > overlap * root * _ROUND_DOWN:
                if not (alone or whole) or bound < least:
                    break
                pick, pairs = picks_t[other], pairs + 1
                value = pair(ratios_K_C, means_C, picked_ratios_B_K_C[other], picked_means_B_C[other], scratch)
                if normalised:
                    scale = root * np.sqrt(self_N[pick])
                    overlap = max(overlap, min(value / scale, most) if scale > 0 else 0.0)
                else:
                    overlap = max(overlap, min(value, most, bald_N[pick]))
                bound = min(bound, bald - weight * overlap + slack)
            if alone:
                compared_N[point], upper_t[suspect], alone = suspect + 1, _0, False
            else:
                t += 1
        overlap_N[point], seen_N[point] = overlap, t
        if t == count:
            gain = bald - weight * overlap
            bounds_n[n], exact_n[n] = gain if gain > slack / 2 else 0.0, True
            least = max(least, bounds_n[n] - slack)
        else:
            bounds_n[n] = bound
            waiting[waits] = n
            waits += 1


@compiled
def features(ratios_K_C: Array, means_C: Array, coordinates_q_K: Array, out_F: Array) -> None:
    """Moments of second order of one point (see `information.moments.Layout`).

    Args:
        ratios_K_C: its deviations.
        means_C: its averaged prediction.
        coordinates_q_K: from deviations to coordinates.
        out_F: where they are put.
    """
    (K, C), Q = ratios_K_C.shape, len(coordinates_q_K)
    e_q_C, f = np.zeros((Q, C), np.float32), 0
    for q in range(Q):
        for k in range(K):
            factor = coordinates_q_K[q, k]
            for c in range(C):
                e_q_C[q, c] += factor * ratios_K_C[k, c]
    weighted_C, squares = np.empty(C, np.float32), _0
    for q in range(Q):
        for c in range(C):
            weighted_C[c] = e_q_C[q, c] * means_C[c]
        for r in range(q, Q):
            product = _0
            for c in range(C):
                product += weighted_C[c] * e_q_C[r, c]
            squares += product if r == q else _0
            out_F[f] = product if r == q else product * _ROOT_2
            f += 1
    out_F[f], out_F[f + 1] = squares, np.sqrt(squares)


@compiled
def _foremost(waiting: Array, bounds_n: Array, least: float) -> tuple[int, int]:
    """The waiting point with the largest bound, -1 if there is none, and how many wait: others need not any more."""
    place, kept = -1, 0
    for m in range(len(waiting)):
        n = waiting[m]
        if bounds_n[n] >= least:
            waiting[kept] = n
            if place < 0 or bounds_n[n] > bounds_n[waiting[place]]:
                place = kept
            kept += 1
    return place, kept


@compiled
def _bound(features_F: Array, probes_F_B: Array, seen: int, compared: int, upper_t: Array) -> int:
    """Bound the pairs of a point with picks from above, but for those that it has seen; which is the largest."""
    rest, count, suspect = len(features_F) % 4, len(upper_t), 0
    upper_u = upper_t[seen:]  # loops that begin with 0 are vectorised
    upper_u[:] = _0
    for f in range(rest):
        factor, probes_u = features_F[f], probes_F_B[f, seen:count]
        for u in range(len(upper_u)):
            upper_u[u] += factor * probes_u[u]
    for f in range(rest, len(features_F), 4):
        i, j, k, m = features_F[f], features_F[f + 1], features_F[f + 2], features_F[f + 3]
        i_u, j_u = probes_F_B[f, seen:count], probes_F_B[f + 1, seen:count]
        k_u, m_u = probes_F_B[f + 2, seen:count], probes_F_B[f + 3, seen:count]
        for u in range(len(upper_u)):
            upper_u[u] += (i * i_u[u] + j * j_u[u]) + (k * k_u[u] + m * m_u[u])
    if seen <= compared:
        upper_t[compared] = _0
    for u in range(len(upper_u)):
        if upper_u[u] > upper_u[suspect]:
            suspect = u
    return seen + suspect


@compiled
def pair(a_K_C: Array, a_C: Array, b_K_C: Array, b_C: Array, scratch: Array) -> float:
    """The information between two points (see `information.pairs`): `φ(δ) = u ln(u) - (u - 1)` with `u = 1 + δ`.

    A rounding of u moves φ by no more than one of δ would. Within a loop, sums may be reordered, and the difference
    u - 1 be lost. So there are several loops.

    Args:
        a_K_C: deviations of one point.
        a_C: its averaged prediction.
        b_K_C: deviations of the other.
        b_C: its averaged prediction.
        scratch: `[4, C * C]` numbers that are overwritten.
    """
    K, C = a_K_C.shape
    sums, rests, shifts, parts = scratch[0], scratch[1], scratch[2], scratch[3]
    bits, part_bits, share = sums.view(np.int32), parts.view(np.int32), _1 / np.float32(K)
    for a in range(C):
        sums_C = sums[a * C : (a + 1) * C]
        for b in range(C):
            sums_C[b] = _0
        for k in range(K):
            factor = a_K_C[k, a] * share
            for b in range(C):
                sums_C[b] += factor * b_K_C[k, b]
    for ab in range(C * C):
        sums[ab] = max(sums[ab] + _1, _TINY)
    for ab in range(C * C):
        rests[ab] = sums[ab] - _1
    for ab in range(C * C):
        n = (bits[ab] - _ROOT_HALF) >> _SHIFT
        shifts[ab] = np.float32(n) * _LN2
        part_bits[ab] = bits[ab] - (n << _SHIFT)
    for ab in range(C * C):
        f = parts[ab] - _1
        high = (((_I * f + _H) * f + _G) * f + _F) * f + _E
        log = ((((high * f + _D) * f + _C) * f + _B) * f + _A) * f * f * f - _HALF * f * f + f
        rests[ab] = sums[ab] * (log + shifts[ab]) - rests[ab]
    total = _0
    for a in range(C):
        sum_b = _0
        for b in range(C):
            sum_b += rests[a * C + b] * b_C[b]
        total += sum_b * a_C[a]
    return float(max(total, _0))
