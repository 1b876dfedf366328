"""Examples by position: what every loader returns, every posterior reads and the pool keeps track of.

A model asks for the inputs at some positions and gets one batch, as the network takes it. Sets that fit in memory are
kept as one tensor, so that a batch is one indexing operation and no Python runs per item.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from poolwise.arrays import Array, Values, as_view
from poolwise.data import frames
from poolwise.data.labels import as_labels
from poolwise.errors import MissingInputError, ParameterError, ShapeError

__all__ = [
    "DatasetExamples",
    "EncodedBy",
    "Examples",
    "Inputs",
    "Subset",
    "TensorExamples",
    "TextExamples",
    "as_examples",
    "as_labels",
    "needed_labels",
]

Inputs = Tensor | list[str]
"""A batch of inputs: a tensor whose first axis counts examples, or texts. For several tensors see `data.batches`."""


@runtime_checkable
class Examples(Protocol):
    """N inputs by position, with their labels where those are known.

    Any object with these members can be passed wherever Poolwise takes data.

    Example:
        >>> import numpy as np
        >>> isinstance(TextExamples(["good", "bad"], [1, 0]), Examples)
        True
    """

    @property
    def labels(self) -> Array | None:
        """`[N]` int64 labels, or None where there are none."""

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes, in the order of their numbers, or None."""

    def __len__(self) -> int: ...

    def batch(self, indices_n: Array) -> Inputs:
        """The inputs at some positions, in that order, as a model takes them.

        Args:
            indices_n: the positions.
        """


class EncodedBy(NamedTuple):
    """Which encoder made embeddings.

    Attributes:
        name: the checkpoint, or what its user calls it.
        fingerprint: a hash of its weights and settings, or None if it is not known.

    Example:
        >>> str(EncodedBy("minilm"))
        'minilm'
    """

    name: str
    fingerprint: str | None = None

    def __str__(self) -> str:
        return self.name if self.fingerprint is None else f"{self.name} ({self.fingerprint})"


