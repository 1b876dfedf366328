"""Fixed features: numbers that describe each example and depend on no model.

Data that went through an encoder has the encoder's output as its features. Other inputs that are numbers are features
as they are, each flattened to one row: a table, or images as a network gets them. Texts have no features, unless a
function computes some.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data.examples import Examples
from poolwise.errors import MissingInputError, NotFiniteError, ShapeError

FeatureFunction = Callable[[Any], Any]
"""From a batch of n inputs (an array, or a list of texts) to `[n, D]` features; each row of its own input only."""

# Examples that a function gets at a time. It depends on nothing, since the rounding of a network depends on it.
_BLOCK = 512
# Inputs that are flattened at a time (bytes), where they are the features themselves.
_BYTES = 1 << 24

_WAYS = "Pass features= an [N, D] array, or a function from a batch of inputs to [n, D] features"


def blocks(
    examples: Examples,
    function: FeatureFunction | None = None,
    *,
    whole_numbers: bool = False,
    some: bool = False,
    known: int = 0,
) -> Iterator[tuple[slice, Array]]:
    """The features of all examples in order, some rows at a time: where they are, and `[n, D]` float32.

    Args:
        examples: the data.
        function: what computes the features; by default the inputs themselves are the features.
        whole_numbers: whether whole numbers are quantities; otherwise they may be ids of tokens, which are not.
        some: whether to read the first, a middle and the last block only, to compare them with what was kept.
        known: how many of the first rows are known. Blocks that have only such rows are left out; the others are the
            same as without it.
    Raises:
        MissingInputError: if these examples have no features; it says why and what to do.
    """
    D: int | None = None
    steps = [(start, stop) for start, stop in _steps(examples, function, whole_numbers) if stop > known]
    for start, stop in [steps[at] for at in sorted({0, len(steps) // 2, len(steps) - 1})] if some and steps else steps:
        part_n_D = _features(examples, np.arange(start, stop), function, whole_numbers)
        if D is not None and part_n_D.shape[1] != D:
            raise MissingInputError(
                f"these examples have no fixed features: the first has {D} numbers, and example {start} or one soon "
                f"after it has {part_n_D.shape[1]}. {_WAYS}."
            )
        D = part_n_D.shape[1]
        finite_n = np.isfinite(part_n_D).all(1)
        if not finite_n.all():
            row = start + int(np.argmin(finite_n))
            raise NotFiniteError(f"features must be finite numbers, but those of example {row} are not. Repair it.")
        yield slice(start, stop), part_n_D


def _steps(examples: Examples, function: FeatureFunction | None, whole_numbers: bool) -> list[tuple[int, int]]:
    """Beginning and end of each block."""
    N, step = len(examples), _BLOCK
    if function is None and N:
        row = _features(examples, np.arange(1), None, whole_numbers)
        step = max(1, _BYTES // max(1, row.nbytes))
    return [(start, min(start + step, N)) for start in range(0, N, step)]


def _features(examples: Examples, positions_n: Array, function: FeatureFunction | None, whole_numbers: bool) -> Array:
    """`[n, D]` features of some examples."""
    if function is not None:
        return _computed(function, examples.batch(positions_n), len(positions_n))
    try:
        inputs = examples.batch(positions_n)
    except ShapeError as error:
        raise MissingInputError(f"these examples have no fixed features: {error} {_WAYS}.") from error
    except RuntimeError as error:  # what PyTorch raises where items differ in size and cannot be stacked
        raise MissingInputError(
            f"these examples have no fixed features: their inputs cannot be stacked, perhaps since they differ in size "
            f"({str(error).splitlines()[0]}). {_WAYS}."
        ) from error
    if getattr(examples, "lengths", None) is not None:
        raise MissingInputError(f"these examples have no fixed features: they are texts of different length. {_WAYS}.")
    if not isinstance(inputs, Tensor):
        texts = isinstance(inputs, list) and all(isinstance(text, str) for text in inputs)
        what = "they are texts, and no encoder turned them into numbers" if texts else "an example has several inputs"
        encoder = ', such as lambda texts: pw.data.encode(texts, "minilm")' if texts else ""
        raise MissingInputError(f"these examples have no fixed features: {what}. {_WAYS}{encoder}.")
    if not inputs.is_floating_point() and not whole_numbers:
        raise MissingInputError(
            "these examples have no fixed features: they are whole numbers, which may be ids of tokens. If they are "
            f"quantities, convert them with .float() or .astype('float32'). {_WAYS}."
        )
    features: Array = inputs.detach().cpu().float().reshape(len(positions_n), -1).numpy()
    return features


def _computed(function: FeatureFunction, inputs: Any, count: int) -> Array:
    """What a function makes of some inputs, checked."""
    made = function(plain(inputs))
    made = made.detach().cpu().numpy() if isinstance(made, Tensor) else made
    made = np.asarray(made.toarray() if hasattr(made, "toarray") else made)  # a sparse matrix is made dense
    if made.ndim != 2 or len(made) != count or not made.shape[1] or made.dtype.kind not in "fiub":
        raise ShapeError(
            f"a function of features must return [n, D] numbers, one row per input: for {count} inputs it returned "
            f"{made.dtype} {list(made.shape)}."
        )
    with np.errstate(over="ignore"):  # what does not fit float32 becomes infinite, which is an error of its own
        return made.astype(np.float32)


def plain(inputs: Any) -> Any:
    """A batch without PyTorch: arrays in place of tensors."""
    if isinstance(inputs, Tensor):
        return inputs.detach().cpu().numpy()
    return {name: plain(value) for name, value in inputs.items()} if isinstance(inputs, Mapping) else inputs
