"""Fisher information of a last linear layer: how much a label at each point would lower the trace `tr(M⁻¹ F)`.

The information of a point is `VᵀV` with `V = [u_1 ⊗ h, ..., u_R ⊗ h]`, R rows of A·D numbers: `h` are the D features,
and the `u_r` are factors of A numbers from its prediction. The binary form has R = A = 1, the full form R = A = C.

`F` is the mean over all points, `M = λI + Σ VᵀV` the sum over what is labelled. A label at a point lowers the trace by
`tr((I + V M⁻¹ Vᵀ)⁻¹ V P Vᵀ)` with `P = M⁻¹ F M⁻¹`. For that every point keeps two small matrices, `[A, A]` each,

    Q[a, b] = hᵀ M⁻¹[a, b] h     and     S[a, b] = hᵀ P[a, b] h,

where `[a, b]` is a block of D × D numbers. A pick changes M by a matrix of rank R. By Woodbury's identity, the new Q
and S of all points follow from products of their features with `2 A R` vectors: one pass over the features.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array

# The least that removing a point leaves of 1 in any direction: below, rounding could make it negative.
_LEAST = 1e-12
# Once a number has fallen to this share of what it was, half of its 16 digits are left.
_WORN = 1e-8


@dataclass(frozen=True)
class Rows:
    """Points: their features and the factors of their predictions.

    Attributes:
        features: `[n, D]`, an array in memory or in a file, of any floating-point type.
        factors: `[n, R, A]` float64.
        step: how many rows to convert at a time.
    """

    features: Array
    factors: Tensor
    step: int

    @classmethod
    def of(cls, features_n_D: Array, factors: Tensor, memory: int) -> "Rows":
        """Points whose features are converted once if they fit the memory budget, else at each pass."""
        whole = features_n_D.size * 8 <= memory // 2
        step = budget.block_rows(8 * features_n_D.shape[1] * factors.shape[2], memory)
        return cls(np.asarray(features_n_D, np.float64) if whole else features_n_D, factors, step)

    def __len__(self) -> int:
        return len(self.factors)

    def take(self, indices_m: Array) -> "Rows":
        """Some of the points."""
        return Rows(np.asarray(self.features[indices_m], np.float64), self.factors[indices_m], self.step)

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """All features in order, as float64 blocks."""
        for start in range(0, len(self), self.step):
            part = slice(start, min(start + self.step, len(self)))
            yield part, _as_tensor(self.features[part])

    def row(self, index: int) -> Tensor:
        """`[R, A·D]` the factor V of one point."""
        return (self.factors[index][:, :, None] * _as_tensor(self.features[index])).flatten(1)

    def information(self) -> Tensor:
        """`[A·D, A·D]` sum of `VᵀV` over all points."""
        A, D = self.factors.shape[2], self.features.shape[1]
        total = torch.zeros(A, D, A, D, dtype=torch.float64)
        for part, h_n_D in self.blocks():
            weights_n_A_A = self.factors[part].transpose(1, 2) @ self.factors[part]
            for a in range(A):
                for b in range(a + 1):
                    total[a, :, b].addmm_(h_n_D.T, h_n_D * weights_n_A_A[:, a, b, None])
        for a in range(A):
            for b in range(a):
                total[b, :, a] = total[a, :, b].T
        return total.view(A * D, A * D)

    def quadratic(self, matrix: Tensor) -> Tensor:
        """`[n, A, A]` products `hᵀ matrix[a, b] h` with a symmetric matrix of blocks."""
        A, D = self.factors.shape[2], self.features.shape[1]
        blocks_A_D_A_D = matrix.view(A, D, A, D)
        result_n_A_A = torch.empty(len(self), A, A, dtype=torch.float64)
        for part, h_n_D in self.blocks():
            for a in range(A):
                for b in range(a + 1):
                    value_n = (h_n_D @ blocks_A_D_A_D[a, :, b]).mul_(h_n_D).sum(1)
                    result_n_A_A[part, a, b] = result_n_A_A[part, b, a] = value_n
        return result_n_A_A


class TraceReduction:
    """What each point would take from `tr(M⁻¹ F)`, kept up to date as points are added or removed.

    Each change has the rounding of the number that it starts from. Once the rest of a point's number is much smaller
    than that, it is `worn`, and `refresh` computes all numbers again.

    Args:
        points: the points.
        known: `[A·D, A·D]` M.
        mean: `[A·D, A·D]` F.
    """

    def __init__(self, points: Rows, known: Tensor, mean: Tensor) -> None:
        self._points, self._known, self._mean = points, known, mean
        self.refresh()

    def __len__(self) -> int:
        return len(self._points)

    def refresh(self) -> None:
        """Compute the inverse of M, and Q and S of all points, from M itself."""
        self._inverse = torch.cholesky_inverse(torch.linalg.cholesky(self._known))
        self._q = self._points.quadratic(self._inverse)
        self._s = self._points.quadratic(self._inverse @ self._mean @ self._inverse)
        self._fresh_n = self._s.diagonal(dim1=1, dim2=2).sum(1)

    def worn(self, index: int) -> bool:
        """Whether S of a point has become so much smaller by changes that half its digits are lost."""
        return float(self._s[index].trace()) < _WORN * float(self._fresh_n[index])

    def only(self, indices_m: Array) -> "TraceReduction":
        """The same M, and some of the points."""
        return TraceReduction(self._points.take(indices_m), self._known, self._mean)

    def gains(self, sign: int = 1) -> Array:
        """`[n]` how much adding (`sign=1`) a point would lower the trace, or removing (-1) it would raise it."""
        step = max(1, (1 << 19) // self._q[0].numel())
        parts = [self._gains(slice(i, i + step), sign) for i in range(0, len(self._q), step)]
        gains_n: Array = torch.cat(parts).clamp_min_(0.0).numpy()
        return gains_n

    def _gains(self, part: slice, sign: int) -> Tensor:
        u_n_R_A = self._points.factors[part]
        inner_n_R_R = _between(u_n_R_A, self._q[part], sign)
        outer_n_R_R = u_n_R_A @ self._s[part] @ u_n_R_A.transpose(1, 2)
        if u_n_R_A.shape[1] == 1:
            return (outer_n_R_R / inner_n_R_R).view(-1)
        solved_n_R_R: Tensor = torch.linalg.solve(inner_n_R_R, outer_n_R_R)
        return solved_n_R_R.diagonal(dim1=1, dim2=2).sum(1)

    def change(self, index: int, sign: int = 1) -> None:
        """Add a point to M, or remove it."""
        u_R_A, v_R_F = self._points.factors[index], self._points.row(index)
        (R, A), D = u_R_A.shape, self._points.features.shape[1]
        root_R_R = torch.linalg.cholesky(_between(u_R_A[None], self._q[index][None], sign)[0])
        a_F_R = self._inverse @ v_R_F.T
        e_F_R = self._inverse @ (self._mean @ a_F_R)
        # With L Lᵀ = I ± V M⁻¹ Vᵀ and T = A L⁻ᵀ, the inverse changes by ∓ T Tᵀ and P by -(X Tᵀ + T Xᵀ).
        t_F_R, scaled_F_R = (torch.linalg.solve_triangular(root_R_R, x.T, upper=False).T for x in (a_F_R, e_F_R))
        middle_R_R = torch.linalg.solve_triangular(root_R_R, v_R_F @ scaled_F_R, upper=False)
        x_F_R = sign * scaled_F_R - t_F_R @ middle_R_R / 2
        vectors_D_m = torch.cat([x.reshape(A, D, R).permute(1, 0, 2).reshape(D, A * R) for x in (t_F_R, x_F_R)], 1)
        for part, h_n_D in self._points.blocks():
            t_n_A_R, x_n_A_R = (h_n_D @ vectors_D_m).view(-1, 2, A, R).unbind(1)
            self._q[part] -= sign * (t_n_A_R @ t_n_A_R.transpose(1, 2))
            half_n_A_A = x_n_A_R @ t_n_A_R.transpose(1, 2)
            self._s[part] -= half_n_A_A + half_n_A_A.transpose(1, 2)
        self._inverse -= sign * (t_F_R @ t_F_R.T)
        self._known += sign * (v_R_F.T @ v_R_F)


def _as_tensor(features: Array) -> Tensor:
    """The same numbers in float64, without a copy where that is possible."""
    ready = features.dtype == np.float64 and features.flags.writeable
    return torch.from_numpy(features if ready else np.array(features, np.float64))


def _between(u_n_R_A: Tensor, q_n_A_A: Tensor, sign: int) -> Tensor:
    """`[n, R, R]` the matrix `I ± V M⁻¹ Vᵀ`."""
    R = u_n_R_A.shape[1]
    if R == 1:  # many times faster than products of tiny matrices
        inner_n = u_n_R_A[:, 0, 0].square() * q_n_A_A[:, 0, 0] * sign + 1
        return inner_n.clamp_min_(_LEAST).view(-1, 1, 1)
    inner_n_R_R = sign * (u_n_R_A @ q_n_A_A @ u_n_R_A.transpose(1, 2)) + torch.eye(R, dtype=torch.float64)
    return inner_n_R_R if sign > 0 else inner_n_R_R + _LEAST * torch.eye(R, dtype=torch.float64)
