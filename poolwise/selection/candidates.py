"""Restricting a selection to a part of the pool."""

import re
from numbers import Integral

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import BatchSizeError, ParameterError
from poolwise.seeding import stream


def choose(candidates: object, N: int, batch_size: int, seed: int) -> Array | None:
    """`[n]` sorted positions to choose from, or None for the whole pool.

    Args:
        candidates: None; a share such as `"10%"` or a number, drawn from the seed and never fewer than the batch size;
            or an array of positions.
        N: size of the pool.
        batch_size: how many points will be selected.
        seed: root seed of the draw.
    """
    if candidates is None:
        return None
    if isinstance(candidates, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", candidates)
        if match is None or not 0 < float(match[1]) <= 100:
            raise ParameterError(
                'candidates must be a share like "10%", a number, positions, "top:100000" or "sample:100000", not '
                f"{candidates!r}."
            )
        return draw(int(np.ceil(float(match[1]) / 100 * N)), N, batch_size, seed)
    if isinstance(candidates, Integral) and not isinstance(candidates, bool):
        if candidates < 1:
            raise ParameterError(f"candidates must be at least 1, not {candidates}.")
        return draw(int(candidates), N, batch_size, seed)
    positions = np.asarray(candidates)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ParameterError('candidates must be a share like "10%", a number, or a list of whole-number positions.')
    chosen = np.unique(positions).astype(np.int64)
    if len(chosen) < len(positions):
        raise ParameterError("candidates names some positions more than once.")
    if len(chosen) and (chosen[0] < 0 or chosen[-1] >= N):
        raise ParameterError(f"candidates must be positions between 0 and {N - 1}, not {chosen[0]} to {chosen[-1]}.")
    if len(chosen) < batch_size:
        raise BatchSizeError(f"batch_size is {batch_size}, but candidates names only {len(chosen)} points.")
    return chosen


def draw(count: int, N: int, batch_size: int, seed: int) -> Array:
    """`[n]` sorted positions drawn at random, at least as many as the batch has."""
    chosen = stream(seed, "candidates").choice(N, min(N, max(count, batch_size)), replace=False)
    return np.sort(chosen)
