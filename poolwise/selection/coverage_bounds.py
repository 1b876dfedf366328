"""Upper bounds of gains of coverage that cost less than the gains."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.selection.coverage_kernels import Cosine, Kernel, Rows

# Rows of features that are worked on at a time.
_STEP = 1024
# Into how many groups targets are divided at most. A group costs as much as F targets at one evaluation of every point;
# in all no more than this share of the targets.
_GROUPS, _TARGETS_PER_GROUP, _COST = 64, 500, 1 / 8
# How far sums over a group may be off by rounding, as a share of its weight: a hundred products in float32.
_ROUNDING = 5e-6


class Moments:
    """Bounds of gains from moments of the features, without a pass over pairs.

    The positive part of a number is half of the number plus its size. So the gain `Σ_j u_j [a_ij]+`, with
    `a_ij = <z_i, z_j> - m_j`, is at most `½ (Σ_j u_j a_ij + sqrt(Σ_j u_j · Σ_j u_j a_ij²))`: Cauchy and Schwarz bound
    the sum of sizes. Both sums follow from moments of the targets. The bound is tight where all `a_ij` are positive and
    alike, or all negative, so it is taken for each of G groups of similar targets, and summed.

    Args:
        candidates: `[N, F]` features of length one.
        targets: `[T, F]` features of length one.
        weights_T: `[T]` weights u.
    """

    def __init__(self, candidates: Rows, targets: Rows, weights_T: Array) -> None:
        self._candidates, self._targets = candidates, targets
        self._weights = torch.from_numpy(np.asarray(weights_T, np.float32))
        T, F = len(targets), targets.width
        self._count = G = max(1, min(_GROUPS, T // _TARGETS_PER_GROUP, int(_COST * T / F)))
        pivots_F_G = targets.take(np.linspace(0, T - 1, G).astype(np.int64)).T.contiguous()
        self._group_T = torch.cat([(rows @ pivots_F_G).argmax(1) for _, rows in _parts(targets)])
        self._total_G = self._per_group(self._weights)
        first_F_G, moments_G_F_F = self._crossed(self._weights), torch.zeros(G, F, F)
        for g in range(G):
            members = np.flatnonzero(self._group_T.numpy() == g)
            for start in range(0, len(members), _STEP):
                some = members[start : start + _STEP]
                rows_n_F = targets.take(some)
                moments_G_F_F[g] += rows_n_F.T @ (rows_n_F * self._weights[torch.from_numpy(some)][:, None])
        self._first_N_G = torch.cat([rows @ first_F_G for _, rows in _parts(candidates)])
        self._squares_N_G = torch.cat([_squares(rows, moments_G_F_F) for _, rows in _parts(candidates)])

    def bounds(self, covered_T: Array) -> Array:
        """`[N]` upper bounds of the gains, given how far each target is covered."""
        covered = torch.from_numpy(np.asarray(covered_T, np.float32))
        both_T = self._weights * covered
        once_G, twice_G, cross_F_G = self._per_group(both_T), self._per_group(both_T * covered), self._crossed(both_T)
        bounds_N = np.empty(len(self._candidates))
        for part, rows in _parts(self._candidates):
            squares_n_G = self._squares_N_G[part] - 2 * (rows @ cross_F_G) + twice_G
            sizes_n_G = squares_n_G.clamp_min_(0.0).add_(_ROUNDING * self._total_G).mul_(self._total_G).sqrt_()
            sums_n_G = sizes_n_G.add_(self._first_N_G[part]).sub_(once_G).add_(_ROUNDING * self._total_G)
            bounds_N[part] = sums_n_G.clamp_min_(0.0).sum(1, dtype=torch.float64).div_(2).numpy()
        return bounds_N

    def _per_group(self, values_T: Tensor) -> Tensor:
        """`[G]` sums over the targets of each group."""
        return torch.zeros(self._count, dtype=torch.float64).index_add_(0, self._group_T, values_T.double()).float()

    def _crossed(self, values_T: Tensor) -> Tensor:
        """`[F, G]` sums of the features of each group's targets, times a number per target."""
        sums_F_G = torch.zeros(self._targets.width, self._count)
        for part, rows_n_F in _parts(self._targets):
            members_n_G = torch.zeros(len(rows_n_F), self._count)
            members_n_G.scatter_(1, self._group_T[part][:, None], values_T[part][:, None])
            sums_F_G += rows_n_F.T @ members_n_G
        return sums_F_G


def _parts(rows: Rows) -> Iterator[tuple[slice, Tensor]]:
    for start in range(0, len(rows), _STEP):
        yield slice(start, start + _STEP), rows.part(start, start + _STEP)


def _squares(rows_n_F: Tensor, moments_G_F_F: Tensor) -> Tensor:
    """`[n, G]` quadratic forms of rows."""
    return torch.stack([((rows_n_F @ moment_F_F) * rows_n_F).sum(1) for moment_F_F in moments_G_F_F], 1)


def moments_of(kernel: Kernel, weights_T: Array) -> Moments | None:
    """Moments of a kernel that is a product of features, where these are fewer than the points; else None."""
    if type(kernel) is not Cosine or kernel.candidates.width >= min(kernel.shape):
        return None
    return Moments(kernel.candidates, kernel.targets, weights_T)
