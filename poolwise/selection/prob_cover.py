"""ProbCover: balls of one radius that cover as many points as possible (Yehuda et al. 2022)."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.parallel import ordered_map
from poolwise.selection.balls import COLUMNS, ROWS, Balls, piece, tiles
from poolwise.selection.clustering import k_means
from poolwise.selection.feature_blocks import Rows
from poolwise.selection.near_pairs import Found, near_pairs
from poolwise.selection.objective import EVALUATION_HELP, Evaluation, GreedyObjective
from poolwise.selection.purity import Purity
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


class Cover(GreedyObjective):
    """How many points are within the radius of the picks and of no labelled point.

    Which points are near which is kept as lists if these fit a quarter of the memory budget. Otherwise it is found
    again whenever it is needed; the answers are the same.

    Args:
        task: what to choose from, and how many.
        rows: the N points of the pool, and then the labelled points.
        radius: of the balls, in the units of the embeddings.
        found: what found the radius, and may have kept the pairs within it; None for a radius that was given.
    """

    floor = 0.0
    rounding = None  # gains are whole numbers

    def __init__(self, task: Task, rows: Rows, radius: float, found: Purity | None = None) -> None:
        super().__init__(task)
        self._rows, self._balls, self._N = rows, Balls(rows, radius), len(task.predictions)
        self._found = found
        self._open_N = np.ones(self._N, bool)
        self._room = task.memory // 4
        self._columns: Array | None = None
        self._starts_N, self._counts_N = np.zeros(self._N, np.int64), np.zeros(self._N, np.int64)

    def start(self) -> Array:
        """How many points each covers that no labelled point covers."""
        self._cover_by_labelled()
        self.pairs += self._N * int(self._open_N.sum())
        order_N, found = self._pairs()
        open_N, counts_N = self._open_N[order_N], np.zeros(self._N, np.int64)
        lists: dict[int, list[tuple[Array, Array]]] = {}  # of each piece: places in it, and points that are near
        room = self._room
        for first, second, i, j in found:
            for own, other, places, near in [(first, second, i, j), (second, first, j, i)][: 1 + (first != second)]:
                kept = open_N[other][near]
                places, near = places[kept], order_N[other][near[kept]]
                counts_N[own] += np.bincount(places, minlength=own.stop - own.start)
                room -= 4 * len(near)
                if room >= 0:
                    lists.setdefault(own.start, []).append((places, near.astype(np.int32)))
                else:
                    lists.clear()
            if second.stop == self._N:
                self.task.report("finding neighbours", first.stop, self._N)
        starts_N = np.cumsum(counts_N) - counts_N
        places_N = np.argsort(order_N)
        if room >= 0:
            self._starts_N, self._counts_N = starts_N[places_N], counts_N[places_N]
            self._columns = np.concatenate([_sorted(lists.pop(start)) for start in sorted(lists)])
        return counts_N[places_N].astype(np.float64)

    def _pairs(self) -> tuple[Array, Iterator[Found]]:
        """Pairs of near points: those that are known already, or found now."""
        if self._found is not None and self._found.keeps:
            return np.arange(self._N), self._found.pairs(self._balls)
        return near_pairs(self._rows, self._N, self._balls, self.task.memory // 2)

    def gains(self, indices_n: Array) -> Array:
        """How many open points each covers."""
        if self._columns is None:
            parts = [indices_n[start : start + ROWS] for start in range(0, len(indices_n), ROWS)]
            self.rows += len(indices_n)
            self.pairs += len(indices_n) * int(self._open_N.sum())
            return np.concatenate([np.empty(0), *ordered_map(self._count, parts)])
        starts_n, counts_n = self._starts_N[indices_n], self._counts_N[indices_n]
        ends_n = np.concatenate([[0], np.cumsum(counts_n)])
        entries = np.arange(ends_n[-1]) + np.repeat(starts_n - ends_n[:-1], counts_n)
        open_so_far = np.concatenate([[0], np.cumsum(self._open_N[self._columns[entries]])])
        return np.asarray(open_so_far[ends_n[1:]] - open_so_far[ends_n[:-1]], np.float64)

    def add(self, index: int) -> None:
        """Cover the points near a pick."""
        if self._columns is not None:
            start = self._starts_N[index]
            self._open_N[self._columns[start : start + self._counts_N[index]]] = False
            return
        covered = [others_m[near_1_m[0]] for others_m, near_1_m in self._near_open(np.array([index]))]
        self._open_N[np.concatenate([np.empty(0, np.int64), *covered])] = False

    def _cover_by_labelled(self) -> None:
        labelled = tiles(self._rows, COLUMNS, self._N, len(self._rows))

        def covered(tile: tuple[int, slice]) -> tuple[slice, Array]:
            rows_n_D, covered_n = piece(self._rows, tile), np.zeros(tile[1].stop - tile[1].start, bool)
            for known in labelled:
                some_n, others_m = _numbers(tile[1]), _numbers(known[1])
                covered_n |= self._balls.near(some_n, rows_n_D, others_m, piece(self._rows, known)).any(1)
            return tile[1], covered_n

        for part, covered_n in ordered_map(covered, tiles(self._rows, ROWS, 0, self._N) if labelled else []):
            self._open_N[part] = ~covered_n

    def _near_open(self, some_n: Array) -> Iterator[tuple[Array, Array]]:
        """Open points in pieces, and which of them are near some points."""
        rows_n_D = self._rows.take(some_n).float()
        for tile in tiles(self._rows, COLUMNS, 0, self._N):
            kept = np.flatnonzero(self._open_N[tile[1]])
            if len(kept):
                others_m = kept + tile[1].start
                whole_m_D = piece(self._rows, tile)
                rows_m_D = whole_m_D if len(kept) == len(whole_m_D) else whole_m_D[torch.from_numpy(kept)]
                yield others_m, self._balls.near(some_n, rows_n_D, others_m, rows_m_D)

    def _count(self, some_n: Array) -> Array:
        counts_n = np.zeros(len(some_n))
        for _, near_n_m in self._near_open(some_n):
            counts_n += near_n_m.sum(1)
        return counts_n


def _sorted(lists: list[tuple[Array, Array]]) -> Array:
    """Points near to the rows of a piece, row by row."""
    places, near = (np.concatenate(arrays) for arrays in zip(*lists, strict=True))
    result: Array = near[np.argsort(places, kind="stable")]
    return result


def _numbers(part: slice) -> Array:
    return np.arange(part.start, part.stop)


@method(
    "prob-cover",
    summary="Balls of one radius around the picks that cover as many points as possible.",
    formula="greedy max of |{j : min_{i∈S∪L} |x_i - x_j| ≤ radius}|",
    paper="Yehuda, Dekel, Hacohen, Weinshall: Active Learning Through a Covering Lens, NeurIPS 2022",
    needs=("embeddings", "labelled_embeddings"),
    parameters={
        "radius": "Of the balls, in the units of the embeddings; 'purity': the largest with enough pure balls.",
        "purity": "The share of balls that must have points of one k-means cluster only, for radius='purity'.",
        "evaluation": EVALUATION_HELP,
    },
    stochastic=True,
)
def prob_cover(
    task: Task,
    *,
    radius: Literal["purity"] | float = "purity",
    purity: float = 0.95,
    evaluation: Evaluation = "lazy",
) -> Picks:
    """Select greedily; the score of a pick is how many points it covers that nothing covered before.

    For the purity, pool and labelled points are clustered into as many clusters as there are classes, at least two.
    """
    if not 0 < purity <= 1:
        raise ParameterError(f"prob-cover: purity must be above 0 and at most 1, not {purity}.")
    if radius != "purity" and not 0 <= radius < np.inf:
        raise ParameterError(f"prob-cover: radius must be 'purity', or finite and at least 0, not {radius}.")
    rows = Rows([task.embeddings, task.labelled_embeddings], task.memory // 2)
    found = None
    if radius == "purity":
        classes = max(2, task.predictions.shape[2])
        clusters = k_means(rows, classes, task.generator("k-means"), task.memory)
        found = Purity(rows, clusters.cluster, purity, len(task.embeddings), task.memory // 4)
        radius = found.radius
    return Cover(task, rows, radius, found).pick(evaluation)
