"""From names of classes to their numbers."""

from collections.abc import Callable, Sequence

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import FileError

UNKNOWN = -1
"""Stands for a label that nobody has given yet."""


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
    return name.isascii() and name.removeprefix("-").isdecimal()
