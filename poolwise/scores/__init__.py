"""Scores of single points: predictions `[N, K, C]` in, one float64 number per point out, larger is better.

Each function takes log-probabilities (NumPy or PyTorch) or a `Predictions` object of any size, wherever it is stored.
It returns a tensor for a tensor and a NumPy array for anything else.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from poolwise.arrays import Array, ArrayOrTensor
from poolwise.information import entropies, lookahead, uncertainty
from poolwise.information.pairs import Deviations
from poolwise.predictions import Block, Predictions
from poolwise.scores.pool import score_pool
from poolwise.scores.targets import target_probs

__all__ = ["bald", "conditional_entropy", "entropy", "epig", "least_confidence", "margin", "smocu"]


def __dir__() -> list[str]:
    return sorted(__all__)


def _pool(x: ArrayOrTensor | Predictions) -> Predictions:
    return x if isinstance(x, Predictions) else Predictions.from_log_probs(x, validate=False)


def _score(x: ArrayOrTensor | Predictions, pool: Predictions, kernel: Callable[[Block], Tensor]) -> Array | Tensor:
    scores_N = score_pool(pool, kernel)
    return torch.from_numpy(scores_N) if isinstance(x, Tensor) else scores_N


def bald(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """Mutual information between label and posterior sample, `[N]`, in nats (Houlsby et al. 2011).

    Example:
        >>> import numpy as np, poolwise as pw
        >>> certain = pw.Predictions.from_probs(np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]]))
        >>> pw.scores.bald(certain).round(3)
        array([0.693, 0.   ])
    """
    return _score(x, _pool(x), lambda block: entropies.bald(block.log_probs, block.probs, overwrite=True))


def entropy(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """Entropy of the averaged prediction, `[N]`, in nats.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> pw.scores.entropy(np.log(np.full((1, 3, 4), 0.25))).round(3)
        array([1.386])
    """
    return _score(x, _pool(x), lambda block: entropies.predictive_entropy(block.probs))


def conditional_entropy(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """Average entropy of the samples' predictions, `[N]`, in nats: what no number of labels would remove.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> pw.scores.conditional_entropy(np.log(np.full((1, 3, 4), 0.25))).round(3)
        array([1.386])
    """
    return _score(
        x, _pool(x), lambda block: entropies.conditional_entropy(block.log_probs, block.probs, overwrite=True)
    )


def least_confidence(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """One minus the probability of the most likely class of the averaged prediction, `[N]`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> pw.scores.least_confidence(np.log([[[0.75, 0.25]]])).round(3)
        array([0.25])
    """
    return _score(x, _pool(x), lambda block: uncertainty.least_confidence(block.probs))


def margin(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """One minus the lead of the most likely class over the second, of the averaged prediction, `[N]`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> pw.scores.margin(np.log([[[0.75, 0.25]]])).round(3)
        array([0.5])
    """
    return _score(x, _pool(x), lambda block: uncertainty.margin(block.probs))


def epig(x: ArrayOrTensor | Predictions, targets: ArrayOrTensor | Predictions | str | Path) -> Array | Tensor:
    """Mean information about the labels of target points `[R, K, C]`, `[N]`, in nats (Bickford Smith et al. 2023).

    Args:
        x: the pool.
        targets: predictions of the target points by the same K samples: an array, a file, or a `Predictions` object.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log([[[0.9, 0.1], [0.1, 0.9]]])
        >>> pw.scores.epig(x, targets=x).round(3)
        array([0.222])
    """
    pool = _pool(x)
    references = Deviations.of(target_probs(targets, *pool.shape[1:], pool.dtype))
    return _score(x, pool, lambda block: lookahead.expected_information(Deviations.of(block.probs), references))


def smocu(
    x: ArrayOrTensor | Predictions, targets: ArrayOrTensor | Predictions | str | Path, softness: float = 10.0
) -> Array | Tensor:
    """Expected fall of the cost of uncertainty at target points `[R, K, C]`, `[N]` (Zhao et al. 2021).

    Args:
        x: the pool.
        targets: predictions of the target points by the same K samples: an array, a file, or a `Predictions` object.
        softness: how closely the soft maximum follows the maximum.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log([[[0.9, 0.1], [0.1, 0.9]]])
        >>> bool(pw.scores.smocu(x, targets=x)[0] > 0)
        True
    """
    pool = _pool(x)
    probs = target_probs(targets, *pool.shape[1:], pool.dtype)
    return _score(x, pool, lambda b: lookahead.expected_confidence_gain(Deviations.of(b.probs), probs, softness))
