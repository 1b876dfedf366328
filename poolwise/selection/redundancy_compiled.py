"""A contest of LBB in one compiled loop: what `bounded_redundancy` does in steps, where pairs are cheap.

Calls of PyTorch cost more than pairs of ten classes. Here each point is compared with one pick after another, the most
redundant one first, until it is known or cannot win. Values are rounded differently than in `information.pairs`, by as
much as the bounds and the slack of the engine allow for. Between points that are as close as that, the engine decides
by values of `information.pairs` alone, so the picks are the same.
"""

import numpy as np

from poolwise.arrays import Array
from poolwise.selection.compiling import compiled

# ln(1 + f) is f - f²/2 + f³ q(f) for a mantissa 1 + f from √½ to √2. This q is off by less than 2e-9, as fitted below.
_LOWEST, _HIGHEST, _DEGREE = float(np.sqrt(0.5) - 1), float(np.sqrt(2) - 1), 7


def _fitted() -> Array:
    """`[8]` coefficients of q, highest power first: it agrees with its function at Chebyshev's nodes."""
    count = 64
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    f = (_LOWEST + _HIGHEST) / 2 + (_HIGHEST - _LOWEST) / 2 * nodes
    series = sum((-1) ** n * f**n / (n + 3) for n in range(60))  # converges: |f| is below 0.42
    return np.polynomial.Polynomial.fit(f, series, _DEGREE).convert().coef[::-1].astype(np.float32)


_Q = _fitted()
_Q0, _Q1, _Q2, _Q3, _Q4, _Q5, _Q6, _Q7 = (float(q) for q in _Q)
_LN_2 = float(np.log(2))
# A single number has 23 bits of mantissa, and 8 of a power of two to which 127 was added. With this on top, it moves to
# the next power at √2 instead of 2.
_MANTISSA, _POWER, _ZERO = 23, 255, 127
_CARRY = int(np.float32(1).view(np.int32)) - int(np.float32(np.sqrt(0.5)).view(np.int32))
_SMALLEST = 2.0**-23


@compiled
def information(
    a_K_C: Array, a_C: Array, b_K_C: Array, b_C: Array, delta: Array, total: Array, mantissa: Array, power: Array
) -> float:
    """The pairwise information of two points, from deviations and means in single precision.

    Args:
        a_K_C: `[K, C]` deviations of the first point.
        a_C: `[C]` its averaged prediction.
        b_K_C: `[K, C]` deviations of the second point.
        b_C: `[C]` its averaged prediction.
        delta: `[C · C]` workspace, as are those that follow: of single numbers, single numbers, their bits, and bits.
        total: `[C · C]`.
        mantissa: `[C · C]`.
        power: `[C · C]`.
    """
    K, C = a_K_C.shape
    one, half = np.float32(1), np.float32(0.5)
    for a in range(C):
        row = delta[a * C : (a + 1) * C]
        row[:] = np.float32(0)
        for k in range(K):
            factor = a_K_C[k, a]
            for b in range(C):
                row[b] += factor * b_K_C[k, b]
    share = np.float32(1 / K)
    for i in range(C * C):
        delta[i] *= share
        total[i] = max(one + delta[i], np.float32(_SMALLEST))
    bits = total.view(np.int32)
    for i in range(C * C):
        power[i] = (((bits[i] + _CARRY) >> _MANTISSA) & _POWER) - _ZERO
        mantissa[i] = bits[i] - (power[i] << _MANTISSA)
    mantissas = mantissa.view(np.float32)
    for i in range(C * C):
        f = mantissas[i] - one
        q = np.float32(_Q0) * f + np.float32(_Q1)
        q = q * f + np.float32(_Q2)
        q = q * f + np.float32(_Q3)
        q = q * f + np.float32(_Q4)
        q = q * f + np.float32(_Q5)
        q = q * f + np.float32(_Q6)
        q = q * f + np.float32(_Q7)
        logarithm = f - f * f * (half - f * q)
        # What rounding took from 1 + δ, so that the logarithm is right for the smallest δ too.
        lost = (delta[i] - (total[i] - one)) / total[i]
        logarithm += lost + np.float32(power[i]) * np.float32(_LN_2)
        delta[i] = (one + delta[i]) * logarithm - delta[i]  # of δ = -1 the logarithm counts for nothing
    found = 0.0
    for a in range(C):
        part = np.float32(0)
        for b in range(C):
            part += delta[a * C + b] * b_C[b]
        found += np.float64(part) * np.float64(a_C[a])
    return max(found, 0.0)


