"""Which form of the LBB objective is the fastest for a task: they all find the same picks."""

from poolwise.information import moments
from poolwise.selection import bounded_redundancy
from poolwise.selection.bounded_redundancy import BoundedRedundancy
from poolwise.selection.proposed_redundancy import ProposedRedundancy, proposal_loops
from poolwise.selection.raced_redundancy import RacedRedundancy, compiled_loops
from poolwise.selection.redundancy import Pairs, PairwiseRedundancy, Redundancy
from poolwise.selection.task import Task


def lbb_objective(task: Task, redundancy: Redundancy, pairs: Pairs, *, greedy: bool = True) -> PairwiseRedundancy:
    """The gains of LBB, with bounds from moments and compiled loops where they pay.

    Args:
        task: what to choose from.
        redundancy: how pairs are put together.
        pairs: how often each is counted.
        greedy: whether the largest gain is picked, instead of drawing points by their gains.
    """
    _, K, C = task.predictions.shape
    if redundancy not in ("normalised", "max") or not bounded_redundancy.pays(K, C):
        return PairwiseRedundancy(task, redundancy, pairs)
    if not greedy:
        loops = proposal_loops(task)
        return (
            ProposedRedundancy(task, redundancy, pairs, loops) if loops else BoundedRedundancy(task, redundancy, pairs)
        )
    loops = compiled_loops(task) if bounded_redundancy.order(K, C) == moments.LOWEST else None
    return RacedRedundancy(task, redundancy, pairs, loops) if loops else BoundedRedundancy(task, redundancy, pairs)
