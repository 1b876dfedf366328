"""Reference points: those that a selection should tell something about."""

import warnings

import numpy as np
from torch import Tensor

from poolwise.errors import CostWarning, ParameterError
from poolwise.scores.targets import target_probs
from poolwise.selection.task import Task

TARGETS_HELP = (
    "Predictions [R, K, C] of the points that matter, by the same K samples (an array or a file of "
    "log-probabilities, or a Predictions object); by default a random sample of the pool."
)
SAMPLE_HELP = "How many pool points to draw as targets when none are given."

# Logarithms or exponentials that one thread makes in a second, and how many seconds are worth a word.
_PER_SECOND, _LONG = 200e6, 300


def reference_probs(task: Task, targets: object, sample: int) -> Tensor:
    """`[R, K, C]` probabilities of the targets, or of a random sample of the pool."""
    N, K, C = task.pool.shape
    if targets is None:
        if sample < 1:
            raise ParameterError(f"sample must be at least 1, not {sample}.")
        targets = task.pool.take(np.sort(task.generator("targets").choice(N, min(sample, N), replace=False)))
    return target_probs(targets, K, C, task.pool.dtype)


def warn_if_long(points: int, targets_R_K_C: Tensor) -> Tensor:
    """The targets, and a warning if comparing them with some points, class by class, takes long.

    Args:
        points: how many points must be compared with every target, at least.
        targets_R_K_C: probabilities of the targets.
    """
    R, _, C = targets_R_K_C.shape
    seconds = points * R * C**2 / _PER_SECOND
    if seconds > _LONG:
        warnings.warn(
            f"this compares at least {points:,} points with {R:,} targets, and {C:,}² pairs of classes for each: about "
            f"{seconds / 60:,.0f} minutes on one thread. Fewer targets (sample=) or fewer points "
            '(candidates="10%") take less.',
            CostWarning,
            stacklevel=2,
        )
    return targets_R_K_C
