"""The Gaussian around the weights of a linear layer: its curvature, the strength of its prior, and draws from it.

For a linear layer with weights `θ = [C, D]` on features `φ`, the generalised Gauss–Newton matrix of the cross-entropy
is `H = Σ_n (diag(p_n) − p_n p_nᵀ) ⊗ φ_n φ_nᵀ`, here the exact Hessian, since the logits are linear in `θ`. With the
prior `N(0, I/τ)` the posterior has the precision `H + τI` (MacKay 1992). All is computed in float64.
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array

Choice = Literal["auto", "full", "kronecker"]

# The range in which a prior precision is looked for. Outside it, a network was not trained, or has diverged.
_LEAST, _MOST = 1e-8, 1e8

# How often weights and prior precision are fitted in turn, at most, and the change at which that ends. It took 3 to 10.
_TURNS, _SETTLED = 30, 0.01
# Steps of L-BFGS for one prior precision; each turn starts from the weights of the one before.
_STEPS = 200

# Eigenvalues below this share of the largest are rounding.
_ROUNDING = 1e-12


class Curvature(Protocol):
    """Eigenvalues of H, and draws from the Gaussian with the precision H + τI."""

    @property
    def eigenvalues(self) -> Tensor:
        """Those that are not zero."""

    def draw(self, noise_k_C_D: Tensor, precision: float) -> Tensor:
        """`[k, C, D]` standard normal noise → draws with mean zero and the covariance (H + τI)⁻¹."""


@dataclass(frozen=True)
class Full:
    """H itself, by its eigenvectors `[P, r]` with eigenvalues that are not zero, `P = C·D`."""

    eigenvalues: Tensor
    vectors_P_r: Tensor

    @classmethod
    def of(cls, features_n_D: Tensor, probs_n_C: Tensor) -> "Full":
        """From the smaller of two problems with the same eigenvalues: `J Jᵀ` of n·C rows, or `Jᵀ J = H`."""
        (n, D), C = features_n_D.shape, probs_n_C.shape[1]
        roots_n_C_C = _roots(probs_n_C)
        if n * C < C * D:
            products_n_n = features_n_D @ features_n_D.T
            gram = torch.einsum("ncx,mcy,nm->nxmy", roots_n_C_C, roots_n_C_C, products_n_n).reshape(n * C, n * C)
            values_r, small = _eigen(gram)
            small = (small / values_r.sqrt()).view(n, C, -1)
            vectors = torch.einsum("ncx,nd,nxr->cdr", roots_n_C_C, features_n_D, small)
            return cls(values_r, vectors.reshape(C * D, -1))
        hessian = torch.empty(C, D, C, D, dtype=features_n_D.dtype)
        for a in range(C):
            for b in range(a + 1):
                weight_n = probs_n_C[:, a] * (float(a == b) - probs_n_C[:, b])
                hessian[a, :, b] = hessian[b, :, a] = (features_n_D * weight_n[:, None]).T @ features_n_D
        return cls(*_eigen(hessian.view(C * D, C * D)))

    def draw(self, noise_k_C_D: Tensor, precision: float) -> Tensor:
        """See `Curvature`: the prior's draw, shrunk along each eigenvector."""
        noise_k_P = noise_k_C_D.flatten(1)
        shrink_r = (precision / (self.eigenvalues + precision)).sqrt() - 1
        drawn_k_P = noise_k_P + (noise_k_P @ self.vectors_P_r * shrink_r) @ self.vectors_P_r.T
        return (drawn_k_P / math.sqrt(precision)).view_as(noise_k_C_D)


@dataclass(frozen=True)
class Kronecker:
    """`(mean_n diag(p_n) − p_n p_nᵀ) ⊗ Σ_n φ_n φ_nᵀ` in place of H (Martens & Grosse 2015; Ritter et al. 2018)."""

    values_C: Tensor
    vectors_C_C: Tensor
    values_D: Tensor
    vectors_D_D: Tensor

    @classmethod
    def of(cls, features_n_D: Tensor, probs_n_C: Tensor) -> "Kronecker":
        """Eigenvectors of the two factors."""
        values_C, vectors_C_C = torch.linalg.eigh(_class_factor(probs_n_C))
        values_D, vectors_D_D = torch.linalg.eigh(features_n_D.T @ features_n_D)
        return cls(values_C.clamp_min(0), vectors_C_C, values_D.clamp_min(0), vectors_D_D)

    @property
    def eigenvalues(self) -> Tensor:
        """All products of an eigenvalue of each factor."""
        return torch.outer(self.values_C, self.values_D).flatten()

    def draw(self, noise_k_C_D: Tensor, precision: float) -> Tensor:
        """See `Curvature`: noise in the eigenvectors' basis, scaled and turned back."""
        scale_C_D = (torch.outer(self.values_C, self.values_D) + precision).rsqrt()
        return self.vectors_C_C @ (noise_k_C_D * scale_C_D) @ self.vectors_D_D.T


