"""DropQuery: k-means on the points whose predicted class is not stable (Gupte et al. 2024).

The paper drops features at random before the last layer, three times, and asks whether the class changes. A method here
sees predictions, not the last layer. So the K posterior samples take the place of the three masks. With MC dropout they
are predictions under K dropout masks; with an ensemble they are those of its members.
"""

import numpy as np
from torch import Tensor

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.predictions import Block
from poolwise.selection.clustering import k_means
from poolwise.selection.feature_blocks import Rows
from poolwise.selection.registry import method
from poolwise.selection.round_robin import nearest_to_mean, pick_in_turn
from poolwise.selection.task import Picks, Task


def inconsistency(block: Block) -> Tensor:
    """`[n]` share of the samples whose most likely class is not that of the mean; of equal classes, any counts."""
    mean_n_1_C = block.probs.mean(1, keepdim=True)
    likeliest_n_1_C = mean_n_1_C == mean_n_1_C.amax(2, keepdim=True)
    same_n_K = ((block.probs == block.probs.amax(2, keepdim=True)) & likeliest_n_1_C).any(2)
    return 1 - same_n_K.double().mean(1)


@method(
    "drop-query",
    summary="Points whose class differs between the samples, one from each cluster of their embeddings.",
    formula="of the points with the largest share_k [argmax p_k ≠ argmax p̄], at least filter · b: "
    "k-means into b, argmin_i |x_i - mean| of each cluster",
    paper="Gupte, Aklilu, Nirschl, Yeung-Levy: Revisiting Active Learning in the Era of Vision Foundation Models, "
    "TMLR 2024",
    needs=("predictions", "embeddings"),
    parameters={"filter": "Cluster at least this many points, times the batch size."},
    stochastic=True,
)
def drop_query(task: Task, *, filter: float = 25.0) -> Picks:
    """Select; the score of a pick is the share of the samples that disagree with the mean.

    Points that disagree equally are all clustered or all left out. If all samples agree everywhere, this is k-means on
    the whole pool.
    """
    if not 1 <= filter < np.inf:
        raise ParameterError(f"drop-query: filter must be finite and at least 1, not {filter}.")
    scores_N = task.scores(inconsistency)
    points_n = unstable(scores_N, int(np.ceil(filter * task.batch_size)))
    rows = Rows([task.embeddings], task.memory, points_n)
    found = k_means(rows, task.batch_size, task.generator("k-means"), task.memory)

    def best(members_m: Array, count: int) -> tuple[Array, Array]:
        places = nearest_to_mean(task.embeddings, points_n[members_m], count)
        return places, scores_N[points_n[members_m[places]]]

    picks = pick_in_turn(found, np.zeros(found.count, np.int64), task.batch_size, best)
    picks.indices = points_n[picks.indices]
    return picks


def unstable(scores_N: Array, least: int) -> Array:
    """`[n]` points with a score above one half, and as many more of the largest scores as it takes to have enough."""
    at = max(0, len(scores_N) - least)
    lowest = np.partition(scores_N, at)[at]
    return np.flatnonzero((scores_N >= lowest) | (scores_N > 0.5))
