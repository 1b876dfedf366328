"""Large BatchBALD: greedy BALD less pairwise redundancy (the paper, section 2.3; forms in `redundancy`)."""

from poolwise.selection.bald import bald_scores
from poolwise.selection.lbb_objective import lbb_objective
from poolwise.selection.objective import EVALUATION_HELP, Evaluation
from poolwise.selection.redundancy import PAIRS_HELP, REDUNDANCY_HELP, Pairs, Redundancy
from poolwise.selection.registry import method
from poolwise.selection.saturation import information_tolerance
from poolwise.selection.task import Picks, Task

FORMULA = (
    "gain_i = I_i · (1 - max_j ρ_ij) (normalised), I_i - max_j I_ij (max), I_i - mean_j I_ij (mean), "
    "I_i - Σ_j I_ij (sum), over picks j; I_i = I(y_i; θ), I_ij = I(y_i; y_j), ρ_ij = I_ij / sqrt(I_ii I_jj)"
)


@method(
    "lbb",
    summary="Large BatchBALD: information less pairwise redundancy, greedily.",
    formula=FORMULA,
    paper="Rubashevskii, Kotova, Panov: Scalable Batch Acquisition for Deep Bayesian Active Learning, SDM 2023",
    parameters={"redundancy": REDUNDANCY_HELP, "pairs": PAIRS_HELP, "evaluation": EVALUATION_HELP},
    bound=bald_scores,
)
def lbb(
    task: Task, *, redundancy: Redundancy = "normalised", pairs: Pairs = "unordered", evaluation: Evaluation = "lazy"
) -> Picks:
    """Select greedily. The printed `sum` collapses on large batches: see `redundancy`."""
    objective = lbb_objective(task, redundancy, pairs)
    tolerance = information_tolerance(task.predictions.shape[1])
    return objective.pick(evaluation, tolerance)
