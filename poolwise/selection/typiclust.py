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
from poolwise.selection.feature_blocks import ROUNDING, Rows
from poolwise.selection.registry import method
from poolwise.selection.round_robin import cluster_points, pick_in_turn, smallest
from poolwise.selection.task import Picks, Task

# How many pairs of points are compared at a time: their distances stay in the cache.
_ROWS, _COLUMNS = 512, 2048


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
        return most_typical(Rows([task.embeddings], task.memory, members_n), count, neighbours)

    return pick_in_turn(found, labelled_G, task.batch_size, best, last_G=small_G)


def most_typical(rows: Rows, count: int, neighbours: int) -> tuple[Array, Array]:
    """`[count]` the most typical rows, of equal ones the first, and their typicality."""
    n = len(rows)
    k = min(neighbours, n - 1)
    if k == 0:
        return np.zeros(1, np.int64), np.zeros(1)
    squared_n_k = nearest_squares(rows, np.arange(n), k, torch.float32)
    doubt_n_1 = ROUNDING * (rows.lengths + rows.lengths.max())[:, None]
    least_n = np.sqrt(np.maximum(squared_n_k - doubt_n_1, 0.0)).mean(1)
    most_n = np.sqrt(squared_n_k + doubt_n_1).mean(1)
    doubtful_m = np.flatnonzero(least_n <= np.partition(most_n, count - 1)[count - 1])
    mean_m = np.sqrt(nearest_squares(rows, doubtful_m, k, torch.float64)).mean(1)
    order = smallest(mean_m, count)
    # Points without any distance between them are as typical as a float can say, in the units of the embeddings.
    return doubtful_m[order], 1 / np.maximum(mean_m[order] * rows.scale, 1e-12 * rows.scale)


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
