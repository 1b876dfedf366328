"""Mutual herding: undecided points that bring a label nearer to as much of the undecided pool as possible.

`local-herding` counts how undecided the points are that a pick covers, but not how undecided the pick itself is. A
label that the model already foresees teaches it little, also about the neighbours. Here both ends count: what a pick
i does for point j is

`v(i, j) = u_i · max(0, exp(-|x_i - x_j|² / 2 d_j²) - exp(-½))`, on features of length one,

with `u = 1 - margin` of the mean prediction, and the width `d_j`, the distance of j to the nearest labelled point.
The last term is what that label does for j already. The batch S maximises `Σ_j u_j max_{i∈S} v(i, j)` over the pool,
which is monotone and submodular within a batch.

While the model is equally unsure everywhere, `u` is the same for all points, and the rule is `local-herding`: it
covers. As the model gets sure of more points, these drop out at both ends, and the rule turns towards uncertainty.

No width is smaller than 0.1, and while nothing is labelled, the rule is `max-herding`: see `local_herding`.
"""

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.selection.coverage_kernels import Rows
from poolwise.selection.herding import SAMPLE_HELP
from poolwise.selection.local_herding import LocalGaussian, herd_locally
from poolwise.selection.objective import EVALUATION_HELP, Evaluation
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


@method(
    "mutual-herding",
    summary="Undecided points that bring a label nearer to as many other undecided points as possible.",
    formula="greedy max of Σ_j u_j max_{i∈S} u_i max(0, exp(-|x_i - x_j|² / 2 d_j²) - exp(-½)), "
    "u = 1 - margin, d_j = min_{l∈L} |x_l - x_j|, x of length one",
    paper="Poolwise; after Bae, Oliveira, Sutherland: Uncertainty Herding, ICLR 2025",
    parameters={"sample": SAMPLE_HELP, "evaluation": EVALUATION_HELP},
    needs=("predictions", "embeddings", "labelled_embeddings"),
    features="fixed",
)
def mutual_herding(task: Task, *, sample: int | None = None, evaluation: Evaluation = "lazy") -> Picks:
    """Select greedily; points that cover equally much are taken in the order of the pool."""
    return herd_locally(task, "mutual-herding", MutualGaussian, sample, evaluation)


class MutualGaussian(LocalGaussian):
    """`u_i (exp(-s_j |x_i - x_j|²) - m_j)`, 0 if that is negative.

    Args:
        candidates: `[N, D + 3]` rows of length one or zero, each followed by its weight u, which counts as a candidate
            only, and by its level m and its scale s, which count as a target only.
        targets: `[T, D + 3]` such rows.
        largest: the largest scale of a target.
    """

    labels_cover = False  # the level is taken off here

    def __init__(self, candidates: Rows, targets: Rows, largest: float) -> None:
        super().__init__(candidates, targets, largest)
        # The level is taken off, so what was a share of the Gaussian is no longer a share of the value.
        self.noise, self.relative = self.noise + self.relative, 0.0

    @staticmethod
    def columns(weights_N: Array, covered_N: Array, scales_N: Array) -> Array:
        """`[N, 3]` what follows the features of each point."""
        return np.stack([weights_N, covered_N, scales_N], 1)

    def _between(self, targets_t_F: Tensor, candidates_n_F: Tensor, out_t_n: Tensor) -> Tensor:
        weights_n, levels_t = candidates_n_F[:, -3], targets_t_F[:, -2:-1]
        gaussian_t_n = super()._between(_with_scale(targets_t_F), _with_scale(candidates_n_F), out_t_n)
        return gaussian_t_n.sub_(levels_t).mul_(weights_n)

    def _of_pairs(self, rows_n_F: Array, others_n_F: Array) -> Array:
        distances_n = np.square(others_n_F[:, :-3] - rows_n_F[:, :-3]).sum(1)
        gaussians_n: Array = np.exp(-distances_n * others_n_F[:, -1])
        return np.asarray(rows_n_F[:, -3] * (gaussians_n - others_n_F[:, -2]))


def _with_scale(rows_n_F: Tensor) -> Tensor:
    """`[n, D + 1]` features and scale of some rows."""
    return torch.cat([rows_n_F[:, :-3], rows_n_F[:, -1:]], 1)
