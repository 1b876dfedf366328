"""Power LBB as the paper's released program computes it: drawn by the fifth power of the released LBB score."""

from poolwise.selection.lbb_released import REFERENCE_HELP, released_scores
from poolwise.selection.power_bald import ALPHA_HELP, check_alpha, log_powers
from poolwise.selection.ranking import draw
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


@method(
    "power-lbb-released",
    summary="Power LBB as the paper's released program computes it.",
    formula="P(i) ∝ score_i^α, without replacement; scores as in lbb-released",
    paper="the program released with Rubashevskii, Kotova, Panov 2023",
    parameters={"alpha": ALPHA_HELP, "reference": REFERENCE_HELP},
    stochastic=True,
)
def power_lbb_released(task: Task, *, alpha: float = 5.0, reference: object = 1024) -> Picks:
    """Draw the batch."""
    check_alpha("power-lbb-released", alpha)
    scores_N = released_scores(task, reference)
    return draw(task, log_powers(scores_N, alpha), scores_N)
