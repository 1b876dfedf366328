"""Falcun: uncertain points, away from the picks in the space of predictions (Gilhuber et al. 2024)."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.information.entropies import mean_prediction
from poolwise.information.uncertainty import margin
from poolwise.predictions import Block
from poolwise.selection.point_features import PointFeatures
from poolwise.selection.power_bald import check_alpha
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


def mean_probs(block: Block) -> Tensor:
    """`[n, C]` float64 averaged predictions."""
    return mean_prediction(block.probs.double())


def approach(distance_N: Array, to_pick_N: Array) -> Array:
    """`[N]` distances to the nearest pick once there is one more, rescaled to lie between 0 and 1.

    Args:
        distance_N: `[N]` such distances before it.
        to_pick_N: `[N]` distances to the new pick.
    """
    nearest_N = np.minimum(distance_N, to_pick_N)
    nearest_N -= nearest_N.min()
    largest = nearest_N.max()
    return nearest_N / largest if largest > 0 else nearest_N


@method(
    "falcun",
    summary="Draws uncertain points whose predictions are unlike those of the picks.",
    formula="P(i) ∝ (u_i + d_i)^gamma; u = 1 - margin; d = |p̄_i - p̄_j|_1 to the nearest pick j, scaled to [0, 1] at "
    "each pick; d = u before the first",
    paper="Gilhuber, Beer, Ma, Seidl: FALCUN: A Simple and Efficient Deep Active Learning Strategy, ECML PKDD 2024",
    parameters={"gamma": "Power of the draw, above 0: larger is closer to taking the largest u + d."},
    stochastic=True,
)
def falcun(task: Task, *, gamma: float = 10.0) -> Picks:
    """Draw the batch; the score of a pick is its u + d."""
    check_alpha("falcun", gamma, "gamma")
    uncertainty_N = task.scores(lambda block: margin(block.probs.double()))
    points = PointFeatures(task, mean_probs, task.predictions.shape[2])
    generator = task.generator("falcun")
    distance_N, free_N = uncertainty_N, np.ones(len(uncertainty_N), bool)
    indices, scores = np.empty(task.batch_size, np.int64), np.empty(task.batch_size)
    for t in range(task.batch_size):
        relevance_N = np.where(free_N, uncertainty_N + distance_N, 0.0)
        indices[t] = index = _draw(relevance_N, free_N, gamma, generator)
        scores[t] = relevance_N[index]
        free_N[index] = False
        pick_C = points.of(int(index))
        distance_N = approach(distance_N, points.map(partial(_taxi, mean_C=pick_C)).numpy())
        task.report("picking", t + 1, task.batch_size)
    worthless = scores <= 0
    return Picks(indices, scores, 0.0, int(np.argmax(worthless)) if worthless.any() else None)


def _taxi(means_n_C: Tensor, mean_C: Tensor) -> Tensor:
    """`[n]` sums of absolute differences."""
    return torch.sub(means_n_C, mean_C).abs_().sum(1)


def _draw(relevance_N: Array, free_N: Array, gamma: float, generator: np.random.Generator) -> int:
    """One point by a power of its relevance; uniformly among the points left, if none has any."""
    largest = relevance_N.max()
    if largest <= 0:
        return int(generator.choice(np.flatnonzero(free_N)))
    weights_N = (relevance_N / largest) ** gamma
    cumulative_N = np.cumsum(weights_N)
    index = np.searchsorted(cumulative_N, generator.random() * cumulative_N[-1], "right")
    return int(min(index, np.flatnonzero(weights_N)[-1]))
