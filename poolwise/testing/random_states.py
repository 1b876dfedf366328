"""The global random states of Python, NumPy and PyTorch, which nothing may touch."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def states() -> dict[str, Any]:
    """The global random states by the name of their package, to be compared."""
    numpy_state = np.random.get_state()  # noqa: NPY002
    return {
        "Python": random.getstate(),
        "NumPy": (bytes(numpy_state[1]), numpy_state[2:]),  # type: ignore[index]
        "PyTorch": bytes(torch.get_rng_state().numpy()),
    }


@contextmanager
def states_put_back() -> Iterator[None]:
    """Put the global random states back at the end."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


def stir() -> None:
    """Move the global random states on."""
    random.random()
    np.random.random()  # noqa: NPY002
    torch.rand(1)
