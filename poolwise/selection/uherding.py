"""UHerding: points near to as much of the undecided part of the pool as possible (Bae et al. 2025).

The coverage is `Σ_j u_j max_{i∈S∪L} k(x_i, x_j)` over the pool. L are the labelled points, which cover already. Two
parameters adapt to the labels, so that the rule turns from coverage to uncertainty sampling as these grow.

*Weights.* `u_j = 1 - margin_j` of the mean prediction, at the temperature with the least calibration error; 1 while
nothing is labelled. The error is measured on held-out predictions: a model is trained on a part of the labels and
predicts the others. Where no label can be held out, the temperature is 1. Labelled points are not part of the pool, so
they have no weight.

*Bandwidth.* `k = exp(-|x_i - x_j|² / σ²)` on features of length one, with σ the smallest distance between two labelled
points whose features are not the same; 1 while there are none.

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
        "calibrate": "Whether to take margins at the temperature with the least calibration error on labelled points "
        "that were held out, instead of as predicted. A learner then trains a second model in each round, on a part "
        "of the labels.",
        "bandwidth": "The width σ of the kernel: a number, or 'adaptive' for the smallest distance between two "
        "labelled points.",
        "sample": SAMPLE_HELP,
        "evaluation": EVALUATION_HELP,
    },
    needs=(
        "predictions",
        "embeddings",
        "labelled_embeddings",
        "held_out_predictions if calibrate",
        "held_out_labels if calibrate",
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
    weights_N, notes = None, ["nothing is labelled: all points count the same"]
    if len(task.labelled_embeddings):
        temperature, note = _temperature(task) if calibrate else (1.0, "temperature 1, as calibrate=False says")
        weights_N = task.scores(lambda block: margin_at(block.probs, temperature))
        notes = [note]
    width = adaptive_bandwidth(task.labelled_embeddings) if bandwidth == "adaptive" else float(bandwidth)
    picks = herd(task, "uherding", width, weights_N, sample, evaluation)
    picks.notes = (*notes, f"bandwidth {width:.4g}")
    return picks


def _temperature(task: Task) -> tuple[float, str]:
    """The temperature for the margins, and what to say of it."""
    if task.held_out_predictions is None or task.held_out_labels is None:
        return 1.0, "temperature 1: no label could be held out to calibrate it"
    temperature, error, plain = calibrated(task.held_out_predictions, task.held_out_labels)
    return temperature, (
        f"temperature {temperature:.3g}: calibration error {error:.3f} on {len(task.held_out_labels)} labels that were "
        f"held out, {plain:.3f} at temperature 1"
    )


def adaptive_bandwidth(embeddings_L_D: Array) -> float:
    """The smallest distance above 0 between two points, with embeddings scaled to length one; 1 if there is none."""
    distance = smallest_distance(unit_rows(embeddings_L_D, 0, torch.float64))
    return distance if distance < np.inf else 1.0


def margin_at(probs_n_K_C: Tensor, temperature: float) -> Tensor:
    """`[n]` one minus the margin of the mean prediction, whose log-probabilities are divided by a temperature."""
    return uncertainty.margin(_at(probs_n_K_C.mean(1), temperature)[:, None])


def calibrated(predictions: Predictions, labels_H: Array) -> tuple[float, float, float]:
    """The temperature of the mean prediction with the least expected calibration error; of equal ones the nearest to 1.

    Args:
        predictions: `[H, K, C]` of labelled points, by a model that was trained without them. A model is nearly always
            right about what it was trained on, which would call for a temperature near 0 and says nothing about others.
        labels_H: `[H]` their classes.
    Returns:
        The temperature, its calibration error, and that of temperature 1.
    """
    sure_H_t, right_H = [], []
    for start in range(0, len(labels_H), 1024):
        places = np.arange(start, min(start + 1024, len(labels_H)))
        mean_n_C = predictions.rows(places).probs.mean(1).double()
        sure_H_t.append(np.stack([_at(mean_n_C, t).amax(1).numpy() for t in TEMPERATURES], 1))
        right_H.append(mean_n_C.argmax(1).numpy() == labels_H[places])
    sure, right = np.concatenate(sure_H_t), np.concatenate(right_H)
    errors = [calibration_error(sure[:, t], right) for t in range(len(TEMPERATURES))]
    # Sums of the same points in another order differ by rounding, which must not decide.
    best = min(range(len(TEMPERATURES)), key=lambda t: (round(errors[t], 9), abs(np.log(TEMPERATURES[t]))))
    return TEMPERATURES[best], errors[best], errors[TEMPERATURES.index(1.0)]


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
