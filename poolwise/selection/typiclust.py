"""TypiClust: the most typical point of each cluster (Hacohen, Dekel and Weinshall 2022).

The typicality of a point is one over its mean distance to its 20 nearest neighbours in its own cluster, or to all other
points of it if there are fewer. All distances are compared exactly: float32 first, then float64 for the points that
rounding leaves in doubt.
"""

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.parallel import ordered_map
from poolwise.selection.balls import exact_squares
from poolwise.selection.coverage_kernels import Scratch
from poolwise.selection.feature_blocks import ROUNDING, Rows
from poolwise.selection.registry import method
from poolwise.selection.round_robin import cluster_points, pick_in_turn, smallest
from poolwise.selection.task import Picks, Task

# How many pairs of points are compared at a time: their distances stay in the cache.
_ROWS, _COLUMNS = 512, 2048
# Squared distances below this, per feature, are rounding errors of float64: no number of the rows is above one.
_NOISE = 1e-15
# Up to this many points are compared in float64 at once.
_FEW = 128
# Of up to this many points, the distances of all pairs are kept at once, and made in strips.
_SQUARE, _STRIP = 2048, 128
_products = Scratch()


@method(
    "typiclust",
    summary="The most typical point of each cluster of the embeddings that has no label yet.",
    formula="k-means of pool and labelled points into min(|L| + b, clusters); of the least-labelled, largest clusters: "
    "argmax_i 1 / mean |x_i - x_j| over the nearest neighbours j in the cluster",
    paper="Hacohen, Dekel, Weinshall: Active Learning on a Budget: Opposite Strategies Suit High and Low Budgets, "
    "ICML 2022",
    needs=("embeddings", "labelled_embeddings"),
    parameters={
        "clusters": "Make at most this many clusters.",
        "neighbours": "How many nearest neighbours to measure the distance to.",
        "smallest_cluster": "Use smaller clusters only when no other has points left; 5 in the authors' program.",
    },
    stochastic=True,
)
def typiclust(task: Task, *, clusters: int = 500, neighbours: int = 20, smallest_cluster: int = 1) -> Picks:
    """Select; the score of a pick is its typicality.

    A point that is alone in its cluster has a typicality of 0. If the batch is larger than the number of clusters, the
    clusters are visited again, for their next most typical points.
    """
    if min(clusters, neighbours, smallest_cluster) < 1:
        raise ParameterError("typiclust: clusters, neighbours and smallest_cluster must each be at least 1.")
    found, labelled_G = cluster_points(task, clusters)
    small_G = np.bincount(found.cluster, minlength=found.count) < smallest_cluster

    def best(members_n: Array, count: int) -> tuple[Array, Array]:
        memory = task.memory if len(members_n) > _FEW else 0  # few rows are not needed in float32
        return most_typical(Rows([task.embeddings], memory, members_n), count, neighbours)

    return pick_in_turn(found, labelled_G, task.batch_size, best, last_G=small_G)


def most_typical(rows: Rows, count: int, neighbours: int) -> tuple[Array, Array]:
    """`[count]` the most typical rows, of equal ones the first, and their typicality."""
    n = len(rows)
    k = min(neighbours, n - 1)
    if k == 0:
        return np.zeros(1, np.int64), np.zeros(1)
    if n <= _FEW and len(rows.parts) == 1:
        x_n_D = rows.exact_block(0)
        squared_n_n = exact_squares(x_n_D, x_n_D)
        np.fill_diagonal(squared_n_n, np.inf)
        doubtful_m, squared_m_k = np.arange(n), np.sort(squared_n_n, 1)[:, :k]
    else:
        doubtful_m = _possibly_best(rows, count, k)
        squared_m_k = nearest_squares(rows, doubtful_m, k, torch.float64)
    squared_m_k[squared_m_k < _NOISE * rows.D] = 0.0
    mean_m = np.sqrt(squared_m_k).mean(1)
    order = smallest(mean_m, count)
    # Points without any distance between them are as typical as a float can say, in the units of the embeddings.
    return doubtful_m[order], 1 / np.maximum(mean_m[order] * rows.scale, 1e-12 * rows.scale)


