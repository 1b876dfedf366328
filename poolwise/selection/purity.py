"""How large balls may be that should have points of one cluster only, and which points are near at that radius.

The radius is a quantile of the distances to the nearest stranger: a point of another cluster. Distances to some points
tell beforehand how large it can be at most. A pair that is farther apart than that matters neither for the radius nor
for what the balls cover. So every distance is made once, and the few that matter are kept until the radius is known.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.balls import COLUMNS, ROWS, Balls, exact_squares, hits, piece, tiles
from poolwise.selection.coverage_kernels import Scratch
from poolwise.selection.feature_blocks import ROUNDING, Rows
from poolwise.selection.near_pairs import Found

# How many rows tell beforehand how large the radius can be.
_SAMPLE = 256
# Rows that are compared with a piece at a time: their distances stay in the cache.
_STRIP = 128
_products = Scratch()


class Purity:
    """The largest radius at which a share of the balls have points of one cluster only.

    A ball is pure if its radius is below the distance to the nearest stranger. So the radius is a quantile of these
    distances, less a millionth. It is 0 if there is only one cluster.

    Args:
        rows: the points.
        cluster_M: `[M]` the cluster of each.
        purity: the share of the balls.
        count: of this many first rows, the pairs that may be within the radius are kept; a border between blocks.
        room: how many bytes these may take. If they take more, none are kept.

    Attributes:
        radius: in the units of the rows as they were given.
        keeps: whether pairs were kept.
    """

    def __init__(self, rows: Rows, cluster_M: Array, purity: float, count: int = 0, room: int = 0) -> None:
        self._rows, self._cluster_M, self._count, self._room = rows, cluster_M, count, room
        self.radius, self.keeps = 0.0, False
        if (cluster_M == cluster_M[0]).all():
            return
        self.keeps = room > 0
        self._impure = min(int((1 - purity) * len(rows) + 1e-9), len(rows) - 1)
        self._lengths_M = torch.cat([rows.block(index).square().sum(1) for index in range(len(rows.parts))])
        # Twice as much as rounding may change a squared distance.
        self._doubt = 4 * ROUNDING * float(rows.lengths.max())
        self._kept: list[tuple[slice, slice, Array, Array, Array]] = []
        self._squared_M = self._bounds()
        self._pass()
        self.radius = self._quantile()

    def pairs(self, balls: Balls) -> Iterator[Found]:
        """The pairs that were kept and are near, as `near_pairs` returns them; each is forgotten then.

        Args:
            balls: of this radius, or of a smaller one.
        """
        self._kept.reverse()
        lengths_M = self._lengths_M.numpy()
        while self._kept:
            first, second, i, j, squared = self._kept.pop()
            near = balls.confirm(
                i.astype(np.int64) + first.start, j.astype(np.int64) + second.start, squared, lengths_M
            )
            i, j = i[near], j[near]
            if first == second:
                other = i != j
                i, j = np.concatenate([i, j[other]]), np.concatenate([j, i[other]])
            yield first, second, i, j

    def _bounds(self) -> Array:
        """`[M]` at most how large the squared distance of each row to the nearest stranger is, up to rounding."""
        M, by_cluster = len(self._rows), np.argsort(self._cluster_M, kind="stable")
        some = by_cluster[np.linspace(0, M - 1, min(_SAMPLE, M)).astype(np.int64)]  # of two clusters at least
        some_s_D, lengths_s = self._rows.take(some).float(), self._lengths_M[torch.from_numpy(some)]
        clusters_M, squared_M = torch.from_numpy(self._cluster_M), np.empty(M)

        def measure(tile: tuple[int, slice]) -> None:
            squared_n_s = torch.addmm(lengths_s, piece(self._rows, tile), some_s_D.T, alpha=-2)
            squared_n_s.masked_fill_(clusters_M[tile[1], None] == clusters_M[torch.from_numpy(some)], torch.inf)
            squared_M[tile[1]] = squared_n_s.amin(1).add_(self._lengths_M[tile[1]]).numpy()

        for _ in ordered_map(measure, tiles(self._rows, COLUMNS, 0, M)):
            pass
        return squared_M

    def _most(self) -> float:
        """The squared distance of every pair that matters is at most this, by the bounds so far.

        With e for what rounding may change, doubt is 2e. The quantile of the bounds is at least the true one less e. So
        a stranger that is farther away than the former plus 2e, up to rounding, is farther away than the true one.
        Another 2e is for rounding of the comparison.
        """
        return float(np.partition(self._squared_M, self._impure)[self._impure]) + 2 * self._doubt

    def _pass(self) -> None:
        """Look at all pairs once: lower the bounds to the distances, and keep the pairs that may be near."""
        pieces = tiles(self._rows, COLUMNS, 0, len(self._rows))
        clusters_M, room, most = torch.from_numpy(self._cluster_M), self._room, self._most()

        def compare(
            pair: tuple[tuple[int, slice], tuple[int, slice]],
        ) -> tuple[bool, slice, slice, Array, Array, Array]:
            (_, first), (_, second) = pair
            rows_n_D, rows_m_D = piece(self._rows, pair[0]), piece(self._rows, pair[1])
            keeps, limit = self.keeps and second.stop <= self._count, most
            found = []
            for start in range(0, len(rows_n_D), _STRIP):
                own = slice(first.start + start, min(first.start + start + _STRIP, first.stop))
                skip = start if first == second else 0
                others = slice(second.start + skip, second.stop)
                squared_s_m = _products.shaped(own.stop - own.start, others.stop - others.start, torch.float32)
                rows_s_D = rows_n_D[start : start + _STRIP]
                torch.addmm(self._lengths_M[others], rows_s_D, rows_m_D[skip:].T, alpha=-2, out=squared_s_m)
                if not keeps:
                    squared_s_m.masked_fill_(clusters_M[own, None] == clusters_M[others], torch.inf)
                lengths_s = self._lengths_M[own]
                i, j = hits(squared_s_m <= (limit - lengths_s)[:, None])
                squared = squared_s_m.numpy()[i, j] + lengths_s.numpy()[i]
                i, j = i + start, j + skip
                if first == second:
                    once = i <= j
                    i, j, squared = i[once], j[once], squared[once]
                found.append((i.astype(np.uint16), j.astype(np.uint16), squared))
            i, j, squared = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
            return keeps, first, second, i, j, squared

        for kept, first, second, i, j, squared in ordered_map(
            compare, list(itertools.combinations_with_replacement(pieces, 2))
        ):
            strange = np.flatnonzero(self._cluster_M[first][i] != self._cluster_M[second][j])
            np.minimum.at(self._squared_M[first], i[strange], squared[strange])
            np.minimum.at(self._squared_M[second], j[strange], squared[strange])
            if second.stop == len(self._rows):
                most = self._most()
            if kept and self.keeps:
                room -= 8 * len(i)
                self._kept.append((first, second, i, j, squared))
                if room < 0:
                    self.keeps = False
                    self._kept.clear()

    def _quantile(self) -> float:
        """The radius. What rounding leaves in doubt is decided in float64."""
        squared_M = np.maximum(self._squared_M, 0.0)
        around = np.partition(squared_M, self._impure)[self._impure]
        below = int((squared_M < around - self._doubt).sum())
        doubtful_m = np.flatnonzero(np.abs(squared_M - around) <= self._doubt)
        exact_m = np.concatenate(
            [
                _exact_strangers(self._rows, self._cluster_M, doubtful_m[i : i + ROWS])
                for i in range(0, len(doubtful_m), ROWS)
            ]
        )
        place = self._impure - below
        return float(np.sqrt(np.partition(exact_m, place)[place]) * self._rows.scale * (1 - 1e-6))


def _exact_strangers(rows: Rows, cluster_M: Array, some_m: Array) -> Array:
    """`[m]` squared distances of some rows to the nearest row of another cluster, in float64."""
    own_m_D, nearest_m = rows.take(some_m), np.full(len(some_m), np.inf)
    for index, part in enumerate(rows.parts):
        squared = exact_squares(own_m_D, rows.exact_block(index))
        squared[cluster_M[some_m][:, None] == cluster_M[part]] = np.inf
        nearest_m = np.minimum(nearest_m, squared.min(1))
    return nearest_m
