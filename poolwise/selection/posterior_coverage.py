"""Posterior coverage: resolve as much of the undecided mass of the pool as one batch can.

How the rule follows. A label is worth most where the model cannot decide, so the *filter* keeps the points T whose two
leading classes are nearly tied, and each such point j has the *weight* `u_j = 1 - margin_j`: how undecided it is.
Labelling i moves the prediction at j by their posterior covariance, `<z_i, z_j> / K` with `z_i = p_ik(c) - p̄_i(c)` the
centred predictions of the K samples. The *kernel* is its correlation, `r_ij = max(0, cos(z_i, z_j))`: how much of what
is open at j a label at i settles. Each undecided point is credited to its best informant in the batch S, which gives
the *coverage* `Σ_{j∈T} u_j max_{i∈S} r_ij`. It is monotone and submodular, so greedy selection is within `1 - 1/e` of
the best batch (Nemhauser et al. 1978), and lazy evaluation is exact. A copy of a pick covers nothing new; an outlier
covers nobody. The skeleton, a filter and then facility location, is that of Wei, Iyer and Bilmes (2015).
"""

import functools
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.predictions import Predictions
from poolwise.selection.coverage import Coverage
from poolwise.selection.coverage_early import LARGE_BATCH, MANY_TARGETS, SAMPLE, EarlySample
from poolwise.selection.coverage_kernels import Cosine, Kernel, Product, Rows, on_grid
from poolwise.selection.coverage_targets import drawn_targets, nearest
from poolwise.selection.embeddings import Embeddings, mean_of
from poolwise.selection.margin import scores as margin_scores
from poolwise.selection.objective import EVALUATION_HELP, Evaluation
from poolwise.selection.ranking import top
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task

KernelName = Literal["posterior", "embeddings", "product"]


def _correlations(predictions: Predictions, points_T: Array, memory: int) -> Rows:
    """`[T, (K-1)·(C-1)]` centred predictions of some points, of length one.

    Centred predictions sum to 0 over the samples and over the classes. Coordinates that leave these sums out have the
    same inner products, and are fewer.
    """
    _, K, C = predictions.shape
    over_K, over_C = _contrasts(K), _contrasts(C).T.contiguous()

    def read(places_n: Array) -> Tensor:
        probs_n_K_C = predictions.rows(points_T[places_n]).probs.float()
        centred_n_K_C = probs_n_K_C - probs_n_K_C.mean(1, keepdim=True)
        n = len(places_n)  # a product for each point by itself, which then does not depend on the others
        shorter_n_K_C = torch.bmm(torch.bmm(over_K.expand(n, -1, -1), centred_n_K_C), over_C.expand(n, -1, -1))
        return _unit(shorter_n_K_C.flatten(1))

    return Rows(len(points_T), max(1, K - 1) * max(1, C - 1), read, memory)


@functools.lru_cache(4)
def _contrasts(size: int) -> Tensor:
    """`[max(1, size - 1), size]` orthonormal rows that each sum to 0 (Helmert's)."""
    rows = torch.zeros(max(1, size - 1), size)
    for k in range(1, size):
        rows[k - 1, :k] = 1 / (k * (k + 1)) ** 0.5
        rows[k - 1, k] = -k / (k * (k + 1)) ** 0.5
    return rows


def _directions(source_N_D: Array, centre: Embeddings, points_T: Array, memory: int) -> Rows:
    """`[T, D]` centred embeddings of some points, of length one."""
    return Rows(
        len(points_T), source_N_D.shape[1], lambda places: _unit(centre.of(source_N_D, points_T[places])), memory
    )


def _unit(rows_n_F: Tensor) -> Tensor:
    lengths_n_1 = rows_n_F.norm(dim=1, keepdim=True)
    # Centred rows shorter than this differ by rounding only: such a point tells nothing.
    return on_grid(torch.where(lengths_n_1 > 1e-6, rows_n_F / lengths_n_1.clamp_min(1e-6), 0.0))


def _kernels(task: Task, points_T: Array, name: KernelName, labelled: bool) -> tuple[Kernel, Kernel | None]:
    """Similarities of the points of the filter, and of the labelled points with them (None without those)."""
    within: list[Kernel] = []
    before: list[Kernel] = []
    memory = task.memory // 4

    def add(rows: Rows, known: Rows | None) -> None:
        within.append(Cosine(rows))
        if known is not None:
            before.append(Cosine(known, rows))

    if name != "embeddings":
        seen = task.labelled_predictions if labelled else None
        rows = _correlations(task.predictions, points_T, memory)
        add(rows, _correlations(seen, np.arange(len(seen)), memory) if seen is not None and len(seen) else None)
    if name != "posterior":
        source, known_L_D = task.embeddings, task.labelled_embeddings
        centre = Embeddings(source, mean_of(source), 0)  # scaled to sizes of at most one
        places_L = np.arange(len(known_L_D) if labelled else 0)
        rows = _directions(source, centre, points_T, memory)
        add(rows, _directions(known_L_D, centre, places_L, memory) if len(places_L) else None)
    return _product(within), _product(before) if len(before) == len(within) else None


