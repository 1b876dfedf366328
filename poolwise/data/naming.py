"""What a user calls examples and classes: ids and class names, and which position or number each stands for."""

import difflib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data import frames
from poolwise.errors import LabelError, ParameterError, ShapeError

Id = str | int
"""What an example is called: a text or a whole number."""

# How many of the nearest names an error lists.
_LISTED = 3
# Names that are compared to find the nearest; of more, only those that begin alike.
_COMPARED = 20_000


def as_ids(ids: object, count: int) -> tuple[Id, ...]:
    """One id per example: all texts, or all whole numbers, each only once.

    Args:
        ids: a list, an array or a column. What is neither a text nor a number, such as a path, is written as a text.
        count: how many there must be.

    Example:
        >>> as_ids(["a.png", "b.png"], 2)
        ('a.png', 'b.png')
    """
    names = plain_ids(ids)
    if len(names) != count:
        raise ShapeError(f"ids must be {count} ids, one per example, not {len(names)}.")
    if len({type(name) for name in names}) > 1:
        raise ParameterError(
            "ids must be all texts or all whole numbers. Write them all as texts: list(map(str, ids))."
        )
    if len(set(names)) < count:
        seen: set[Id] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ParameterError(f"ids must be different from each other, but {twice!r} occurs more than once.")
    return names


def plain_ids(ids: object) -> tuple[Id, ...]:
    """Ids as texts and whole numbers of Python; a single one is a list of one."""
    if isinstance(ids, Tensor):
        ids = ids.detach().cpu().numpy()
    if isinstance(ids, str) or np.ndim(ids) == 0:  # type: ignore[arg-type]
        ids = [ids]
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    return tuple(_plain_id(name) for name in ids)  # type: ignore[attr-defined]


def _plain_id(name: Any) -> Id:
    if isinstance(name, str):
        return str(name)
    if isinstance(name, Integral) and not isinstance(name, bool):
        return int(name)
    if name is None or isinstance(name, bool | float | bytes | list | tuple | dict | np.bool_ | np.floating):
        raise ParameterError(f"an id must be a text or a whole number, not {name!r}.")
    return str(name)


def as_class_names(names: object) -> tuple[str, ...]:
    """The names of classes, in the order of their numbers: texts, each only once.

    Example:
        >>> as_class_names(["cat", "dog"])
        ('cat', 'dog')
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ParameterError(f"class_names must be a list of names, not {names!r}.")
    found = tuple(names)
    wrong = [name for name in found if not isinstance(name, str) or not name.strip()]
    if wrong:
        raise ParameterError(f"class_names must be texts that are not empty, not {wrong[0]!r}.")
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise ParameterError(f"class_names must be different from each other, but {twice!r} occurs more than once.")
    return tuple(map(str, found))


def text_labels(labels: object) -> list[str] | None:
    """Labels that are names of classes, or None if they are something else, such as numbers.

    Example:
        >>> text_labels(["cat", "dog"]), text_labels([0, 1])
        (['cat', 'dog'], None)
    """
    column = frames.as_column([labels] if isinstance(labels, str) else labels)
    if column.ndim != 1 or column.dtype.kind not in "UOT" or not column.size:
        return None
    names = column.tolist()
    return names if all(isinstance(name, str) for name in names) else None


def find_ids(ids: object, places: Mapping[Id, int]) -> Array:
    """`[n]` int64 positions of the examples with these ids.

    Args:
        ids: the ids.
        places: the position of each example by its id; -1 for an id that several examples have.
    Raises:
        LabelError: if there is no such id; it names the nearest ones.
    """
    names = plain_ids(ids)
    found = [places.get(name) for name in names]
    if None in found:
        name = names[found.index(None)]
        raise LabelError(f"there is no example with the id {name!r}.{nearest(name, places)}")
    if -1 in found:
        name = names[found.index(-1)]
        raise LabelError(f"several examples have the id {name!r}. Name this one by its position: positions=[...].")
    return np.array(found, np.int64)


def nearest(name: Id, known: Iterable[Id]) -> str:
    """A sentence with the names that are nearest to one that is unknown; empty if there are none.

    Example:
        >>> nearest("dgo", ["cat", "dog"])
        " The nearest is 'dog'."
    """
    names = list(known)
    numbers = sorted(other for other in names if isinstance(other, int))
    if isinstance(name, int) and numbers:
        at = bisect_left(numbers, name)
        found: Sequence[Id] = sorted(numbers[max(0, at - 2) : at + 2], key=lambda other: abs(other - name))[:_LISTED]
    else:
        texts = list(map(str, names))
        if len(texts) > _COMPARED:
            texts = [other for other in texts if other[:3].lower() == str(name)[:3].lower()][:_COMPARED]
        folded = {other.casefold(): other for other in reversed(texts)}
        close = difflib.get_close_matches(str(name).casefold(), folded, n=_LISTED)
        found = [folded[other] for other in close]
    if not found:
        return ""
    listed = ", ".join(map(repr, found))
    return f" The nearest {'is' if len(found) == 1 else 'are'} {listed}."
