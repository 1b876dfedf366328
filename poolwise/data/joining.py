"""Examples joined end to end: rows that were appended to a pool."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data.batches import NamedExamples
from poolwise.data.examples import Examples, TensorExamples, TextExamples
from poolwise.data.labels import UNKNOWN
from poolwise.data.tokens import TokenExamples
from poolwise.errors import ParameterError, ShapeError


def join(first: Examples, second: Examples, labels_M: Array | None) -> Examples:
    """Two sets as one. What is in memory is copied to one array; other sets are read from where they are.

    Args:
        first: the first set, of N examples.
        second: the second set, of M examples of the same kind.
        labels_M: `[M]` labels of the second set, as the first numbers its classes, or None.

    Example:
        >>> import numpy as np
        >>> join(TextExamples(["a", "b"]), TextExamples(["c"]), None).batch(np.array([2, 0]))
        ['c', 'a']
    """
    labels = _labels(first, len(second), labels_M)
    if isinstance(first, TensorExamples) and isinstance(second, TensorExamples):
        joined = copy.copy(first)
        joined.inputs = torch.cat([first.inputs, _like(second, first)])
        joined.labels = labels
        return joined
    if isinstance(first, TextExamples) and isinstance(second, TextExamples):
        texts = copy.copy(first)
        texts.texts, texts.labels = [*first.texts, *second.texts], labels
        return texts
    if isinstance(first, TokenExamples) and isinstance(second, TokenExamples):
        tokens = TokenExamples(
            np.concatenate([first.ids.astype(np.int32), second.ids]), np.concatenate([first.lengths, second.lengths])
        )
        tokens.labels, tokens.class_names = labels, first.class_names
        return tokens
    if isinstance(first, NamedExamples) and isinstance(second, NamedExamples):
        named = copy.copy(first)
        named.tensors, named.labels = _cat_named(first.tensors, second.tensors), labels
        return named
    for one, other in ((first, second), (second, first)):
        if isinstance(one, TextExamples) and isinstance(other, TensorExamples):
            raise ParameterError("texts and numbers cannot be in one pool. Append rows of the same kind.")
    parts = (*first.parts, second) if isinstance(first, Joined) else (first, second)
    return Joined(parts, labels)


class Joined:
    """Sets of examples, one after another; nothing is copied.

    Args:
        parts: the sets.
        labels: `[N]` labels of all examples, -1 where unknown, or None.

    Attributes:
        parts: the sets.
        labels: `[N]` labels of all examples, or None.
        class_names: the names of the classes of the first set.
    """

    def __init__(self, parts: Sequence[Examples], labels: Array | None) -> None:
        self.parts, self.labels = tuple(parts), labels
        self.class_names = parts[0].class_names
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def batch(self, indices_n: Array) -> Any:
        """The inputs at some positions, in that order."""
        which_n = np.searchsorted(self._ends, indices_n, side="right")
        numbers = np.unique(which_n)
        if len(numbers) <= 1:
            number = int(numbers[0]) if len(numbers) else 0
            return self.parts[number].batch(indices_n - self._start(number))
        batches = [self.parts[part].batch(indices_n[which_n == part] - self._start(part)) for part in numbers]
        order_n = np.argsort(np.argsort(which_n, kind="stable"), kind="stable")
        return _ordered(_combined(batches), order_n)

    def _start(self, part: int) -> int:
        return int(self._ends[part - 1]) if part else 0


def _labels(first: Examples, M: int, labels_M: Array | None) -> Array | None:
    labels_N = first.labels
    if labels_N is None and labels_M is None:
        return None
    before = np.full(len(first), UNKNOWN, np.int64) if labels_N is None else labels_N
    return np.concatenate([before, np.full(M, UNKNOWN, np.int64) if labels_M is None else labels_M])


def _like(second: TensorExamples, first: TensorExamples) -> Tensor:
    """The inputs of the second set, as the first has them."""
    if first.inputs.shape[1:] != second.inputs.shape[1:]:
        raise ShapeError(
            f"rows of shape {list(second.inputs.shape[1:])} cannot be appended to a pool of rows of shape "
            f"{list(first.inputs.shape[1:])}. Make them the same shape first."
        )
    numbers = first.inputs.is_floating_point() == second.inputs.is_floating_point()
    if not numbers or (first.inputs.dtype == torch.uint8) != (second.inputs.dtype == torch.uint8):
        raise ParameterError(
            f"rows of {second.inputs.dtype} cannot be appended to a pool of {first.inputs.dtype}: they would be read "
            "in another way. Convert them."
        )
    if second.mean is not None and not (
        first.mean is not None
        and first.std is not None
        and second.std is not None
        and torch.equal(first.mean, second.mean)
        and torch.equal(first.std, second.std)
    ):
        raise ParameterError("the new images have another mean or std than the pool. Pass the images themselves.")
    if first.encoder != second.encoder:
        raise ParameterError(
            f"the pool has embeddings of {first.encoder or 'no encoder'}, the new rows of "
            f"{second.encoder or 'no encoder'}. Encode them alike."
        )
    return second.inputs.to(first.inputs.dtype)


def _cat_named(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if first.keys() != second.keys():
        raise ParameterError(
            f"the pool has the inputs {', '.join(first)}, the new rows {', '.join(second)}. Give them the same names."
        )
    return {name: torch.cat([value, second[name].to(value.dtype)]) for name, value in first.items()}


def _combined(batches: Sequence[Any]) -> Any:
    """Batches as one: tensors, texts, or dictionaries or tuples of such."""
    first = batches[0]
    if isinstance(first, Tensor):
        return torch.cat(list(batches))
    if isinstance(first, np.ndarray):
        return np.concatenate(batches)
    if isinstance(first, Mapping):
        return {name: _combined([batch[name] for batch in batches]) for name in first}
    if isinstance(first, tuple):
        return tuple(_combined(parts) for parts in zip(*batches, strict=True))
    return [item for batch in batches for item in batch]


def _ordered(batch: Any, order_n: Array) -> Any:
    """The rows of a batch in another order."""
    if isinstance(batch, Tensor):
        return batch[torch.from_numpy(order_n)]
    if isinstance(batch, np.ndarray):
        return batch[order_n]
    if isinstance(batch, Mapping):
        return {name: _ordered(value, order_n) for name, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_ordered(value, order_n) for value in batch)
    return [batch[place] for place in order_n.tolist()]
