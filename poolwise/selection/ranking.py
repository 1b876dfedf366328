"""Methods that score every point once and take the best, or draw them by weight."""

import numpy as np

from poolwise.arrays import Array
from poolwise.seeding import gumbel
from poolwise.selection.task import Picks, Task


def top(scores_N: Array, batch_size: int) -> Array:
    """`[B]` positions of the largest values, largest first, ties by lowest index.

    Partial selection first: sorting ten million scores for a batch of a hundred would be most of the work.
    """
    N = len(scores_N)
    if batch_size == 0:
        return np.empty(0, np.int64)
    if batch_size < N:
        smallest = np.partition(scores_N, N - batch_size)[N - batch_size]
        above = np.flatnonzero(scores_N > smallest)
        ties = np.flatnonzero(scores_N == smallest)[: batch_size - len(above)]
        chosen = np.concatenate([above, ties])
    else:
        chosen = np.arange(N)
    return chosen[np.lexsort((chosen, -scores_N[chosen]))]


def take_top(scores_N: Array, batch_size: int, tolerance: float = 0.0) -> Picks:
    """The points with the largest scores."""
    indices = top(scores_N, batch_size)
    return Picks(indices, scores_N[indices], tolerance, _first_worthless(scores_N[indices], tolerance))


def draw(task: Task, log_weights_N: Array, scores_N: Array, tolerance: float = 0.0) -> Picks:
    """Points drawn one after another without replacement, each with probability proportional to its weight.

    The largest log-weights plus Gumbel noise are such a draw, in the order of their sizes (Kool et al. 2019). Points of
    weight zero come last, in random order.
    """
    noise_N = gumbel(task.generator("gumbel"), len(log_weights_N))
    possible_N = log_weights_N > -np.inf
    keys_N = np.where(possible_N, log_weights_N, 0.0) + noise_N
    B, count = task.batch_size, int(possible_N.sum())
    indices = top(np.where(possible_N, keys_N, -np.inf), min(B, count))
    if count < B:
        indices = np.concatenate([indices, top(np.where(possible_N, -np.inf, keys_N), B - count)])
    return Picks(indices, scores_N[indices], tolerance, _first_exhausted(scores_N, indices, tolerance))


def _first_worthless(scores_B: Array, tolerance: float) -> int | None:
    worthless_B = scores_B <= tolerance
    return int(np.argmax(worthless_B)) if worthless_B.any() else None


def _first_exhausted(scores_N: Array, indices_B: Array, tolerance: float) -> int | None:
    """Number of picks after which no point outside the picks so far has a score above the tolerance."""
    useful_B = scores_N[indices_B] > tolerance
    if int((scores_N > tolerance).sum()) > int(useful_B.sum()):
        return None  # some useful point was never picked
    exhausted = int(np.flatnonzero(useful_B)[-1]) + 1 if useful_B.any() else 0
    return exhausted if exhausted < len(indices_B) else None
