"""Random selection: the baseline that every method has to beat."""

import numpy as np

from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


@method(
    "random",
    summary="Uniformly at random.",
    formula="P(i) = 1 / (number of points left)",
    paper="the baseline of every comparison",
    needs=(),
    stochastic=True,
)
def random(task: Task) -> Picks:
    """Draw without replacement; the score of a pick is the probability with which it was drawn."""
    N = len(task.predictions)
    indices = task.generator("random").choice(N, task.batch_size, replace=False, shuffle=True)
    return Picks(indices.astype(np.int64), 1 / (N - np.arange(task.batch_size)))
