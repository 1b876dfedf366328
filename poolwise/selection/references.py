"""Reference points: those that a selection should tell something about."""

import numpy as np
from torch import Tensor

from poolwise.errors import ParameterError
from poolwise.scores.targets import target_probs
from poolwise.selection.task import Task

TARGETS_HELP = (
    "Predictions [R, K, C] of the points that matter, by the same K samples (an array or a file of "
    "log-probabilities, or a Predictions object); by default a random sample of the pool."
)
SAMPLE_HELP = "How many pool points to draw as targets when none are given."


def reference_probs(task: Task, targets: object, sample: int) -> Tensor:
    """`[R, K, C]` probabilities of the targets, or of a random sample of the pool."""
    N, K, C = task.pool.shape
    if targets is None:
        if sample < 1:
            raise ParameterError(f"sample must be at least 1, not {sample}.")
        targets = task.pool.take(np.sort(task.generator("targets").choice(N, min(sample, N), replace=False)))
    return target_probs(targets, K, C, task.pool.dtype)
