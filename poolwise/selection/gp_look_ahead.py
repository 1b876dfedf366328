"""One step ahead: the label that lowers the average variance of a Gaussian process most (Burnaev and Panov 2015).

The paper chooses the next observation of a Gaussian process so that the variance averaged over the space falls most.
Here the process is that of `gp-variance`: class c of point i has K features `z_ic`, its centred predictions over
`sqrt(K)`, so that the covariance of two points is that of their K predictions. With `Σ_c` the posterior covariance of
the weights and `A_c = mean_r z_rc z_rcᵀ` over the reference points, a label at i lowers the average variance by

    Σ_c  zᵀ Σ A Σ z / (noise + zᵀ Σ z)      with  z = z_ic, Σ = Σ_c, A = A_c.

The value of the label does not matter, so a batch is chosen one point after another. Each point keeps `q = zᵀ Σ z` and
`s = zᵀ Σ A Σ z` per class. A pick changes Σ by a matrix of rank one, and q and s by two products with z: `O(N·K·C)`.

For Gaussian labels EPIG would be the mean of `-½ ln(1 - ρ²)` over the references, with ρ the correlation of two labels.
This is the mean of `ρ²` times the variance of the reference: what is certain already does not count.
"""

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.predictions import Block
from poolwise.selection.point_features import PointFeatures
from poolwise.selection.power_bald import check_alpha
from poolwise.selection.references import TARGETS_HELP, reference_probs
from poolwise.selection.registry import method
from poolwise.selection.saturation import SHARE
from poolwise.selection.task import Picks, Task

# Gains that differ by less than this share of the largest are equal up to rounding: the lowest index wins.
_CLOSE = 1e-9


def by_class(probs_n_K_C: Tensor) -> Tensor:
    """`[n, C, K]` float64 features."""
    probs_n_C_K = probs_n_K_C.double().transpose(1, 2)
    return (probs_n_C_K - probs_n_C_K.mean(2, keepdim=True)).div_(probs_n_C_K.shape[2] ** 0.5).contiguous()


def _features(block: Block) -> Tensor:
    return by_class(block.probs)


def _products(block: Block) -> Tensor:
    """`[1, C, K, K]` sum of `z zᵀ` over a block."""
    return _summed(by_class(block.probs))[None]


def _summed(z_n_C_K: Tensor) -> Tensor:
    z_C_n_K = z_n_C_K.transpose(0, 1)
    return torch.bmm(z_C_n_K.transpose(1, 2), z_C_n_K)


def average_products(task: Task, targets: object) -> Tensor:
    """`[C, K, K]` mean of `z zᵀ` over the targets, or over the whole pool."""
    if targets is not None:
        z_R_C_K = by_class(reference_probs(task, targets, 1))
        return _summed(z_R_C_K) / len(z_R_C_K)
    _, K, C = task.pool.shape
    total_C_K_K = torch.zeros(C, K, K, dtype=torch.float64)
    for _, part_1_C_K_K in task.pool.scan(_products, task.memory, task.report):
        total_C_K_K += part_1_C_K_K[0]
    return total_C_K_K.div_(len(task.pool))


class AverageVariance:
    """What a label at each point would take from the average variance, kept up to date.

    Args:
        task: the points.
        average_C_K_K: `[C, K, K]` the matrices A.
        noise: variance of an observation.
    """

    def __init__(self, task: Task, average_C_K_K: Tensor, noise: float) -> None:
        C, K, _ = average_C_K_K.shape
        self._points, self._average, self._noise = PointFeatures(task, _features, K * C), average_C_K_K, noise
        self._weights = torch.eye(K, dtype=torch.float64).repeat(C, 1, 1)
        self._q = self._points.map(lambda z_n_C_K: z_n_C_K.square().sum(2))
        self._s = self._points.map(lambda z_n_C_K: _form(z_n_C_K, average_C_K_K))

    def gains(self) -> Array:
        """`[N]` falls of the average variance, summed over the classes."""
        gains_N: Array = (self._s / (self._noise + self._q)).sum(1).clamp_min_(0.0).numpy()
        return gains_N

    def add(self, index: int) -> None:
        """Condition on a point."""
        z_C_K, s_C, scale_C = self._points.of(index), self._s[index].clone(), self._noise + self._q[index]
        seen_C_K_1 = torch.bmm(self._weights, z_C_K[:, :, None])
        ahead_C_K_1 = torch.bmm(self._weights, torch.bmm(self._average, seen_C_K_1))
        both_C_K_2 = torch.cat([seen_C_K_1, ahead_C_K_1], 2)
        g_N_C, f_N_C = self._points.map(lambda z: torch.bmm(z.transpose(0, 1), both_C_K_2).permute(1, 2, 0)).unbind(1)
        ratio_N_C = g_N_C / scale_C
        self._q -= g_N_C * ratio_N_C
        self._s -= ratio_N_C * (2 * f_N_C - ratio_N_C * s_C)
        self._weights -= torch.bmm(seen_C_K_1, seen_C_K_1.transpose(1, 2)) / scale_C[:, None, None]


@method(
    "gp-look-ahead",
    summary="Largest fall of the average variance of a Gaussian process with the covariance of the posterior samples.",
    formula="argmax_i mean_r Σ_c [var(f_r(c) | picks) - var(f_r(c) | picks, i)], with the process of gp-variance",
    paper="Burnaev, Panov: Adaptive Design of Experiments Based on Gaussian Processes, SLDS 2015",
    parameters={
        "targets": TARGETS_HELP.replace("a random sample of the pool", "the whole pool"),
        "noise": "Variance of an observation, above 0: larger lets similar points be picked again.",
    },
)
def gp_look_ahead(task: Task, *, targets: object = None, noise: float = 0.01) -> Picks:
    """Select greedily; the score of a pick is the fall of the average variance, summed over the classes."""
    check_alpha("gp-look-ahead", noise, "noise")
    variance = AverageVariance(task, average_products(task, targets), noise)
    indices, scores = np.empty(task.batch_size, np.int64), np.empty(task.batch_size)
    for t in range(task.batch_size):
        gains_N = variance.gains()
        gains_N[indices[:t]] = -1.0
        scores[t] = gains_N.max()
        indices[t] = index = int(np.argmax(gains_N >= scores[t] * (1 - _CLOSE)))
        variance.add(index)
        task.report("picking", t + 1, task.batch_size)
    tolerance = SHARE * float(scores[0])
    worthless = scores <= tolerance
    return Picks(indices, scores, tolerance, int(np.argmax(worthless)) if worthless.any() else None)


def _form(z_n_C_K: Tensor, matrix_C_K_K: Tensor) -> Tensor:
    """`[n, C]` products `zᵀ matrix z`."""
    z_C_n_K = z_n_C_K.transpose(0, 1)
    return torch.bmm(z_C_n_K, matrix_C_K_K).mul_(z_C_n_K).sum(2).T
