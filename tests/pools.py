"""Pools of predictions to test with: generic ones, degenerate ones, and strategies for hypothesis."""

import numpy as np
from hypothesis import strategies as st


def normalise(logits):
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def pool(N, K, C, seed=0, scale=2.0, dtype=np.float32):
    """`[N, K, C]` log-probabilities without ties: each point has its own mean, each sample its own deviation."""
    draw = np.random.default_rng(seed)
    return normalise(scale * (draw.normal(size=(N, 1, C)) + draw.normal(size=(N, K, C)))).astype(dtype)


def one_hot(labels, C, dtype=np.float32):
    """Certain predictions of the labels `[N, K]`."""
    labels = np.asarray(labels)
    result = np.full((*labels.shape, C), -np.inf, dtype)
    np.put_along_axis(result, labels[..., None], 0.0, 2)
    return result


def uniform(N, K, C, dtype=np.float32):
    return np.full((N, K, C), -np.log(C), dtype)


def features(N, D=6, seed=0):
    return np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)


def messy(N, K, C, seed, dtype=np.float32):
    """A pool with certain points, points that all samples agree on, uniform points and exact duplicates."""
    draw = np.random.default_rng(seed)
    result = pool(N, K, C, seed, float(draw.choice([0.05, 1.0, 3.0])), dtype)
    for i in draw.permutation(N)[: N // 6]:
        result[i] = one_hot(draw.integers(0, C, (1, K)), C)[0]
    for i in draw.permutation(N)[: N // 8]:
        result[i] = result[i, :1]
    for i in draw.permutation(N)[: N // 8]:
        result[i] = uniform(1, K, C)[0]
    copies = draw.permutation(N)[: N // 3]
    result[copies] = result[draw.integers(0, N, len(copies))]
    return result


def shapes(points=(1, 6), samples=(1, 6), classes=(2, 4)):
    return st.tuples(st.integers(*points), st.integers(*samples), st.integers(*classes))


@st.composite
def small_pools(draw, points=(1, 6), samples=(1, 6), classes=(2, 4), dtype=np.float64):
    """Small pools of any sharpness, now and then with certain members or members that agree."""
    N, K, C = draw(shapes(points, samples, classes))
    scale = draw(st.sampled_from([1e-3, 0.1, 1.0, 4.0, 30.0]))
    result = pool(N, K, C, draw(st.integers(0, 2**32 - 1)), scale, np.float64)
    kind = draw(st.sampled_from(["plain", "plain", "certain", "agreed"]))
    rows = draw(st.lists(st.integers(0, N - 1), max_size=N))
    for i in rows:
        if kind == "certain":
            labels = draw(st.lists(st.integers(0, C - 1), min_size=K, max_size=K))
            result[i] = one_hot([labels], C, np.float64)[0]
        elif kind == "agreed":
            result[i] = result[i, :1]
    return result.astype(dtype)
