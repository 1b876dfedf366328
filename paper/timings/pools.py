"""The predictions that selection is timed on: a generator of any size, and an ensemble that was trained."""

import time
from dataclasses import dataclass
from functools import partial

import numpy as np

from paper.timings.stopwatch import Show
from poolwise import models
from poolwise.arrays import Array
from poolwise.data import Examples, Repeated, Subset, TensorExamples, load
from poolwise.data.pool import Pool
from poolwise.data.search import search
from poolwise.data.specs import find_spec
from poolwise.parallel import threads_an_operation
from poolwise.posteriors import DeepEnsemble
from poolwise.seeding import stream
from poolwise.training import Training

# A block of rows has a random stream of its own, so that the rows of a pool do not depend on how many follow.
_ROWS = 1 << 14
_FEATURES = 16

# MNIST as the paper splits it: 10,000 of the 60,000 training images are for validation.
_MNIST, _VALIDATION = "mnist", 10_000
# The paper starts from 20 labelled images.
_PER_CLASS = 2
MEMBERS = 5


def synthetic(N: int, K: int, C: int, seed: int = 0) -> Array:
    """`[N, K, C]` float32 log-probabilities that resemble those of an ensemble, for sizes that no data set has.

    A row is of one class and leans to a second one. Its logits are a signal that all members share (the first class
    above the second by an exponential margin, both above the rest by a gamma one that grows with `ln C`), plus noise of
    each member: linear in features that all members share, so that members disagree on directions, and two rows with
    like features tell like things about the members. Most rows are certain, few are informative, whatever K and C are.

    The constants were chosen by the predictions of a real ensemble, ten networks trained on 100 images of
    Fashion-MNIST. On 50,000 points with K = C = 10 the quantiles of the BALD score are, real in brackets, 50 % 0.02
    (0.03), 90 % 0.14 (0.17), 99 % 0.30 (0.31); more than 0.99 sure are 34 % (33 %). Of the b · N pairs, `lbb` compares
    1.1 % (0.9 %) for b = 10 and 1.8 % (2.3 %) for b = 100, `power-lbb` 0.02 % (0.02 %) and 0.8 % (0.2 %).
    """
    centres_C_D = stream(seed, "centres", C).standard_normal((C, _FEATURES)) / np.sqrt(_FEATURES)
    noise_K_D_C = np.stack([stream(seed, "member", C, k).standard_normal((_FEATURES, C)) for k in range(K)])
    layers_D_KC = 0.9 * noise_K_D_C.transpose(1, 0, 2).reshape(_FEATURES, K * C)
    log_probs = np.empty((N, K, C), np.float32)
    every = np.arange(_ROWS)
    for start in range(0, N, _ROWS):
        generator = stream(seed, "rows", C, start)
        first = generator.integers(C, size=_ROWS)
        second = (first + generator.integers(1, C, size=_ROWS)) % C
        margin, height = generator.exponential(6.0, _ROWS), np.log(C) + generator.gamma(5.0, 2.0, _ROWS)
        signal = np.zeros((_ROWS, C))
        signal[every, first], signal[every, second] = height, height - margin
        share = 1 / (1 + np.exp(margin))[:, None]
        features = (1 - share) * centres_C_D[first] + share * centres_C_D[second]
        features += 0.5 * generator.standard_normal((_ROWS, _FEATURES)) / np.sqrt(_FEATURES)
        features *= generator.gamma(8.0, 1 / 8, (_ROWS, 1))
        n = min(_ROWS, N - start)
        logits = (features[:n] @ layers_D_KC).reshape(n, K, C) + signal[:n, None]
        logits -= logits.max(2, keepdims=True)
        log_probs[start : start + n] = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    return log_probs


@dataclass(frozen=True)
class Trained:
    """Predictions of a trained ensemble.

    Attributes:
        log_probs: `[N, K, C]` float32.
        origin: what they are of, in words.
        predicting: seconds that predicting the pool took.
    """

    log_probs: Array
    origin: str
    predicting: float


def trained(N: int, steps: int, *, mnist: bool, show: Show) -> Trained:
    """Train an ensemble on 20 images, two per class, and predict a pool of N.

    Args:
        N: how many points.
        steps: of training.
        mnist: whether to take MNIST, if it is on this machine, and the BatchBALD network; otherwise, noisy copies of
            scikit-learn's digits and a small dense network.
        show: told what is being done.
    """
    if mnist and search(find_spec(_MNIST), None) is not None:
        labelled, pool, origin, network = _mnist()
    else:
        if mnist:
            show(f"{_MNIST} was not found, so digits are used: see `poolwise datasets`")
        labelled, pool, origin, network = _digits(N)
    shape = pool.batch(np.arange(1)).shape[1:]  # type: ignore[union-attr]
    ensemble = DeepEnsemble(
        partial(models.make, network, tuple(shape), 10), MEMBERS, training=Training(steps=steps), device="cpu"
    )
    show(f"training {MEMBERS} networks ({network}) on {len(labelled)} images")
    ensemble.fit(labelled, seed=0)
    show(f"predicting {N:,} images")
    pool = Subset(pool, np.arange(N))
    with threads_an_operation(1):
        started = time.perf_counter()
        predictions = ensemble.predict(pool)
        predicting = time.perf_counter() - started
    log_probs: Array = predictions.rows(np.arange(N)).log_probs.numpy()
    return Trained(log_probs, f"{origin}, an ensemble of {MEMBERS} `{network}`, 20 labelled images", predicting)


def _mnist() -> tuple[Examples, Examples, str, str]:
    """Labelled images, pool, what it is, network."""
    train = load(_MNIST).train
    assert isinstance(train, TensorExamples)
    kept = np.sort(stream(0, "pool").permutation(len(train))[_VALIDATION:])
    pool = Pool(train.take(kept))
    pool.start_balanced(_PER_CLASS)
    return pool.labelled_examples(), pool.unlabelled_examples(), "MNIST", "batchbald-cnn"


def _digits(N: int) -> tuple[Examples, Examples, str, str]:
    """Labelled images, pool, what it is, network."""
    train = load("digits").train
    pool = Pool(train)
    pool.start_balanced(_PER_CLASS)
    copies = Repeated(train, -(-N // len(train)))
    return pool.labelled_examples(), copies, "noisy copies of scikit-learn's digits", "mlp"
