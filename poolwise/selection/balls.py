"""Which points are within a radius of which: exact, in blocks, never N² in memory.

Most pairs are decided in float32. A pair that rounding leaves in doubt is decided in float64. So no decision depends on
the block it was made in.
"""

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.selection.coverage_kernels import Scratch
from poolwise.selection.feature_blocks import ROUNDING, Rows

# A distance that is equal to the radius up to this share counts as equal: far above the rounding of float64.
_EQUAL = 1e-9
# How many pairs of points are compared at a time: their distances stay in the cache.
ROWS, COLUMNS = 1024, 2048
_products = Scratch()


def tiles(rows: Rows, size: int, begin: int, end: int) -> list[tuple[int, slice]]:
    """The rows from `begin` to `end` in pieces of at most `size`: the block of each piece, and its rows.

    Both must be borders between blocks.
    """
    return [
        (index, slice(start, min(start + size, part.stop)))
        for index, part in enumerate(rows.parts)
        if begin <= part.start < end
        for start in range(part.start, part.stop, size)
    ]


def piece(rows: Rows, tile: tuple[int, slice]) -> Tensor:
    """`[n, D]` float32 rows of a piece."""
    first = rows.parts[tile[0]].start
    return rows.block(tile[0])[tile[1].start - first : tile[1].stop - first]


class Balls:
    """Closed balls of one radius around rows.

    Args:
        rows: the points.
        radius: in the units of the rows as they were given.
    """

    def __init__(self, rows: Rows, radius: float) -> None:
        self._rows = rows
        longest = float(rows.lengths.max())
        scaled = min(radius / rows.scale, 4 * longest**0.5 + 1)  # no distance is larger
        self._square = scaled**2 * (1 + _EQUAL) + 1e-13 * longest

    def near(self, some_n: Array, rows_n_D: Tensor, others_m: Array, rows_m_D: Tensor) -> Array:
        """`[n, m]` whether some points are within the radius of others.

        Args:
            some_n: `[n]` their numbers.
            rows_n_D: `[n, D]` their float32 rows.
            others_m: `[m]` numbers of the others.
            rows_m_D: `[m, D]` their float32 rows.
        """
        near_n_m = np.zeros((len(some_n), len(others_m)), bool)
        near_n_m[self.pairs(some_n, rows_n_D, others_m, rows_m_D)] = True
        return near_n_m

    def pairs(
        self, some_n: Array, rows_n_D: Tensor, others_m: Array, rows_m_D: Tensor, lengths_m: Tensor | None = None
    ) -> tuple[Array, Array]:
        """The same as places among some and others, in the order of some. Squared lengths may be given."""
        if not len(others_m):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        lengths_m = rows_m_D.square().sum(1) if lengths_m is None else lengths_m
        inner_n_m, least_n, doubt_n = self._inner(rows_n_D, rows_m_D, lengths_m, ROUNDING)
        i, j = hits(inner_n_m >= (least_n - doubt_n)[:, None])
        doubtful = np.flatnonzero(inner_n_m.numpy()[i, j] < (least_n + doubt_n).numpy()[i])
        if len(doubtful):
            kept = np.ones(len(i), bool)
            kept[doubtful] = self._exactly(some_n[i[doubtful]], others_m[j[doubtful]])
            i, j = i[kept], j[kept]
        return i, j

    def confirm(self, some_p: Array, others_p: Array, squared_p: Array, lengths_M: Array) -> Array:
        """`[p]` whether the points of pairs are within the radius of each other.

        Args:
            some_p: `[p]` numbers of the first points.
            others_p: `[p]` numbers of the second points.
            squared_p: `[p]` float32 squared distances.
            lengths_M: `[M]` squared lengths of all rows.
        """
        above_p = squared_p.astype(np.float64) - self._square
        doubt_p = 2 * ROUNDING * (lengths_M[some_p].astype(np.float64) + lengths_M[others_p])
        near_p: Array = above_p < -doubt_p
        doubtful = np.flatnonzero(np.abs(above_p) <= doubt_p)
        near_p[doubtful] = self._exactly(some_p[doubtful], others_p[doubtful])
        return near_p

    def _exactly(self, some_p: Array, others_p: Array) -> Array:
        """The same in float64."""
        near_p = np.empty(len(some_p), bool)
        for start in range(0, len(some_p), ROWS):
            part = slice(start, start + ROWS)
            apart_p_D = self._rows.take(some_p[part]) - self._rows.take(others_p[part])
            near_p[part] = apart_p_D.square().sum(1).numpy() <= self._square
        return near_p

    def possible(self, rows_n_D: Tensor, rows_m_D: Tensor, lengths_m: Tensor, rounding: float) -> Tensor:
        """`[n, m]` numbers that are negative where rows cannot be near; the next call may overwrite them."""
        inner_n_m, least_n, doubt_n = self._inner(rows_n_D, rows_m_D, lengths_m, rounding)
        return inner_n_m.sub_((least_n - doubt_n)[:, None])

    def _inner(
        self, rows_n_D: Tensor, rows_m_D: Tensor, lengths_m: Tensor, rounding: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`[n, m]` products, `[n]` how large they are at least within the radius, and `[n]` how wrong they may be."""
        lengths_n = rows_n_D.square().sum(1)
        # |x - y|² ≤ r² where <x, y> - |y|²/2 ≥ (|x|² - r²)/2
        inner_n_m = _products.shaped(len(rows_n_D), len(rows_m_D), rows_n_D.dtype)
        torch.addmm(lengths_m, rows_n_D, rows_m_D.T, beta=-0.5, out=inner_n_m)
        return inner_n_m, (lengths_n - self._square) / 2, rounding * (lengths_n + lengths_m.max())


def hits(mask_n_m: Tensor) -> tuple[Array, Array]:
    """Where a mask is true, row by row: quicker than `nonzero` where this is rare."""
    places = np.flatnonzero(mask_n_m.numpy())
    return np.divmod(places, mask_n_m.shape[1])


def exact_squares(some_n_D: Tensor, others_m_D: Tensor) -> Array:
    """`[n, m]` squared distances of float64 rows."""
    squared_n_m = torch.addmm(others_m_D.square().sum(1), some_n_D, others_m_D.T, alpha=-2)
    return squared_n_m.add_(some_n_D.square().sum(1)[:, None]).clamp_min_(0.0).numpy()
