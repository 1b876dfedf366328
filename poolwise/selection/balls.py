"""Which points are within a radius of which, and how large a radius may be: exact, in blocks, never N² in memory.

Most pairs are decided in float32. A pair that rounding leaves in doubt is decided in float64. So no decision depends on
the block it was made in.
"""

import itertools

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
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
        i, j = _hits(inner_n_m >= (least_n - doubt_n)[:, None])
        doubtful = np.flatnonzero(inner_n_m.numpy()[i, j] < (least_n + doubt_n).numpy()[i])
        if len(doubtful):
            wrong = np.ones(len(doubtful), bool)
            for start in range(0, len(doubtful), ROWS):
                part = doubtful[start : start + ROWS]
                apart = self._rows.take(some_n[i[part]]) - self._rows.take(others_m[j[part]])
                wrong[start : start + ROWS] = apart.square().sum(1).numpy() > self._square
            kept = np.ones(len(i), bool)
            kept[doubtful[wrong]] = False
            i, j = i[kept], j[kept]
        return i, j

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


def _hits(mask_n_m: Tensor) -> tuple[Array, Array]:
    """Where a mask is true, row by row: quicker than `nonzero` where this is rare."""
    places = np.flatnonzero(mask_n_m.numpy())
    return np.divmod(places, mask_n_m.shape[1])


def exact_squares(some_n_D: Tensor, others_m_D: Tensor) -> Array:
    """`[n, m]` squared distances of float64 rows."""
    squared_n_m = torch.addmm(others_m_D.square().sum(1), some_n_D, others_m_D.T, alpha=-2)
    return squared_n_m.add_(some_n_D.square().sum(1)[:, None]).clamp_min_(0.0).numpy()


def purity_radius(rows: Rows, cluster_M: Array, purity: float) -> float:
    """The largest radius at which this share of the balls have points of one cluster only.

    A ball is pure if its radius is below the distance to the nearest point of another cluster. So the radius is a
    quantile of these distances, less a millionth. It is 0 if there is only one cluster.
    """
    if (cluster_M == cluster_M[0]).all():
        return 0.0
    squared_M = _nearest_strangers(rows, cluster_M)
    impure = min(int((1 - purity) * len(rows) + 1e-9), len(rows) - 1)
    around = np.partition(squared_M, impure)[impure]
    doubt = 4 * ROUNDING * float(rows.lengths.max())
    below = int((squared_M < around - doubt).sum())
    doubtful_m = np.flatnonzero(np.abs(squared_M - around) <= doubt)
    exact_m = np.concatenate(
        [_exact_strangers(rows, cluster_M, doubtful_m[i : i + ROWS]) for i in range(0, len(doubtful_m), ROWS)]
    )
    return float(np.sqrt(np.partition(exact_m, impure - below)[impure - below]) * rows.scale * (1 - 1e-6))


def _nearest_strangers(rows: Rows, cluster_M: Array) -> Array:
    """`[M]` squared distance of each row to the nearest row of another cluster, up to rounding of float32."""
    pieces = tiles(rows, COLUMNS, 0, len(rows))
    squared_M = np.full(len(rows), np.inf)
    clusters = torch.from_numpy(cluster_M)

    def compare(pair: tuple[tuple[int, slice], tuple[int, slice]]) -> tuple[slice, slice, Array, Array]:
        first, second = pair
        rows_n_D, rows_m_D = piece(rows, first), piece(rows, second)
        lengths_n, lengths_m = rows_n_D.square().sum(1), rows_m_D.square().sum(1)
        squared_n_m = torch.addmm(lengths_m, rows_n_D, rows_m_D.T, alpha=-2)
        squared_n_m.masked_fill_(clusters[first[1], None] == clusters[second[1]], torch.inf)
        for_n = squared_n_m.amin(1).add_(lengths_n)
        for_m = squared_n_m.add_(lengths_n[:, None]).amin(0)
        return first[1], second[1], for_n.clamp_min_(0).double().numpy(), for_m.clamp_min_(0).double().numpy()

    for first, second, for_n, for_m in ordered_map(compare, list(itertools.combinations_with_replacement(pieces, 2))):
        squared_M[first] = np.minimum(squared_M[first], for_n)
        squared_M[second] = np.minimum(squared_M[second], for_m)
    return squared_M


def _exact_strangers(rows: Rows, cluster_M: Array, some_m: Array) -> Array:
    """`[m]` squared distances of some rows to the nearest row of another cluster, in float64."""
    own_m_D, nearest_m = rows.take(some_m), np.full(len(some_m), np.inf)
    for index, part in enumerate(rows.parts):
        squared = exact_squares(own_m_D, rows.exact_block(index))
        squared[cluster_M[some_m][:, None] == cluster_M[part]] = np.inf
        nearest_m = np.minimum(nearest_m, squared.min(1))
    return nearest_m
