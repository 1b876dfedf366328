"""Labels: whole numbers from 0, checked; and the numbers of classes that are given by name."""

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data import frames
from poolwise.errors import FileError, ParameterError, ShapeError

UNKNOWN = -1
"""Stands for a label that nobody has given yet."""

MOST_CLASSES = 1 << 20
"""More classes than any data set has. A label beyond this is an id or a damaged number, and would fill the memory."""


def as_labels(labels: object, count: int) -> Array:
    """`[N]` int64 labels, whole numbers from 0, read by position.

    Args:
        labels: an array, a tensor, a list, or a column of a table.
        count: how many there must be.

    Example:
        >>> as_labels([1, 0, 2], 3)
        array([1, 0, 2])
    """
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else frames.as_column(labels)
    if array.shape != (count,):
        raise ShapeError(f"labels must have shape [{count}], one per example, not {list(array.shape)}.")
    if count and (array.dtype.kind not in "iub" or array.min() < 0):
        raise ParameterError(
            "labels must be whole numbers from 0 (the position of the class in the list of classes), "
            f"not {_wrong_label(array)}. For names, map each name to its number first: "
            "`classes, numbers = np.unique(names, return_inverse=True)`."
        )
    if count and array.max() >= MOST_CLASSES:
        raise ParameterError(
            f"label {array.max()} is too large: labels number the classes from 0, and {MOST_CLASSES:,} classes are the "
            "most. Is it an id instead of a class?"
        )
    return array.astype(np.int64, copy=False)


def _wrong_label(array: Array) -> str:
    """What is wrong with labels, with the first that is."""
    if array.dtype.kind == "f" and np.isnan(array).any():
        return f"missing at position {int(np.isnan(array).argmax())}"
    if array.dtype.kind == "O" and None in (items := array.tolist()):
        return f"missing at position {items.index(None)}"
    wrong = array.min() if array.dtype.kind in "iu" else array[0]
    return f"{array.dtype} such as {wrong.item() if isinstance(wrong, np.generic) else wrong!r}"


def number(
    names: Sequence[str | None], classes: Sequence[str] | None, where: Callable[[int], str]
) -> tuple[Array, tuple[str, ...]]:
    """`[N]` int64 numbers of the classes, -1 where the name is None, and the names of the classes in order.

    Args:
        names: the name of the class of each example, None where it is unknown.
        classes: the classes in order; None takes those that occur, sorted (by value where all are whole numbers).
        where: says where an example comes from, for an error.
    """
    if classes is None:
        found = {name for name in names if name is not None}
        classes = sorted(found, key=int) if all(map(_is_whole, found)) else sorted(found)
    numbers: dict[str | None, int] = {name: position for position, name in enumerate(classes)}
    numbers[None] = UNKNOWN
    for position, name in enumerate(names):
        if name not in numbers:
            listed = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
            raise FileError(
                f"{where(position)}: {name!r} is not one of the {len(classes)} classes ({listed}). Correct the label, "
                "or add the class."
            )
    return np.array([numbers[name] for name in names], np.int64), tuple(classes)


def _is_whole(name: str) -> bool:
    return len(name) < 19 and name.isascii() and name.removeprefix("-").isdecimal()
