"""The nearest of some centres to each row, again and again as the centres move: exact, and quicker each time.

Distances are made in float32. A row that rounding leaves in doubt is decided in float64. So the answers depend on the
rows and the centres only, and it does not matter how they were found. With Numba, bounds tell for most rows which
centres cannot be the nearest (Ding et al. 2015: Yinyang K-Means). Centres that are near to each other share a bound.
"""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.feature_blocks import BLOCK, MULTIPLE, ROUNDING, Rows, squared_lengths

# Squared distances in float64 below this share of the squared lengths are rounding errors.
NOISE = 1e-13
# Centres per group, and the largest number of groups.
_PER_GROUP, _MOST_GROUPS = 8, 64
# With this many products of numbers per pass, compiled loops save more time than they take to load.
_MANY = 500_000_000
_COMPILED = "poolwise.selection.centres_compiled"


def grouped(centres_G_D: Tensor) -> tuple[Tensor, Array]:
    """Centres in an order in which near ones are together, and `[T + 1]` where each group begins and ends."""
    T = min(len(centres_G_D) // _PER_GROUP, _MOST_GROUPS)
    if T < 2:
        return centres_G_D, np.array([0, len(centres_G_D)])
    means_T_D = centres_G_D[:T]
    for _ in range(4):
        group_G = distances(centres_G_D, means_T_D).argmin(1)
        sums_T_D = torch.zeros_like(means_T_D).index_add_(0, torch.from_numpy(group_G), centres_G_D)
        sizes_T = np.bincount(group_G, minlength=T)
        means_T_D = torch.where(
            torch.from_numpy(sizes_T > 0)[:, None], sums_T_D / torch.from_numpy(sizes_T)[:, None], means_T_D
        )
    order = np.argsort(group_G, kind="stable")
    sizes = sizes_T[sizes_T > 0]
    return centres_G_D[torch.from_numpy(order)], np.concatenate([[0], np.cumsum(sizes)])


class NearestCentres:
    """The nearest centre of each row.

    Args:
        rows: the rows.
        starts: `[T + 1]` where each group of centres begins and ends.
        memory: working memory to stay within, in bytes.

    Attributes:
        lengths_M: `[M]` squared lengths of the rows, after the first pass.
        loops: the compiled loops; None where they are not used.
    """

    def __init__(self, rows: Rows, starts: Array, memory: int) -> None:
        self._rows, self._starts = rows, starts
        G, T, M = int(starts[-1]), len(starts) - 1, len(rows)
        self._group_G = np.repeat(np.arange(T), np.diff(starts))
        self.loops = _loops(M * G * rows.D) if memory >= 16 * M * T else None
        self._lower_M_T = np.empty((M, T), np.float32) if self.loops else np.empty((0, T), np.float32)
        self._centres_G_D: Tensor | None = None
        self._cluster_M = np.zeros(M, np.int64)
        self.lengths_M = np.empty(M, np.float32)

    def find(self, centres_G_D: Tensor) -> Iterator[tuple[slice, Tensor, Array]]:
        """Of each block of rows: where it is, the rows, and the nearest centre of each. Equal ones: the first."""
        before, self._centres_G_D = self._centres_G_D, centres_G_D.clone()
        rounded_G_D = centres_G_D.float()
        lengths_G = centres_G_D.square().sum(1)
        half_G = rounded_G_D.square().sum(1).div_(2)
        longest = 2 * float(half_G.max())
        columns_D_G = rounded_G_D.T.contiguous()
        step = max(1, BLOCK // (8 * len(centres_G_D)) // MULTIPLE) * MULTIPLE
        drift_T = None
        if before is not None and self.loops:
            moved_G = (centres_G_D - before).square().sum(1).sqrt().numpy()
            drift_T = np.maximum.reduceat(moved_G, self._starts[:-1]) * (1 + 1e-6)

        def find(index: int) -> tuple[slice, Tensor, Array]:
            part, rows_n_D = self._rows.parts[index], self._rows.block(index)
            if before is None:
                self.lengths_M[part] = squared_lengths(rows_n_D)
            lengths_n = self.lengths_M[part]
            doubt_n = 2 * ROUNDING * (lengths_n + np.float32(longest))
            nearest_n, unsure_n = np.empty(len(rows_n_D), np.int64), np.zeros(len(rows_n_D), bool)
            done = False
            if self.loops and drift_T is not None:
                # The bounds are kept in float32; what rounding may add to them in a pass is taken away again.
                less_T = (drift_T + 2e-7 * np.sqrt(longest + lengths_n.max())).astype(np.float32)
                done = self.loops.from_bounds(
                    rows_n_D.numpy(), rounded_G_D.numpy(), half_G.numpy(), self._starts, self._group_G, less_T,
                    lengths_n, doubt_n, self._cluster_M[part], nearest_n, self._lower_M_T[part], unsure_n,
                )  # fmt: skip
            for start in range(0, 0 if done else len(rows_n_D), step):
                some = slice(start, start + step)
                inner_n_G = torch.addmm(half_G, rows_n_D[some], columns_D_G, beta=-1)
                if self.loops:
                    self.loops.from_products(
                        inner_n_G.numpy(), self._starts, lengths_n[some], doubt_n[some], nearest_n[some],
                        self._lower_M_T[part][some], unsure_n[some],
                    )  # fmt: skip
                else:
                    best_n, at_n = inner_n_G.max(1)
                    nearest_n[some] = at_n.numpy()
                    inner_n_G.scatter_(1, at_n[:, None], -torch.inf)
                    unsure_n[some] = (best_n - inner_n_G.amax(1)).numpy() <= doubt_n[some]
            unsure = np.flatnonzero(unsure_n)
            for start in range(0, len(unsure), step):
                them = unsure[start : start + step]
                exact_m = _exactly(rows_n_D[torch.from_numpy(them)].double(), centres_G_D, lengths_G)
                if self.loops:  # their bounds leave out another centre, so that they say nothing
                    self._lower_M_T[part][them[exact_m != nearest_n[them]]] = 0.0
                nearest_n[them] = exact_m
            self._cluster_M[part] = nearest_n
            return part, rows_n_D, nearest_n

        return ordered_map(find, range(len(self._rows.parts)))


def _exactly(rows_n_D: Tensor, centres_G_D: Tensor, lengths_G: Tensor) -> Array:
    """`[n]` the nearest centres; of those equally near up to rounding the first."""
    distance_n_G = distances(rows_n_D, centres_G_D, lengths_G)
    least_n = distance_n_G.min(1) + 10 * NOISE * rows_n_D.square().sum(1).numpy()
    nearest_n: Array = (distance_n_G <= least_n[:, None]).argmax(1)
    return nearest_n


def distances(some_m_D: Tensor, others_n_D: Tensor, lengths_n: Tensor | None = None) -> Array:
    """`[m, n]` squared distances of float64 rows; 0 between equal rows. Squared lengths of the others may be given."""
    lengths_m, lengths_n = some_m_D.square().sum(1), others_n_D.square().sum(1) if lengths_n is None else lengths_n
    noise_n = NOISE * (lengths_n + lengths_m.max())
    distance_m_n = torch.addmm(lengths_n - noise_n, some_m_D, others_n_D.T, alpha=-2).add_(lengths_m[:, None])
    return distance_m_n.clamp_min_(0.0).numpy()


def _loops(products: int) -> ModuleType | None:
    """The compiled loops, where they are worth it and Numba is installed."""
    if products >= _MANY or _COMPILED in sys.modules:
        try:
            return importlib.import_module(_COMPILED)
        except ImportError:  # no Numba, or one that does not suit NumPy
            pass
    return None
