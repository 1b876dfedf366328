"""Explicit randomness: independent named streams from one root seed.

Nothing here, or anywhere in Poolwise, reads or writes the global random state of Python, NumPy or PyTorch.
"""

import zlib
from numbers import Integral

import numpy as np
import torch

from poolwise.budget import shorten
from poolwise.errors import ParameterError


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A generator that depends on the seed and the names only, independent of every other stream.

    Args:
        seed: root seed, a whole number of at least 0.
        names: what the stream is for, such as `"gumbel"` or `("pick", 17)`.

    Example:
        >>> bool(stream(0, "noise").integers(100) == stream(0, "noise").integers(100))
        True
        >>> bool(stream(0, "noise").integers(2**62) == stream(0, "order").integers(2**62))
        False
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise ParameterError(f"seed must be a whole number of at least 0, not {shorten(seed)}. Try seed=0.")
    keys = [name if isinstance(name, int) else zlib.crc32(name.encode()) for name in names]
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=keys))


def child_seed(seed: int, *names: str | int) -> int:
    """A seed for something that has its own streams.

    Example:
        >>> child_seed(0, "member", 1) == child_seed(0, "member", 1)
        True
    """
    return int(stream(seed, *names).integers(2**62))


def torch_generator(seed: int, *names: str | int) -> torch.Generator:
    """A PyTorch generator for a named stream.

    Example:
        >>> torch.rand(2, generator=torch_generator(0, "weights")).shape
        torch.Size([2])
    """
    return torch.Generator().manual_seed(child_seed(seed, *names))


def gumbel(generator: np.random.Generator, size: int) -> np.ndarray:
    """`[size]` standard Gumbel draws. Adding them to log-weights and taking the largest samples by weight.

    Example:
        >>> gumbel(stream(0, "draw"), 3).shape
        (3,)
    """
    return -np.log(generator.standard_exponential(size))
