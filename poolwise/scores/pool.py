"""One pass over the pool: from predictions wherever they are to one number a point."""

from collections.abc import Callable

import numpy as np
from torch import Tensor

from poolwise import memory as budget
from poolwise.predictions import Block, Predictions
from poolwise.predictions.arrays import Array
from poolwise.progress import Report, silent


def score_pool(
    predictions: Predictions,
    kernel: Callable[[Block], Tensor],
    memory: int = budget.DEFAULT,
    report: Report = silent,
    stage: str = "scoring the pool",
) -> Array:
    """`[N]` float64 scores of all points, one pass over the pool."""
    scores_N = np.empty(len(predictions))
    for rows, block in predictions.blocks(memory, report, stage):
        scores_N[rows] = kernel(block).numpy()
    return scores_N
