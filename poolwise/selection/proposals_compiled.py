"""Which of the points that `power-lbb` proposes is accepted, compiled (see `power_sampling`).

A proposal is a point and a threshold; the first point whose gain is not below its threshold is accepted. A point climbs
the same ladder as in `bounded_redundancy`. Pairs are rounded differently than in `pairs`. So each is known within an
interval that has the value of `pairs` in it. What that leaves open is decided elsewhere, by exact gains.
"""

import numpy as np

from poolwise.arrays import Array
from poolwise.information.moment_loops import bound_pairs, fill_moments
from poolwise.information.pair_loops import pair
from poolwise.kept_loops import kept_loop

# Two ways to compute a pair may differ by this many roundings of `Σ w mean_k |d_ik d_jk|`, which is at most the product
# of both lengths, and by one more for each term of the sums over members and classes.
_ROUNDINGS, _EPS = 16, 2.0**-23
# What scales are rounded by, relatively.
_RELATIVE = 1e-6


@kept_loop(
    *("int64 1", "float64 1", "int64 1", "float32 3", "float32 2", "float64 1", "float64 1", "float64 1"),
    *("float64 0", "int64 0", "int64 1", "float32 3", "float32 2", "float32 2", "float64 1"),
    *("float32 2", "int64 2", "float32 1", "int64 1", "float32 2", "float32 2", "float32 2"),
    *("float32 2", "float32 1", "float32 1", "float32 1", "float32 2", "float32 2", "float64 1"),
    *("int64 1",),
)
def propose(
    points_n: Array,
    thresholds_n: Array,
    slots_n: Array,
    ratios_s_K_C: Array,
    means_s_C: Array,
    bounds_N: Array,
    bald_N: Array,
    self_N: Array,
    slack: float,
    normalised: int,
    picks_t: Array,
    picked_ratios_B_K_C: Array,
    picked_means_B_C: Array,
    picked_F_B: Array,
    scales_t: Array,
    coordinates_q_K: Array,
    places_F_2: Array,
    roots_F: Array,
    ends_S: Array,
    below_P_S: Array,
    above_P_S: Array,
    margins_2_O: Array,
    sums_S_t: Array,
    features_F: Array,
    lower_t: Array,
    upper_t: Array,
    room_R_C: Array,
    room: Array,
    overlaps_t: Array,
    state: Array,
) -> None:
    """Go through proposals until one is accepted, or cannot be decided.

    Args:
        points_n: the points.
        thresholds_n: the thresholds.
        slots_n: where the points are in the next two arrays; any number if the bound is below the threshold.
        ratios_s_K_C: deviations.
        means_s_C: averaged predictions.
        bounds_N: upper bounds of gains, which are improved.
        bald_N: information of each point.
        self_N: `I_ii` by these loops, which is computed where it is 0.
        slack: how far rounding may move a gain.
        normalised: whether overlaps are correlations.
        picks_t: the picks; the next five are theirs.
        picked_ratios_B_K_C: deviations.
        picked_means_B_C: averaged predictions.
        picked_F_B: moments; there must be room for one column more.
        scales_t: what pairs are multiplied by.
        coordinates_q_K: see `fill_moments`, as for the next two.
        places_F_2: see there.
        roots_F: see there.
        ends_S: see `bound_pairs`, as for the next four.
        below_P_S: see there.
        above_P_S: see there.
        margins_2_O: see there.
        sums_S_t: see there.
        features_F: room for the moments of a point.
        lower_t: room for bounds.
        upper_t: room for bounds.
        room_R_C: see `fill_moments`.
        room: see `pair_room`.
        overlaps_t: for the point that was stopped at, how large the overlap with each pick may be, if it may be the
            largest of all; -1 for other picks.
        state: at which proposal it was stopped; whether that was accepted (1), is open (0), or is open and nothing is
            known about its overlaps (-1); how many pairs were computed; and of how many picks there are moments: they
            are computed for the others.
    """
    count, pairs, F = len(picks_t), 0, len(features_F)
    rounding = (_ROUNDINGS + ratios_s_K_C.shape[1] + ratios_s_K_C.shape[2]) * _EPS
    for t in range(state[3], count):
        ratios_K_C, means_C = picked_ratios_B_K_C[t], picked_means_B_C[t]
        fill_moments(ratios_K_C, means_C, coordinates_q_K, places_F_2, roots_F, room_R_C, features_F)
        for f in range(F):
            picked_F_B[f, t] = features_F[f]
    state[0], state[1], state[3] = len(points_n), 0, count
    for n in range(len(points_n)):
        point, threshold = points_n[n], thresholds_n[n]
        if bounds_N[point] < threshold:
            continue
        bald = bald_N[point]
        if bald <= 2 * slack:
            state[0], state[1] = n, -1
            break
        ratios_K_C, means_C = ratios_s_K_C[slots_n[n]], means_s_C[slots_n[n]]
        fill_moments(ratios_K_C, means_C, coordinates_q_K, places_F_2, roots_F, room_R_C, features_F)
        for f in range(F):
            picked_F_B[f, count] = features_F[f]  # so that its pair with itself is bounded as well
        bound_pairs(features_F, picked_F_B, ends_S, below_P_S, above_P_S, margins_2_O, sums_S_t, lower_t, upper_t)
        length, largest = float(features_F[F - 1]), 0.0
        for t in range(count):
            largest = max(largest, lower_t[t] * scales_t[t])
        weight, most, root, relative = 1.0, bald, 1.0, _RELATIVE
        if normalised:
            weight, most = bald, 1.0
            if self_N[point] == 0:
                # No less than the root of `I_ii`, which is computed if this does not decide.
                root = np.sqrt(min(float(upper_t[count]), bald + slack))
                bound = bald - bald * min(1.0, largest * (1 - _RELATIVE) / root) + slack
                bounds_N[point] = min(bounds_N[point], bound)
                if bounds_N[point] < threshold:
                    continue
                self_N[point], pairs = pair(ratios_K_C, means_C, ratios_K_C, means_C, room), pairs + 1
            noise = rounding * length * length
            if self_N[point] <= 4 * noise:
                state[0], state[1] = n, -1
                break
            root, relative = np.sqrt(self_N[point]), noise / self_N[point] + _RELATIVE
        # Overlaps are at least this.
        least = min(most, largest / root * (1 - relative))
        for t in range(count):
            overlaps_t[t] = -1.0
        while True:
            bound = bald - weight * least + slack
            bounds_N[point] = min(bounds_N[point], bound)
            if bounds_N[point] < threshold:
                break
            suspect, most_likely = -1, least
            for t in range(count):
                overlap = upper_t[t] * scales_t[t] / root * (1 + relative)
                if overlaps_t[t] < 0 and overlap >= most_likely:
                    suspect, most_likely = t, overlap
            if suspect < 0:
                break
            value = pair(ratios_K_C, means_C, picked_ratios_B_K_C[suspect], picked_means_B_C[suspect], room)
            pairs += 1
            scale = scales_t[suspect] / root
            if not normalised:
                value = min(value, bald, bald_N[picks_t[suspect]])
            spread = rounding * length * picked_F_B[F - 1, suspect] * scale + value * scale * relative
            overlaps_t[suspect] = max(value * scale + spread, 0.0)
            least = max(least, min(most, value * scale - spread))
        if bounds_N[point] < threshold:
            continue
        highest = 0.0
        for t in range(count):
            if overlaps_t[t] < least:
                overlaps_t[t] = -1.0
            highest = max(highest, min(most, overlaps_t[t]))
        gain = bald - weight * highest - slack
        state[0], state[1] = n, 1 if gain >= threshold and gain > 2 * slack else 0
        break
    state[2] = pairs
