"""Margin: the two most likely classes are nearly tied."""

from poolwise.arrays import Array
from poolwise.scores import kernels
from poolwise.selection.ranking import take_top
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


def scores(task: Task, **parameters: object) -> Array:
    """`[N]` one minus the margin of every point."""
    return task.scores(kernels.margin)


@method(
    "margin",
    summary="Smallest lead of the most likely class over the second.",
    formula="top b of 1 - (p̄_i(first) - p̄_i(second))",
    paper="Scheffer, Decomain, Wrobel: Active Hidden Markov Models for Information Extraction, 2001",
    bound=scores,
)
def margin(task: Task) -> Picks:
    """Select the top b."""
    return take_top(scores(task), task.batch_size)
