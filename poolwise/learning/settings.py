"""The settings of a learner."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch

from poolwise import budget
from poolwise.errors import ParameterError
from poolwise.seeding import stream
from poolwise.selection import registry
from poolwise.selection.inputs import only_features
from poolwise.selection.registry import Method, MethodLike

_COMMON = ("candidates", "information")  # parameters of every method


@dataclass(frozen=True)
class Settings:
    """What a learner is made with, beside its posterior and its data.

    Attributes:
        method: the `reference` of the selection method.
        parameters: its parameters, and `candidates` and `information`.
        batch_size: how many labels to ask for at a time.
        seed: root of all randomness.
        memory: working memory.
        agreement: whether the agreement of successive models is tracked.
        features: which features methods get, in words (see `Features.setting`); None for those that the method prefers.
        first: `"random"`, or the `reference` of the method that selects the first batch.
        test_samples: how many posterior samples a model is evaluated with; None for all.
    """

    method: str
    parameters: dict[str, Any]
    batch_size: int
    seed: int
    memory: int | str
    agreement: bool = False
    features: str | None = None
    first: str = "random"
    test_samples: int | None = None

    def check(self, method: Method) -> None:
        """Refuse what cannot be used, before any work is done.

        Args:
            method: the method that `self.method` refers to.
        """
        method.check({name: value for name, value in self.parameters.items() if name not in _COMMON})
        whole(self.batch_size)
        stream(self.seed)
        budget.parse(self.memory)


def first_method(first: MethodLike) -> Method | None:
    """The method that selects a first batch without labels, or None to draw it at random."""
    if isinstance(first, str) and first == "random":
        return None
    found = registry.resolve(first)
    found.check({})
    needs = found.inputs({})
    if not only_features(needs):
        beside = ", ".join(sorted(needs - {"embeddings", "labelled_embeddings"}))
        raise ParameterError(
            f"first={found.name!r} needs {beside}, and before the first labels there are only features. Choose random, "
            "or a method that needs embeddings only, such as max-herding or k-means."
        )
    return found


def whole(batch_size: object) -> int:
    """A batch size, or an error if it is none."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise ParameterError(f"batch_size must be a whole number of at least 1, not {batch_size!r}.")
    return int(batch_size)


def whole_samples(samples: object) -> int:
    """A number of posterior samples to evaluate with, or an error if it is none."""
    if isinstance(samples, bool) or not isinstance(samples, Integral) or samples < 1:
        raise ParameterError(f"test_samples must be a whole number of at least 1, not {samples!r}.")
    return int(samples)


def plain(value: Any) -> Any:
    """The value of a parameter, for JSON."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic | torch.Tensor) else value
