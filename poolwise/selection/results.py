"""From what a method returns to picks that are known to be valid."""

import numpy as np
from torch import Tensor

from poolwise.arrays import Array
from poolwise.errors import MethodError
from poolwise.selection.ranking import take_top
from poolwise.selection.task import Picks, Task

_EXPECTED = "A method returns Picks, B whole-number positions in task.predictions, or one float score for each point"


def as_picks(result: object, task: Task, method: str) -> Picks:
    """Valid picks from what a method returned.

    Args:
        result: `Picks`; `[B]` whole numbers, which are the positions of the picks in `task.predictions`, with scores of
            0; or `[N]` floating-point numbers, which are scores of all points, of which the largest are picked.
        task: what the method was given.
        method: its name, for errors.
    """
    picks = result if isinstance(result, Picks) else _from_array(result, task, method)
    picks.indices = _numbers(picks.indices, "indices", method)
    picks.scores = _numbers(picks.scores, "scores", method)
    _check_indices(picks.indices, task, method)
    _check_scores(picks, task.batch_size, method)
    return picks


def _from_array(result: object, task: Task, method: str) -> Picks:
    if isinstance(result, tuple) and len(result) == 2 and all(np.ndim(part) for part in result):
        raise MethodError(f"{method} returned a tuple. For picks with their scores, return Picks(indices, scores).")
    array, N = _numbers(result, "a result", method), len(task.predictions)
    if array.dtype.kind in "iu":
        if array.shape == (N,) != (task.batch_size,):
            raise MethodError(
                f"{method} was asked for {task.batch_size} points, and returned {N} whole numbers, one for each point. "
                "If they are scores, return them as floats."
            )
        return Picks(array, np.zeros(len(array) if array.ndim else 0))
    if array.dtype.kind != "f" or array.shape != (N,):
        whole = array.shape == (task.batch_size,) and np.array_equal(array, np.round(array))
        advice = " If they are positions, return them as whole numbers: .astype(int)." if whole else ""
        raise MethodError(
            f"{method} returned {array.dtype} numbers of shape {list(array.shape)}. {_EXPECTED}: here B is "
            f"{task.batch_size}, of {N} points.{advice}"
        )
    if not np.isfinite(array).all():
        at = int(np.argmin(np.isfinite(array)))
        raise MethodError(f"{method} gave point {at} the score {array[at]}: scores must be finite.")
    return take_top(array.astype(np.float64), task.batch_size, -np.inf)


def _numbers(values: object, what: str, method: str) -> Array:
    """An array of numbers, from a tensor, an array or a list."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    try:
        array = np.ascontiguousarray(values)  # what goes to PyTorch cannot have negative strides
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.dtype.kind not in "iuf":
        kind = f"array of {array.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
        mask = " Turn a mask into positions: np.flatnonzero(mask)." if array.dtype == bool else ""
        raise MethodError(f"{method} returned {what} of type {kind}. {_EXPECTED}.{mask}")
    return array


def _check_indices(indices: Array, task: Task, method: str) -> None:
    B, N = task.batch_size, len(task.predictions)
    if indices.dtype.kind not in "iu":
        raise MethodError(f"{method} returned indices of type {indices.dtype}: they must be whole numbers.")
    if indices.shape != (B,):
        raise MethodError(f"{method} was asked for {B} points, and returned indices of shape {list(indices.shape)}.")
    outside = indices[(indices < 0) | (indices >= N)]
    if len(outside):
        raise MethodError(
            f"{method} picked position {outside[0]}, but the positions to choose from are 0 to {N - 1}. "
            "Indices are positions in task.predictions, never in the whole pool (task.pool)."
        )
    values, counts = np.unique(indices, return_counts=True)
    if len(values) < B:
        raise MethodError(f"{method} picked position {values[counts > 1][0]} more than once: picks must be different.")


def _check_scores(picks: Picks, batch_size: int, method: str) -> None:
    if picks.scores.shape != (batch_size,):
        raise MethodError(
            f"{method} returned scores of shape {list(picks.scores.shape)}: one for each of the {batch_size} picks."
        )
    finite = np.isfinite(picks.scores)
    if not finite.all():
        at = int(np.argmin(finite))
        raise MethodError(f"{method} gave pick {at} the score {picks.scores[at]}: scores must be finite.")
