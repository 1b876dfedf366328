"""Entropies of one point and the information between its label and the model (Houlsby et al. 2011)."""

import math

import torch
from torch import Tensor


def plogp(probs: Tensor) -> Tensor:
    """`p log p`, with `0 log 0 = 0` exactly.

    Clamping the argument of the logarithm to the smallest normal number changes no other value, and is many times
    faster on a CPU than `torch.special.xlogy`, which is not vectorised there.
    """
    return probs.clamp_min(torch.finfo(probs.dtype).tiny).log_().mul_(probs)


def entropy(probs: Tensor) -> Tensor:
    """Entropy over the last axis."""
    return 0.0 - plogp(probs).sum(-1)  # and never -0


def mean_prediction(probs_N_K_C: Tensor) -> Tensor:
    """`[N, C]` prediction averaged over the posterior samples (equation 3 of the paper)."""
    return probs_N_K_C.sum(1).div_(probs_N_K_C.shape[1])


def predictive_entropy(probs_N_K_C: Tensor) -> Tensor:
    """`[N]` entropy of the averaged prediction, `H[y]`."""
    return entropy(mean_prediction(probs_N_K_C))


def member_entropies(log_probs_N_K_C: Tensor, probs_N_K_C: Tensor) -> Tensor:
    """`[N, K]` entropy of each posterior sample's prediction, `H[y | θ_k]`."""
    return torch.mul(log_probs_N_K_C, probs_N_K_C).sum(2).neg_()


def conditional_entropy(log_probs_N_K_C: Tensor, probs_N_K_C: Tensor, *, overwrite: bool = False) -> Tensor:
    """`[N]` entropy left in a label once the parameters are known, `mean_k H[y | θ_k]`.

    Log-probabilities may be -inf. That is rare, so it is repaired where it made a NaN instead of looked for beforehand.

    Args:
        log_probs_N_K_C: `[N, K, C]` log-probabilities.
        probs_N_K_C: `[N, K, C]` probabilities.
        overwrite: whether the probabilities may be overwritten, which saves a pass over fresh memory.
    """
    n, K, _ = probs_N_K_C.shape
    products = torch.mul(log_probs_N_K_C, probs_N_K_C, out=probs_N_K_C if overwrite else None)
    sums_N = products.view(n, -1).sum(1)
    if bool(sums_N.isnan().any()):
        finite_N_K_C = log_probs_N_K_C.clamp_min(torch.finfo(log_probs_N_K_C.dtype).min)
        sums_N = finite_N_K_C.exp().mul_(finite_N_K_C).view(n, -1).sum(1)
    return sums_N.div_(-K).add_(0.0)


def ceiling(K: int, C: int | None = None) -> float:
    """The most that labels can tell about which of K samples is right: `ln K`, for one label `ln min(K, C)`."""
    return math.log(K if C is None else min(K, C))


def bald(log_probs_N_K_C: Tensor, probs_N_K_C: Tensor, *, overwrite: bool = False) -> Tensor:
    """`[N]` float64 mutual information between the label and the posterior sample, `H[y] - mean_k H[y | θ_k]`.

    The result is clamped to its range, 0 to `ln min(K, C)`, which it can leave by rounding only.

    Args:
        log_probs_N_K_C: `[N, K, C]` log-probabilities.
        probs_N_K_C: `[N, K, C]` probabilities.
        overwrite: whether the probabilities may be overwritten, which saves a pass over fresh memory.
    """
    _, K, C = probs_N_K_C.shape
    predictive_N = predictive_entropy(probs_N_K_C).double()
    known_N = conditional_entropy(log_probs_N_K_C, probs_N_K_C, overwrite=overwrite)
    return predictive_N.sub_(known_N).clamp_(0.0, ceiling(K, C))
