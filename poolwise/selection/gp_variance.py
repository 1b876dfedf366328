"""Largest posterior variance of a Gaussian process on the network's own samples (Tsymbalov et al. 2019)."""

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.predictions import Block
from poolwise.selection.objective import EVALUATION_HELP, Evaluation, GreedyObjective
from poolwise.selection.power_bald import check_alpha
from poolwise.selection.registry import method
from poolwise.selection.saturation import SHARE
from poolwise.selection.task import Picks, Task


def centred(block: Block) -> Tensor:
    """`[n, K, C]` float64 features: predictions less their mean over the samples, over `sqrt(K)`.

    The product of two points' features, summed over k, is the covariance of their predictions.
    """
    probs = block.probs.double()
    return (probs - probs.mean(1, keepdim=True)).div_(probs.shape[1] ** 0.5)


def variances(task: Task, **parameters: object) -> Array:
    """`[N]` variance of every point before any pick, summed over the classes."""
    return task.scores(lambda block: centred(block).square_().sum((1, 2)))


class RemainingVariance(GreedyObjective):
    """Variance of each point given the picks, summed over the classes.

    A Gaussian process with features `z_ic` (K numbers per point and class) is Bayesian linear regression: its state is
    one K × K matrix per class, and a pick is a rank-one update. Variances never grow.
    """

    floor, embedded = 0.0, False
    rounding = 1e-12  # in double precision, generously

    def __init__(self, task: Task, noise: float) -> None:
        super().__init__(task)
        self._noise = noise
        _, K, C = task.predictions.shape
        self._state_C_K_K = torch.eye(K, dtype=torch.float64).repeat(C, 1, 1)

    def start(self) -> Array:
        """Variances before any pick."""
        return variances(self.task)

    def gains(self, indices_n: Array) -> Array:
        """Exact variances given the picks."""
        values_n = np.empty(len(indices_n))
        step = max(1, (1 << 22) // (8 * self._state_C_K_K[:, 0].numel()))
        for start in range(0, len(indices_n), step):
            z_C_n_K = centred(self.task.predictions.rows(indices_n[start : start + step])).permute(2, 0, 1)
            values_n[start : start + step] = (torch.bmm(z_C_n_K, self._state_C_K_K) * z_C_n_K).sum((0, 2)).numpy()
        self.rows += len(indices_n)
        return np.where(values_n > self.slack, values_n, 0.0)

    def add(self, index: int) -> None:
        """Condition on a point."""
        z_C_K = centred(self.task.predictions.rows(np.array([index])))[0].T
        seen_C_K = torch.bmm(self._state_C_K_K, z_C_K[:, :, None])[:, :, 0]
        scale_C = self._noise + (z_C_K * seen_C_K).sum(1)
        self._state_C_K_K -= seen_C_K[:, :, None] * (seen_C_K / scale_C[:, None])[:, None, :]


@method(
    "gp-variance",
    summary="Largest remaining variance of a Gaussian process with the covariance of the posterior samples.",
    formula="argmax_i Σ_c var(f_i(c) | picks), cov(f_i(c), f_j(c)) = cov_k(p_ik(c), p_jk(c)), plus noise when observed",
    paper="Tsymbalov, Makarychev, Shapeev, Panov: "
    "Deeper Connections between Neural Networks and Gaussian Processes, 2019",
    parameters={
        "noise": "Variance of an observation, above 0: larger lets similar points be picked again.",
        "evaluation": EVALUATION_HELP,
    },
    bound=variances,
)
def gp_variance(task: Task, *, noise: float = 0.01, evaluation: Evaluation = "lazy") -> Picks:
    """Select greedily."""
    check_alpha("gp-variance", noise, "noise")
    picks = RemainingVariance(task, noise).pick(evaluation)
    picks.tolerance = SHARE * float(picks.scores[0])
    worthless = picks.scores <= picks.tolerance
    picks.saturated_at = int(np.argmax(worthless)) if worthless.any() else None
    return picks
