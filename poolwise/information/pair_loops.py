"""The information of a pair of points in one pass, for loops that are compiled (see `kept_loops`); float32.

It is rounded differently than in `pairs`, which decides nothing: whoever uses it allows for that.
"""

import numpy as np

from poolwise.arrays import Array

_0, _1, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
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
# Terms that are worked on together, as far as whole rows of classes fit: they stay in the processor's first cache.
_TOGETHER = 1024


def pair_room(C: int) -> Array:
    """Scratch for `pair` with C classes."""
    return np.empty((4, max(1, _TOGETHER // C) * C), np.float32)


def pair(a_K_C: Array, a_C: Array, b_K_C: Array, b_C: Array, room: Array) -> float:
    """The information between two points (see `pairs`): `φ(δ) = u ln(u) - (u - 1)` with `u = 1 + δ`.

    A rounding of u moves φ by no more than one of δ would. Within a loop, sums may be reordered, and the difference
    u - 1 be lost. So there are several loops.

    Args:
        a_K_C: deviations of one point.
        a_C: its averaged prediction.
        b_K_C: deviations of the other.
        b_C: its averaged prediction.
        room: see `pair_room`; it is overwritten.
    """
    K, C = a_K_C.shape
    sums, rests, shifts, parts = room[0], room[1], room[2], room[3]
    bits, part_bits, share = sums.view(np.int32), parts.view(np.int32), _1 / np.float32(K)
    step, total = len(sums) // C, 0.0
    for start in range(0, C, step):
        rows = min(step, C - start)
        for r in range(rows):
            sums_C = sums[r * C : (r + 1) * C]
            for b in range(C):
                sums_C[b] = _0
            for k in range(K):
                factor = a_K_C[k, start + r] * share
                b_k = b_K_C[k]
                for b in range(C):
                    sums_C[b] += factor * b_k[b]
        n = rows * C
        for i in range(n):
            sums[i] = max(sums[i] + _1, _TINY)
        for i in range(n):
            rests[i] = sums[i] - _1
        for i in range(n):
            power = (bits[i] - _ROOT_HALF) >> _SHIFT
            shifts[i] = np.float32(power) * _LN2
            part_bits[i] = bits[i] - (power << _SHIFT)
        for i in range(n):
            f = parts[i] - _1
            high = (((_I * f + _H) * f + _G) * f + _F) * f + _E
            log = ((((high * f + _D) * f + _C) * f + _B) * f + _A) * f * f * f - _HALF * f * f + f
            rests[i] = sums[i] * (log + shifts[i]) - rests[i]
        for r in range(rows):
            rests_C, sum_b = rests[r * C : (r + 1) * C], _0
            for b in range(C):
                sum_b += rests_C[b] * b_C[b]
            total += float(sum_b * a_C[start + r])
    return max(total, 0.0)
