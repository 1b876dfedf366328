"""Examples whose inputs are several tensors, and data that comes in a `DataLoader`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, default_collate

from poolwise.arrays import Array, Values
from poolwise.data.examples import DatasetExamples, Examples, as_labels
from poolwise.errors import ParameterError, ShapeError

Data = Tensor | Array | Examples | Sequence[Any] | tuple[Any, Any] | Mapping[str, Any] | Dataset[Any] | DataLoader[Any]
"""What can be trained on or predicted: a tensor or array `[N, ...]`; a pair (inputs, labels); a list of texts; tensors
by name; a `Dataset` of inputs, of (input, label) or of dictionaries; a `DataLoader` of one of those."""

_LABELS = ("labels", "label", "label_ids", "target", "targets")
# Items that are collated at a time to read their labels.
_BLOCK = 256


class NamedExamples:
    """Tensors by name, each with the examples as its first axis, as a Hugging Face tokenizer returns them.

    Args:
        tensors: `[N, ...]` tensors or arrays by name; one called `labels` (or `label`) is the labels.
        labels: `[N]` labels, whole numbers from 0, in place of those.
    """

    class_names: tuple[str, ...] | None = None

    def __init__(self, tensors: Mapping[str, Any], labels: Values | None = None) -> None:
        given = dict(tensors)
        found = [given.pop(name) for name in _LABELS if name in given]
        self.tensors = {name: _tensor(value, name) for name, value in given.items() if not _is_text(value)}
        sizes = {name: len(value) for name, value in self.tensors.items()}
        if len(set(sizes.values())) != 1:
            counts = ", ".join(f"{name}: {size}" for name, size in sizes.items()) or "none"
            raise ShapeError(f"named inputs must be tensors of the same number of examples. There are {counts}.")
        known = labels if labels is not None else found[0] if found else None
        self.labels = None if known is None else as_labels(known, len(self))

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))

    def batch(self, indices_n: Array) -> Any:
        """The tensors of some examples, by name."""
        rows_n = torch.from_numpy(indices_n)
        return {name: value[rows_n] for name, value in self.tensors.items()}


class CollatedExamples:
    """A data set whose items are dictionaries, tuples of several inputs and a label, or come with a collate function.

    Args:
        dataset: the data set; an item is a dictionary, or a tuple whose last part is the label.
        labels: `[N]` labels, if they are known without reading every item.
        collate: from a list of items to a batch; by default tensors of the same shape are stacked.
    """

    class_names: tuple[str, ...] | None = None

    def __init__(
        self, dataset: Any, labels: Values | None = None, collate: Callable[[list[Any]], Any] | None = None
    ) -> None:
        self.dataset, self._collate = dataset, collate or _stack
        self._labels = None if labels is None else as_labels(labels, len(dataset))
        self._read = labels is not None

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def labels(self) -> Array | None:
        """`[N]` labels: as given, or read once from the items; None where those have none."""
        if not self._read:
            blocks = [np.arange(start, min(start + _BLOCK, len(self))) for start in range(0, len(self), _BLOCK)]
            found = [_parted(self._collated(block))[1] for block in blocks]
            if found and found[0] is not None:
                self._labels = as_labels(np.concatenate([np.asarray(part) for part in found]), len(self))
            self._read = True
        return self._labels

    def batch(self, indices_n: Array) -> Any:
        """The inputs of some items: a tensor, tensors by name, or several tensors."""
        return _parted(self._collated(indices_n))[0]

    def _collated(self, indices_n: Array) -> Any:
        return self._collate([self.dataset[index] for index in indices_n.tolist()])


def from_dataset(dataset: Any, labels: Values | None = None) -> Examples:
    """Examples from a data set by what its items are."""
    item = dataset[0] if len(dataset) else None
    if isinstance(item, Mapping):
        return CollatedExamples(dataset, labels)
    if not isinstance(item, tuple) or len(item) < 2:
        return DatasetExamples(dataset, labels)
    label = item[-1]
    if isinstance(label, Tensor | np.ndarray) and label.ndim and max(label.shape) > 1:
        raise ShapeError(
            f"an item of the data set is a tuple, so its last part is taken as the label, but that has the shape "
            f"{list(label.shape)}. For several inputs, let an item be a dictionary with their names."
        )
    several = len(item) > 2 and all(getattr(part, "ndim", 0) for part in item[:-1])
    if several or isinstance(item[0], Mapping | tuple):
        return CollatedExamples(dataset, labels)
    return DatasetExamples(dataset, labels)


def from_loader(loader: DataLoader[Any], labels: Values | None = None) -> Examples:
    """The examples of a `DataLoader`, in the order of its data set; positions are positions in `loader.dataset`.

    A shuffling loader is read in that order as well, and every example once. Its batch size, its workers and
    `drop_last` are not used. Loaders that read only some of the examples, or some more than once, are refused.
    """
    dataset, sampler = loader.dataset, loader.sampler
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise ParameterError(
            "this DataLoader reads a stream (an IterableDataset), where examples have no positions. Collect them "
            "first: list(dataset) if they fit memory, or a Dataset with a length."
        )
    if loader.batch_size is None or not (
        type(sampler) is SequentialSampler
        or (type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == len(dataset))
    ):
        how = "batch_size=None" if loader.batch_size is None else f"a {type(sampler).__name__}"
        raise ParameterError(
            f"this DataLoader has {how}, so it is not clear which example is at which position. Pass loader.dataset, "
            "or torch.utils.data.Subset(loader.dataset, indices) for some of it."
        )
    if loader.collate_fn is default_collate:
        return from_dataset(dataset, labels)
    return CollatedExamples(dataset, labels, loader.collate_fn)


def _parted(batch: Any) -> tuple[Any, Any]:
    """The inputs of a collated batch, and its labels or None."""
    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in _LABELS if name in batch), None)
        named = {name: value for name, value in batch.items() if name not in _LABELS}
        return {name: value for name, value in named.items() if isinstance(value, Tensor)} or named, labels
    if isinstance(batch, tuple | list) and len(batch) > 1 and not isinstance(batch[0], str):
        *inputs, labels = batch
        single = inputs[0] if len(inputs) == 1 else tuple(inputs)
        return (tuple(single) if isinstance(single, list) else single), labels
    return (batch[0], None) if isinstance(batch, tuple | list) and len(batch) == 1 else (batch, None)


def _stack(items: list[Any]) -> Any:
    """Items of one kind as a batch: dictionaries by name, tuples by place with the label last, all else stacked."""
    if not isinstance(items[0], tuple):
        return _stack_inputs(items)
    *inputs, label = (list(part) for part in zip(*items, strict=True))
    return (*map(_stack_inputs, inputs), _stacked(label, "the label").reshape(len(items)))


def _stack_inputs(items: list[Any]) -> Any:
    first = items[0]
    if isinstance(first, Mapping):
        named = {name: [item[name] for item in items] for name in first if not _is_text(first[name])}
        return {name: _stacked(values, name) for name, values in named.items()}
    if isinstance(first, tuple):
        return tuple(_stack_inputs(list(part)) for part in zip(*items, strict=True))
    return list(items) if isinstance(first, str) else _stacked(items, "an input")


def _stacked(values: Sequence[Any], name: str) -> Tensor:
    try:
        return torch.stack([_tensor(value, name) for value in values])
    except RuntimeError as error:
        raise ShapeError(
            f"{name} differs in shape between examples ({error}). Pad them in a collate function: "
            "DataLoader(dataset, collate_fn=...), for Hugging Face DataCollatorWithPadding(tokenizer)."
        ) from error


def _tensor(value: Any, name: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        array = np.asarray(value)
        return torch.from_numpy(np.ascontiguousarray(array)) if array.ndim else torch.tensor(array.item())
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{name} is not one array of numbers ({error}). Pad texts of different length: "
            'tokenizer(texts, padding=True, return_tensors="pt").'
        ) from error


def _is_text(value: Any) -> bool:
    """Whether a value is a text or texts, which networks do not take: a text beside its tokens is left out."""
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and isinstance(value[0], str))
