"""Reference points: those that a selection should tell something about."""

from pathlib import Path

import numpy as np
from torch import Tensor

from poolwise.errors import ParameterError, ShapeError
from poolwise.predictions import Predictions
from poolwise.selection.task import Task

TARGETS_HELP = (
    "Predictions [R, K, C] of the points that matter, by the same K samples (an array or a file of "
    "log-probabilities, or a Predictions object); by default a random sample of the pool."
)
SAMPLE_HELP = "How many pool points to draw as targets when none are given."


def reference_probs(task: Task, targets: object, sample: int) -> Tensor:
    """`[R, K, C]` probabilities of the targets, or of a random sample of the pool."""
    N, K, C = task.predictions.shape
    if targets is None:
        if sample < 1:
            raise ParameterError(f"sample must be at least 1, not {sample}.")
        chosen = task.generator("targets").choice(N, min(sample, N), replace=False)
        return task.predictions.rows(np.sort(chosen)).probs
    if isinstance(targets, str | Path):
        targets = Predictions.open(targets)
    given = targets if isinstance(targets, Predictions) else Predictions.from_log_probs(targets)
    if given.shape[1:] != (K, C):
        raise ShapeError(
            f"targets must be predictions [R, {K}, {C}] by the same {K} posterior samples as the pool's, "
            f"not {list(given.shape)}."
        )
    return given.rows(np.arange(len(given))).probs.to(task.predictions.dtype)
