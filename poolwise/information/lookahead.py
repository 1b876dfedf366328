"""What the label of one point would tell about the labels of others, averaged over reference points.

After seeing label y at point i, posterior sample k has the weight `w_k(y) ∝ p_ik(y)`, and the prediction at a
reference point r becomes `q_r(c | y) = Σ_k w_k(y) p_rk(c)`. Both scores below average a function of these over r;
both are one matrix product per block of points and reference points.
"""

import math

import torch
from torch import Tensor

from poolwise.errors import ParameterError
from poolwise.information.pairs import Deviations, across, crossed, is_large

# Elements of one block of `[reference points · classes, points · classes]`: one megabyte in float32. With hundreds of
# classes one point fills more than that, and the block is made of fewer reference points.
_BLOCK, _LARGEST = 1 << 18, 1 << 20


def _steps(n: int, r: int, C: int) -> tuple[int, int]:
    """How many points and reference points to put into one block."""
    references = max(1, min(r, 64, _LARGEST // (C * C)))
    return max(1, min(n, _BLOCK // (references * C * C))), references


def expected_information(points: Deviations, references: Deviations) -> Tensor:
    """`[n]` float64 mean of `I(y_i; y_r)` over the reference points (EPIG, Bickford Smith et al. 2023)."""
    n, r, C = len(points), len(references), points.means.shape[1]
    total_n = torch.zeros(n, dtype=torch.float64)
    if is_large(C):
        for i in range(n):
            total_n[i] = across(points[i : i + 1], references).double().sum()
        return total_n / r
    step_n, step_r = _steps(n, r, C)
    for i in range(0, n, step_n):
        some = points[i : i + step_n]
        for j in range(0, r, step_r):
            total_n[i : i + step_n] += crossed(some, references[j : j + step_r]).double().sum(1)
    return total_n / r


def expected_confidence_gain(points: Deviations, probs_r_K_C: Tensor, softness: float) -> Tensor:
    """`[n]` float64 expected fall of the soft mean objective cost of uncertainty (Zhao et al. 2021).

    The cost is `mean_r [ Σ_k w_k max_c p_rk(c) - softmax_c(Σ_k w_k p_rk(c)) ]`, with the soft maximum
    `(1/s) ln Σ_c exp(s x_c)`. Its first part is linear in the weights, and the weights after seeing a label average to
    those before, so it drops out of the expected fall. What is left is the expected rise of the soft maximum.

    Args:
        points: the n points that may be labelled.
        probs_r_K_C: `[r, K, C]` probabilities of the reference points.
        softness: s; the larger, the closer to the hard maximum.
    """
    if not (math.isfinite(softness) and softness > 0):
        raise ParameterError(f"softness must be a finite number above 0, not {softness}.")
    n, K, C = points.ratios.shape
    r = len(probs_r_K_C)
    # Double precision throughout: the rises are small differences of numbers near one.
    points, probs_r_K_C = Deviations(points.ratios.double(), points.means.double()), probs_r_K_C.double()
    total_n = torch.zeros(n, dtype=torch.float64)
    step_n, step_r = _steps(n, r, C)
    for j in range(0, r, step_r):
        some_r_K_C = probs_r_K_C[j : j + step_r]
        m = len(some_r_K_C)
        by_class_mC_K = some_r_K_C.transpose(1, 2).reshape(m * C, K)
        now_m = torch.logsumexp(some_r_K_C.mean(1) * softness, 1) / softness
        for i in range(0, n, step_n):
            ratios_n_K_C, means_n_C = points.ratios[i : i + step_n], points.means[i : i + step_n]
            weights_K_nC = ratios_n_K_C.transpose(0, 1).reshape(K, -1).add(1).div_(K)
            soft = []  # of a few labels at a time, if there are many classes
            for weights_K_y in torch.split(weights_K_nC, max(1, _LARGEST // (m * C)), 1):
                after_m_C_y = (by_class_mC_K @ weights_K_y).view(m, C, -1)
                soft.append(torch.logsumexp(after_m_C_y.mul_(softness), 1))
            expected_m_n = (torch.cat(soft, 1).view(m, -1, C) * means_n_C).sum(2) / softness
            total_n[i : i + step_n] += (expected_m_n - now_m[:, None]).sum(0)
    # Rounded, so that equal points score equally whatever block they were computed in.
    return (total_n / r).clamp_min_(0.0).mul_(2.0**36).round_().div_(2.0**36)
