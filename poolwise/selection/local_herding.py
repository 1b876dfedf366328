"""Local herding: bring a label nearer to as much of the undecided part of the pool as possible.

Coverage by a Gaussian kernel stands or falls with its width. One width for the whole pool is too wide where labels are
dense and too narrow where they are sparse, and the best one shrinks as labels grow. Here every point j has a width of
its own, its distance `d_j` to the nearest labelled point:

`k(i, j) = exp(-|x_i - x_j|² / 2 d_j²)`, on features of length one.

So the label that j has to make do with counts `exp(-½)`, wherever j is, and a pick gains what it is nearer than that.
Distances count relative to those that labels have left: there is no width to choose, sparse regions are first
covered coarsely, and dense ones more finely with every round. The coverage is `Σ_j u_j max_{i∈S∪L} k(i, j)` over the
pool, with `u_j = 1 - margin_j` of the mean prediction, as in `uherding` (Bae et al. 2025). It is monotone and
submodular within a batch.

Points whose features differ by less than a tenth of their length count as alike: no width is smaller than 0.1. While
nothing is labelled, the rule is `max-herding`.
"""

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.selection.coverage import Coverage
from poolwise.selection.coverage_kernels import Cosine, Rows, in_parts, rounding, together, unit_rows
from poolwise.selection.coverage_targets import drawn_targets
from poolwise.selection.herding import SAMPLE_HELP, herd
from poolwise.selection.margin import scores as margin_scores
from poolwise.selection.objective import EVALUATION_HELP, Evaluation
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task

# No width is smaller: features of length one that are nearer than this are those of near-duplicates. It also bounds the
# rounding of a kernel value, which grows with the inverse of the squared width.
NARROWEST = 0.1
# Squared distances are rounded to multiples of this, far above the rounding of float64, so that they do not depend on
# the block that they were computed in.
_GRAIN = 2.0**-36


@method(
    "local-herding",
    summary="Points that bring a label nearer to as many undecided points as possible.",
    formula="greedy max of Σ_j u_j max_{i∈S∪L} exp(-|x_i - x_j|² / 2 d_j²), "
    "u = 1 - margin, d_j = min_{l∈L} |x_l - x_j|, x of length one",
    paper="Poolwise; after Bae, Oliveira, Sutherland: Uncertainty Herding, ICLR 2025",
    parameters={"sample": SAMPLE_HELP, "evaluation": EVALUATION_HELP},
    needs=("predictions", "embeddings", "labelled_embeddings"),
    features="fixed",
)
def local_herding(task: Task, *, sample: int | None = None, evaluation: Evaluation = "lazy") -> Picks:
    """Select greedily; points that cover equally much are taken in the order of the pool."""
    return herd_locally(task, "local-herding", LocalGaussian, sample, evaluation)


def herd_locally(
    task: Task, name: str, kernel: "type[LocalGaussian]", sample: int | None, evaluation: Evaluation
) -> Picks:
    """Cover the pool by a kernel in which each point has the distance to its nearest label as its width.

    Args:
        task: what to choose from.
        name: of the method, for the draw of a sample.
        kernel: what a pick does for a point.
        sample: how many points to cover; all of them if None.
        evaluation: lazy or full.
    """
    if len(task.labelled_embeddings) == 0:
        return herd(task, name, 1.0, None, sample, evaluation)
    places_T, scale = drawn_targets(task, name, len(task.predictions), sample)
    plain = unit_rows(task.embeddings, 0, torch.float64)
    squared_N = squared_distances(unit_rows(task.labelled_embeddings, task.memory // 4, torch.float64), plain)
    scales_N = 1 / (2 * np.maximum(squared_N, NARROWEST**2))
    weights_N, covered_N = margin_scores(task), np.exp(-squared_N * scales_N)
    own_N_E = kernel.columns(weights_N, covered_N, scales_N)
    step = together(plain.width)

    def read(places_n: Array) -> Tensor:
        rows_n_F = torch.empty(len(places_n), plain.width + own_N_E.shape[1])
        for start in range(0, len(places_n), step):
            some_m = places_n[start : start + step]
            rows_n_F[start : start + step, : plain.width] = plain.take(some_m)
            rows_n_F[start : start + step, plain.width :] = torch.from_numpy(own_N_E[some_m])
        return rows_n_F

    pool = Rows(len(plain), plain.width + own_N_E.shape[1], read, task.memory // 2)
    places = slice(None) if places_T is None else places_T
    made = kernel(pool, pool if places_T is None else pool.some(places_T), float(scales_N[places].max()))
    covered_T = covered_N[places] if kernel.labels_cover else None
    objective = Coverage(task, made, weights_N[places] * scale, covered_T)
    picks = objective.pick(evaluation)
    if places_T is not None:
        picks.standard_error = objective.standard_errors(len(plain))
    return picks


class LocalGaussian(Cosine):
    """`exp(-s_j |x_i - x_j|²)` with a scale s_j of each target.

    Args:
        candidates: `[N, D + 1]` rows of length one or zero, each followed by its scale, which counts as a target only.
        targets: `[T, D + 1]` such rows.
        largest: the largest scale of a target.

    Attributes:
        labels_cover: whether what labels cover already is counted by the coverage, and not in the kernel.
    """

    labels_cover = True

    def __init__(self, candidates: Rows, targets: Rows, largest: float) -> None:
        super().__init__(candidates, targets)
        self.symmetric = False  # the scale is that of the target
        # A value changes by its s-th part with the squared distance, whose rounding is twice that of a product.
        self.relative = 2 * rounding(candidates) * largest
        self.noise = float(torch.finfo(candidates.dtype).eps)

    @staticmethod
    def columns(weights_N: Array, covered_N: Array, scales_N: Array) -> Array:
        """`[N, E]` what follows the features of each point."""
        return scales_N[:, None]

    def _between(self, targets_t_F: Tensor, candidates_n_F: Tensor, out_t_n: Tensor) -> Tensor:
        own_n_D, other_t_D, scales_t = candidates_n_F[:, :-1], targets_t_F[:, :-1], targets_t_F[:, -1:]
        torch.mm(other_t_D, own_n_D.T, out=out_t_n)
        out_t_n.mul_(2.0).sub_(other_t_D.square().sum(1)[:, None]).sub_(own_n_D.square().sum(1))
        return out_t_n.clamp_max_(0.0).mul_(scales_t).exp_()

    def _of_pairs(self, rows_n_F: Array, others_n_F: Array) -> Array:
        distances_n = np.square(others_n_F[:, :-1] - rows_n_F[:, :-1]).sum(1)
        similarities_n: Array = np.exp(-distances_n * others_n_F[:, -1])
        return similarities_n


def squared_distances(labelled: Rows, points: Rows) -> Array:
    """`[N]` the squared distance of each point to the nearest labelled one."""
    squared_N = np.full(len(points), np.inf)
    step = together(points.width)
    for some_n in in_parts(np.arange(len(points)), step):
        own_n_D = points.take(some_n)
        for start in range(0, len(labelled), step):
            other_m_D = labelled.part(start, start + step)
            products_n_m = own_n_D @ other_m_D.T
            apart_n_m = products_n_m.mul_(-2.0).add_(other_m_D.square().sum(1)).add_(own_n_D.square().sum(1)[:, None])
            squared_N[some_n] = np.minimum(squared_N[some_n], apart_n_m.amin(1).numpy())
    rounded_N: Array = np.round(np.maximum(squared_N, 0.0) / _GRAIN) * _GRAIN
    return rounded_N
