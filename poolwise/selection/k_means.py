"""k-means: the point nearest to the centre of each cluster, a plain rule for diversity."""

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.selection.registry import method
from poolwise.selection.round_robin import cluster_points, nearest_to_mean, pick_in_turn
from poolwise.selection.task import Picks, Task


@method(
    "k-means",
    summary="The point nearest to the centre of each cluster of the embeddings.",
    formula="k-means of pool and labelled points into min(|L| + b, clusters); "
    "argmin_i |x_i - mean| of each cluster without labelled points, largest first",
    paper="Lloyd: Least Squares Quantization in PCM, 1982; for active learning: Zhdanov: Diverse Mini-Batch Active "
    "Learning, 2019, without weights",
    needs=("embeddings", "labelled_embeddings"),
    parameters={"clusters": "Make at most this many clusters."},
    stochastic=True,
)
def k_means(task: Task, *, clusters: int = 5000) -> Picks:
    """Select; the score of a pick is how many pool points its cluster has.

    Labelled points are clustered too, and their clusters come last. So a batch covers what no label has covered yet.
    """
    if clusters < 1:
        raise ParameterError(f"k-means: clusters must be at least 1, not {clusters}.")
    found, labelled_G = cluster_points(task, clusters)

    def best(members_n: Array, count: int) -> tuple[Array, Array]:
        places = nearest_to_mean(task.embeddings, members_n, count)
        return places, np.full(count, float(len(members_n)))

    return pick_in_turn(found, labelled_G, task.batch_size, best)
