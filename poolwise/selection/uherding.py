"""UHerding: points near to as much of the undecided part of the pool as possible (Bae et al. 2025).

The coverage is `Σ_j u_j max_{i∈S∪L} k(x_i, x_j)` over the pool. L are the labelled points, which cover already. Two
parameters adapt to the labels, so that the rule turns from coverage to uncertainty sampling as these grow.

*Weights.* `u_j = 1 - margin_j` of the mean prediction, at the temperature that is calibrated best; 1 while nothing is
labelled. Labelled points are not part of the pool, so they count for nothing.

*Bandwidth.* `k = exp(-|x_i - x_j|² / σ²)` on features of length one, with σ the smallest distance between two labelled
points; 1 while there are none, or if two have the same features.

`calibrate=False, bandwidth=1.0` is *margin herding*: an ensemble's mean needs no calibration, and a fixed width.
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.information import uncertainty
from poolwise.predictions import Predictions
from poolwise.selection.coverage_kernels import unit_rows
from poolwise.selection.herding import SAMPLE_HELP, herd, smallest_distance
from poolwise.selection.objective import EVALUATION_HELP, Evaluation
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task

# Temperatures that are tried, from sharper to flatter; 1 is among them.
TEMPERATURES = tuple(float(t) for t in np.round(np.geomspace(0.1, 10.0, 41), 6))
# Confidences are compared with accuracies in this many bins of the same width, as is usual.
BINS = 15


@method(
    "uherding",
    summary="Points near to as much of the undecided part of the pool as possible: coverage weighted by uncertainty.",
    formula="greedy max of Σ_j u_j max_{i∈S∪L} exp(-|x_i - x_j|² / σ²), u = 1 - margin, x of length one",
    paper="Bae, Oliveira, Sutherland: Uncertainty Herding: One Active Learning Method for All Label Budgets, ICLR 2025",
    parameters={
        "calibrate": "Whether to take margins at the temperature with the least calibration error on the labelled "
        "points, instead of as predicted.",
        "bandwidth": "The width σ of the kernel: a number, or 'adaptive' for the smallest distance between two "
        "labelled points.",
        "sample": SAMPLE_HELP,
        "evaluation": EVALUATION_HELP,
    },
    needs=(
        "predictions",
        "embeddings",
        "labelled_embeddings",
        "labelled_predictions if calibrate",
        "labels if calibrate",
    ),
)
def uherding(
    task: Task,
    *,
    calibrate: bool = True,
    bandwidth: float | Literal["adaptive"] = "adaptive",
    sample: int | None = None,
    evaluation: Evaluation = "lazy",
) -> Picks:
    """Select greedily; points that cover equally much are taken in the order of the pool."""
    known = len(task.labelled_embeddings)
    weights_N = None
    if known:
        temperature = 1.0
        if calibrate and task.labelled_predictions is not None and task.labels is not None:
            temperature = calibrated(task.labelled_predictions, task.labels)
        weights_N = task.scores(lambda block: margin_at(block.probs, temperature))
    width = adaptive_bandwidth(task.labelled_embeddings) if bandwidth == "adaptive" else float(bandwidth)
    return herd(task, "uherding", width, weights_N, sample, evaluation)


def adaptive_bandwidth(embeddings_L_D: Array) -> float:
    """The smallest distance between two points whose embeddings are scaled to length one; 1 if that is 0 or unknown."""
    distance = smallest_distance(unit_rows(embeddings_L_D, 0, torch.float64))
    return distance if 0 < distance < np.inf else 1.0


def margin_at(probs_n_K_C: Tensor, temperature: float) -> Tensor:
    """`[n]` one minus the margin of the mean prediction, whose log-probabilities are divided by a temperature."""
    return uncertainty.margin(_at(probs_n_K_C.mean(1), temperature)[:, None])


def calibrated(predictions: Predictions, labels_L: Array) -> float:
    """The temperature of the mean prediction with the least expected calibration error on labelled points.

    It is fit on every other point, in the order of confidence, and judged on the rest: where it is no better there than
    1, it is 1. It is 1 as well if every point is predicted right. Then the model has most likely been trained on these
    points, and the smallest error, at temperature 0, says nothing about others. Predictions of each point by a model
    that was trained without it, as in cross-validation, calibrate better.

    Args:
        predictions: `[L, K, C]` of the labelled points.
        labels_L: `[L]` their classes.
    """
    sure_L_t, right_L = [], []
    for start in range(0, len(labels_L), 1024):
        places = np.arange(start, min(start + 1024, len(labels_L)))
        mean_n_C = predictions.rows(places).probs.mean(1)
        sure_L_t.append(np.stack([_at(mean_n_C, t).amax(1).numpy() for t in TEMPERATURES], 1))
        right_L.append(mean_n_C.argmax(1).numpy() == labels_L[places])
    sure, right = np.concatenate(sure_L_t), np.concatenate(right_L)
    if right.all():
        return 1.0
    fit, judge = _halves(sure, right)
    errors = [calibration_error(sure[fit, t], right[fit]) for t in range(len(TEMPERATURES))]
    # The smallest error; of equal ones the nearest to 1.
    best = min(range(len(TEMPERATURES)), key=lambda t: (errors[t], abs(np.log(TEMPERATURES[t]))))
    unit = TEMPERATURES.index(1.0)
    better = calibration_error(sure[judge, best], right[judge]) < calibration_error(sure[judge, unit], right[judge])
    return TEMPERATURES[best] if better else 1.0


def calibration_error(confidence_n: Array, right_n: Array) -> float:
    """How far confidences are from accuracies: over bins of confidence, weighted by how many points are in each."""
    if len(confidence_n) == 0:
        return 0.0
    bins_n = np.clip(np.ceil(confidence_n * BINS).astype(np.int64) - 1, 0, BINS - 1)
    surplus = np.bincount(bins_n, right_n - confidence_n, BINS)
    return float(np.abs(surplus).sum() / len(confidence_n))


def _at(probs_n_C: Tensor, temperature: float) -> Tensor:
    """`[n, C]` probabilities whose logarithms are divided by a temperature."""
    return probs_n_C if temperature == 1.0 else (probs_n_C.log() / temperature).softmax(1)


def _halves(sure_L_t: Array, right_L: Array) -> tuple[Array, Array]:
    """Positions of every other point in the order of confidence, and of the rest.

    The split depends on no order of points or classes, and both halves have confident points and others.
    """
    order = np.lexsort((right_L, *sure_L_t.T))
    return order[::2], order[1::2]
