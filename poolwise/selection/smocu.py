"""SMOCU: expected fall of the soft mean objective cost of uncertainty (Zhao et al. 2021)."""

import torch

from poolwise.scores import kernels
from poolwise.selection.ranking import take_top
from poolwise.selection.references import SAMPLE_HELP, TARGETS_HELP, reference_probs, warn_if_long
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


@method(
    "smocu",
    summary="Largest expected fall of the classification cost of uncertainty at target points.",
    formula="top b of mean_r [ E_y softmax_c q_r(c | y) - softmax_c p̄_r(c) ], softmax_c x = (1/s) ln Σ_c exp(s x_c)",
    paper="Zhao, Dougherty, Yoon, Alexander, Qian: "
    "Uncertainty-aware Active Learning for Optimal Bayesian Classifier, 2021",
    parameters={
        "targets": TARGETS_HELP,
        "sample": SAMPLE_HELP,
        "softness": "s, above 0: the larger, the closer to the hard maximum of the original cost.",
    },
    stochastic=True,
)
def smocu(task: Task, *, targets: object = None, sample: int = 200, softness: float = 10.0) -> Picks:
    """Select the top b."""
    targets_R_K_C = warn_if_long(len(task.predictions), reference_probs(task, targets, sample))
    scores_N = task.scores(kernels.smocu(targets_R_K_C, softness))
    rounding = 1e-7 if task.predictions.dtype == torch.float32 else 1e-12  # of differences of numbers near one
    return take_top(scores_N, task.batch_size, tolerance=rounding)
