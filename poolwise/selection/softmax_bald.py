"""SoftmaxBALD: points drawn by the softmax of their BALD scores (Kirsch et al. 2021)."""

from poolwise.selection.bald import bald_scores
from poolwise.selection.power_bald import check_alpha
from poolwise.selection.ranking import draw
from poolwise.selection.registry import method
from poolwise.selection.saturation import information_tolerance
from poolwise.selection.task import Picks, Task


@method(
    "softmax-bald",
    summary="BALD with points drawn by the softmax of their scores.",
    formula="P(i) ∝ exp(β · I(y_i; θ)), without replacement",
    paper="Kirsch, Farquhar, Atighehchian, Jesson, Branchaud-Charron, Gal: Stochastic Batch Acquisition, TMLR 2023",
    parameters={
        "beta": "Inverse temperature, above 0: scores are in nats, so 1 is close to random and 100 to the top b."
    },
    stochastic=True,
    bound=bald_scores,
)
def softmax_bald(task: Task, *, beta: float = 8.0) -> Picks:
    """Draw the batch."""
    check_alpha("softmax-bald", beta, "beta")
    scores_N = bald_scores(task)
    return draw(task, beta * scores_N, scores_N, information_tolerance(task.predictions.shape[1]))
