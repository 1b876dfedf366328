"""The settings of a learner."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch

from poolwise import budget
from poolwise.errors import ParameterError
from poolwise.seeding import stream
from poolwise.selection.registry import Method

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
    """

    method: str
    parameters: dict[str, Any]
    batch_size: int
    seed: int
    memory: int | str
    agreement: bool = False

    def check(self, method: Method) -> None:
        """Refuse what cannot be used, before any work is done.

        Args:
            method: the method that `self.method` refers to.
        """
        method.check({name: value for name, value in self.parameters.items() if name not in _COMMON})
        whole(self.batch_size)
        stream(self.seed)
        budget.parse(self.memory)


def whole(batch_size: object) -> int:
    """A batch size, or an error if it is none."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise ParameterError(f"batch_size must be a whole number of at least 1, not {batch_size!r}.")
    return int(batch_size)


def plain(value: Any) -> Any:
    """The value of a parameter, for JSON."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic | torch.Tensor) else value
