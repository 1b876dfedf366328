"""From what a caller holds (NumPy, PyTorch) to plain NumPy views, without a copy where none is needed."""

import warnings
from typing import Any

import numpy as np
import torch

from poolwise.errors import NotFiniteError, ShapeError

Array = np.ndarray[Any, np.dtype[Any]]
_FLOATS = (np.float16, np.float32, np.float64)


def as_array(values: object, what: str) -> Array:
    """A NumPy view of an array or tensor of floats.

    A copy is made only of what PyTorch cannot view: a list, bfloat16, memory of a GPU, negative strides or foreign byte
    order.
    """
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        if values.dtype == torch.bfloat16:
            values = values.float()
        values = values.resolve_neg().numpy()
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.dtype.type not in _FLOATS:
        raise ShapeError(
            f"{what} must be float16, float32 or float64, not {array.dtype}. "
            "Convert them, for example with x.astype('float32')."
        )
    if any(stride < 0 for stride in array.strides) or not array.dtype.isnative:
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    return array


def as_view(array: Array) -> torch.Tensor:
    """A tensor on the memory of an array, which may be read-only: nothing in Poolwise writes to what it is given."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def as_bytes(array: Array) -> memoryview:
    """The numbers of an array as bytes, one after another; without a copy if they are stored like that."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def as_embeddings(values: object, what: str, rows: int | None = None) -> Array:
    """`[N, D]` finite embeddings as a NumPy view, checked block by block.

    Args:
        values: an array, a tensor or a mapped file.
        what: what to call them in an error.
        rows: how many rows there must be, or None for any number.
    """
    array = as_array(values, what)
    if array.ndim != 2 or array.shape[1] == 0 or (rows is not None and len(array) != rows):
        expected = f"[{'N' if rows is None else rows}, D]"
        raise ShapeError(f"{what} must have shape {expected}, one row a point, not {list(array.shape)}.")
    step = max(1, (1 << 22) // array.shape[1])
    for start in range(0, len(array), step):
        finite = np.isfinite(array[start : start + step]).all(1)
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise NotFiniteError(f"{what} must be finite, but row {row} is not. Remove that row or repair it.")
    return array