def evidence_precision(eigenvalues: Tensor, squared_norm: float) -> float:
    """The prior precision τ with the largest marginal likelihood at given weights.

    Its derivative by `ln τ` is `Σ λ/(λ+τ) − τ‖θ‖²`, up to a factor: the effective number of parameters less the norm of
    the weights in units of the prior. The first part falls with τ and the second grows, so there is one maximum.

    Args:
        eigenvalues: of H.
        squared_norm: `‖θ‖²` of the trained weights.
    """

    def slope(log_precision: float) -> float:
        precision = math.exp(log_precision)
        return float((eigenvalues / (eigenvalues + precision)).sum()) - precision * squared_norm

    low, high = math.log(_LEAST), math.log(_MOST)
    if slope(low) <= 0:
        return _LEAST
    while high - low > 1e-6:  # by halves; without a root below, this ends at the upper end
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return math.exp(low)


def fitted_precision(features_n_D: Tensor, labels_n: Tensor, mean_C_D: Tensor) -> float:
    """The prior precision with the largest marginal likelihood at the weights that are best *under that prior*.

    Laplace's approximation holds at the largest posterior density. A network that was trained without that prior is
    elsewhere: with few labels its weights are too large and its probabilities close to 0 and 1, where the curvature
    vanishes. `evidence_precision` at those weights finds a prior that is far too wide. So the weights of the layer and
    the precision are fitted in turn until they agree (MacKay 1992), with the Kronecker-factored curvature. Only the
    precision is used: the samples stay around the trained weights.

    Labels that say nothing about the features let the precision grow without end, and samples that do not differ are
    of no use. So it grows only as long as the labels determine at least one parameter (`Σ λ/(λ+τ) ≥ 1`).

    Args:
        features_n_D: what goes into the layer, with a column of ones if it has a bias.
        labels_n: the classes.
        mean_C_D: the trained weights.
    """
    values_D = torch.linalg.eigvalsh(features_n_D.T @ features_n_D).clamp_min(0)
    weights_C_D, precision = mean_C_D, None
    for _ in range(_TURNS):
        values_C = torch.linalg.eigvalsh(_class_factor((features_n_D @ weights_C_D.T).softmax(1))).clamp_min(0)
        values = torch.outer(values_C, values_D).flatten()
        found = evidence_precision(values, float(weights_C_D.square().sum()))
        if precision is not None:
            if float((values / (values + found)).sum()) < 1 < found / precision:
                return precision
            if abs(math.log(found / precision)) < _SETTLED:
                return found
        precision = found
        weights_C_D = best_weights(features_n_D, labels_n, precision, weights_C_D)
    return found


def best_weights(features_n_D: Tensor, labels_n: Tensor, precision: float, start_C_D: Tensor) -> Tensor:
    """`[C, D]` weights with the largest posterior density under the prior `N(0, I/τ)`; the problem is convex."""
    from scipy.optimize import minimize

    def loss(flat: Array) -> tuple[float, Array]:
        weights_C_D = torch.from_numpy(flat).view_as(start_C_D)
        log_probs_n_C = (features_n_D @ weights_C_D.T).log_softmax(1)
        chosen = labels_n[:, None]
        value = 0.5 * precision * weights_C_D.square().sum() - log_probs_n_C.gather(1, chosen).sum()
        excess_n_C = log_probs_n_C.exp().scatter_add(1, chosen, -torch.ones_like(chosen, dtype=flat_type))
        return float(value), (excess_n_C.T @ features_n_D + precision * weights_C_D).flatten().numpy()

    flat_type = start_C_D.dtype
    found = minimize(loss, start_C_D.flatten().numpy(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return torch.from_numpy(np.asarray(found.x)).view_as(start_C_D)


def log_evidence(log_likelihood: float, eigenvalues: Tensor, squared_norm: float, precision: float) -> float:
    """`ln p(labels | τ)` by Laplace's approximation (MacKay 1992)."""
    volume = float(torch.log1p(eigenvalues / precision).sum())
    return log_likelihood - 0.5 * (volume + precision * squared_norm)


def _class_factor(probs_n_C: Tensor) -> Tensor:
    """`[C, C]` mean over n of `diag(p_n) − p_n p_nᵀ`."""
    return probs_n_C.mean(0).diag() - probs_n_C.T @ probs_n_C / len(probs_n_C)


def _roots(probs_n_C: Tensor) -> Tensor:
    """`[n, C, C]` matrices L with `L Lᵀ = diag(p) − p pᵀ`: `L = diag(√p) − p √pᵀ`, as p sums to one."""
    root_n_C = probs_n_C.sqrt()
    return root_n_C.diag_embed() - probs_n_C[:, :, None] * root_n_C[:, None, :]


def _eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(matrix)
    kept = values > _ROUNDING * values[-1].clamp_min(torch.finfo(values.dtype).tiny)
    return values[kept], vectors[:, kept]
