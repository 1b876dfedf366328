"""Entropy: the averaged prediction is the most spread out (section 2.2.1 of the paper)."""

from poolwise.arrays import Array
from poolwise.scores import kernels
from poolwise.selection.ranking import take_top
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


def scores(task: Task, **parameters: object) -> Array:
    """`[N]` entropy of the averaged prediction of every point."""
    return task.scores(kernels.entropy)


@method(
    "entropy",
    summary="Largest entropy of the mean prediction.",
    formula="top b of H[p̄_i]",
    paper="Shannon 1948; Settles: Active Learning Literature Survey, 2009",
    bound=scores,
)
def entropy(task: Task) -> Picks:
    """Select the top b."""
    return take_top(scores(task), task.batch_size)
