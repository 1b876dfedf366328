"""Power Large BatchBALD: each pick drawn in proportion to a power of its LBB gain (the paper, section 2.5)."""

from poolwise.selection.bald import bald_scores
from poolwise.selection.lbb_objective import lbb_objective
from poolwise.selection.objective import EVALUATION_HELP, Evaluation
from poolwise.selection.power_bald import ALPHA_HELP, check_alpha
from poolwise.selection.power_sampling import sample_by_power
from poolwise.selection.redundancy import PAIRS_HELP, REDUNDANCY_HELP, Pairs, Redundancy
from poolwise.selection.registry import method
from poolwise.selection.saturation import information_tolerance
from poolwise.selection.task import Picks, Task


@method(
    "power-lbb",
    summary="Large BatchBALD, each pick drawn in proportion to a power of its gain given the picks so far.",
    formula="P(i) ∝ gain_i^α, gains as in lbb",
    paper="Rubashevskii, Kotova, Panov: Scalable Batch Acquisition for Deep Bayesian Active Learning, SDM 2023",
    parameters={
        "alpha": ALPHA_HELP,
        "redundancy": REDUNDANCY_HELP,
        "pairs": PAIRS_HELP,
        "evaluation": EVALUATION_HELP,
    },
    stochastic=True,
    bound=bald_scores,
)
def power_lbb(
    task: Task,
    *,
    alpha: float = 1.0,
    redundancy: Redundancy = "normalised",
    pairs: Pairs = "unordered",
    evaluation: Evaluation = "lazy",
) -> Picks:
    """Draw the batch (see `power_sampling` for how the draws are exact and lazy)."""
    check_alpha("power-lbb", alpha)
    return sample_by_power(
        lbb_objective(task, redundancy, pairs, greedy=False),
        task.batch_size,
        alpha,
        task.generator("race"),
        evaluation=evaluation,
        tolerance=information_tolerance(task.predictions.shape[1]),
        report=task.report,
    )
