"""Predictions of labelled examples by a model that was trained without them, for the methods that calibrate."""

import numpy as np

from poolwise.arrays import Array
from poolwise.data.examples import Examples, Subset
from poolwise.data.pool import Pool
from poolwise.learning.model import Model
from poolwise.progress import Report
from poolwise.seeding import child_seed, stream

SHARE = 0.2
"""The share of the labels that is held out, rounded down."""


def held_out_part(labels_L: Array, seed: int) -> Array:
    """`[H]` which labels are held out, ascending: the same share of each class as far as possible.

    A class keeps at least one label to train on, so that H is 0 if each class has one label.

    Args:
        labels_L: `[L]` the classes of the labelled examples.
        seed: of the draw.

    Example:
        >>> held_out_part(np.array([0] * 10 + [1] * 5 + [2]), seed=0).shape
        (3,)
        >>> held_out_part(np.array([0, 1, 2]), seed=0).tolist()
        []
    """
    draw = stream(seed, "held out")
    order = draw.permutation(len(labels_L))
    place_L, size_L = np.empty(len(labels_L)), np.empty(len(labels_L))
    for label in np.unique(labels_L):
        own = order[labels_L[order] == label]
        place_L[own], size_L[own] = np.arange(len(own)) + draw.random(), len(own)
    # The point at rank r of the n in its class comes at (r + u) / n, so that classes take turns by their sizes.
    free = np.flatnonzero(place_L < size_L - 1)
    count = int(SHARE * len(labels_L))
    return np.sort(free[np.argsort((place_L / size_L)[free], kind="stable")[:count]])


def predict_held_out(
    model: Model, pool: Pool, validation: Examples | None, *, seed: int, memory: int | str, report: Report
) -> dict[str, object]:
    """What `select` takes: predictions of the labels that are held out, by a model of the others, and their classes.

    Args:
        model: the model; it stays as it is.
        pool: the pool.
        validation: examples for early stopping, or None.
        seed: of the draw and the training.
        memory: working memory.
        report: told about progress.
    """
    known, labels_L = pool.labelled_examples(), pool.labels
    part_H = held_out_part(labels_L, seed)
    if not len(part_H):
        return {"held_out_predictions": None, "held_out_labels": part_H}
    rest = np.setdiff1d(np.arange(len(labels_L)), part_H)
    other = model.untrained()
    other.fit(Subset(known, rest), validation, seed=child_seed(seed, "held-out training"), report=report)
    predictions = other.predict(Subset(known, part_H), memory=memory)
    return {"held_out_predictions": predictions, "held_out_labels": labels_L[part_H]}
