"""EPIG: expected information about the labels of target points (Bickford Smith et al. 2023)."""

from poolwise.scores import kernels
from poolwise.selection.ranking import take_top
from poolwise.selection.references import SAMPLE_HELP, TARGETS_HELP, reference_probs
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


@method(
    "epig",
    summary="Most information about the labels of target points.",
    formula="top b of mean_r I(y_i; y_r) over the targets r",
    paper="Bickford Smith, Kirsch, Farquhar, Gal, Foster, Rainforth: "
    "Prediction-Oriented Bayesian Active Learning, AISTATS 2023",
    parameters={"targets": TARGETS_HELP, "sample": SAMPLE_HELP},
    stochastic=True,
)
def epig(task: Task, *, targets: object = None, sample: int = 500) -> Picks:
    """Select the top b."""
    scores_N = task.scores(kernels.epig(reference_probs(task, targets, sample)))
    return take_top(scores_N, task.batch_size)
