"""How good predictions are, once the labels are known.

All functions take the mean predictive probabilities `[N, C]`, averaged over the posterior samples, and the labels
`[N]`, and compute in float64. `evaluate` computes all of them from `[N, K, C]` predictions, wherever they are stored.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array, ArrayOrTensor, Values, as_array, as_view
from poolwise.data.examples import as_labels
from poolwise.errors import EmptyPoolError, LabelError, ParameterError, ShapeError
from poolwise.information.entropies import mean_prediction
from poolwise.parallel import one_thread_an_operation
from poolwise.predictions import Predictions
from poolwise.predictions.validation import check_block
from poolwise.progress import Report, silent

# A label that was given the probability zero costs -ln of this, 87.3 nats, and not infinity: one such label would
# otherwise hide all the others. It is the smallest normal float32, below which networks cannot tell numbers apart.
SMALLEST_PROBABILITY = torch.finfo(torch.float32).tiny

CALIBRATION_BINS = 15


def accuracy(probs: ArrayOrTensor, labels: Values) -> float:
    """Share of points whose most likely class is the label. Of equally likely classes, the first is taken.

    Args:
        probs: `[N, C]` probabilities, averaged over the posterior samples.
        labels: `[N]` labels, whole numbers from 0.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> pw.metrics.accuracy(np.array([[0.75, 0.25], [0.5, 0.5]]), [0, 1])
        0.5
    """
    return _points(probs, labels).accuracy()


def negative_log_likelihood(probs: ArrayOrTensor, labels: Values) -> float:
    """Mean of `-ln p(label)`, in nats. Smaller probabilities than `SMALLEST_PROBABILITY` (1.2e-38) count as that.

    Args:
        probs: `[N, C]` probabilities, averaged over the posterior samples.
        labels: `[N]` labels, whole numbers from 0.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> round(pw.metrics.negative_log_likelihood(np.array([[0.5, 0.5]]), [0]), 4)
        0.6931
    """
    return _points(probs, labels).negative_log_likelihood()


def brier(probs: ArrayOrTensor, labels: Values) -> float:
    """Mean of `Σ_c (p(c) - [c = label])²` (Brier 1950), from 0 to 2: summed over the classes, not averaged.

    Args:
        probs: `[N, C]` probabilities, averaged over the posterior samples.
        labels: `[N]` labels, whole numbers from 0.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> pw.metrics.brier(np.array([[0.5, 0.5]]), [0])
        0.5
    """
    return _points(probs, labels).brier()


def expected_calibration_error(probs: ArrayOrTensor, labels: Values) -> float:
    """How far confidence is from accuracy: `Σ_b (n_b / N) |accuracy_b - confidence_b|` (Guo et al. 2017).

    Points are put in 15 bins by the probability of their most likely class. Bin b = 1 … 15 has those above
    `(b - 1) / 15` and up to and including `b / 15`, both as float64. Empty bins do not count.

    Args:
        probs: `[N, C]` probabilities, averaged over the posterior samples.
        labels: `[N]` labels, whole numbers from 0.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> pw.metrics.expected_calibration_error(np.array([[0.75, 0.25]]), [0])
        0.25
    """
    return _points(probs, labels).expected_calibration_error()


def evaluate(
    predictions: Predictions,
    labels: Values,
    *,
    samples: int | None = None,
    memory: int | str = budget.DEFAULT,
    report: Report = silent,
) -> dict[str, float]:
    """All metrics, in one pass over the predictions, block by block.

    Args:
        predictions: `[N, K, C]` predictions.
        labels: `[N]` labels, whole numbers from 0.
        samples: how many of the K posterior samples to use, the first ones; all by default.
        memory: working memory beside the input, in bytes or as `"500MB"`; no result depends on it.
        report: called with (stage, done, total) as the work proceeds.
    Returns:
        `"accuracy"`, `"nll"`, `"brier"` and `"ece"`, as the functions of this module define them.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> predictions = pw.Predictions.from_probs(np.array([[[0.75, 0.25]], [[0.5, 0.5]]]))
        >>> pw.metrics.evaluate(predictions, [0, 1])["accuracy"]
        0.5
    """
    labels_N = _check_labels(labels, len(predictions), predictions.shape[2])
    if samples is not None and not 0 < samples <= predictions.shape[1]:
        raise ParameterError(f"samples must be from 1 to the {predictions.shape[1]} that there are, not {samples!r}.")
    points = _Points(*torch.empty(4, len(predictions), dtype=torch.float64))
    with one_thread_an_operation():
        means = predictions.scan(
            lambda block: mean_prediction(block.probs[:, :samples].double()), budget.parse(memory), report, "evaluating"
        )
        for rows, probs_n_C in means:
            points.put(rows, probs_n_C, labels_N[rows])
    return {
        "accuracy": points.accuracy(),
        "nll": points.negative_log_likelihood(),
        "brier": points.brier(),
        "ece": points.expected_calibration_error(),
    }


@dataclass(frozen=True)
class _Points:
    """What the metrics need to know of each point; all are `[N]` float64.

    Attributes:
        confidence: probability of the most likely class.
        correct: 1 where that class is the label, else 0.
        loss: `-ln p(label)`.
        distance: squared distance of the prediction from the certain prediction of the label.
    """

    confidence: Tensor
    correct: Tensor
    loss: Tensor
    distance: Tensor

    def put(self, rows: slice, probs_n_C: Tensor, labels_n: Tensor) -> None:
        """Fill in some points."""
        of_label_n = probs_n_C.gather(1, labels_n[:, None])[:, 0]
        error_n_C = probs_n_C.scatter_add(1, labels_n[:, None], torch.full_like(of_label_n, -1.0)[:, None])
        self.confidence[rows] = probs_n_C.amax(1)
        self.correct[rows] = (probs_n_C.argmax(1) == labels_n).double()
        self.loss[rows] = -of_label_n.clamp_min(SMALLEST_PROBABILITY).log()
        self.distance[rows] = error_n_C.square().sum(1)

    def accuracy(self) -> float:
        return float(self.correct.mean())

    def negative_log_likelihood(self) -> float:
        return float(self.loss.mean())

    def brier(self) -> float:
        return float(self.distance.mean())

    def expected_calibration_error(self) -> float:
        inner_edges = torch.arange(1, CALIBRATION_BINS, dtype=torch.float64) / CALIBRATION_BINS
        bin_N = torch.bucketize(self.confidence, inner_edges)  # an edge belongs to the bin below it
        gaps = torch.zeros(CALIBRATION_BINS, dtype=torch.float64).index_add_(0, bin_N, self.correct - self.confidence)
        return float(gaps.abs().sum() / len(bin_N))


def _points(probs: ArrayOrTensor, labels: Values) -> _Points:
    probs_N_C = as_view(as_array(probs, "probs"))
    if probs_N_C.ndim != 2:
        raise ShapeError(
            f"probs must be [N, C], averaged over the posterior samples, not {list(probs_N_C.shape)}. "
            "For [N, K, C] predictions use evaluate."
        )
    N, C = probs_N_C.shape
    if N == 0 or C == 0:
        raise EmptyPoolError(f"there is nothing to evaluate: probs have the shape [{N}, {C}].")
    stored, probs_N_C = probs_N_C.dtype, probs_N_C.double().contiguous()
    check_block(probs_N_C[:, None], probs_N_C[:, None], "probs", stored, np.arange(N))
    points = _Points(*torch.empty(4, N, dtype=torch.float64))
    points.put(slice(N), probs_N_C, _check_labels(labels, N, C))
    return points


def _check_labels(labels: Values, N: int, C: int) -> Tensor:
    labels_N = as_labels(labels, N)
    if labels_N.max() >= C:
        row = int(labels_N.argmax())
        raise LabelError(
            f"labels must be below the {C} classes of the predictions, but label {row} is {labels_N[row]}. "
            "Were the predictions made for other classes?"
        )
    return as_view(labels_N)


def kappa(first_n: Array, second_n: Array) -> float:
    """Cohen's kappa: agreement of two lists of classes, beyond what chance would give. 1 is full agreement.

    Args:
        first_n: `[n]` classes.
        second_n: `[n]` other classes of the same points.

    Example:
        >>> kappa(np.array([0, 1, 0, 1]), np.array([0, 1, 1, 1]))
        0.5
    """
    classes = int(max(first_n.max(), second_n.max())) + 1
    counts = np.zeros((classes, classes))
    np.add.at(counts, (first_n, second_n), 1)
    shares = counts / len(first_n)
    chance = float(shares.sum(0) @ shares.sum(1))
    return 1.0 if chance >= 1 else float((np.trace(shares) - chance) / (1 - chance))