class TensorExamples:
    """Inputs in one tensor.

    Bytes are images `[N, channels, height, width]`. They are kept as bytes, which takes a quarter of the memory, and
    scaled to 0 to 1 when a batch is read. Where `mean` and `std` are given, they are then centred and scaled per
    channel. Other whole numbers keep their type, since they may be ids. All other numbers become float32.

    Args:
        inputs: `[N, ...]` tensor.
        labels: `[N]` labels, whole numbers from 0, or None.
        class_names: the names of the classes.
        mean: mean of each channel after scaling to 0 to 1.
        std: standard deviation of each channel.

    Attributes:
        encoder: which encoder made the inputs, or None.

    Example:
        >>> import numpy as np, torch
        >>> examples = TensorExamples(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), [0, 1], ["no", "yes"])
        >>> examples.batch(np.array([1]))
        tensor([[3., 4.]])
    """

    encoder: "EncodedBy | None" = None

    def __init__(
        self,
        inputs: Tensor,
        labels: Values | None = None,
        class_names: Sequence[str] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        if inputs.ndim < 2:
            raise ShapeError(f"inputs must be [N, ...] with at least two axes, not {list(inputs.shape)}.")
        if inputs.dtype == torch.uint8 and inputs.ndim != 4:
            raise ShapeError(
                f"inputs of bytes are taken as images [N, channels, height, width], not {list(inputs.shape)}. "
                "Add the axis of channels, or convert other data with .float()."
            )
        self.inputs = inputs
        self.labels = None if labels is None else as_labels(labels, len(inputs))
        self.class_names = None if class_names is None else tuple(class_names)
        channels = None if mean is None or std is None else (-1, *[1] * (inputs.ndim - 2))
        self.mean = None if mean is None or channels is None else torch.tensor(list(mean)).view(channels)
        self.std = None if std is None or channels is None else torch.tensor(list(std)).view(channels)

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        shape, dtype = list(self.inputs.shape[1:]), str(self.inputs.dtype).removeprefix("torch.")
        return f"TensorExamples({len(self):,} examples {shape} of {dtype}, {_labels_in_words(self)})"

    def batch(self, indices_n: Array) -> Tensor:
        """`[n, ...]` inputs: float32, or whole numbers of the type they have.

        Args:
            indices_n: the positions.
        """
        batch = self.inputs[torch.from_numpy(indices_n)]
        if batch.dtype == torch.uint8:
            batch = batch.float().div_(255)
            if self.mean is not None and self.std is not None:
                batch.sub_(self.mean).div_(self.std)
        return batch.float() if batch.is_floating_point() or batch.dtype == torch.bool else batch

    def take(self, indices_n: Array) -> "TensorExamples":
        """A copy of some of the examples.

        Args:
            indices_n: the positions.
        """
        part = copy.copy(self)
        part.inputs = self.inputs[torch.from_numpy(indices_n)]
        part.labels = None if self.labels is None else self.labels[indices_n]
        return part

    def images(self, indices_n: Array) -> Array | None:
        """`[n, height, width, channels]` bytes to show to a person; None if the inputs are not images.

        Args:
            indices_n: the positions.
        """
        if self.inputs.dtype != torch.uint8:
            return None
        shown: Array = self.inputs[torch.from_numpy(indices_n)].permute(0, 2, 3, 1).numpy()
        return shown


class TextExamples:
    """Texts, with their labels where those are known.

    Args:
        texts: N texts; a column of a table is read by position.
        labels: `[N]` labels, whole numbers from 0, or None.
        class_names: the names of the classes.

    Example:
        >>> TextExamples(["good", "bad"], [1, 0], ["negative", "positive"])
        TextExamples(2 texts, with labels of 2 classes)
    """

    def __init__(
        self, texts: Sequence[str], labels: Values | None = None, class_names: Sequence[str] | None = None
    ) -> None:
        self.texts = frames.as_texts(frames.as_column(texts)) if frames.is_column(texts) else list(texts)
        self.labels = None if labels is None else as_labels(labels, len(self.texts))
        self.class_names = None if class_names is None else tuple(class_names)

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"TextExamples({len(self):,} texts, {_labels_in_words(self)})"

    def batch(self, indices_n: Array) -> list[str]:
        """The texts at some positions.

        Args:
            indices_n: the positions.
        """
        return [self.texts[index] for index in indices_n.tolist()]


class DatasetExamples:
    """A `torch.utils.data.Dataset` with a length, whose items are inputs, (input,) or (input, label).

    Args:
        dataset: the data set.
        labels: `[N]` labels, if they are known without reading every item.
        collate: a function that makes a batch of a list of items; PyTorch's own by default.

    Example:
        >>> import numpy as np, torch
        >>> from torch.utils.data import TensorDataset
        >>> pairs = TensorDataset(torch.eye(3), torch.tensor([0, 1, 1]))
        >>> DatasetExamples(pairs).labels
        array([0, 1, 1])
    """

    class_names: tuple[str, ...] | None = None

    def __init__(
        self, dataset: Any, labels: Values | None = None, collate: Callable[[list[Any]], Any] = default_collate
    ) -> None:
        self.dataset, self._collate = dataset, collate
        self._labels = None if labels is None else as_labels(labels, len(dataset))
        self._width: int | None = None

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def labels(self) -> Array | None:
        """`[N]` labels: as given, or read once from the items where those are pairs."""
        if self._labels is None and self._parts() == 2:
            labels = [self.dataset[index][1] for index in range(len(self))]
            self._labels = as_labels([y.item() if isinstance(y, Tensor) else y for y in labels], len(self))
        return self._labels

    def batch(self, indices_n: Array) -> Inputs:
        """The inputs of some items.

        Args:
            indices_n: the positions.
        """
        items = [self.dataset[index] for index in indices_n.tolist()]
        inputs = [item[0] for item in items] if self._parts() else items
        batch: Inputs = list(inputs) if inputs and isinstance(inputs[0], str) else self._collate(inputs)
        small = isinstance(batch, Tensor) and batch.dtype in (torch.bool, torch.uint8)
        return batch.float() if isinstance(batch, Tensor) and small else batch

    def _parts(self) -> int:
        """2 if an item is a pair (input, label), 1 if it is an input in a tuple of its own, 0 if it is the input."""
        if self._width is None:
            item = self.dataset[0] if len(self) else None
            self._width = len(item) if isinstance(item, tuple | list) and len(item) in (1, 2) else 0
        return self._width


class Subset:
    """Some of the examples, as examples of their own; nothing is copied.

    Args:
        examples: the whole set.
        indices_n: positions in it.
        labels_n: labels to use instead of those of the set.
        class_names: names of the classes to use instead of those of the set.

    Example:
        >>> import numpy as np
        >>> some = Subset(TextExamples(["a", "b", "c"], [0, 1, 0]), np.array([2, 1]))
        >>> some.batch(np.array([0, 1])), some.labels
        (['c', 'b'], array([0, 1]))
    """

    def __init__(
        self,
        examples: Examples,
        indices_n: Array,
        labels_n: Array | None = None,
        class_names: tuple[str, ...] | None = None,
    ) -> None:
        self._examples, self._indices, self._labels, self._names = examples, indices_n, labels_n, class_names

    def __len__(self) -> int:
        return len(self._indices)

    @property
    def labels(self) -> Array | None:
        """`[n]` labels."""
        if self._labels is not None:
            return self._labels
        labels = self._examples.labels
        return None if labels is None else labels[self._indices]

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes."""
        return self._names or self._examples.class_names

    @property
    def lengths(self) -> Array | None:
        """`[n]` length of each input, or None where all are equal; inputs of similar length are predicted together."""
        lengths: Array | None = getattr(self._examples, "lengths", None)
        return None if lengths is None else lengths[self._indices]

    def batch(self, indices_n: Array) -> Inputs:
        """The inputs at some positions of the subset.

        Args:
            indices_n: the positions.
        """
        return self._examples.batch(self._indices[indices_n])


def as_examples(data: object, labels: Values | None = None) -> Examples:
    """Turn arrays, texts, tables or data sets into examples. Everything is read by position.

    Args:
        data: one of
            - examples;
            - a tensor or array `[N, ...]`, or a list of rows;
            - a list or array of texts;
            - a DataFrame of numbers, or a column of texts or of arrays (pandas, Polars, Arrow); an index is ignored;
            - a dictionary of tensors `[N, ...]`;
            - a `Dataset` of inputs, of (input, label) or of dictionaries, or a `DataLoader` of one;
            - a pair (inputs, labels) of these.
        labels: `[N]` labels, where `data` has none.

    Example:
        >>> import numpy as np
        >>> examples = as_examples(np.zeros((4, 2)), [0, 1, 1, 0])
        >>> examples
        TensorExamples(4 examples [2] of float64, with labels)
        >>> as_examples(["good", "bad"]).batch(np.array([1, 0]))
        ['bad', 'good']
    """
    if isinstance(data, TensorExamples) and labels is not None:
        relabelled = copy.copy(data)
        relabelled.labels = as_labels(labels, len(data))
        return relabelled
    if isinstance(data, Examples):
        return data if labels is None else Subset(data, np.arange(len(data)), as_labels(labels, len(data)))
    if isinstance(data, tuple) and len(data) == 2 and labels is None:
        return as_examples(*data)
    data, labels = _plain(data, labels)
    if isinstance(data, np.ndarray) and data.dtype.kind in "fiub":
        data = as_view(np.ascontiguousarray(data, data.dtype.newbyteorder("=")))
    if isinstance(data, Tensor):
        return TensorExamples(data, labels)
    if isinstance(data, list) and all(isinstance(item, str) for item in data):
        return TextExamples(data, labels)
    from poolwise.data import batches  # which makes examples of this module's kinds

    if isinstance(data, str | bytes):
        raise ParameterError(
            "data must be a tensor, an array, a table, a list of texts or a Dataset, not one "
            f"{type(data).__name__}. For files, use open_data(path)."
        )
    if isinstance(data, DataLoader):
        return batches.from_loader(data, labels)
    if isinstance(data, Mapping):
        return batches.NamedExamples(data, labels)
    if hasattr(data, "__getitem__") and _has_length(data):
        return batches.from_dataset(data, labels)
    raise ParameterError(
        "data must be a tensor, an array, a table, a pair (inputs, labels), a list of texts, a dictionary of tensors, "
        f"a Dataset with a length or a DataLoader, not {type(data).__name__}. "
        "A sparse matrix must be made dense first, with .toarray()."
    )


def _plain(data: object, labels: Values | None) -> tuple[object, Values | None]:
    """Tables, columns, lists of rows and arrays of texts as one array or one list of texts."""
    if isinstance(data, list) and data and labels is None and all(map(_is_labelled_row, data)):
        data, labels = [item[0] for item in data], [item[1] for item in data]
    if frames.is_table(data) or frames.is_column(data):
        return frames.as_inputs(data), labels
    if isinstance(data, np.ndarray) and data.dtype.kind in "OUT":
        texts = frames.as_column(data)
        return (texts if texts.dtype.kind in "fiub" else frames.as_texts(texts)), labels
    rows = frames.as_rows(data) if isinstance(data, list) else None
    return (data if rows is None else rows), labels


def _is_labelled_row(item: object) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and frames.is_column(item[0])


def _has_length(data: Any) -> bool:
    try:
        return len(data) >= 0
    except TypeError:  # a sparse matrix has the method, and refuses
        return False


def needed_labels(examples: Examples, what: str) -> Array:
    """The labels of examples, or an error if there are none.

    Args:
        examples: the examples.
        what: what needs the labels, for the error.

    Example:
        >>> needed_labels(TextExamples(["a", "b"], [1, 0]), "training")
        array([1, 0])
    """
    labels = examples.labels
    if labels is None:
        raise MissingInputError(f"{what} needs labels. Pass (inputs, labels) or a Dataset of (input, label).")
    return labels


def _labels_in_words(examples: Examples) -> str:
    classes = "" if examples.class_names is None else f" of {len(examples.class_names)} classes"
    return "without labels" if examples.labels is None else f"with labels{classes}"
