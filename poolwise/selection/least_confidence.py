"""Least confidence: the most likely class is the least likely (equation 2 of the paper, on the mean prediction)."""

from poolwise.arrays import Array
from poolwise.scores import kernels
from poolwise.selection.ranking import take_top
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


def scores(task: Task, **parameters: object) -> Array:
    """`[N]` lack of confidence of every point."""
    return task.scores(kernels.least_confidence)


@method(
    "least-confidence",
    summary="Smallest probability of the most likely class.",
    formula="top b of 1 - max_c p̄_i(c)",
    paper="Lewis, Gale: A Sequential Algorithm for Training Text Classifiers, 1994",
    bound=scores,
)
def least_confidence(task: Task) -> Picks:
    """Select the top b."""
    return take_top(scores(task), task.batch_size)
