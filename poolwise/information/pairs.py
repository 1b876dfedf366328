"""Mutual information between the labels of two points (section A.2 of the paper).

`I(y_i; y_j) = Σ_ab J_ab ln(J_ab / (p̄_i(a) p̄_j(b)))` with the joint `J_ab = mean_k p_ik(a) p_jk(b)`. Taken literally,
as a difference of entropies, it loses all its digits where the two labels are nearly independent. Here the
predictions are first turned into *deviations* `d_ik(a) = p_ik(a) / p̄_i(a) - 1`, which average to zero over k, so that

    J_ab / (p̄_i(a) p̄_j(b)) = 1 + δ_ab        with  δ_ab = mean_k d_ik(a) d_jk(b), one matrix product, and
    I(y_i; y_j) = Σ_ab p̄_i(a) p̄_j(b) φ(δ_ab)  with  φ(δ) = (1 + δ) ln(1 + δ) - δ ≥ 0.

Every term is non-negative and computed to relative precision, at the same cost: a product, a logarithm, a sum.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# ln(1 + δ) is taken at no less than this, where δ = -1 means two labels that never occur together. It is then
# multiplied by 1 + δ = 0, so the value does not matter as long as it is finite.
_ALMOST_MINUS_ONE = {torch.float32: -1 + 2**-23, torch.float64: -1 + 2**-52}


@dataclass(frozen=True)
class Deviations:
    """Predictions of n points in the form that pairwise information is computed from.

    Attributes:
        ratios: `[n, K, C]` deviations `p_ik(c) / p̄_i(c) - 1`.
        means: `[n, C]` averaged predictions `p̄_i(c)`.
    """

    ratios: Tensor
    means: Tensor

    @classmethod
    def of(cls, probs_n_K_C: Tensor) -> "Deviations":
        """Deviations of the given probabilities."""
        means_n_C = probs_n_K_C.sum(1).div_(probs_n_K_C.shape[1])
        divisor = means_n_C.clamp_min(torch.finfo(means_n_C.dtype).tiny)
        return cls((probs_n_K_C / divisor[:, None]).sub_(1), means_n_C)

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, rows: slice) -> "Deviations":
        return Deviations(self.ratios[rows], self.means[rows])

    def take(self, rows_m: Tensor) -> "Deviations":
        """The points at some positions."""
        return Deviations(self.ratios.index_select(0, rows_m), self.means.index_select(0, rows_m))

    def repeat(self, n: int) -> "Deviations":
        """A single point n times over, without a copy."""
        return Deviations(self.ratios.expand(n, -1, -1), self.means.expand(n, -1))

    def padded(self, capacity: int) -> "Deviations":
        """The same points with room for more after them."""
        ratios = self.ratios.new_empty(capacity, *self.ratios.shape[1:])
        means = self.means.new_empty(capacity, self.means.shape[1])
        ratios[: len(self)], means[: len(self)] = self.ratios, self.means
        return Deviations(ratios, means)


def _phi(delta: Tensor) -> Tensor:
    """`(1 + δ) ln(1 + δ) - δ`, elementwise.

    The logarithm takes half of a pair's time. `log1p` is as fast as `log` in PyTorch, and a polynomial is slower.
    """
    logs = delta.clamp_min(_ALMOST_MINUS_ONE[delta.dtype]).log1p_()
    return torch.addcmul(logs, delta, logs, out=logs).sub_(delta)


def aligned(a: Deviations, b: Deviations) -> Tensor:
    """`[n]` information between each point of `a` and the point of `b` in the same place.

    Every pair is a product of its own, of the same shape, so its value does not depend on which other pairs are
    computed with it. Selection relies on that: equal points must have equal gains.
    """
    phi_n_C_C = _phi(torch.bmm(a.ratios.transpose(1, 2), b.ratios).div_(a.ratios.shape[1]))
    return phi_n_C_C.mul_(b.means[:, None, :]).sum(2).mul_(a.means).sum(1).clamp_min_(0.0)


def crossed(a: Deviations, b: Deviations) -> Tensor:
    """`[n, r]` information between every point of `a` (n points) and every point of `b` (r points).

    One matrix product for all pairs, twice as fast as `aligned`, but the last bits may depend on the block's shape.
    """
    n, K, C = a.ratios.shape
    r = len(b)
    # The side with fewer points comes first: long rows are what matrix products and logarithms are fastest on.
    rows_rC_K = b.ratios.transpose(1, 2).reshape(r * C, K)
    columns_K_nC = a.ratios.transpose(0, 1).reshape(K, n * C)
    phi_r_C_nC = _phi(torch.mm(rows_rC_K, columns_K_nC).div_(K)).view(r, C, n * C)
    over_b_r_n_C = torch.bmm(b.means[:, None, :], phi_r_C_nC).view(r, n, C)
    return over_b_r_n_C.mul_(a.means).sum(2).clamp_min_(0.0).T


def with_itself(a: Deviations) -> Tensor:
    """`[n]` information between two independent draws of the label of the same point, `I_ii`."""
    return aligned(a, a)