@compiled
def race(
    least: float,
    slack: float,
    normalised: bool,
    round_down: float,
    bounds_n: Array,
    exact_n: Array,
    bald_n: Array,
    self_n: Array,
    known_n: Array,
    overlap_n: Array,
    seen_n: Array,
    compared_n: Array,
    slots_n: Array,
    seats_n: Array,
    ratios: Array,
    means: Array,
    picked_ratios: Array,
    picked_means: Array,
    picked_self_t: Array,
    picked_bald_t: Array,
    features: Array,
    probes_F_B: Array,
) -> tuple[float, int]:
    """Find the point with the largest gain; the arrays of n points are written to.

    Args:
        least: nothing more need be known of points whose bounds are below it.
        slack: what rounding may do to a gain.
        normalised: whether overlaps are correlations, or the pairs themselves.
        round_down: factor that undoes the rounding of upper bounds.
        bounds_n: `[n]` bounds of gains, largest first.
        exact_n: `[n]` whether each has become exact.
        bald_n: `[n]` the information of each point.
        self_n: `[n]` that of two draws of its label.
        known_n: `[n]` whether the latter is known.
        overlap_n: `[n]` the largest overlap with a pick so far.
        seen_n: `[n]` how many picks that takes into account.
        compared_n: `[n]` the last pick that each was compared with.
        slots_n: `[n]` rows of `ratios` and `means`.
        seats_n: `[n]` rows of `features`.
        ratios: deviations of points.
        means: their averaged predictions.
        picked_ratios: deviations of picks.
        picked_means: their averaged predictions.
        picked_self_t: `[t]` the information of two draws of a pick's label.
        picked_bald_t: `[t]` the information of each pick.
        features: moments of points.
        probes_F_B: moments of picks: products with them bound pairs from above.
    Returns:
        The new `least`, and how many pairs were computed.
    """
    count, C, pairs = len(picked_self_t), means.shape[1], 0
    upper = np.empty(count, np.float32)
    delta, total = np.empty(C * C, np.float32), np.empty(C * C, np.float32)
    mantissa, power = np.empty(C * C, np.int32), np.empty(C * C, np.int32)
    for i in range(len(bounds_n)):
        if bounds_n[i] < least:
            break
        own, own_mean, first = ratios[slots_n[i]], means[slots_n[i]], seen_n[i]
        if normalised and not known_n[i]:
            self_n[i] = information(own, own_mean, own, own_mean, delta, total, mantissa, power)
            known_n[i] = True
            pairs += 1
        root = np.sqrt(self_n[i]) if normalised else 1.0
        open_t = upper[first:]
        open_t[:] = np.float32(0)
        for f in range(features.shape[1]):
            factor, probe = features[seats_n[i], f], probes_F_B[f, first:count]
            for t in range(len(open_t)):
                open_t[t] += factor * probe[t]
        if compared_n[i] >= first:
            open_t[compared_n[i] - first] = 0
        while True:
            gain = bald_n[i] * (1 - overlap_n[i]) if normalised else bald_n[i] - overlap_n[i]
            if abs(gain) <= slack:
                gain = 0.0
            largest = np.float32(0)
            for t in range(len(open_t)):
                largest = max(largest, open_t[t])
            if root == 0 or largest <= overlap_n[i] * round_down * root:
                bounds_n[i], exact_n[i], seen_n[i] = gain, True, count
                least = max(least, gain - slack)
                break
            if gain + slack < least:
                bounds_n[i] = min(bounds_n[i], gain + slack)
                break
            suspect = 0
            while open_t[suspect] != largest:
                suspect += 1
            open_t[suspect] = 0
            pick = first + suspect
            value = information(own, own_mean, picked_ratios[pick], picked_means[pick], delta, total, mantissa, power)
            pairs += 1
            if normalised:
                scale = np.sqrt(self_n[i] * picked_self_t[pick])
                value = min(value / scale, 1.0) if scale > 0 else 0.0
            else:
                value = min(value, bald_n[i], picked_bald_t[pick])
            overlap_n[i] = max(overlap_n[i], value)
            compared_n[i] = pick
    return least, pairs
