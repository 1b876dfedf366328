"""The formulas of the scores, each in one place: from a block of rows to one number per point, larger is better.

`poolwise.scores` and the selection methods both take them from here. A kernel may overwrite `block.probs`.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from poolwise.information import entropies, lookahead, uncertainty
from poolwise.information.pairs import Deviations
from poolwise.predictions import Block, Predictions
from poolwise.predictions.passes import DirectKernel
from poolwise.predictions.validation import TOLERANCE

Kernel = Callable[[Block], Tensor]
"""From a block of n rows to `[n]` scores, each depending on its own row only."""

# With this many numbers a compiled pass over them saves about as much time as Numba takes to load, which is once.
MANY = 50_000_000


def bald(block: Block) -> Tensor:
    """`[n]` mutual information between label and posterior sample, in nats (Houlsby et al. 2011)."""
    return entropies.bald(block.log_probs, block.probs, overwrite=True)


def bald_of(predictions: Predictions) -> Kernel:
    """The kernel of BALD for a pool: of a large one, one that is compiled. They agree but for rounding."""
    return DirectKernel(bald, direct_bald) if math.prod(predictions.shape) >= MANY else bald


def direct_bald(log_probs_n_K_C: Tensor) -> Tensor | None:
    """`[n]` BALD scores in one pass; None without Numba, and if the samples are not normalised."""
    try:
        from poolwise.information.compiled import member_sums
    except ImportError:  # no Numba, or one that does not suit NumPy
        return None
    _, K, C = log_probs_n_K_C.shape
    sums_n_C, products_n, wrong = member_sums(log_probs_n_K_C.numpy(), TOLERANCE[torch.float32])
    if wrong:
        return None
    predictive_n = entropies.entropy(torch.from_numpy(sums_n_C).div_(K)).double()
    return predictive_n.add_(torch.from_numpy(products_n).div_(K)).clamp_(0.0, entropies.ceiling(K, C))


def entropy(block: Block) -> Tensor:
    """`[n]` entropy of the averaged prediction, in nats."""
    return entropies.predictive_entropy(block.probs)


def conditional_entropy(block: Block) -> Tensor:
    """`[n]` average entropy of the samples' predictions, in nats."""
    return entropies.conditional_entropy(block.log_probs, block.probs, overwrite=True)


def least_confidence(block: Block) -> Tensor:
    """`[n]` one minus the probability of the most likely class."""
    return uncertainty.least_confidence(block.probs)


def margin(block: Block) -> Tensor:
    """`[n]` one minus the lead of the most likely class over the second."""
    return uncertainty.margin(block.probs)


def epig(probs_r_K_C: Tensor) -> Kernel:
    """The kernel of EPIG: mean information about the labels of target points (Bickford Smith et al. 2023)."""
    return partial(_epig, references=Deviations.of(probs_r_K_C))


def smocu(probs_r_K_C: Tensor, softness: float) -> Kernel:
    """The kernel of SMOCU: expected fall of the cost of uncertainty at target points (Zhao et al. 2021)."""
    return partial(_smocu, probs_r_K_C=probs_r_K_C, softness=softness)


def _epig(block: Block, references: Deviations) -> Tensor:
    return lookahead.expected_information(Deviations.of(block.probs), references)


def _smocu(block: Block, probs_r_K_C: Tensor, softness: float) -> Tensor:
    return lookahead.expected_confidence_gain(Deviations.of(block.probs), probs_r_K_C, softness)
