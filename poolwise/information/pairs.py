"""Mutual information between the labels of two points (section A.2 of the paper).

`I(y_i; y_j) = Σ_ab J_ab ln(J_ab / (p̄_i(a) p̄_j(b)))` with the joint `J_ab = mean_k p_ik(a) p_jk(b)`. Taken literally,
as a difference of entropies, it loses all its digits where the two labels are nearly independent. Here the
predictions are first turned into *deviations* `d_ik(a) = p_ik(a) / p̄_i(a) - 1`, which average to zero over k, so that

    J_ab / (p̄_i(a) p̄_j(b)) = 1 + δ_ab        with  δ_ab = mean_k d_ik(a) d_jk(b), one matrix product, and
    I(y_i; y_j) = Σ_ab p̄_i(a) p̄_j(b) φ(δ_ab)  with  φ(δ) = (1 + δ) ln(1 + δ) - δ ≥ 0.

Every term is non-negative and computed to relative precision, at the same cost: a product, a logarithm, a sum.
"""

import threading
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# ln(1 + δ) is taken at no less than this, where δ = -1 means two labels that never occur together. It is then
# multiplied by 1 + δ = 0, so the value does not matter as long as it is finite.
_ALMOST_MINUS_ONE = {torch.float32: -1 + 2**-23, torch.float64: -1 + 2**-52}
# Products of matrices with more terms than this take much longer than a call.
_LARGE = 1 << 16
# A pair with more terms than this is computed in parts of about this many: they stay in a cache of the processor.
_CHUNK = 1 << 17


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

    @classmethod
    def room(cls, n: int, K: int, C: int, dtype: torch.dtype) -> "Deviations":
        """Room for n points, which takes memory only as they are written."""
        return cls(torch.empty(n, K, C, dtype=dtype), torch.empty(n, C, dtype=dtype))

    def __len__(self) -> int:
        return self.means.shape[0]

    def __getitem__(self, rows: slice) -> "Deviations":
        return Deviations(self.ratios[rows], self.means[rows])

    def take(self, rows_m: Tensor) -> "Deviations":
        """The points at some positions."""
        rows = rows_m.numpy()  # NumPy takes half the time for a few hundred points
        ratios, means = self.ratios.numpy().take(rows, 0), self.means.numpy().take(rows, 0)
        return Deviations(torch.from_numpy(ratios), torch.from_numpy(means))

    def repeat(self, n: int) -> "Deviations":
        """A single point n times over, without a copy."""
        return Deviations(self.ratios.expand(n, -1, -1), self.means.expand(n, -1))


class _Scratch(threading.local):
    """Memory of a thread that is used again and again: fresh memory costs as much as the work that is done in it."""

    def __init__(self) -> None:
        self._flat = torch.empty(2, 0)

    def two(self, n: int, C: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Two tensors `[n, C, C]` of any numbers, at most `_CHUNK` each; the next call may overwrite them."""
        if self._flat.dtype != dtype or self._flat.shape[1] < n * C * C:
            self._flat = torch.empty(2, _CHUNK, dtype=dtype)
        first, second = self._flat[:, : n * C * C].view(2, n, C, C)
        return first, second


_scratch = _Scratch()


def _phi(delta: Tensor, out: Tensor | None = None) -> Tensor:
    """`(1 + δ) ln(1 + δ) - δ`, elementwise.

    The logarithm takes half of a pair's time. `log1p` is as fast as `log` in PyTorch, and a polynomial is slower.
    """
    logs = torch.clamp_min(delta, _ALMOST_MINUS_ONE[delta.dtype], out=out).log1p_()
    return torch.addcmul(logs, delta, logs, out=logs).sub_(delta)


def _by_classes(a: Deviations, b: Deviations, same: bool) -> Tensor:
    """The information of one pair with many classes, a few classes of `a` at a time, so that all fits into a cache.

    Classes that no member gives any probability add nothing, and are left out.

    Args:
        a: one point.
        b: another one.
        same: whether it is the same one. Then `δ_ab = δ_ba`, and half of them are enough.
    """
    a_K_C, a_C = _possible(a)
    b_K_C, b_C = (a_K_C, a_C) if same else _possible(b)
    scaled_C_K, total = a_K_C.T / len(a_K_C), a_C.new_zeros(())
    rows = max(1, _CHUNK // max(1, len(b_C)))
    for start in range(0, len(a_C), rows):
        part = slice(start, start + rows)
        first = start if same else 0
        phi_r_C = _phi(torch.mm(scaled_C_K[part], b_K_C[:, first:])).mul_(b_C[first:])
        sums_r = phi_r_C.sum(1)
        if same:
            sums_r += phi_r_C[:, rows:].sum(1)
        total += sums_r.mul_(a_C[part]).sum()
    return total


def _possible(point: Deviations) -> tuple[Tensor, Tensor]:
    """`[K, C]` ratios and `[C]` means of one point, for the classes that are possible."""
    ratios_K_C, means_C = point.ratios[0], point.means[0]
    kept = means_C.nonzero().squeeze(1)
    return (ratios_K_C, means_C) if len(kept) == len(means_C) else (ratios_K_C[:, kept], means_C[kept])


def _products(a_n_C_K: Tensor, b_n_K_C: Tensor, out_n_C_C: Tensor) -> None:
    """A product of two matrices for each of n pairs, whose last bits do not depend on the other pairs.

    Those of `torch.bmm` do for some shapes (K = 20 and C = 7, for one). NumPy calls a routine for each product, which
    also takes a third less time for ten classes. It may use threads for large ones, so these are done one by one here.
    """
    _, C, K = a_n_C_K.shape
    if C * C * K <= _LARGE:
        np.matmul(a_n_C_K.numpy(), b_n_K_C.numpy(), out=out_n_C_C.numpy())
        return
    for product_C_C, a_C_K, b_K_C in zip(out_n_C_C, a_n_C_K, b_n_K_C, strict=True):
        torch.mm(a_C_K, b_K_C, out=product_C_C)


def aligned(a: Deviations, b: Deviations) -> Tensor:
    """`[n]` information between each point of `a` and the point of `b` in the same place.

    Every pair is a product of its own, of the same shape, so its value does not depend on which other pairs are
    computed with it. Selection relies on that: equal points must have equal gains.
    """
    n, K, C = a.ratios.shape
    found_n = a.means.new_empty(n)
    if is_large(C):
        for i in range(n):
            found_n[i] = _by_classes(a[i : i + 1], b[i : i + 1], a is b)
        return found_n.clamp_min_(0.0)
    rows = _CHUNK // (C * C)
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        delta_r_C_C, phi_r_C_C = _scratch.two(part.stop - start, C, a.means.dtype)
        _products(a.ratios[part].transpose(1, 2), b.ratios[part], delta_r_C_C)
        _phi(delta_r_C_C.div_(K), phi_r_C_C)
        torch.sum(phi_r_C_C.mul_(b.means[part, None, :]).sum(2).mul_(a.means[part]), 1, out=found_n[part])
    return found_n.clamp_min_(0.0)


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


def is_large(C: int) -> bool:
    """Whether a pair with this many classes is computed in parts, and so by itself."""
    return C * C > _CHUNK


def across(a: Deviations, b: Deviations) -> Tensor:
    """`[r]` information between one point and each of r others, pair by pair."""
    return aligned(a.repeat(len(b)), b)


def with_itself(a: Deviations) -> Tensor:
    """`[n]` information between two independent draws of the label of the same point, `I_ii`."""
    return aligned(a, a)
