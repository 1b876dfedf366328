"""Posterior coverage: resolve as much of the undecided mass of the pool as one batch can.

How the rule follows. A label is worth most where the model cannot decide, so the *filter* keeps the points T whose two
leading classes are nearly tied, and each such point j has the *weight* `u_j = 1 - margin_j`: how undecided it is.
Labelling i moves the prediction at j by their posterior covariance, `<z_i, z_j> / K` with `z_i = p_ik(c) - p̄_i(c)` the
centred predictions of the K samples. The *kernel* is its correlation, `r_ij = max(0, cos(z_i, z_j))`: how much of what
is open at j a label at i settles. Each undecided point is credited to its best informant in the batch S, which gives
the *coverage* `Σ_{j∈T} u_j max_{i∈S} r_ij`. It is monotone and submodular, so greedy selection is within `1 - 1/e` of the
best batch (Nemhauser et al. 1978), and lazy evaluation is exact. A copy of a pick covers nothing new; an outlier covers
nobody. The skeleton, a filter and then facility location, is that of Wei, Iyer and Bilmes (2015).
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from poolwise.errors import ParameterError
from poolwise.information.uncertainty import margin as margin_score
from poolwise.predictions.arrays import Array
from poolwise.registry import method
from poolwise.selection import engine as lazy
from poolwise.selection.embeddings import Embeddings, mean_of, needed
from poolwise.selection.engine import ENGINE_HELP, Engine
from poolwise.selection.ranking import top
from poolwise.selection.task import Picks, Task

# Elements of one block of the kernel matrix, which is never held whole: four megabytes.
_BLOCK = 1 << 20


class Coverage:
    """Facility location on the positive part of the cosine, for the engine.

    Args:
        features_T_F: `[T, F]` rows of length one, or zero for a point that tells nothing.
        weights_T: `[T]` what each point counts for.
    """

    shrinking = True
    floor = 0.0
    rows = 0

    def __init__(self, features_T_F: Tensor, weights_T: Tensor) -> None:
        self._features, self._weights = features_T_F, weights_T
        self._covered_T = torch.zeros_like(weights_T)
        # Sums of T float32 terms, in another order or a block of another shape, may differ by this much.
        self.slack = 1e-6 * float(weights_T.sum())
        self.pairs = 0

    def start(self) -> Array:
        """Coverage of each point alone."""
        return self.gains(np.arange(len(self._weights)))

    def refine(self, indices_n: Array) -> tuple[Array, Array]:
        """Exact gains."""
        return self.gains(indices_n), np.ones(len(indices_n), bool)

    def gains(self, indices_n: Array) -> Array:
        """Coverage that each point adds."""
        T = len(self._weights)
        gains_n = np.empty(len(indices_n))
        step = max(1, _BLOCK // T)
        for start in range(0, len(indices_n), step):
            some_m_F = self._features.index_select(0, torch.from_numpy(indices_n[start : start + step]))
            kernel_m_T = (some_m_F @ self._features.T).sub_(self._covered_T).clamp_min_(0.0)
            gains_n[start : start + step] = torch.mv(kernel_m_T, self._weights).numpy()
        self.pairs += T * len(indices_n)
        return gains_n

    def add(self, index: int, bounds_N: Array) -> Array:
        """Credit each point to the new pick where that is its best informant."""
        torch.maximum(self._covered_T, torch.mv(self._features, self._features[index]), out=self._covered_T)
        return bounds_N


def _features(task: Task, points_T: Array, kernel: str) -> Tensor:
    if kernel == "embeddings":
        source = needed(task, "posterior-coverage with kernel='embeddings'")
        rows_T_F = Embeddings(source, mean_of(source), 0).rows(points_T)
    else:
        probs_T_K_C = task.predictions.rows(points_T).probs.float()
        rows_T_F = (probs_T_K_C - probs_T_K_C.mean(1, keepdim=True)).flatten(1)
    lengths_T_1 = rows_T_F.norm(dim=1, keepdim=True)
    # Centred predictions shorter than this differ by rounding only: such a point tells nothing.
    return torch.where(lengths_T_1 > 1e-6, rows_T_F / lengths_T_1.clamp_min(1e-6), 0.0)


@method(
    "posterior-coverage",
    summary="Undecided points, chosen to settle as many other undecided points as possible.",
    formula="of the filter · b points T with the smallest margin: "
    "greedy max of Σ_{j∈T} u_j max_{i∈S} max(0, cos(z_i, z_j))",
    paper="Poolwise; after Wei, Iyer, Bilmes: Submodularity in Data Subset Selection and Active Learning, ICML 2015",
    parameters={
        "filter": "How many low-margin points to keep, times the batch size.",
        "weights": "What an undecided point counts for: 'margin', 1 - its margin, or 'uniform', 1.",
        "kernel": "'posterior': correlation of predictions over the samples; 'embeddings': cosine of the embeddings.",
        "engine": ENGINE_HELP,
    },
)
def posterior_coverage(
    task: Task,
    *,
    filter: float = 10.0,
    weights: Literal["margin", "uniform"] = "margin",
    kernel: Literal["posterior", "embeddings"] = "posterior",
    engine: Engine = "lazy",
) -> Picks:
    """Select greedily; points that cover equally much are taken most undecided first."""
    if not filter >= 1:
        raise ParameterError(f"posterior-coverage: filter must be at least 1, not {filter}.")
    scores_N = task.scores(lambda block: margin_score(block.probs))
    points_T = top(scores_N, min(len(scores_N), int(np.ceil(filter * task.batch_size))))
    weights_T = torch.from_numpy(scores_N[points_T]).float() if weights == "margin" else torch.ones(len(points_T))
    objective = Coverage(_features(task, points_T, kernel), weights_T)
    picks = lazy.run(objective, task.batch_size, engine=engine, report=task.report)
    picks.indices, picks.rows = points_T[picks.indices], len(points_T)
    return picks
