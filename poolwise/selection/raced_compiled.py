"""The race of points for the next pick of LBB, compiled: with few classes, calls take longer than pairs.

First a point is compared with its most redundant pick, as bounds from moments tell (see `information.moments`). Then it
waits until no bound is above its own, and is compared with the other picks that could matter, until it drops out or its
gain is known. Gains are rounded differently than elsewhere, which decides nothing: the engine judges points that are so
close again, each alone.
"""

import numpy as np

from poolwise.arrays import Array
from poolwise.information.pair_loops import pair
from poolwise.kept_loops import kept_loop

_0, _ROOT_2 = np.float32(0), np.float32(2**0.5)
# Undoes the rounding of scales.
_ROUND_DOWN = 1 - 2.0**-20


@kept_loop(
    *("int64 1", "float64 1", "bool 1", "float64 1", "float64 0", "int64 0", "float64 1", "float32 1", "float64 1"),
    *("int32 1", "int32 1", "int64 1", "float32 3", "float32 2", "int64 1", "float32 3", "float32 2", "float32 2"),
    *("float32 1", "float32 2", "int64 1", "float32 1", "float32 1", "float32 2", "float32 2"),
)
def race(
    points_n: Array,
    bounds_n: Array,
    exact_n: Array,
    state: Array,
    slack: float,
    normalised: int,
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
    weights_F: Array,
    coordinates_q_K: Array,
    waiting: Array,
    features_F: Array,
    upper_t: Array,
    room_q_C: Array,
    room: Array,
) -> None:
    """Compare points with picks until it is clear which has the largest gain.

    Args:
        points_n: points in the order of their bounds.
        bounds_n: bounds of their gains, which are improved.
        exact_n: whether each bound is the gain, which is noted.
        state: the gain below which a point does not matter; how many points were looked at, and how many pairs were
            computed; and of how many picks there are probes: they are computed for the others.
        slack: how far rounding may move a gain.
        normalised: whether overlaps are correlations.
        bald_N: information of each point.
        self_N: `I_ii`, which is computed where it is 0.
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
        weights_F: weights of the moments in these products.
        coordinates_q_K: see `_features`.
        waiting: `[n]` room for positions of points.
        features_F: room for the moments of a point.
        upper_t: room for bounds.
        room_q_C: see `_features`.
        room: see `pair_room`.
    """
    count, least, waits, known, pairs = len(picks_t), state[0], 0, 0, 0
    for t in range(int(state[3]), count):
        pick, ratios_K_C, means_C = picks_t[t], picked_ratios_B_K_C[t], picked_means_B_C[t]
        if normalised and self_N[pick] == 0:
            self_N[pick], pairs = pair(ratios_K_C, means_C, ratios_K_C, means_C, room), pairs + 1
        self_ = self_N[pick] if normalised else np.float32(1)
        scale = np.float32(1 / np.sqrt(self_)) if self_ > 0 else _0
        _features(ratios_K_C, means_C, coordinates_q_K, room_q_C, features_F)
        for f in range(len(features_F)):
            probes_F_B[f, t] = features_F[f] * (weights_F[f] * scale)
    while True:
        place, waits = _foremost(waiting[:waits], bounds_n, least)
        whole = place >= 0
        if known < len(points_n) and (known == 0 or bounds_n[known] >= least):
            whole = whole and bounds_n[waiting[place]] >= bounds_n[known]
        elif not whole:
            break
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
            self_N[point], pairs = pair(ratios_K_C, means_C, ratios_K_C, means_C, room), pairs + 1
        bald, overlap, t = bald_N[point], overlap_N[point], seen_N[point]
        root, weight, most = (np.sqrt(self_N[point]), bald, 1.0) if normalised else (1.0, 1.0, bald)
        _features(ratios_K_C, means_C, coordinates_q_K, room_q_C, features_F)
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
                value = pair(ratios_K_C, means_C, picked_ratios_B_K_C[other], picked_means_B_C[other], room)
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
    state[0], state[1], state[2], state[3] = least, known, pairs, count


def _features(ratios_K_C: Array, means_C: Array, coordinates_q_K: Array, room_q_C: Array, out_F: Array) -> None:
    """Moments of second order of one point (see `information.moments.Layout`).

    Args:
        ratios_K_C: its deviations.
        means_C: its averaged prediction.
        coordinates_q_K: from deviations to coordinates.
        room_q_C: room for the coordinates, and one row more.
        out_F: where they are put.
    """
    (K, C), Q = ratios_K_C.shape, len(coordinates_q_K)
    e_q_C, weighted_C, squares, f = room_q_C[:Q], room_q_C[Q], _0, 0
    for q in range(Q):
        for c in range(C):
            e_q_C[q, c] = _0
        for k in range(K):
            factor = coordinates_q_K[q, k]
            for c in range(C):
                e_q_C[q, c] += factor * ratios_K_C[k, c]
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
