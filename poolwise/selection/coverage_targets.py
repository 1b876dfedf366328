"""What coverage is to cover: a sample of points, and how far each is covered already."""

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.selection.coverage_kernels import Kernel, in_parts
from poolwise.selection.task import Task

# Targets of a block of the kernel.
_STEP = 4096


def nearest(kernel: Kernel) -> Array:
    """`[T]` the largest similarity of any candidate with each target; 0 if there are no candidates."""
    N, T = kernel.shape
    best_T = torch.zeros(T, dtype=kernel.dtype)
    step = min(_STEP, kernel.at_once)
    for some_m in in_parts(np.arange(N)):
        for start in range(0, T, step):
            part = slice(start, min(start + step, T))
            torch.maximum(best_T[part], kernel.block(part, some_m).amax(1), out=best_T[part])
    result: Array = best_T.numpy()
    return result


def drawn_targets(task: Task, name: str, count: int, sample: int | None) -> tuple[Array | None, float]:
    """Which of some points to cover, None for all, and how many points each of them stands for.

    Args:
        task: where the random stream comes from.
        name: of the method, for errors.
        count: how many points there are.
        sample: how many of them to draw; None for all.
    """
    if sample is not None and sample < 2:
        raise ParameterError(f"{name}: sample must be at least 2, not {sample}. None covers every point.")
    if sample is None or sample >= count:
        return None, 1.0
    return np.sort(task.generator("targets").choice(count, sample, replace=False)), count / sample
