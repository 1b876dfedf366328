"""Picking from clusters in turn: one point of each, then a second one of each, and so on."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.clustering import Clusters, k_means
from poolwise.selection.feature_blocks import Rows
from poolwise.selection.task import Picks, Task

# Of the q best points of some, given in ascending order: their places among them, best first, and their scores.
Best = Callable[[Array, int], tuple[Array, Array]]


def cluster_points(task: Task, most: int) -> tuple[Clusters, Array]:
    """Clusters of the pool and the labelled points: as many as there are labelled points and picks, and not more.

    Args:
        task: what to choose from, and how many.
        most: how many clusters there may be.
    Returns:
        The clusters of the N points of the pool, and `[G]` how many labelled points each has.
    """
    N, L = len(task.embeddings), len(task.labelled_embeddings)
    rows = Rows([task.embeddings, task.labelled_embeddings], task.memory)
    found = k_means(rows, min(L + task.batch_size, most), task.generator("k-means"), task.memory)
    labelled_G = np.bincount(found.cluster[N:], minlength=found.count)
    return replace(found, cluster=found.cluster[:N]), labelled_G


def pick_in_turn(
    clusters: Clusters, labelled_G: Array, batch_size: int, best: Best, last_G: Array | None = None
) -> Picks:
    """One point of each cluster, then a second one of each, and so on.

    Clusters with the fewest labelled points come first, and of those the largest.

    Args:
        clusters: clusters of the points.
        labelled_G: `[G]` how many labelled points each has.
        batch_size: how many points to pick.
        best: which points of a cluster to take.
        last_G: `[G]` clusters to visit only when no other has points left; None for no such cluster.
    """
    sizes_G = np.bincount(clusters.cluster, minlength=clusters.count)
    by_cluster = np.argsort(clusters.cluster, kind="stable")
    starts_G = np.cumsum(sizes_G) - sizes_G
    # The lowest point of a cluster decides last: the numbers of clusters have no meaning.
    lowest_G = by_cluster[np.minimum(starts_G, len(by_cluster) - 1)]
    order_G = np.lexsort((lowest_G, -sizes_G, labelled_G))
    last_G = np.zeros(clusters.count, bool) if last_G is None else last_G
    visits = [_turns(order_G[last_G[order_G] == late], sizes_G) for late in (False, True)]
    turns = np.concatenate(visits)[:batch_size]
    indices, scores = np.empty(batch_size, np.int64), np.empty(batch_size)

    def visit(group: int) -> None:
        members_n = by_cluster[starts_G[group] : starts_G[group] + sizes_G[group]]
        at = np.flatnonzero(turns == group)
        places, scores[at] = best(members_n, len(at))
        indices[at] = members_n[places]

    for _ in ordered_map(visit, np.unique(turns).tolist()):
        pass
    return Picks(indices, scores)


def _turns(order_g: Array, sizes_G: Array) -> Array:
    """Clusters in the order in which they are visited, each as often as it has points."""
    visits = np.repeat(order_g, sizes_G[order_g])
    sizes_g = sizes_G[order_g]
    turn = np.arange(len(visits)) - np.repeat(np.cumsum(sizes_g) - sizes_g, sizes_g)
    result: Array = visits[np.argsort(turn, kind="stable")]
    return result


def nearest_to_mean(source_N_D: Array, members_n: Array, count: int) -> Array:
    """`[count]` places of the points nearest to the mean of their cluster; equal up to rounding: the lowest."""
    if len(members_n) == 1:
        return np.zeros(1, np.int64)
    return smallest(Rows([source_N_D], 0, members_n).lengths, count)


def smallest(values_n: Array, count: int) -> Array:
    """`[count]` places of the smallest numbers, in order; of numbers that agree to nine digits the first ones."""
    mantissa_n, exponent_n = np.frexp(values_n)
    return np.argsort(np.ldexp(np.round(mantissa_n, 9), exponent_n), kind="stable")[:count]
