"""Information of single points in one pass over the memory, compiled by Numba: `entropies` says what is computed.

A logarithm is read once, its exponential is computed by a polynomial, and nothing but sums is written. What is found of
a row depends on that row only, to the last bit.
"""

import numpy as np

from poolwise.arrays import Array
from poolwise.compiling import compiled

_0, _1 = np.float32(0), np.float32(1)
# The exponential of smaller numbers counts as 0; that of larger ones would be no number of float32.
_LOW, _HIGH = np.float32(-87), np.float32(88)
# A logarithm of 0, whatever it is, counts as this.
_LOG_ZERO = np.float32(-110)
# exp(x) = 2^n exp(z), n whole, |z| at most ln(2) / 2. Products of n with the first part of ln(2) are exact.
_LOG2_E = np.float32(1.4426950408889634)
_LN2, _LN2_REST = np.float32(0.693145751953125), np.float32(1.42860682030941723e-6)
# exp(z) = 1 + z + z² (a + b z + c z² + d z³ + e z⁴) to 1e-8: that polynomial agrees with exp at Chebyshev's points.
_A, _B, _C = np.float32(0.5), np.float32(0.166665769897), np.float32(0.0416665546172)
_D, _E = np.float32(0.00836317905273), np.float32(0.00139261835868)
_BIAS, _SHIFT = np.int32(127), np.int32(23)  # float32: 2^n has the bits of (n + 127) · 2^23


@compiled
def member_sums(log_probs_N_K_C: Array, tolerance: float) -> tuple[Array, Array, int]:
    """Sums over float32 log-probabilities.

    Args:
        log_probs_N_K_C: `[N, K, C]` log-probabilities, contiguous; -inf is allowed.
        tolerance: how far the probabilities of a sample may be from adding up to 1.
    Returns:
        `[N, C]` sums of probabilities over the samples; `[N]` sums of `p ln p` over samples and classes; and how many
        samples, of all rows, have probabilities that do not add up to 1, or are NaN.
    """
    N, K, C = log_probs_N_K_C.shape
    sums_N_C, products_N, wrong = np.zeros((N, C), np.float32), np.zeros(N), 0
    powers_C = np.empty(C, np.int32)
    scales_C, rests_C = powers_C.view(np.float32), np.empty(C, np.float32)
    for i in range(N):
        sums_C = sums_N_C[i]
        for k in range(K):
            logs_C, total, product = log_probs_N_K_C[i, k], _0, _0
            for c in range(C):
                x = logs_C[c]  # NaN stays NaN, since it fails every comparison
                x = _LOW if x < _LOW else x
                x = _HIGH if x > _HIGH else x
                n = np.rint(x * _LOG2_E)
                rests_C[c] = (x - n * _LN2) - n * _LN2_REST
                powers_C[c] = 0 if logs_C[c] < _LOW else (np.int32(n) + _BIAS) << _SHIFT
            for c in range(C):
                x = _LOG_ZERO if logs_C[c] < _LOG_ZERO else logs_C[c]
                z = rests_C[c]
                p = (((((_E * z + _D) * z + _C) * z + _B) * z + _A) * z * z + z + _1) * scales_C[c]
                total += p
                sums_C[c] += p
                product += p * x
            products_N[i] += product
            wrong += not abs(total - _1) <= tolerance
    return sums_N_C, products_N, wrong