def _possibly_best(rows: Rows, count: int, k: int) -> Array:
    """`[m]` the rows that could be among the most typical, by float32."""
    n = len(rows)
    if n <= _SQUARE and len(rows.parts) == 1:
        squared_n_k = all_nearest_squares(rows.block(0), k)
    else:
        squared_n_k = nearest_squares(rows, np.arange(n), k, torch.float32)
    lengths_n = torch.cat([rows.block(index).square().sum(1) for index in range(len(rows.parts))]).double().numpy()
    doubt_n_1 = ROUNDING * (lengths_n + lengths_n.max())[:, None]
    least_n = np.sqrt(np.maximum(squared_n_k - doubt_n_1, 0.0)).mean(1)
    most_n = np.sqrt(squared_n_k + doubt_n_1).mean(1)
    return np.flatnonzero(least_n <= np.partition(most_n, count - 1)[count - 1])


def all_nearest_squares(rows_n_D: Tensor, k: int) -> Array:
    """`[n, k]` squared distances of rows to their nearest others, up to rounding of float32: each pair is made once."""
    n = len(rows_n_D)
    lengths_n, squared_n_n = rows_n_D.square().sum(1), _products.shaped(n, n, torch.float32)
    for start in range(0, n, _STRIP):
        end = start + _STRIP
        strip_s_m = torch.addmm(lengths_n[start:], rows_n_D[start:end], rows_n_D[start:].T, alpha=-2)
        squared_n_n[start:end, start:] = strip_s_m.add_(lengths_n[start:end, None])
        squared_n_n[end:, start:end] = strip_s_m[:, _STRIP:].T
    squared_n_n.fill_diagonal_(torch.inf)
    parts = [np.partition(some.numpy(), k - 1, 1)[:, :k] for some in torch.split(squared_n_n, _STRIP)]
    nearest_n_k: Array = np.maximum(np.sort(np.concatenate(parts), 1), 0.0).astype(np.float64)
    return nearest_n_k


def nearest_squares(rows: Rows, some_m: Array, k: int, dtype: torch.dtype) -> Array:
    """`[m, k]` squared distances of some rows to their nearest others, in float32 or float64 arithmetic."""

    def search(part_r: Array) -> Array:
        own_r_D = rows.take(part_r).to(dtype)
        lengths_r_1 = own_r_D.square().sum(1, keepdim=True)
        found_r_k = torch.full((len(part_r), 0), torch.inf, dtype=dtype)
        for index, part in enumerate(rows.parts):
            block = rows.block(index) if dtype == torch.float32 else rows.exact_block(index)
            for start, columns_c_D in zip(
                range(part.start, part.stop, _COLUMNS), torch.split(block, _COLUMNS), strict=True
            ):
                squared_r_c = torch.addmm(columns_c_D.square().sum(1), own_r_D, columns_c_D.T, alpha=-2)
                _leave_out_selves(squared_r_c, part_r - start)
                found_r_k = torch.cat([found_r_k, squared_r_c], 1)
                found_r_k = found_r_k.topk(min(k, found_r_k.shape[1]), largest=False, sorted=False).values
        found_r_k = found_r_k.add_(lengths_r_1).clamp_min_(0.0).double()
        return found_r_k.sort(1).values.numpy()  # a fixed order of summation

    parts = [some_m[start : start + _ROWS] for start in range(0, len(some_m), _ROWS)]
    return np.concatenate(list(ordered_map(search, parts)))


def _leave_out_selves(squared_r_c: Tensor, columns_r: Array) -> None:
    """Make the distance of a row to itself infinite, if its column is among these."""
    here = np.flatnonzero((columns_r >= 0) & (columns_r < squared_r_c.shape[1]))
    squared_r_c[torch.from_numpy(here), torch.from_numpy(columns_r[here])] = torch.inf
