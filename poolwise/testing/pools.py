"""Pools of predictions to try methods on: ordinary ones, and those that break careless code."""

import numpy as np

from poolwise.arrays import Array


def normalise(logits: Array) -> Array:
    """Log-probabilities from logits, normalised over the last axis."""
    top = logits.max(-1, keepdims=True)
    result: Array = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    return result


def pool(N: int, K: int, C: int, seed: int = 0, scale: float = 2.0) -> Array:
    """`[N, K, C]` float32 log-probabilities without ties: each point has a mean, each sample its own deviation."""
    draw = np.random.default_rng(seed)
    logits = scale * (draw.normal(size=(N, 1, C)) + draw.normal(size=(N, K, C)))
    return normalise(logits).astype(np.float32)


def one_hot(labels_N_K: Array, C: int) -> Array:
    """`[N, K, C]` certain predictions of some labels, with -inf for every other class."""
    result = np.full((*labels_N_K.shape, C), -np.inf, np.float32)
    np.put_along_axis(result, labels_N_K[..., None], 0.0, 2)
    return result


def features(N: int, D: int = 6, seed: int = 0) -> Array:
    """`[N, D]` embeddings."""
    return np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)


def degenerate(N: int = 24) -> dict[str, Array]:
    """Pools of N points in which little or nothing can be told apart, by name."""
    labels = np.random.default_rng(0).integers(0, 3, (N, 4))
    return {
        "certain predictions": one_hot(labels, 3),
        "certain predictions of one class": one_hot(np.zeros((N, 4), np.int64), 3),
        "uniform predictions": np.full((N, 4, 3), -np.log(3), np.float32),
        "identical points": np.repeat(pool(1, 4, 3), N, 0),
        "identical samples": np.repeat(pool(N, 1, 3), 4, 1),
        "copies of points": np.repeat(pool(-(-N // 5), 4, 3), 5, 0)[:N],
        "one sample": pool(N, 1, 3),
        "one class": pool(N, 4, 1),
        "two classes": pool(N, 4, 2),
        "many samples that hardly differ": pool(N, 70, 2, scale=0.01),
        "nearly certain predictions": pool(N, 4, 3, scale=60.0),
        "half precision": pool(N, 4, 3).astype(np.float16),
        "double precision": normalise(pool(N, 4, 3).astype(np.float64)),
    }


def copies(points: int, times: int, K: int = 6, C: int = 5) -> Array:
    """`[points · times, K, C]` every point several times over, `points` rows apart."""
    return np.tile(pool(points, K, C), (times, 1, 1))
