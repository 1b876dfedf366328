"""Joint information of a batch of labels (Kirsch et al. 2019), without ever forming a joint probability.

The labels of a batch S are kept as M *configurations* `y_S`, each with a probability `π_m` and with what it would
teach us: the posterior weights `w_mk = p(θ_k | y_S = m)`. Everything follows from these weights:

    information already in the batch     I(y_S; θ)       = ln K - Σ_m π_m H[w_m]
    gain of one more point i             I(y_i; θ | y_S) = Σ_m π_m ( H[Σ_k w_mk p_ik] - Σ_k w_mk H[p_ik] )

The weights are normalised in log space, so a batch of 500 underflows nowhere, and each expression is between 0 and
`ln K` term by term, whatever the configurations are. While the `C^|S|` configurations are few they are enumerated,
and all results are exact. After that, labels are drawn from each posterior sample in equal shares (stratified).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from poolwise.information.entropies import entropy, member_entropies, plogp

# Elements of one block of `[points, classes, configurations]`: half a megabyte, so that the product, the logarithm and
# the sum pass over it while it is in the cache.
_BLOCK = 1 << 17
# Information (nats) that cannot be told from rounding: far below the precision to which a gain is known.
_NEGLIGIBLE = {torch.float32: 1e-9, torch.float64: 1e-15}


@dataclass(frozen=True)
class Weighted:
    """Distributions over the K posterior samples, each with a probability.

    Attributes:
        weights: `[M, K]` distributions over the samples, rows summing to one.
        probabilities: `[M]` summing to one.
    """

    weights: Tensor
    probabilities: Tensor

    def take(self, rows: Tensor) -> "Weighted":
        """Some of the distributions, with their probabilities."""
        return Weighted(self.weights[rows], self.probabilities[rows])

    def values(self, probs_n_K_C: Tensor, entropies_n_K: Tensor) -> Tensor:
        """`[n, M]` information `I(y_i; θ)` if θ were distributed as each row of the weights."""
        return self._values(probs_n_K_C.transpose(1, 2).contiguous(), entropies_n_K)

    def _values(self, probs_n_C_K: Tensor, entropies_n_K: Tensor) -> Tensor:
        n, C, K = probs_n_C_K.shape
        mixed_n_C_M = (probs_n_C_K.view(n * C, K) @ self.weights.T).view(n, C, -1)
        return plogp(mixed_n_C_M).sum(1).add_(entropies_n_K @ self.weights.T).neg_().clamp_min_(0.0)

    def gains(self, probs_n_K_C: Tensor, entropies_n_K: Tensor) -> Tensor:
        """`[n]` float64 expected information of each point's label."""
        n, _, C = probs_n_K_C.shape
        rows = max(1, min(len(self.weights), _BLOCK // (8 * C)))
        points = max(1, min(n, _BLOCK // (rows * C)))
        result_n = probs_n_K_C.new_zeros(n, dtype=torch.float64)
        for i in range(0, n, points):
            some_n_C_K = probs_n_K_C[i : i + points].transpose(1, 2).contiguous()
            for m in range(0, len(self.weights), rows):
                part = Weighted(self.weights[m : m + rows], self.probabilities[m : m + rows])
                values_n_m = part._values(some_n_C_K, entropies_n_K[i : i + points])
                result_n[i : i + points] += (values_n_m * part.probabilities).sum(1)
        return result_n

    def merged(self, groups: int, generator: np.random.Generator) -> "Weighted":
        """Fewer distributions whose expected information is never smaller, for any point.

        Mutual information is concave in the distribution of θ, so replacing the members of a group by their mean can
        only raise it, however the groups are made (Jensen). Two rounds of k-means on a part of the square roots of the
        weights, where distance is close to divergence, keep the excess small.
        """
        roots_M_K = self.weights.sqrt()
        order = torch.from_numpy(generator.permutation(len(roots_M_K)))
        centres_G_K, some = roots_M_K[order[:groups]], order[: 4 * groups]
        for chosen in (some, slice(None)):
            nearest_m = (roots_M_K[chosen] @ centres_G_K.T).sub_(centres_G_K.square().sum(1).div_(2)).argmax(1)
            mass_m = self.probabilities[chosen]
            mass_G = mass_m.new_zeros(groups).index_add_(0, nearest_m, mass_m)
            sums_G_K = torch.zeros_like(centres_G_K).index_add_(0, nearest_m, self.weights[chosen] * mass_m[:, None])
            used = mass_G > 0
            means_G_K = sums_G_K[used] / mass_G[used, None]
            centres_G_K, groups = means_G_K.sqrt(), len(means_G_K)
        return Weighted(means_G_K, mass_G[used])


class Configurations:
    """Label configurations of a growing batch and the posterior weights that each implies.

    Args:
        K: number of posterior samples.
        limit: how many configurations to enumerate at most; beyond that, this many are drawn.
        generator: source of the draws.
        dtype: precision of the weights.
    """

    def __init__(self, K: int, limit: int, generator: np.random.Generator, dtype: torch.dtype) -> None:
        self.exact = True
        self._limit, self._generator, self._dtype = max(limit, 1), generator, dtype
        self._draws = 0
        self._history: list[Tensor] = []
        self._log_likelihood_M_K = torch.zeros(1, K, dtype=torch.float64)
        self._refresh(torch.zeros(1, dtype=torch.float64))

    def _refresh(self, log_probabilities_M: Tensor) -> None:
        weights_M_K = self._log_likelihood_M_K.softmax(1)
        probabilities_M = log_probabilities_M.exp()
        self.posterior = Weighted(weights_M_K.to(self._dtype), probabilities_M.to(self._dtype))
        # A label can tell no more than what a configuration leaves open: H[w_m]. Those that leave open next to nothing
        # are left out; all of them together add less than this to a gain.
        open_M = probabilities_M * entropy(weights_M_K)
        self._open = float(open_M.sum())
        kept_M = open_M > _NEGLIGIBLE[self._dtype] / len(open_M)
        self.undecided = self.posterior if bool(kept_M.all()) else self.posterior.take(kept_M)

    def add(self, log_probs_K_C: Tensor) -> None:
        """Extend every configuration by the label of one more point.

        Args:
            log_probs_K_C: `[K, C]` finite log-probabilities of the point's label.
        """
        K, C = log_probs_K_C.shape
        log_probs_K_C = log_probs_K_C.double()
        self._history.append(log_probs_K_C)
        if self.can_enumerate(C):
            extended = self._log_likelihood_M_K[:, None, :] + log_probs_K_C.T
            log_joint_M = extended.logsumexp(2).sub_(math.log(K)).flatten()
            possible_M = log_joint_M > -100  # the rest are less likely than the smallest float32
            self._log_likelihood_M_K = extended.reshape(-1, K)[possible_M]
            self._refresh(log_joint_M[possible_M])
            return
        if self.exact:
            self.exact = False
            self._draws = max(1, self._limit // K)
            self._log_likelihood_M_K = torch.zeros(K * self._draws, K, dtype=torch.float64)
            for earlier_K_C in self._history[:-1]:
                self._draw(earlier_K_C)
        self._draw(log_probs_K_C)
        M = len(self._log_likelihood_M_K)
        self._refresh(torch.full((M,), -math.log(M), dtype=torch.float64))

    def can_enumerate(self, C: int) -> bool:
        """Whether the label of one more point with C classes can be added exactly."""
        return self.exact and len(self._log_likelihood_M_K) * C <= self._limit

    def _draw(self, log_probs_K_C: Tensor) -> None:
        """Draw a label for each configuration from its own posterior sample."""
        self._log_likelihood_M_K += _drawn_terms(log_probs_K_C[None], self._draws, self._generator)[0].T

    def information(self) -> float:
        """Information between the batch's labels and the posterior sample, between 0 and `ln K`."""
        most = math.log(self.posterior.weights.shape[1])
        return min(max(most - self._open, 0.0), most)

    def standard_error(self, probs_K_C: Tensor, log_probs_K_C: Tensor) -> float:
        """Standard error of the gain of one point that comes from drawing configurations; 0 while they are exact."""
        K = len(probs_K_C)
        if self.exact:
            return 0.0
        entropies = member_entropies(log_probs_K_C[None], probs_K_C[None])
        values_K_m = self.posterior.values(probs_K_C[None], entropies).double().view(K, -1)
        draws = values_K_m.shape[1]
        if draws < 2:  # no spread within a stratum to measure: take the spread over all draws, which is larger
            return float(values_K_m.std(correction=0) / (K * draws) ** 0.5)
        return float((values_K_m.var(1) / draws).sum().sqrt() / K)


def _drawn_terms(log_probs_B_K_C: Tensor, draws: int, generator: np.random.Generator) -> Tensor:
    """`[B, K, M]` log-likelihoods of labels that are drawn from each posterior sample: first `draws` from the first."""
    B, K, _ = log_probs_B_K_C.shape
    cumulative_B_K_C = log_probs_B_K_C.exp().cumsum(2)
    uniform_B_K_m = torch.from_numpy(generator.random((B, K, draws)))
    label_B_K_m = torch.searchsorted(cumulative_B_K_C, uniform_B_K_m * cumulative_B_K_C[:, :, -1:], right=True)
    return log_probs_B_K_C.gather(2, label_B_K_m.view(B, 1, K * draws).expand(B, K, -1))


def _drawn_curve(log_probs_B_K_C: Tensor, known: int, limit: int, generator: np.random.Generator) -> Iterator[float]:
    """Joint information of the first `known` + 1, … B labels, from drawn configurations.

    The configurations are those of `Configurations`, but several points share the operations, which are small and many.
    """
    B, K, _ = log_probs_B_K_C.shape
    draws = max(1, limit // K)
    points = max(1, _BLOCK // (draws * K * K))
    log_likelihood_K_M = torch.zeros(K, K * draws, dtype=torch.float64)
    for i in range(0, B, points):
        terms_b_K_M = _drawn_terms(log_probs_B_K_C[i : i + points].double(), draws, generator)
        terms_b_K_M[0] += log_likelihood_K_M
        log_likelihood_b_K_M = terms_b_K_M.cumsum(0)
        log_likelihood_K_M = log_likelihood_b_K_M[-1].clone()
        log_likelihood_b_K_M = log_likelihood_b_K_M[max(0, known - i) :]
        below_b_K_M = log_likelihood_b_K_M.sub_(log_likelihood_b_K_M.amax(1, keepdim=True))
        weight_b_K_M = below_b_K_M.exp()
        total_b_M = weight_b_K_M.sum(1)
        entropy_b_M = total_b_M.log().sub_(weight_b_K_M.mul_(below_b_K_M).sum(1).div_(total_b_M))
        yield from (math.log(K) - entropy_b_M.mean(1)).clamp_(0.0, math.log(K)).tolist()


def _curve(log_probs_B_K_C: Tensor, limit: int, generator: np.random.Generator) -> Iterator[float]:
    """Joint information of the first 1, 2, … B labels: exact while configurations are few, then from drawn ones."""
    _, K, C = log_probs_B_K_C.shape
    configurations, exact = Configurations(K, limit, generator, torch.float64), 0
    while exact < len(log_probs_B_K_C) and configurations.can_enumerate(C):
        configurations.add(log_probs_B_K_C[exact])
        yield configurations.information()
        exact += 1
    if exact < len(log_probs_B_K_C):
        yield from _drawn_curve(log_probs_B_K_C, exact, limit, generator)


def batch_information(log_probs_B_K_C: Tensor, limit: int, generator: np.random.Generator) -> np.ndarray:
    """`[B]` joint information of the first 1, 2, … B labels of a finished batch, in order.

    The true curve never falls; where draws make it fall by chance, the largest value so far is reported.

    Args:
        log_probs_B_K_C: `[B, K, C]` finite log-probabilities of the batch.
        limit: how many configurations to enumerate or draw.
        generator: source of the draws.
    """
    B, K, _ = log_probs_B_K_C.shape
    curve_B = np.full(B, math.log(K))
    for t, information in enumerate(_curve(log_probs_B_K_C, limit, generator)):
        curve_B[t] = information
        if math.log(K) - curve_B[t] < 1e-6:
            break  # there is nothing left to learn, and the rest of the curve is flat
    return np.maximum.accumulate(curve_B)


def joint_entropy(log_probs_B_K_C: Tensor, limit: int, generator: np.random.Generator) -> float:
    """Entropy of the labels of a whole batch, `H[y_1:B] = I(y_1:B; θ) + Σ_i mean_k H[y_i | θ_k]`."""
    information = float(batch_information(log_probs_B_K_C, limit, generator)[-1])
    noise = member_entropies(log_probs_B_K_C.double(), log_probs_B_K_C.double().exp()).mean(1).sum()
    return information + float(noise)


def total_correlation(log_probs_B_K_C: Tensor, limit: int, generator: np.random.Generator) -> float:
    """`C(y_1:B) = Σ_i I(y_i; θ) - I(y_1:B; θ)`: what summing BALD scores counts more than once (equation 7)."""
    probs = log_probs_B_K_C.double().exp()
    marginal = entropy(probs.mean(1)).sum()
    return float(marginal) - joint_entropy(log_probs_B_K_C, limit, generator)
