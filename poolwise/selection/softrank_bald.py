"""SoftrankBALD: points drawn in proportion to a power of the rank of their BALD score (Kirsch et al. 2021)."""

import numpy as np

from poolwise.selection.bald import bald_scores
from poolwise.selection.power_bald import ALPHA_HELP, check_alpha
from poolwise.selection.ranking import draw
from poolwise.selection.registry import method
from poolwise.selection.saturation import information_tolerance
from poolwise.selection.task import Picks, Task


@method(
    "softrank-bald",
    summary="BALD with points drawn by the rank of their score, whatever the scores' scale.",
    formula="P(i) ∝ rank_i^(-α), rank 1 for the largest I(y_i; θ); equal scores share their mean rank",
    paper="Kirsch, Farquhar, Atighehchian, Jesson, Branchaud-Charron, Gal: Stochastic Batch Acquisition, TMLR 2023",
    parameters={"alpha": ALPHA_HELP},
    stochastic=True,
    bound=bald_scores,
)
def softrank_bald(task: Task, *, alpha: float = 1.0) -> Picks:
    """Draw the batch."""
    check_alpha("softrank-bald", alpha)
    scores_N = bald_scores(task)
    _, group_N, counts = np.unique(-scores_N, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(counts)
    ranks_N = (last_rank - (counts - 1) / 2)[group_N]
    return draw(task, -alpha * np.log(ranks_N), scores_N, information_tolerance(task.predictions.shape[1]))
