"""Herding: coverage of the pool by features, with a Gaussian kernel. What `max-herding` and `uherding` share."""

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.selection.coverage import Coverage
from poolwise.selection.coverage_kernels import Gaussian, Rows, rounding, together, unit_rows
from poolwise.selection.coverage_targets import drawn_targets, nearest
from poolwise.selection.objective import Evaluation
from poolwise.selection.task import Picks, Task

SAMPLE_HELP = (
    "Cover this many points drawn at random, instead of all: an estimate whose standard error is in the diagnostics. "
    "None covers all, exactly."
)

# Above this share of rounding in a kernel value, too many points look tied: products are then made in float64.
_COARSE = 1e-4
# Squared distances of float64 features of length one that are below this are rounding.
_SAME = 1e-12


def herd(
    task: Task, name: str, bandwidth: float, weights_N: Array | None, sample: int | None, evaluation: Evaluation
) -> Picks:
    """Select greedily.

    Args:
        task: what to choose from; its embeddings and those of the labelled points are scaled to length one.
        name: of the method, for errors.
        bandwidth: σ.
        weights_N: `[N]` what each point counts for; 1 if None.
        sample: how many points to cover; None for all.
        evaluation: how to evaluate gains.
    """
    if not 1e-6 <= bandwidth <= 1e6:
        raise ParameterError(f"{name}: bandwidth must be from 1e-6 to 1e6, not {bandwidth}.")
    N = len(task.predictions)
    weights_N = np.ones(N) if weights_N is None else weights_N
    places_T, scale = drawn_targets(task, name, N, sample)
    dtype = torch.float32
    pool = unit_rows(task.embeddings, task.memory // 2, dtype)
    if 2 * rounding(pool) / bandwidth**2 > _COARSE:
        dtype = torch.float64
        pool = unit_rows(task.embeddings, task.memory // 2, dtype)
    targets = pool if places_T is None else pool.some(places_T)
    labelled = unit_rows(task.labelled_embeddings, task.memory // 4, dtype)
    covered_T = nearest(Gaussian(labelled, targets, bandwidth=bandwidth)) if len(labelled) else None
    weights_T = weights_N if places_T is None else weights_N[places_T] * scale
    objective = Coverage(task, Gaussian(pool, targets, bandwidth=bandwidth), weights_T, covered_T)
    picks = objective.pick(evaluation)
    if places_T is not None:
        picks.standard_error = objective.standard_errors(N)
    return picks


def smallest_distance(rows: Rows) -> float:
    """The smallest distance between two rows that are not the same; infinite if there are no two such rows."""
    smallest, step = np.inf, together(rows.width)
    for start in range(0, len(rows), step):
        some_m_D = rows.part(start, start + step)
        for other in range(0, start + 1, step):
            others_n_D = rows.part(other, other + step)
            squared_m_n = some_m_D.square().sum(1)[:, None] + others_n_D.square().sum(1) - 2 * (some_m_D @ others_n_D.T)
            squared_m_n[squared_m_n < _SAME] = torch.inf
            smallest = min(smallest, float(squared_m_n.min()))
    return float(np.sqrt(smallest))
