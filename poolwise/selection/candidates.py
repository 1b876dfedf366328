"""Restricting a selection to some points of the pool."""

import re
from numbers import Integral

import numpy as np

from poolwise.arrays import Array, ArrayOrTensor
from poolwise.budget import shorten
from poolwise.errors import BatchSizeError, ParameterError
from poolwise.seeding import stream

Candidates = ArrayOrTensor | str | int
"""A share such as `"10%"`, a number, a prefilter such as `"top:100000"`, or positions."""

_FORMS = 'a share like "10%", a number, positions, "top:100000" or "sample:100000"'


def choose(candidates: Candidates | None, allowed: Array | None, N: int, batch_size: int, seed: int) -> Array | None:
    """`[n]` sorted positions to choose from, or None for the whole pool.

    Args:
        candidates: None; a share such as `"10%"` or a number, drawn from the seed and never fewer than the batch size;
            or an array of positions.
        allowed: `[m]` sorted positions of the points that are not excluded; None for all.
        N: size of the pool.
        batch_size: how many points will be selected.
        seed: root seed of the draw.
    """
    if candidates is None:
        return allowed
    left = N if allowed is None else len(allowed)
    if isinstance(candidates, str):
        match = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,30})?)\s*%\s*", candidates)
        if match is None or not 0 < float(match[1]) <= 100:
            raise ParameterError(f"candidates must be {_FORMS}, not {shorten(candidates)}.")
        drawn = draw(int(np.ceil(float(match[1]) / 100 * left)), left, batch_size, seed)
        return drawn if allowed is None else allowed[drawn]
    if isinstance(candidates, Integral) and not isinstance(candidates, bool):
        if candidates < 1:
            raise ParameterError(f"candidates must be at least 1, not {shorten(candidates)}.")
        drawn = draw(int(candidates), left, batch_size, seed)
        return drawn if allowed is None else allowed[drawn]
    named = as_positions(candidates, N, "candidates", _FORMS)
    if len(named) == 0:
        raise ParameterError("candidates names no points. Leave it out to choose from the whole pool.")
    chosen = named if allowed is None else np.intersect1d(named, allowed, assume_unique=True)
    if len(chosen) < batch_size:
        excluded = "" if len(chosen) == len(named) else " that are not excluded"
        raise BatchSizeError(f"batch_size is {batch_size}, but candidates names only {len(chosen)} points{excluded}.")
    return chosen


def not_excluded(exclude: ArrayOrTensor | None, N: int, batch_size: int) -> Array | None:
    """`[n]` sorted positions of the points that may be chosen, or None for all.

    Args:
        exclude: positions of points that must not be chosen, or None.
        N: size of the pool.
        batch_size: how many points will be selected.
    """
    if exclude is None:
        return None
    excluded = as_positions(exclude, N, "exclude", "positions of points that must not be chosen")
    if len(excluded) == 0:
        return None
    allowed = np.setdiff1d(np.arange(N), excluded, assume_unique=True)
    if len(allowed) < batch_size:
        raise BatchSizeError(
            f"batch_size is {batch_size}, but only {len(allowed)} of the {N} points are left: exclude names "
            f"{len(excluded)}. Ask for fewer."
        )
    return allowed


def as_positions(given: ArrayOrTensor, N: int, what: str, expected: str) -> Array:
    """`[n]` sorted int64 positions in a pool of N points, each named once.

    Args:
        given: the positions in any order.
        N: size of the pool.
        what: the argument, for errors.
        expected: what it may be, for errors.
    """
    try:
        positions = np.asarray(given)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise ParameterError(f"{what} must be {expected}, not {shorten(given)}.") from error
    if positions.ndim == 1 and positions.size == 0:
        return np.empty(0, np.int64)
    if positions.ndim == 1 and positions.dtype == object and all(type(place) is int for place in positions):
        pass  # whole numbers too large for any of NumPy's types, which the range below refuses
    elif positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ParameterError(f"{what} must be {expected}, not {shorten(given)}.")
    low, high = int(positions.min()), int(positions.max())  # before any conversion, which could wrap
    if low < 0 or high >= N:
        wrong = low if low < 0 else high
        raise ParameterError(f"{what} must be positions between 0 and {N - 1}, and {shorten(wrong)} is not.")
    chosen = np.unique(positions.astype(np.int64))
    if len(chosen) < len(positions):
        raise ParameterError(f"{what} names some positions more than once. Name each once, as np.unique does.")
    return chosen


def draw(count: int, N: int, batch_size: int, seed: int) -> Array:
    """`[n]` sorted positions drawn at random, at least as many as the batch has."""
    chosen = stream(seed, "candidates").choice(N, min(N, max(count, batch_size)), replace=False)
    return np.sort(chosen)
