"""Upper bounds of the mean information about the labels of target points, without a logarithm for each target.

EPIG is `mean_r I(y_i; y_r) = Σ_a p̄_i(a) F(d_i(a))` with `F(v) = Σ_j w_j φ(δ_j)` and `δ_j = <v, u_j>`. Here j runs over
all classes of all targets, `u_j` are their deviations over K, and `w_j` their probabilities over R (see `pairs`).
F costs one logarithm for each j. The price of these sums does not depend on R and C:

    S_2(v) = Σ_j w_j δ_j² = <f, A>     S_3(v) = Σ_j w_j δ_j³ = fᵀ B v     S_4(v) = Σ_j w_j δ_j⁴ = fᵀ Q f

with `f` the products `v_k v_l` of two deviations, and A, B and Q sums over the targets that are computed once.
`h(δ) = φ(δ)/δ²` is 1 at δ = -1 and has a negative third derivative, so a parabola q with `q(-1) = 1` that touches h at
any t > -1 is nowhere below h (see `moments`). Hence `F(v) ≤ Σ_j w_j δ_j² q(δ_j)`, a sum of the three. The best t for v
is `(S_4 + S_3) / (S_3 + S_2)`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from poolwise.information.pairs import Deviations

# With more products of two deviations than this (K = 31), Q would cost as much as the logarithms.
_MOST_PRODUCTS = 496
# Rows of products that are worked on at once, in numbers: four megabytes.
_BLOCK = 1 << 19
# Bounds are compared with what `crossed` computes in the precision of the predictions, so they allow for its rounding.
# It is relative, and a share of the root mean square of δ, since φ is the difference of two numbers near δ.
_SAFETY = {torch.float32: 2.0**-15, torch.float64: 2.0**-40}
# Parabolas touch h at no less than the first number. Closer to 0 than the second, where digits get lost, they touch
# it at 0.
_LOWEST, _CLOSE = -0.95, 1e-3


@dataclass(frozen=True)
class TargetSums:
    """Sums over the targets, of P = K (K + 1) / 2 products; empty where there would be too many.

    Attributes:
        second: `[K, K]` the matrix of `S_2`, which is `vᵀ A v`.
        third: `[P, K]` the matrix B.
        fourth: `[P, P]` the matrix Q.
    """

    second: Tensor
    third: Tensor
    fourth: Tensor

    @classmethod
    def of(cls, targets: Deviations) -> "TargetSums":
        """Sums over the given targets."""
        R, K, C = targets.ratios.shape
        P = K * (K + 1) // 2 if K * (K + 1) // 2 <= _MOST_PRODUCTS else 0
        sums = cls(*(torch.zeros(shape, dtype=torch.float64) for shape in ((K, K), (P, K), (P, P))))
        twice_P = torch.where(torch.eq(*torch.triu_indices(K, K)), 1.0, 2.0).double() if P else None
        step = max(1, _BLOCK // (C * max(P, K)))
        for start in range(0, R, step):
            some = targets[start : start + step]
            u_m_K = some.ratios.transpose(1, 2).reshape(-1, K).double() / K
            weighted_m_K = u_m_K * (some.means.double().reshape(-1, 1) / R)
            sums.second.addmm_(u_m_K.T, weighted_m_K)
            if twice_P is not None:
                g_m_P = products(u_m_K).mul_(twice_P)
                sums.third.addmm_(g_m_P.T, weighted_m_K)
                sums.fourth.addmm_(g_m_P.T, g_m_P * (some.means.double().reshape(-1, 1) / R))
        return sums

    @property
    def can_tighten(self) -> bool:
        """Whether there are sums of all three orders."""
        return len(self.third) > 0

    def loose(self, points: Deviations) -> Tensor:
        """`[n]` float64 upper bounds of the mean information of points about the targets, from `S_2` alone."""
        return self._bounds(points, len(self.second), lambda v_m_K, second_m: second_m)

    def tight(self, points: Deviations) -> Tensor:
        """`[n]` float64 upper bounds from all three sums, at about ten times the cost."""
        return self._bounds(points, len(self.third), self._tightest)

    def _bounds(self, points: Deviations, width: int, above: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        n, K, C = points.ratios.shape
        safety = _SAFETY[points.ratios.dtype]
        bounds_n = torch.empty(n, dtype=torch.float64)
        step = max(1, _BLOCK // (C * width))
        for start in range(0, n, step):
            some = points[start : start + step]
            v_m_K = some.ratios.transpose(1, 2).reshape(-1, K).double()
            second_m = (v_m_K @ self.second).mul_(v_m_K).sum(1).clamp_min_(0.0)
            rounding_m = second_m.sqrt().mul_(safety / 8)
            above_m = above(v_m_K, second_m).clamp_min(0.0).mul_(1 + safety).add_(rounding_m)
            bounds_n[start : start + step] = above_m.view(-1, C).mul_(some.means.double()).sum(1)
        return bounds_n

    def _tightest(self, v_m_K: Tensor, second_m: Tensor) -> Tensor:
        """`[m]` values of the lowest parabola, summed over the targets."""
        f_m_P = products(v_m_K)
        third_m = (f_m_P @ self.third).mul_(v_m_K).sum(1)
        fourth_m = (f_m_P @ self.fourth).mul_(f_m_P).sum(1)
        t_m = ((fourth_m + third_m) / (third_m + second_m)).nan_to_num_(0.0, 0.0, 0.0).clamp_min_(_LOWEST)
        constant_m, slope_m, curve_m = parabola(torch.where(t_m.abs() < _CLOSE, 0.0, t_m))
        return torch.minimum(second_m, constant_m * second_m + slope_m * third_m + curve_m * fourth_m)


def products(v_m_K: Tensor) -> Tensor:
    """`[m, P]` products of every two coordinates, each pair once."""
    first_P, second_P = torch.triu_indices(v_m_K.shape[1], v_m_K.shape[1])
    return v_m_K.index_select(1, first_P).mul_(v_m_K.index_select(1, second_P))


def parabola(t_m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients of 1, δ and δ² of the parabolas through 1 at -1 that touch `h(δ) = φ(δ)/δ²` at each t."""
    zero_m = t_m == 0
    safe_m, x_m = torch.where(zero_m, 1.0, t_m), t_m + 1
    log_m = torch.log1p(safe_m)
    phi_m = (1 + safe_m) * log_m - safe_m
    h_m = torch.where(zero_m, 1 / 2, phi_m / safe_m**2)
    slope_m = torch.where(zero_m, -1 / 6, (log_m - 2 * phi_m / safe_m) / safe_m**2)
    curve_m = (slope_m * x_m - h_m + 1) / x_m**2
    linear_m = slope_m - 2 * curve_m * x_m
    return 1 + linear_m + curve_m, linear_m + 2 * curve_m, curve_m
