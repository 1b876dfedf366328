"""Scores of single points: predictions `[N, K, C]` in, one float64 number a point out, larger is better.

Each function takes log-probabilities (NumPy or PyTorch) or a `Predictions` object, of any size and wherever stored,
and gives back a tensor for a tensor and an array for anything else.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.information import entropies, lookahead, uncertainty
from poolwise.information.pairs import Deviations
from poolwise.predictions import Block, Predictions
from poolwise.scores.pool import score_pool
from poolwise.scores.targets import target_probs

__all__ = ["bald", "conditional_entropy", "entropy", "epig", "least_confidence", "margin", "smocu"]


def _pool(x: object) -> Predictions:
    return x if isinstance(x, Predictions) else Predictions.from_log_probs(x, validate=False)


def _score(x: object, pool: Predictions, kernel: Callable[[Block], Tensor]) -> Array | Tensor:
    scores_N = score_pool(pool, kernel)
    return torch.from_numpy(scores_N) if isinstance(x, Tensor) else scores_N


def bald(x: object) -> Array | Tensor:
    """Mutual information between label and posterior sample, `[N]`, in nats (Houlsby et al. 2011)."""
    return _score(x, _pool(x), lambda block: entropies.bald(block.log_probs, block.probs, overwrite=True))


def entropy(x: object) -> Array | Tensor:
    """Entropy of the averaged prediction, `[N]`, in nats."""
    return _score(x, _pool(x), lambda block: entropies.predictive_entropy(block.probs))


def conditional_entropy(x: object) -> Array | Tensor:
    """Average entropy of the samples' predictions, `[N]`, in nats: the part that no amount of labels removes."""
    return _score(
        x, _pool(x), lambda block: entropies.conditional_entropy(block.log_probs, block.probs, overwrite=True)
    )


def least_confidence(x: object) -> Array | Tensor:
    """One minus the probability of the most likely class of the averaged prediction, `[N]`."""
    return _score(x, _pool(x), lambda block: uncertainty.least_confidence(block.probs))


def margin(x: object) -> Array | Tensor:
    """One minus the lead of the most likely class over the second, of the averaged prediction, `[N]`."""
    return _score(x, _pool(x), lambda block: uncertainty.margin(block.probs))


def epig(x: object, targets: object) -> Array | Tensor:
    """Mean information about the labels of target points `[R, K, C]`, `[N]`, in nats (Bickford Smith et al. 2023)."""
    pool = _pool(x)
    references = Deviations.of(target_probs(targets, *pool.shape[1:], pool.dtype))
    return _score(x, pool, lambda block: lookahead.expected_information(Deviations.of(block.probs), references))


def smocu(x: object, targets: object, softness: float = 10.0) -> Array | Tensor:
    """Expected fall of the cost of uncertainty at target points `[R, K, C]`, `[N]` (Zhao et al. 2021)."""
    pool = _pool(x)
    probs = target_probs(targets, *pool.shape[1:], pool.dtype)
    return _score(x, pool, lambda b: lookahead.expected_confidence_gain(Deviations.of(b.probs), probs, softness))
