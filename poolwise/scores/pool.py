"""One pass over the pool: from predictions, wherever they are stored, to one number per point."""

import numpy as np

from poolwise import budget
from poolwise.arrays import Array
from poolwise.parallel import one_thread_an_operation
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.scores.kernels import Kernel


def score_pool(
    predictions: Predictions,
    kernel: Kernel,
    memory: int = budget.DEFAULT,
    report: Report = silent,
    stage: str = "scoring the pool",
) -> Array:
    """`[N]` float64 scores of all points, one pass over the pool."""
    scores_N = np.empty(len(predictions))
    with one_thread_an_operation():
        for rows, scores_n in predictions.scan(kernel, memory, report, stage):
            scores_N[rows] = scores_n.numpy()
    return scores_N
