"""Core-set: greedy k-centre from the labelled points (Sener and Savarese 2018)."""

import numpy as np
import torch
from torch import Tensor

from poolwise.selection.embeddings import Embeddings, mean_of
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task

# Squared distances below this share of the largest squared length are rounding errors of float32.
_NOISE = 1e-6


@method(
    "coreset",
    summary="The point farthest from everything labelled or picked, again and again.",
    formula="argmax_i min_j |x_i - x_j| over labelled points and picks j",
    paper="Sener, Savarese: Active Learning for Convolutional Neural Networks: A Core-Set Approach, ICLR 2018",
    needs=("embeddings", "labelled_embeddings"),
)
def coreset(task: Task) -> Picks:
    """Select greedily; without labelled points, the first pick is the point nearest to the mean."""
    source = task.embeddings
    shift_D = mean_of(source)
    pool = Embeddings(source, shift_D, task.memory)
    lengths_N = pool.squared_norms()
    noise = _NOISE * float(lengths_N.max())
    nearest_N = torch.full_like(lengths_N, torch.inf)
    if len(task.labelled_embeddings):
        centres = Embeddings(task.labelled_embeddings, shift_D, task.memory, pool.scale)
        for done, (_, block) in enumerate(centres.blocks()):
            _approach(nearest_N, pool, lengths_N, block)
            task.report("distances to labelled points", done + 1, done + 1)
    indices, scores = np.empty(task.batch_size, np.int64), np.empty(task.batch_size)
    for t in range(task.batch_size):
        if torch.isinf(nearest_N[0]):
            index = int((lengths_N <= lengths_N.min() + noise).int().argmax())
            distance = float(lengths_N.max())
        else:
            distance = float(nearest_N.max())
            index = int((nearest_N >= distance - noise).int().argmax())  # equal up to rounding: the lowest index
        indices[t], scores[t] = index, np.sqrt(max(distance, 0.0)) if distance > noise else 0.0
        _approach(nearest_N, pool, lengths_N, pool.rows(np.array([index])))
        nearest_N[nearest_N <= noise] = 0.0
        nearest_N[indices[: t + 1]] = -1.0
        task.report("picking", t + 1, task.batch_size)
    worthless = scores <= 0
    return Picks(indices, scores * pool.scale, 0.0, int(np.argmax(worthless)) if worthless.any() else None)


def _approach(nearest_N: Tensor, pool: Embeddings, lengths_N: Tensor, centres_m_D: Tensor) -> None:
    """Lower each point's squared distance to its nearest centre, given more centres."""
    lengths_m = centres_m_D.square().sum(1)
    step_m = 256
    for rows, block_n_D in pool.blocks():
        step_n = max(1, (1 << 20) // step_m)
        for i in range(0, len(block_n_D), step_n):
            part = slice(rows.start + i, min(rows.start + i + step_n, rows.stop))
            for j in range(0, len(centres_m_D), step_m):
                cross_n_m = block_n_D[i : i + step_n] @ centres_m_D[j : j + step_m].T
                distance_n = (lengths_m[j : j + step_m] - 2 * cross_n_m).amin(1).add_(lengths_N[part])
                torch.minimum(nearest_N[part], distance_n, out=nearest_N[part])
