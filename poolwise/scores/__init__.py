"""Scores of single points: predictions `[N, K, C]` in, one float64 number per point out, larger is better.

Each function takes log-probabilities (NumPy or PyTorch) or a `Predictions` object, of any size and wherever stored.
It returns a tensor for a tensor, and an array for anything else.
"""

from pathlib import Path

import torch
from torch import Tensor

from poolwise.arrays import Array, ArrayOrTensor
from poolwise.predictions import Predictions
from poolwise.scores import kernels
from poolwise.scores.kernels import Kernel
from poolwise.scores.pool import score_pool
from poolwise.scores.targets import target_probs

Targets = ArrayOrTensor | Predictions | str | Path

__all__ = ["bald", "conditional_entropy", "entropy", "epig", "least_confidence", "margin", "smocu"]


def __dir__() -> list[str]:
    return sorted(__all__)


def _pool(x: ArrayOrTensor | Predictions) -> Predictions:
    return x if isinstance(x, Predictions) else Predictions.from_log_probs(x, validate=False)


def _score(x: ArrayOrTensor | Predictions, pool: Predictions, kernel: Kernel) -> Array | Tensor:
    scores_N = score_pool(pool, kernel)
    return torch.from_numpy(scores_N) if isinstance(x, Tensor) else scores_N


def bald(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """BALD: mutual information between the label and the posterior sample, in nats (Houlsby et al. 2011).

    Args:
        x: `[N, K, C]` log-probabilities of the pool, or a `Predictions` object.
    Returns:
        `[N]` scores, each between 0 and `ln min(K, C)`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log(np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]]))
        >>> pw.scores.bald(x).round(3).tolist()
        [0.368, 0.0]
    """
    pool = _pool(x)
    return _score(x, pool, kernels.bald_of(pool))


def entropy(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """Entropy of the averaged prediction, in nats.

    Args:
        x: `[N, K, C]` log-probabilities of the pool, or a `Predictions` object.
    Returns:
        `[N]` scores, each between 0 and `ln C`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log(np.array([[[0.5, 0.5]], [[0.9, 0.1]]]))
        >>> pw.scores.entropy(x).round(3).tolist()
        [0.693, 0.325]
    """
    return _score(x, _pool(x), kernels.entropy)


def conditional_entropy(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """Entropy of each posterior sample's prediction, averaged over the samples, in nats.

    `entropy` is the sum of this and of `bald`. This part would stay even if the right sample were known.

    Args:
        x: `[N, K, C]` log-probabilities of the pool, or a `Predictions` object.
    Returns:
        `[N]` scores, each between 0 and `ln C`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log(np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]]))
        >>> pw.scores.conditional_entropy(x).round(3).tolist()
        [0.325, 0.693]
    """
    return _score(x, _pool(x), kernels.conditional_entropy)


def least_confidence(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """One minus the probability of the most likely class, of the averaged prediction.

    Args:
        x: `[N, K, C]` log-probabilities of the pool, or a `Predictions` object.
    Returns:
        `[N]` scores, each between 0 and `1 - 1 / C`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log(np.array([[[0.5, 0.3, 0.2]], [[0.9, 0.05, 0.05]]]))
        >>> pw.scores.least_confidence(x).round(3).tolist()
        [0.5, 0.1]
    """
    return _score(x, _pool(x), kernels.least_confidence)


def margin(x: ArrayOrTensor | Predictions) -> Array | Tensor:
    """One minus the lead of the most likely class over the second, of the averaged prediction.

    Args:
        x: `[N, K, C]` log-probabilities of the pool, or a `Predictions` object.
    Returns:
        `[N]` scores, each between 0 and 1; 1 for a tie.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log(np.array([[[0.5, 0.3, 0.2]], [[0.9, 0.05, 0.05]]]))
        >>> pw.scores.margin(x).round(3).tolist()
        [0.8, 0.15]
    """
    return _score(x, _pool(x), kernels.margin)


def epig(x: ArrayOrTensor | Predictions, targets: Targets) -> Array | Tensor:
    """EPIG: information about the labels of target points, averaged over them, in nats (Bickford Smith et al. 2023).

    Args:
        x: `[N, K, C]` log-probabilities of the pool, or a `Predictions` object.
        targets: `[R, K, C]` log-probabilities of the target points by the same K samples: an array, a file, or a
            `Predictions` object.
    Returns:
        `[N]` scores.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log(np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]]))
        >>> pw.scores.epig(x, targets=x[:1]).round(3).tolist()
        [0.222, 0.0]
    """
    pool = _pool(x)
    return _score(x, pool, kernels.epig(target_probs(targets, *pool.shape[1:], pool.dtype)))


def smocu(x: ArrayOrTensor | Predictions, targets: Targets, softness: float = 10.0) -> Array | Tensor:
    """SMOCU: expected fall of the cost of uncertainty at target points (Zhao et al. 2021).

    Args:
        x: `[N, K, C]` log-probabilities of the pool, or a `Predictions` object.
        targets: `[R, K, C]` log-probabilities of the target points by the same K samples: an array, a file, or a
            `Predictions` object.
        softness: how closely the soft maximum follows the true one; larger is closer.
    Returns:
        `[N]` scores.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log(np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]]))
        >>> pw.scores.smocu(x, targets=x[:1]).round(3).tolist()
        [0.251, 0.0]
    """
    pool = _pool(x)
    return _score(x, pool, kernels.smocu(target_probs(targets, *pool.shape[1:], pool.dtype), softness))
