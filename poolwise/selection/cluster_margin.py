"""Cluster-Margin: low-margin points, spread over clusters (Citovsky et al. 2021)."""

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.selection.embeddings import Embeddings, mean_of
from poolwise.selection.margin import scores as margin_scores
from poolwise.selection.ranking import top
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


def clusters(task: Task, points_n: Array, subsample: int, cluster_size: int) -> Array:
    """`[n]` cluster of each point.

    A random subsample of the pool is clustered by average linkage, cut at an average of `cluster_size` points per
    cluster. Every point then belongs to the cluster with the nearest centre.
    """
    source = task.embeddings
    pool = Embeddings(source, mean_of(source), task.memory)
    N = len(source)
    sampled = np.sort(task.generator("subsample").choice(N, min(subsample, N), replace=False))
    rows_m_D = pool.rows(sampled).double()
    count = max(1, len(sampled) // cluster_size)
    labels_m = _agglomerate(rows_m_D.numpy(), count) if len(sampled) > 1 else np.zeros(1, np.int64)
    labels = torch.from_numpy(np.asarray(labels_m, np.int64))
    sums_G_D = torch.zeros(count, rows_m_D.shape[1], dtype=torch.float64).index_add_(0, labels, rows_m_D)
    centres_G_D = (sums_G_D / torch.bincount(labels, minlength=count)[:, None]).float()
    half_lengths_G = centres_G_D.square().sum(1).div_(2)
    nearest_n = np.empty(len(points_n), np.int64)
    for start in range(0, len(points_n), 4096):
        part = slice(start, start + 4096)
        nearest_n[part] = (pool.rows(points_n[part]) @ centres_G_D.T).sub_(half_lengths_G).argmax(1).numpy()
    return nearest_n


def _agglomerate(rows_m_D: Array, count: int) -> Array:
    """`[m]` cluster of each row, by average linkage.

    SciPy's, since scikit-learn changes the warning filters while it runs, and these belong to all threads.
    """
    from scipy.cluster.hierarchy import linkage

    m = len(rows_m_D)
    merged = linkage(rows_m_D, "average")[: m - count, :2].astype(np.int64)
    parent = np.arange(m + len(merged))  # merging two nodes makes the next one, from m on
    parent[merged.ravel()] = m + np.repeat(np.arange(len(merged)), 2)
    while (above := parent[parent]).tolist() != parent.tolist():
        parent = above
    return np.unique(parent[:m], return_inverse=True)[1].reshape(-1)


@method(
    "cluster-margin",
    summary="Low-margin points, in turn from clusters of the embeddings, smallest cluster first.",
    formula="of the filter · b points with the smallest margin: one at random from each cluster, round after round",
    paper="Citovsky, DeSalvo, Gentile, Karydas, Rajagopalan, Rostamizadeh, Kumar: Batch Active Learning at Scale, "
    "NeurIPS 2021",
    needs=("predictions", "embeddings"),
    parameters={
        "filter": "How many low-margin points to choose from, times the batch size.",
        "subsample": "How many pool points to cluster; memory grows with its square and with the features.",
        "cluster_size": "Average number of clustered points in a cluster.",
    },
    stochastic=True,
)
def cluster_margin(task: Task, *, filter: float = 10.0, subsample: int = 5000, cluster_size: int = 10) -> Picks:
    """Select in turn; the score of a pick is one minus its margin."""
    if not 1 <= filter < np.inf or subsample < 1 or cluster_size < 1:
        raise ParameterError("cluster-margin: filter, subsample and cluster_size must each be finite and at least 1.")
    scores_N = margin_scores(task)
    count = min(len(scores_N), int(np.ceil(filter * task.batch_size)))
    points_n = top(scores_N, count)
    cluster_n = clusters(task, points_n, subsample, cluster_size)
    shuffled = task.generator("order").permutation(count)
    # The turn of a point is its place in the random order of its own cluster.
    by_cluster = shuffled[np.argsort(cluster_n[shuffled], kind="stable")]
    _, first, sizes = np.unique(cluster_n[by_cluster], return_index=True, return_counts=True)
    turn = np.arange(count) - np.repeat(first, sizes)
    order = np.lexsort((np.repeat(first, sizes), np.repeat(sizes, sizes), turn))
    indices = points_n[by_cluster[order[: task.batch_size]]]
    return Picks(indices, scores_N[indices], 0.0, None)
