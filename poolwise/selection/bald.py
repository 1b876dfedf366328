"""BALD: the points with the largest mutual information of label and model (Houlsby et al. 2011)."""

from poolwise.arrays import Array
from poolwise.scores import kernels
from poolwise.scores.pool import score_pool
from poolwise.selection.ranking import take_top
from poolwise.selection.registry import method
from poolwise.selection.saturation import information_tolerance
from poolwise.selection.task import Picks, Task


def bald_scores(task: Task, **parameters: object) -> Array:
    """`[N]` BALD score of every point."""
    predictions = task.predictions
    return score_pool(predictions, kernels.bald_of(predictions), task.memory, task.report)


@method(
    "bald",
    summary="Largest mutual information between label and model.",
    formula="top b of I(y_i; θ) = H[mean_k p_ik] - mean_k H[p_ik]",
    paper="Houlsby, Huszár, Ghahramani, Lengyel: Bayesian Active Learning by Disagreement, 2011",
    bound=bald_scores,
)
def bald(task: Task) -> Picks:
    """Select the top b."""
    return take_top(bald_scores(task), task.batch_size, information_tolerance(task.predictions.shape[1]))
