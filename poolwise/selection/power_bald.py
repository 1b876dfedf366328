"""PowerBALD: points drawn in proportion to a power of their BALD score (Kirsch et al. 2021)."""

import math

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.selection.bald import bald_scores
from poolwise.selection.ranking import draw
from poolwise.selection.registry import method
from poolwise.selection.saturation import information_tolerance
from poolwise.selection.task import Picks, Task

ALPHA_HELP = "The power, above 0: larger is closer to taking the best, smaller closer to random."


def check_alpha(name: str, alpha: float, what: str = "alpha") -> None:
    """Raise unless alpha is a finite number above 0."""
    if not (math.isfinite(alpha) and alpha > 0):
        raise ParameterError(f"{name}: {what} must be a finite number above 0, not {alpha}.")


def log_powers(scores_N: Array, alpha: float) -> Array:
    """`[N]` logarithms of `score^α`; -inf where a score is not positive."""
    return alpha * np.log(scores_N, out=np.full_like(scores_N, -np.inf), where=scores_N > 0)


@method(
    "power-bald",
    summary="BALD with points drawn in proportion to a power of their score.",
    formula="P(i) ∝ I(y_i; θ)^α, without replacement",
    paper="Kirsch, Farquhar, Atighehchian, Jesson, Branchaud-Charron, Gal: Stochastic Batch Acquisition, TMLR 2023",
    parameters={"alpha": ALPHA_HELP},
    stochastic=True,
    bound=bald_scores,
)
def power_bald(task: Task, *, alpha: float = 1.0) -> Picks:
    """Draw the batch."""
    check_alpha("power-bald", alpha)
    scores_N = bald_scores(task)
    return draw(task, log_powers(scores_N, alpha), scores_N, information_tolerance(task.predictions.shape[1]))
