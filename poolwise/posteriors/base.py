"""A base class for posteriors of your own: write how to fit and how to predict one batch."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import cloudpickle
import numpy as np
import torch
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array
from poolwise.data.examples import Examples, as_examples
from poolwise.data.features import plain
from poolwise.errors import (
    EmptyPoolError,
    MissingInputError,
    NotFiniteError,
    NotNormalisedError,
    ShapeError,
    StateError,
)
from poolwise.posteriors.buffer import PredictionBuffer, check_path
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent

_FIRST, _ROWS = 32, 1024
# The most that the predictions of a chunk may take (bytes); a memory budget can make chunks smaller.
_LARGEST = 1 << 24
# How far probabilities may be from summing to one: what half precision loses on a thousand classes.
_TOLERANCE = 1e-2


class BasePosterior(ABC):
    """Base class for a posterior of your own. You write two methods: `fit` and `sample`.

    `sample` is called with one batch of inputs at a time. Its results are checked, normalised and stored, in memory or
    in a mapped file. Write `features` too, if your posterior has embeddings for the methods that need them.

    `state` saves all attributes of the object except those named in `settings`, which its constructor sets.

    Attributes:
        outputs: what `sample` returns: `"probs"`, `"log-probs"` or `"logits"`.
        settings: names of attributes that are not part of the state.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> class Centroids(pw.posteriors.BasePosterior):
        ...     outputs = "logits"
        ...     def fit(self, data, validation=None, *, seed=0, report=None):
        ...         inputs, labels = pw.posteriors.arrays(data)
        ...         draw = np.random.default_rng(seed)
        ...         means = np.stack([inputs[labels == c].mean(0) for c in range(labels.max() + 1)])
        ...         self.means = means + 0.1 * draw.normal(size=(20, *means.shape))
        ...         return self
        ...     def sample(self, inputs):
        ...         return -((inputs[:, None, None] - self.means) ** 2).sum(-1)
        >>> inputs, labels = np.eye(3).repeat(2, 0), np.arange(3).repeat(2)
        >>> Centroids().fit((inputs, labels)).predict(inputs).shape
        (6, 20, 3)
    """

    outputs: Literal["probs", "log-probs", "logits"] = "log-probs"
    settings: tuple[str, ...] = ()

    @abstractmethod
    def fit(self, data: Any, validation: Any = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Train on labelled data and return the posterior itself. The same seed must give the same result.

        Args:
            data: labelled examples; `poolwise.posteriors.arrays` makes arrays of them.
            validation: labelled examples for early stopping, or None.
            seed: root of all randomness.
            report: call it with (stage, done, total) to show progress.
        """

    @abstractmethod
    def sample(self, inputs: Any) -> Any:
        """`[n, K, C]` predictions of one batch.

        Sample k must be the same model in every call: draw it in `fit`, not here. Row i must depend on input i alone.

        Args:
            inputs: `[n, ...]` array, list of texts, or dictionary of arrays.
        """

    def features(self, inputs: Any) -> Any:
        """`[n, D]` embeddings of one batch, for the methods that need them.

        Args:
            inputs: `[n, ...]` array, list of texts, or dictionary of arrays.
        """
        raise MissingInputError(
            f"{type(self).__name__} has no embeddings. Use a method that needs none, add some with "
            "predictions.with_embeddings(...), or write its method features(inputs)."
        )

    def predict(
        self,
        data: Any,
        *,
        embeddings: bool = False,
        out: str | Path | None = None,
        memory: int | str = budget.DEFAULT,
        report: Report = silent,
    ) -> Predictions:
        """`[N, K, C]` predictions.

        Args:
            data: examples.
            embeddings: whether to add `[N, D]` embeddings.
            out: a `.npy` file to write the predictions to.
            memory: bytes, or a text such as `"2GB"`: predictions that do not fit half of it go to a mapped file.
            report: told about progress.
        """
        space, path = budget.parse(memory), None if out is None else Path(out)
        check_path(path)
        self._check_fitted()
        examples = self._examples(data, space)
        first = self._log_probs(self._read(examples, 0, _FIRST))
        N, (_, K, C) = len(examples), first.shape
        step = max(1, min(_ROWS, min(_LARGEST, space // 16) // (4 * K * C)))
        features_N_D: Array | None = None
        with PredictionBuffer("log-probs", (N, K, C), space, path) as buffer:
            for start, inputs in self._batches(examples, step):
                rows = slice(start, start + step)
                log_probs_n_K_C = self._log_probs(inputs)
                if log_probs_n_K_C.shape[1:] != (K, C):
                    raise self._wrong_shape(log_probs_n_K_C.shape, f"[n, {K}, {C}] as for the first examples")
                buffer.values[rows] = log_probs_n_K_C
                if embeddings:
                    part_n_D = self._embeddings(inputs)
                    if features_N_D is None:
                        features_N_D = np.empty((N, part_n_D.shape[1]), np.float32)
                    features_N_D[rows] = part_n_D
                report("predicting", min(start + step, N), N)
            return buffer.finish(features_N_D)

    def embed(self, data: Any, *, memory: int | str = budget.DEFAULT) -> Array:
        """`[N, D]` float32 embeddings.

        Args:
            data: examples.
            memory: working memory, in bytes or as `"2GB"`.
        """
        self._check_fitted()
        space = budget.parse(memory)
        examples, step = self._examples(data, space), max(1, min(_ROWS, space // (1 << 20)))
        return np.concatenate([self._embeddings(inputs) for _, inputs in self._batches(examples, step)])

    def state(self) -> dict[str, Any]:
        """All attributes that are not settings.

        Tensors, arrays and plain values are stored as such, and are safe to load. Anything else is pickled, and a
        pickle is a program: load only what you saved yourself.
        """
        own = {name: value for name, value in vars(self).items() if name not in self.settings}
        arrays = {
            name: value for name, value in own.items() if isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
        }
        safe = {name: value for name, value in own.items() if name not in arrays and _is_safe(value)}
        other = {name: value for name, value in own.items() if name not in arrays and name not in safe}
        return {
            "arrays": {name: torch.from_numpy(value.copy()) for name, value in arrays.items()},
            "values": copy.deepcopy(safe),
            "pickled": cloudpickle.dumps(other) if other else None,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore saved attributes; see `state` for what to trust."""
        for name in [name for name in vars(self) if name not in self.settings]:
            delattr(self, name)
        vars(self).update({name: value.numpy().copy() for name, value in state["arrays"].items()})
        vars(self).update(copy.deepcopy(dict(state["values"])))
        vars(self).update(cloudpickle.loads(state["pickled"]) if state["pickled"] else {})

    def _check_fitted(self) -> None:  # noqa: B027  (which a class may leave as it is)
        """Raise if nothing was fitted yet; a posterior without a state is always ready."""

    def _examples(self, data: Any, memory: int) -> Examples:
        """What `sample` and `features` are given batches of: the examples, unless a class puts something before it."""
        return as_examples(data)

    def _batches(self, examples: Examples, step: int) -> Iterator[tuple[int, Any]]:
        for start in range(0, len(examples), step):
            yield start, self._read(examples, start, start + step)

    def _read(self, examples: Examples, start: int, stop: int) -> Any:
        if not len(examples):
            raise EmptyPoolError("there are no examples to predict.")
        return plain(examples.batch(np.arange(start, min(stop, len(examples)))))

    def _log_probs(self, inputs: Any) -> Array:
        """`[n, K, C]` normalised float32 log-probabilities of one batch."""
        try:
            raw = self.sample(inputs)
        except AttributeError as error:
            raise StateError(
                f"{type(self).__name__} cannot predict ({error}). If it was not fitted, call fit(data) first."
            ) from error
        n = _length(inputs)
        try:
            values = (raw.detach().cpu() if isinstance(raw, Tensor) else torch.from_numpy(np.array(raw))).float()
        except (TypeError, ValueError) as error:
            raise ShapeError(
                f"{self._called('sample')} must return an array or a tensor [{n}, K, C], not an object of type "
                f"{type(raw).__name__}."
            ) from error
        if values.ndim != 3 or len(values) != n or 0 in values.shape:
            raise self._wrong_shape(values.shape, f"[{n}, K, C]")
        if bool(values.isnan().any()) or bool((values == torch.inf).any()):
            raise NotFiniteError(f"{self._called('sample')} returned values that are not finite.")
        probs = values.exp() if self.outputs == "log-probs" else values
        if self.outputs != "logits" and not bool((probs >= 0).all() and ((probs.sum(2) - 1).abs() <= _TOLERANCE).all()):
            raise NotNormalisedError(
                f"{self._called('sample')} must return {self.outputs} that sum to 1 over the classes (the last axis); "
                f"the sums are {float(probs.sum(2).min()):.4g} to {float(probs.sum(2).max()):.4g}. For raw outputs of "
                'a network, set outputs="logits".'
            )
        log_probs: Array = (values.log() if self.outputs == "probs" else values).log_softmax(2).numpy()
        return log_probs

    def _embeddings(self, inputs: Any) -> Array:
        raw = self.features(inputs)
        try:
            values = np.asarray(raw.detach().cpu() if isinstance(raw, Tensor) else raw, np.float32)
            found = str(list(values.shape))
        except (TypeError, ValueError):
            values, found = np.empty(0, np.float32), f"an object of type {type(raw).__name__}"
        if values.ndim != 2 or len(values) != _length(inputs):
            raise ShapeError(f"{self._called('features')} must return [{_length(inputs)}, D], not {found}.")
        return values

    def _wrong_shape(self, shape: tuple[int, ...], expected: str) -> ShapeError:
        hint = " For a single model, add the axis of samples: x[:, None]." if len(shape) == 2 else ""
        return ShapeError(f"{self._called('sample')} must return {expected}, not {list(shape)}.{hint}")

    def _called(self, name: str) -> str:
        """How an error names one of the methods that a user has written."""
        return f"{type(self).__name__}: {name}(inputs)"


def arrays(data: Any) -> tuple[Any, Array]:
    """All inputs and labels of labelled data, as arrays: a first line for your own `fit`.

    Args:
        data: the data that `fit` was given.
    Returns:
        `[n, ...]` inputs (a list for texts, a dictionary for named inputs), and `[n]` int64 labels.

    Example:
        >>> import torch, poolwise as pw
        >>> inputs, labels = pw.posteriors.arrays((torch.ones(4, 2), [0, 1, 0, 1]))
        >>> inputs.shape, labels.tolist()
        ((4, 2), [0, 1, 0, 1])
    """
    examples = as_examples(data)
    if examples.labels is None:
        raise MissingInputError(
            "fitting needs labels. Pass (inputs, labels) or a Dataset of (input, label). To predict, read the inputs "
            "alone: poolwise.posteriors.inputs(data)."
        )
    if not len(examples):
        raise EmptyPoolError("there are no examples to fit on.")
    return inputs(examples), examples.labels.copy()


def inputs(data: Any) -> Any:
    """All inputs of data with or without labels: a first line for your own `predict`.

    All of them are read at once. `BasePosterior` reads them in batches instead, and calls `sample` for each.

    Args:
        data: the data that `predict` was given.
    Returns:
        `[n, ...]` array; a list for texts, a dictionary for named inputs.

    Example:
        >>> import torch, poolwise as pw
        >>> pw.posteriors.inputs(torch.ones(4, 2)).shape
        (4, 2)
    """
    examples = as_examples(data)
    return plain(examples.batch(np.arange(len(examples))))


def _is_safe(value: Any) -> bool:
    """Whether a value can be loaded without running code."""
    if isinstance(value, Mapping):
        return type(value) is dict and all(_is_safe(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return type(value) in (list, tuple) and all(_is_safe(part) for part in value)
    return value is None or type(value) in (Tensor, bool, int, float, str, bytes)


def _length(inputs: Any) -> int:
    return len(next(iter(inputs.values()))) if isinstance(inputs, Mapping) else len(inputs)
