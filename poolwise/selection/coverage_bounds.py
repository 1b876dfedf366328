"""Upper bounds of gains of coverage that cost less than the gains."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.selection.coverage_kernels import Cosine, Kernel, Rows, in_parts

# Rows of features that are summed over at a time.
_STEP = 1024


class Moments:
    """Bounds of gains from moments of the features, without a pass over pairs.

    The positive part of a number is half of the number plus its size. So the gain `Σ_j u_j [a_ij]+`, with
    `a_ij = <z_i, z_j> - m_j`, is at most `½ (Σ_j u_j a_ij + sqrt(Σ_j u_j · Σ_j u_j a_ij²))`: Cauchy and Schwarz bound
    the sum of sizes. Both sums follow from moments of the targets.

    Args:
        candidates: `[N, F]` features.
        targets: `[T, F]` features.
        weights_T: `[T]` weights u.
    """

    def __init__(self, candidates: Rows, targets: Rows, weights_T: Array) -> None:
        self._candidates, self._targets = candidates, targets
        self._weights = torch.from_numpy(np.asarray(weights_T, np.float32))
        F = targets.width
        self._first_F, self._moment_F_F = torch.zeros(F, dtype=torch.float64), torch.zeros(F, F, dtype=torch.float64)
        for start in range(0, len(targets), _STEP):
            rows, u = targets.part(start, start + _STEP), self._weights[start : start + _STEP]
            self._first_F += u @ rows
            self._moment_F_F += rows.T @ (rows * u[:, None])
        self._squares_N = self._map(lambda rows: ((rows @ self._moment_F_F.float()) * rows).sum(1))
        self._first_N = self._map(lambda rows: rows @ self._first_F.float())

    def bounds(self, covered_T: Array) -> Array:
        """`[N]` upper bounds of the gains, given how far each target is covered."""
        covered, u = torch.from_numpy(np.asarray(covered_T, np.float32)), self._weights
        both_T = u * covered
        cross_F = torch.zeros(self._targets.width, dtype=torch.float64)
        for start in range(0, len(self._targets), _STEP):
            cross_F += both_T[start : start + _STEP] @ self._targets.part(start, start + _STEP)
        cross_N = self._map(lambda rows: rows @ cross_F.float())
        total, once, twice = (float(x.double().sum()) for x in (u, both_T, both_T * covered))
        squares_N = np.maximum(self._squares_N - 2 * cross_N + twice, 0.0)
        bounds_N: Array = np.maximum(self._first_N - once + np.sqrt(total * squares_N), 0.0) / 2
        bounds_N += 1e-5 * (bounds_N + np.sqrt(total))  # the sums are rounded
        return bounds_N

    def _map(self, function: Callable[[Tensor], Tensor]) -> Array:
        parts = [
            function(self._candidates.part(start, start + _STEP)).double().numpy()
            for start in range(0, len(self._candidates), _STEP)
        ]
        return np.concatenate(parts)


def moments_of(kernel: Kernel, weights_T: Array) -> Moments | None:
    """Moments of a kernel that is a product of features, where these are fewer than the points; else None."""
    if type(kernel) is not Cosine or kernel.candidates.width >= min(kernel.shape):
        return None
    return Moments(kernel.candidates, kernel.targets, weights_T)


class Pivots:
    """Points that stand for those around them, with their rows of the kernel.

    A point i covers what its pivot p covers, and what it covers further than p. For every coverage m of the targets,
    `[k_ij - m_j]+ ≤ [k_pj - m_j]+ + [k_ij - max(k_pj, m_j)]+`, and the last term never grows with m. So the gain of p
    now, plus what i covered further when it was last evaluated, is an upper bound of the gain of i.

    Args:
        kernel: similarities.
        count: how many pivots there are.
        columns: where blocks of targets begin and end.

    Attributes:
        further_N: `[N]` what each point covers further than its pivot.
    """

    def __init__(self, kernel: Kernel, count: int, columns: list[tuple[int, int]]) -> None:
        N, _ = kernel.shape
        places_P = np.unique(np.linspace(0, N - 1, count).astype(np.int64))
        self._rows_P_T = torch.cat([kernel.block(places_P, start, stop) for start, stop in columns], 1)
        self._of_N = torch.cat([kernel.alike(some, places_P).argmax(1) for some in in_parts(np.arange(N))])
        self.further_N = np.full(N, np.inf)

    def rows(self, indices_m: Array, start: int, stop: int) -> Tensor:
        """`[m, t]` the kernel of the pivots of some points."""
        return self._rows_P_T[:, start:stop][self._of_N[torch.from_numpy(indices_m)]]

    def bounds(self, high_T: Array, weights_T: Array) -> Array:
        """`[N]` upper bounds of the gains of all points, up to rounding.

        Args:
            high_T: `[T]` a value of the kernel above this improves a target beyond doubt.
            weights_T: `[T]` what each target counts for.
        """
        high, weights, rows = torch.from_numpy(high_T), torch.from_numpy(weights_T), self._rows_P_T
        gains = [weighted_gain(rows[start : start + 16] - high, weights) for start in range(0, len(rows), 16)]
        bounds_N: Array = np.concatenate(gains).astype(np.float64)[self._of_N.numpy()] + self.further_N
        return bounds_N


def weighted_gain(above_m_t: Tensor, weights_t: Tensor) -> Array:
    """`[m]` weighted sums of the positive parts of the rows, which are overwritten."""
    result: Array = torch.mv(above_m_t.clamp_min_(0.0), weights_t).numpy()
    return result