def _product(kernels: list[Kernel]) -> Kernel:
    return kernels[0] if len(kernels) == 1 else Product(*kernels)


def bounds(task: Task, *, filter: float = 10.0, **parameters: object) -> Array:
    """`[N]` upper bounds: a point outside the filter is never picked, one inside covers no more than there is.

    Where points of the filter are left out, others take their place, and picks may gain as much by covering those and
    nothing of what counts. Twice what there is to cover is above such a gain by all that a point left out could gain.
    """
    scores_N = margin_scores(task)
    points_T = _filtered(scores_N, filter, task.batch_size)
    bounds_N = np.zeros(len(scores_N))
    # All weights are at most 1. Adding a point's own keeps the most undecided where not all can be kept.
    bounds_N[points_T] = 2 * len(points_T) + scores_N[points_T]
    return bounds_N


def _filtered(scores_N: Array, filter: float, batch_size: int) -> Array:
    """`[T]` the low-margin points to choose from and to cover, most undecided first."""
    if not 1 <= filter < np.inf:
        raise ParameterError(f"posterior-coverage: filter must be finite and at least 1, not {filter}.")
    return top(scores_N, min(len(scores_N), int(np.ceil(filter * batch_size))))


@method(
    "posterior-coverage",
    summary="Undecided points, chosen to settle as many other undecided points as possible.",
    formula="of the filter · b points T with the smallest margin: "
    "greedy max of Σ_{j∈T} u_j max_{i∈S} max(0, cos(z_i, z_j))",
    paper="Poolwise; after Wei, Iyer, Bilmes: Submodularity in Data Subset Selection and Active Learning, ICML 2015",
    parameters={
        "filter": "How many low-margin points to keep, times the batch size.",
        "weights": "What an undecided point counts for: 'margin', 1 - its margin, or 'uniform', 1.",
        "kernel": "'posterior': correlation of predictions over the samples; 'embeddings': cosine of the centred "
        "embeddings; 'product': one times the other.",
        "labelled": "Whether labelled points cover as picks do, so that what they settle is not settled again.",
        "sample": f"'auto': in batches of more than {LARGE_BATCH:,} points, the first picks are points of a sample "
        f"of {SAMPLE:,}, drawn at random, that cover it best, and all others are exact; 'all', or None: every pick is "
        "exact; a number: all picks cover this many points, drawn at random. The diagnostics have standard errors.",
        "evaluation": EVALUATION_HELP,
    },
    needs=(
        "predictions",
        "embeddings if kernel=embeddings",
        "embeddings if kernel=product",
        "labelled_predictions if labelled and kernel=posterior",
        "labelled_predictions if labelled and kernel=product",
        "labelled_embeddings if labelled and kernel=embeddings",
        "labelled_embeddings if labelled and kernel=product",
    ),
    bound=bounds,
)
def posterior_coverage(
    task: Task,
    *,
    filter: float = 10.0,
    weights: Literal["margin", "uniform"] = "margin",
    kernel: KernelName = "posterior",
    labelled: bool = False,
    sample: int | Literal["auto", "all"] | None = "auto",
    evaluation: Evaluation = "lazy",
) -> Picks:
    """Select greedily; points that cover equally much are taken most undecided first."""
    scores_N = margin_scores(task)
    points_T = _filtered(scores_N, filter, task.batch_size)
    weights_T = scores_N[points_T] if weights == "margin" else np.ones(len(points_T))
    within, before = _kernels(task, points_T, kernel, labelled)
    T, covered_T = len(points_T), None if before is None else nearest(before)
    large = task.batch_size > LARGE_BATCH and T > MANY_TARGETS
    count = (SAMPLE if sample == "auto" and large else None) if isinstance(sample, str) else sample
    drawn_t, scale = drawn_targets(task, "posterior-coverage", T, count)
    if drawn_t is not None and sample == "auto":
        picks = EarlySample(task, within, weights_T, covered_T, drawn_t).pick(evaluation)
    elif drawn_t is not None:
        covered_t = None if covered_T is None else covered_T[drawn_t]
        objective = Coverage(task, within.restricted(drawn_t), scale * weights_T[drawn_t], covered_t)
        picks = objective.pick(evaluation)
        picks.standard_error = objective.standard_errors(T)
    else:
        picks = Coverage(task, within, weights_T, covered_T).pick(evaluation)
    picks.indices, picks.rows = points_T[picks.indices], T
    return picks
