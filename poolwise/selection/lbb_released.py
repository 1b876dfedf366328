"""LBB as the paper's released program computes it (formula in `information.released`)."""

import numpy as np
import torch

from poolwise import budget
from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.information.released import released_score
from poolwise.predictions import Predictions
from poolwise.selection.ranking import take_top
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task

REFERENCE_HELP = (
    "A whole number: each point is scored against its own block of that many consecutive rows, as the released program "
    "does (1024). Or the positions of the reference points in the pool, the same for all."
)


def released_scores(task: Task, reference: object) -> Array:
    """`[N]` scores of all points."""
    N = len(task.predictions)
    if isinstance(reference, int | np.integer) and not isinstance(reference, bool):
        if reference < 1:
            raise ParameterError(f"reference must be at least 1 row, not {reference}.")
        blocks = [np.arange(start, min(start + int(reference), N)) for start in range(0, N, int(reference))]
        parts = []
        for done, block_R in enumerate(blocks):
            parts.append(_scores(task, block_R, task.predictions, block_R, block_R))
            task.report("scoring the pool", done + 1, len(blocks))
        return np.concatenate(parts)
    reference_R = np.asarray(reference)
    if reference_R.ndim != 1 or reference_R.dtype.kind not in "iu" or len(np.unique(reference_R)) < len(reference_R):
        raise ParameterError("reference must be a whole number or an array of different positions in the pool.")
    if len(reference_R) == 0 or reference_R.min() < 0 or reference_R.max() >= len(task.pool):
        raise ParameterError(f"reference positions must be between 0 and {len(task.pool) - 1}, at least one.")
    positions_N = np.arange(N) if task.positions is None else task.positions
    return _scores(task, np.arange(N), task.pool, reference_R, positions_N)


def _scores(task: Task, points_n: Array, source: Predictions, reference_R: Array, positions_n: Array) -> Array:
    """`[n]` scores of some points against reference points of `source`, in which they stand at `positions_n`."""
    step = budget.block_rows(task.predictions.row_bytes, task.memory)
    _, K, C = source.shape
    total_K_C = torch.zeros(K, C, dtype=torch.float64)
    for start in range(0, len(reference_R), step):
        total_K_C += source.rows(reference_R[start : start + step]).probs.sum(0, dtype=torch.float64)
    scores_n = np.empty(len(points_n))
    for start in range(0, len(points_n), step):
        part = slice(start, start + step)
        block = task.predictions.rows(points_n[part])
        member = torch.from_numpy(np.isin(positions_n[part], reference_R))
        scores_n[part] = released_score(block.log_probs, block.probs, total_K_C, member).numpy()
    return scores_n


@method(
    "lbb-released",
    summary="LBB as the paper's released program computes it: BALD plus a bonus for representative points.",
    formula="top b of I_i + Σ_c a_ic (ln(1 + a_ic) - ln(1 + e_ic)), over a reference set",
    paper="the program released with Rubashevskii, Kotova, Panov 2023",
    parameters={"reference": REFERENCE_HELP},
)
def lbb_released(task: Task, *, reference: object = 1024) -> Picks:
    """Select the top b."""
    return take_top(released_scores(task, reference), task.batch_size)
