"""Scores of single points: predictions `[N, K, C]` in, one float64 number a point out, larger is better.

Each function takes log-probabilities (NumPy or PyTorch) or a `Predictions` object, of any size and wherever stored,
and gives back a tensor for a tensor and an array for anything else.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from poolwise.information import entropies, lookahead, uncertainty
from poolwise.information.pairs import Deviations
from poolwise.predictions import Block, Predictions
from poolwise.predictions.arrays import Array
from poolwise.scores.pool import score_pool

__all__ = ["bald", "conditional_entropy", "entropy", "epig", "least_confidence", "margin", "smocu"]


def _score(x: object, kernel: Callable[[Block], Tensor]) -> Array | Tensor:
    predictions = x if isinstance(x, Predictions) else Predictions.from_log_probs(x, validate=False)
    scores_N = score_pool(predictions, kernel)
    return torch.from_numpy(scores_N) if isinstance(x, Tensor) else scores_N


def bald(x: object) -> Array | Tensor:
    """Mutual information between label and posterior sample, `[N]`, in nats (Houlsby et al. 2011)."""
    return _score(x, lambda block: entropies.bald(block.log_probs, block.probs, block.scratch))


def entropy(x: object) -> Array | Tensor:
    """Entropy of the averaged prediction, `[N]`, in nats."""
    return _score(x, lambda block: entropies.predictive_entropy(block.probs))


def conditional_entropy(x: object) -> Array | Tensor:
    """Average entropy of the samples' predictions, `[N]`, in nats: the part that no amount of labels removes."""
    return _score(x, lambda block: entropies.conditional_entropy(block.log_probs, block.probs, block.scratch))


def least_confidence(x: object) -> Array | Tensor:
    """One minus the probability of the most likely class of the averaged prediction, `[N]`."""
    return _score(x, lambda block: uncertainty.least_confidence(block.probs))


def margin(x: object) -> Array | Tensor:
    """One minus the lead of the most likely class over the second, of the averaged prediction, `[N]`."""
    return _score(x, lambda block: uncertainty.margin(block.probs))


def _targets(targets: object) -> Block:
    given = targets if isinstance(targets, Predictions) else Predictions.from_log_probs(targets)
    return given.rows(np.arange(len(given)))


def epig(x: object, targets: object) -> Array | Tensor:
    """Mean information about the labels of target points `[R, K, C]`, `[N]`, in nats (Bickford Smith et al. 2023)."""
    references = Deviations.of(_targets(targets).probs)
    return _score(x, lambda block: lookahead.expected_information(Deviations.of(block.probs), references))


def smocu(x: object, targets: object, softness: float = 10.0) -> Array | Tensor:
    """Expected fall of the cost of uncertainty at target points `[R, K, C]`, `[N]` (Zhao et al. 2021)."""
    probs = _targets(targets).probs
    return _score(x, lambda b: lookahead.expected_confidence_gain(Deviations.of(b.probs), probs, softness))
