"""From what a caller has (NumPy, PyTorch) to plain NumPy views, without a copy where none is needed.

PyTorch is not imported here: it takes a second, and a value can only be a tensor if somebody has imported it before.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, Union

import numpy as np
import numpy.typing as npt

from poolwise.errors import NotFiniteError, ShapeError

if TYPE_CHECKING:
    from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]
ArrayOrTensor = Union[npt.ArrayLike, "Tensor"]
"""What a caller may pass where an array is wanted: NumPy, a PyTorch tensor, nested lists."""
Values = ArrayOrTensor | Sequence[Any]
"""One value per example, such as positions, ids, labels or names: an array, a tensor, a list, a column of a table."""

_FLOATS = (np.float16, np.float32, np.float64)
# Sums of squares of larger numbers leave the range of float64.
_LARGEST = 1e100


def is_tensor(value: object) -> "TypeGuard[Tensor]":
    """Whether this is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(values: object, what: str) -> Array:
    """A NumPy view of an array or tensor of floats.

    A copy is made only of what PyTorch cannot view: a list, bfloat16, memory of a GPU, negative strides, foreign byte
    order, or a field of a record array whose numbers are not aligned.

    Args:
        values: the array, tensor or nested list.
        what: what to call it in an error.
    """
    array = _from_tensor(values, what) if is_tensor(values) else _from_other(values, what)
    if array.dtype.type not in _FLOATS:
        raise _wrong_type(what, array.dtype)
    unusual = any(stride < 0 or stride % array.itemsize for stride in array.strides) or not array.flags.aligned
    if unusual or not array.dtype.isnative:
        array = np.array(array, array.dtype.newbyteorder("="), order="C")
    return array


def _from_tensor(values: "Tensor", what: str) -> Array:
    import torch

    if values.dtype == torch.bfloat16:
        values = values.detach().float()
    if values.dtype not in (torch.float16, torch.float32, torch.float64):
        raise _wrong_type(what, values.dtype)
    try:
        array: Array = values.detach().cpu().resolve_neg().numpy()
    except (TypeError, RuntimeError, NotImplementedError) as error:  # sparse, nested, on the meta device, ...
        raise ShapeError(
            f"{what} must be a dense tensor with values, not {values.layout} on {values.device}. "
            "Convert it, for example with x.to_dense()."
        ) from error
    return array


def _from_other(values: object, what: str) -> Array:
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        raise NotFiniteError(f"{what} are a masked array with missing values. Fill or drop them first.")
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "toarray"):
        raise ShapeError(
            f"{what} must be a dense array, and this is a sparse matrix. Pass x.toarray(); if that does not fit the "
            "memory, make fewer columns of it first, for example with sklearn.decomposition.TruncatedSVD."
        )
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise ShapeError(f"{what} cannot be read as one array of numbers: {str(error)[:200]}") from error


def _wrong_type(what: str, dtype: object) -> ShapeError:
    advice = "x.float()" if str(dtype).startswith("torch.") else "x.astype('float32')"
    return ShapeError(
        f"{what} must be float16, float32 or float64, not {str(dtype)[:60]}. Convert them, for example with {advice}."
    )


def as_view(array: Array) -> "Tensor":
    """A tensor on the memory of an array, which may be read-only: nothing in Poolwise writes to what it is given."""
    import torch

    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Alias(array)))


class _Alias:
    """The memory of a read-only array under a writable name.

    PyTorch warns of read-only arrays, and silencing a warning changes a setting that all threads share.
    """

    def __init__(self, array: Array) -> None:
        self._kept = array  # or its memory would be gone
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def as_bytes(array: Array) -> memoryview:
    """The numbers of an array as bytes, one after another; without a copy if they are stored like that."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def read_only(array: Array) -> Array:
    """A view of an array through which nothing can be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def same(first: object, second: object) -> bool:
    """Whether two values are equal; arrays by their shape, type of number and every value, where NaN equals NaN."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        if not (isinstance(first, np.ndarray) and isinstance(second, np.ndarray)):
            return False
        numbers = first.dtype.kind in "fc" and second.dtype.kind in "fc"
        return bool(np.array_equal(first, second, equal_nan=numbers))
    return bool(first == second)


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
        raise ShapeError(f"{what} must have shape {expected}, one row per point, not {list(array.shape)}.")
    step, largest = max(1, (1 << 20) // array.shape[1]), min(_LARGEST, float(np.finfo(array.dtype).max))
    for start in range(0, len(array), step):
        usable = (np.abs(array[start : start + step]) <= largest).all(1)  # which NaN is not
        if not usable.all():
            row = start + int(np.argmin(usable))
            raise NotFiniteError(
                f"{what} must be finite and at most {largest:.3g} in size, but row {row} is not. Remove that row or "
                "repair it."
            )
    return array
