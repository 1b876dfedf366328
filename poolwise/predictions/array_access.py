"""Predictions as NumPy arrays: views of what is stored where it is in the right form, else converted block by block."""

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from poolwise import budget
from poolwise.arrays import Array, read_only
from poolwise.errors import NotEnoughMemoryError, PositionError
from poolwise.predictions.blocks import LOG_ZERO
from poolwise.predictions.sources import ArraySource

if TYPE_CHECKING:
    from poolwise.predictions.reading import PoolReader

Rows = slice | Array
"""Rows of a source: consecutive ones as a slice with a start and a stop, or `[n]` int64 positions."""

_ADVICE = (
    "Take a part, as in p[:1000].log_probs, loop over the blocks (for block in p), or use scan, which reads any size."
)


def as_numpy(predictions: "PoolReader", form: Literal["log_probs", "probs"]) -> Array:
    """`[N, K, C]` log-probabilities or probabilities, read-only where they are a view of what is stored.

    Args:
        predictions: of which points.
        form: which of the two.
    """
    view = _view(predictions, form)
    return _converted(predictions, form) if view is None else read_only(view)


def _view(predictions: "PoolReader", form: str) -> Array | None:
    """The stored numbers themselves, if a block would have the same and they are consecutive rows of an array."""
    source, rows = predictions.source, predictions.positions
    stored_as = {"log-probs": "log_probs", "probs": "probs"}.get(predictions.kind)
    if not isinstance(source, ArraySource) or not isinstance(rows, slice):
        return None
    if stored_as != form or source.dtype != predictions.dtype:
        return None
    predictions.check()
    if form == "log_probs":
        step = budget.block_rows(predictions.row_bytes, budget.DEFAULT)
        floor = LOG_ZERO[source.dtype]
        for start in range(rows.start, rows.stop, step):
            if not bool(source.part(slice(start, min(start + step, rows.stop))).amin() >= floor):
                return None
    view: Array = source.values[rows].numpy()
    return view


def _converted(predictions: "PoolReader", form: str) -> Array:
    N, K, C = predictions.shape
    name = form.replace("_", "-")
    budget.need(N * predictions.row_bytes, f"the {name} [{N:,}, {K:,}, {C:,}] as one array", _ADVICE)
    try:
        values = np.empty(predictions.shape, np.float64 if predictions.dtype == torch.float64 else np.float32)
    except MemoryError as error:
        raise NotEnoughMemoryError(
            f"there is no memory for the {name} as one array of {N * predictions.row_bytes / 1e9:,.1f} GB. {_ADVICE}"
        ) from error
    for rows, block in predictions.blocks():
        values[rows] = getattr(block, form).numpy()
    return values


def chosen(key: object, N: int) -> Rows:
    """Which of N rows an index means: a slice, positions from either end, a mask, or one position.

    Args:
        key: what stands between the brackets.
        N: how many rows there are.
    """
    if isinstance(key, slice):
        start, stop, step = key.indices(N)
        return slice(start, max(start, stop)) if step == 1 else np.arange(start, stop, step)
    if isinstance(key, torch.Tensor):
        key = key.detach().cpu().numpy()
    try:
        index = np.asarray(key)
    except ValueError as error:
        raise PositionError(f"predictions are indexed by positions, not by {budget.shorten(key)}.") from error
    if index.size == 0 and not isinstance(key, np.ndarray):
        index = index.astype(np.int64)  # an empty list has no type of its own
    if index.ndim == 0 and index.dtype.kind in "iu":
        index = index[None]
    if index.ndim != 1 or index.dtype.kind not in "iub" or isinstance(key, tuple):
        raise PositionError(
            "predictions are indexed along the points only: by a slice, a whole number, a list of whole numbers or a "
            f"mask of {N} true-or-false values, not by {budget.shorten(key)}."
        )
    if index.dtype.kind == "b":
        if len(index) != N:
            raise PositionError(f"a mask must have one value per point, {N}, not {len(index)}.")
        return np.flatnonzero(index)
    low, high = (int(index.min()), int(index.max())) if len(index) else (0, 0)
    if low < -N or high >= max(N, 1):
        wrong = low if low < -N else high
        raise PositionError(f"position {wrong} is outside the {N} points.")
    positions: Array = index.astype(np.int64)
    positions[positions < 0] += N
    return positions


def within(outer: Rows, inner: Rows) -> Rows:
    """Rows of a source, where `inner` are positions among `outer`."""
    if isinstance(outer, slice):
        if isinstance(inner, slice):
            return slice(outer.start + inner.start, outer.start + inner.stop)
        return np.add(inner, outer.start)
    found: Array = outer[inner]
    return found
