"""What the checks of a posterior work with: the posterior, its data, and comparisons of predictions."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data.examples import Examples, Subset, needed_labels
from poolwise.predictions import Predictions

# Probabilities are the same if they differ by no more than this: float32 sums round differently in other batches.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Case:
    """What every check gets.

    Attributes:
        fresh: makes a posterior that was not fitted.
        data: labelled examples to fit it on.
        deterministic: whether fitting has no randomness.
        before: the inputs and the labels, copied before any check.
    """

    fresh: Callable[[], Any]
    data: Examples
    deterministic: bool
    before: tuple[Any, Array]

    @classmethod
    def of(cls, fresh: Callable[[], Any], data: Examples, deterministic: bool) -> Self:
        """A case with copies of the data as they are now."""
        labels = needed_labels(data, "check_posterior").copy()
        return cls(fresh, data, deterministic, (copy.deepcopy(all_inputs(data)), labels))

    def fitted(self, seed: int = 0) -> Any:
        """A posterior that was fitted on all examples."""
        posterior = self.fresh()
        posterior.fit(self.data, seed=seed)
        return posterior

    def part(self, indices: object) -> Examples:
        """Some of the examples."""
        return Subset(self.data, np.asarray(indices))


class Unlabelled(Subset):
    """Examples whose labels are not known, as those of a pool are."""

    labels = None


def all_inputs(data: Examples) -> Any:
    """The inputs of all examples."""
    return data.batch(np.arange(len(data)))


def log_probabilities(predictions: Predictions) -> Array:
    """`[N, K, C]` as they are stored."""
    values: Array = predictions.rows(np.arange(len(predictions))).log_probs.numpy()
    return values


def probabilities(predictions: Predictions) -> Array:
    """`[N, K, C]` in double precision."""
    values: Array = np.exp(log_probabilities(predictions).astype(np.float64))
    return values


def how_far(first: Array, second: Array) -> str:
    """How much two arrays of probabilities differ, in words."""
    if first.shape != second.shape:
        return f"with another shape: {list(first.shape)}, not {list(second.shape)}"
    return f"by up to {float(np.abs(first - second).max()):.2g}"


def are_close(first: Array, second: Array) -> bool:
    """Whether two arrays of probabilities are the same up to rounding."""
    return first.shape == second.shape and bool(np.allclose(first, second, rtol=0, atol=_ROUNDING))


def are_rearranged(first: Array, second: Array) -> bool:
    """Whether two arrays of probabilities have the same rows, in any order."""
    distances = np.abs(first[:, None] - second).max((2, 3))
    return bool((distances.min(0) < _ROUNDING).all() and (distances.min(1) < _ROUNDING).all())


def unsafe_part(value: Any, where: str) -> str:
    """The first part of a state that cannot be loaded safely: where it is, and its type."""
    if isinstance(value, Mapping | list | tuple):
        parts = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, part in parts:
            if (found := unsafe_part(part, f"{where}[{key!r}]")) != "":
                return found
        return "" if type(value) in (dict, list, tuple) else f"{where}, {type(value).__name__}"
    safe = value is None or isinstance(value, Tensor | bool | int | float | str | bytes)
    return "" if safe else f"{where} of type {type(value).__name__}"


def are_same(first: Any, second: Any) -> bool:
    """Whether two batches of inputs are equal."""
    if isinstance(first, Mapping):
        return all(are_same(first[name], second[name]) for name in first)
    if isinstance(first, tuple):
        return all(are_same(*pair) for pair in zip(first, second, strict=True))
    return torch.equal(first, second) if isinstance(first, Tensor) else bool(first == second)
