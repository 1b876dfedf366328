"""BADGE: k-means++ on the gradients that the most likely label would cause (Ash et al. 2020).

The gradient of the cross-entropy at the predicted label ŷ with respect to a last linear layer is the outer product
`(p - onehot(ŷ)) ⊗ h` of C and D numbers. It is never formed: products and lengths of outer products are products of
their factors, `<a ⊗ h, b ⊗ g> = <a, b> <h, g>`.
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from poolwise.predictions import Block
from poolwise.selection.embeddings import Embeddings
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task

# Squared distances below this share of the largest squared length are rounding errors of float32.
_NOISE = 1e-6


def residuals(block: Block, members: str) -> Tensor:
    """`[n, C]` or `[n, K·C]` float32 factors `p - onehot(argmax p)`, of the mean prediction or of every sample."""
    probs = block.probs.mean(1, keepdim=True) if members == "mean" else block.probs.clone()
    probs.scatter_add_(2, probs.argmax(2, keepdim=True), -torch.ones_like(probs[:, :, :1]))
    return probs.flatten(1).float()


@method(
    "badge",
    summary="k-means++ on loss gradients: far from each other and large.",
    formula="P(i) ∝ min_j |g_i - g_j|² over picks j; g = (p - onehot(argmax p)) ⊗ embedding; first pick: largest |g|",
    paper="Ash, Zhang, Krishnamurthy, Langford, Agarwal: Deep Batch Active Learning by Diverse, Uncertain Gradient "
    "Lower Bounds, ICLR 2020",
    needs=("predictions", "embeddings"),
    parameters={
        "members": "'mean': gradients of the averaged prediction; 'all': of every posterior sample, side by side."
    },
    stochastic=True,
)
def badge(task: Task, *, members: Literal["mean", "all"] = "mean") -> Picks:
    """Draw the batch; the score of a pick is its squared distance to the picks before it."""
    pool = Embeddings(task.embeddings, np.zeros(1), task.memory)
    scan = task.predictions.scan(lambda block: residuals(block, members), task.memory, task.report)
    factors_N_A = torch.cat([factors_n_A for _, factors_n_A in scan])
    lengths_N = factors_N_A.square().sum(1) * pool.squared_norms()
    noise = _NOISE * float(lengths_N.max())
    generator = task.generator("k-means++")
    nearest_N = lengths_N.double()
    free_N = np.ones(len(nearest_N), bool)
    indices, scores = np.empty(task.batch_size, np.int64), np.empty(task.batch_size)
    for t in range(task.batch_size):
        weights_N = nearest_N.numpy()
        # The first pick: the longest gradient, of those that are equal up to rounding the one with the lowest index.
        longest = int(np.argmax(weights_N >= weights_N.max() - noise))
        index = longest if t == 0 else _draw(weights_N, free_N, generator)
        indices[t], scores[t] = index, weights_N[index]
        free_N[index] = False
        cross_N = (factors_N_A @ factors_N_A[index]) * pool.products(pool.rows(np.array([index]))[0])
        distance_N = (lengths_N + lengths_N[index] - 2 * cross_N).double()
        distance_N[distance_N <= noise] = 0.0
        nearest_N = torch.minimum(nearest_N, distance_N) if t else distance_N
        nearest_N[index] = 0.0
        task.report("picking", t + 1, task.batch_size)
    worthless = scores <= 0
    return Picks(indices, scores * pool.scale**2, 0.0, int(np.argmax(worthless)) if worthless.any() else None)


def _draw(weights_N: np.ndarray, free_N: np.ndarray, generator: np.random.Generator) -> int:
    """One point by its weight; uniformly among the points left, if no weight is positive."""
    cumulative_N = np.cumsum(weights_N)
    if cumulative_N[-1] <= 0:
        return int(generator.choice(np.flatnonzero(free_N)))
    index = np.searchsorted(cumulative_N, generator.random() * cumulative_N[-1], "right")
    return int(min(index, np.flatnonzero(weights_N)[-1]))
