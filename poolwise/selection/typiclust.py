"""TypiClust: the most typical point of each cluster (Hacohen, Dekel and Weinshall 2022).

The typicality of a point is one over its mean distance to its 20 nearest neighbours in its own cluster, or to all other
points of it if there are fewer. All distances are compared exactly: float32 first, then float64 for the points that
rounding leaves in doubt.
"""

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.selection.balls import exact_squares
from poolwise.selection.closest import closest
from poolwise.selection.feature_blocks import Rows
from poolwise.selection.registry import method
from poolwise.selection.round_robin import cluster_points, pick_in_turn, smallest
from poolwise.selection.task import Picks, Task

# Squared distances below this, per feature, are rounding errors of float64: no number of the rows is above one.
_NOISE = 1e-15
# Up to this many points are compared in float64 at once.
_FEW = 128


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
        doubtful_m, squared_m_k = closest(rows, count, k)
    squared_m_k[squared_m_k < _NOISE * rows.D] = 0.0
    mean_m = np.sqrt(squared_m_k).mean(1)
    order = smallest(mean_m, count)
    # Points without any distance between them are as typical as a float can say, in the units of the embeddings.
    return doubtful_m[order], 1 / np.maximum(mean_m[order] * rows.scale, 1e-12 * rows.scale)
