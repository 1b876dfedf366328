"""Bounds of pairwise information from moments of each point alone, at a price that does not depend on the classes.

The information of a pair is `I_ij = Σ_ab w_ab φ(δ_ab)` with `w_ab = p̄_i(a) p̄_j(b)` and `φ(δ) = (1 + δ) ln(1 + δ) - δ`
(see `pairs`). Its price is C² logarithms. Sums of powers over the same terms are much cheaper. Deviations average to
zero over k, so K - 1 coordinates `e_i(a)` keep all their products: `δ_ab = <e_i(a), e_j(b)>`. Then

    S2 = Σ_ab w_ab δ_ab² = <G_i, G_j>    with  G_i = Σ_a p̄_i(a) e_i(a) ⊗ e_i(a)
    S3 = Σ_ab w_ab δ_ab³ = <T_i, T_j>    with  T_i = Σ_a p̄_i(a) e_i(a) ⊗ e_i(a) ⊗ e_i(a)
    S4 = Σ_ab w_ab δ_ab⁴ = <F_i, F_j>    likewise

because a power of a product of vectors is a product of tensors. These are symmetric tensors of point i alone. With
K = 5 they have 10, 20 and 35 different entries, whatever C is, and bounds of many pairs are one matrix product.

From below: Bernstein's inequality, `φ(δ) ≥ δ² / (2 (1 + δ/3))` for `δ ≥ -1`, and Cauchy–Schwarz,
`(Σ w δ²)² ≤ Σ (w δ² / (1 + δ/3)) · Σ w δ² (1 + δ/3)`, give

    I_ij ≥ S2² / (2 S2 + ⅔ S3).

From above: `h(δ) = φ(δ) / δ²` falls from 1 at δ = -1, and its third derivative is negative. So a parabola q with
`q(-1) = 1` that touches h at some t > -1 is nowhere below h: `h - q` is a third derivative times
`(δ + 1)(δ - t)² / 6`. Then `I_ij = Σ w δ² h(δ) ≤ Σ w δ² q(δ)`, a sum of S2, S3 and S4. It is smallest with
`t = (S4 + S3) / (S3 + S2)`. The smallest of a few fixed t is almost as small, and takes matrix products only.

Where K is so large that T is too long, `|T_i| |T_j|` takes the place of S3, and there are no bounds from above.

**Rounding.** An entry of a tensor of order r is a sum over C classes, and a product of tensors is a sum over F entries.
In floating point each is off by at most its number of terms, in roundings of the sum of the absolute values. The
latter are at most `t_i t_j` with `t_i = Σ_a p̄_i(a) |e_i(a)|^r`, by Cauchy–Schwarz. The pair itself is computed to a
few roundings of `Σ w |δ|`, which is at most `sqrt(S2)`, and so at most `sqrt(t_i t_j)` of second order. All bounds
allow for both, so they hold for every pair as `pairs` computes it.
"""

import functools
import itertools
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from poolwise.information.pairs import Deviations

# Tensors of third order with more entries than this cost more than they save: K = 10 has 165.
_MOST_TRIPLES = 220
# Those of fourth order are used for a few pairs at a time only: K = 10 has 495.
_MOST_QUADRUPLES = 1000
# Relative rounding of what is not a long sum.
_SAFETY = {torch.float32: 2.0**-18, torch.float64: 2.0**-40}
# How many roundings of `Σ w |δ|` the computed pair may be off by.
_NOISE = 8
# Where the parabolas of the bounds from above touch h.
_TOUCHING = (-0.2, 0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Layout:
    """Which columns of the features of a point are what.

    The features are the different entries of `G`, scaled so that products of rows are S2; `t` of second order and its
    square root; the entries of `T` and `t` of third order; the entries of `F` and `t` of fourth order. Where K is too
    large for `T`, an upper bound of its norm takes the place of both. Where it is too large for `F`, that is left out.

    Args:
        K: number of posterior samples.
        C: number of classes.
    """

    K: int
    C: int

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many entries of order two, three and four are used."""
        second, third, fourth = (math.comb(self.K - 2 + order, order) for order in (2, 3, 4))
        third = third if third <= _MOST_TRIPLES else 0
        return second, third, fourth if third and fourth <= _MOST_QUADRUPLES else 0

    @property
    def lower_width(self) -> int:
        """How many columns the bounds from below need."""
        second, third, _ = self.counts
        return second + third + 3

    @property
    def width(self) -> int:
        """How many columns there are."""
        fourth = self.counts[2]
        return self.lower_width + (fourth + 1 if fourth else 0)

    @property
    def has_upper(self) -> bool:
        """Whether there are bounds from above."""
        return self.counts[2] > 0

    def rounding(self, dtype: torch.dtype) -> float:
        """By how much a sum may be off, as a share of the product of both t: see the module's text.

        The terms are those of the products, of their entries, and of the computed pair.
        """
        return (self.width + self.C + 4 * self.K + 16) * torch.finfo(dtype).eps


def features(points: Deviations, upper: bool = True) -> Tensor:
    """`[n, F]` moments of the given points (see `Layout`).

    Args:
        points: n points.
        upper: whether to include the fourth order, which only bounds from above need.
    """
    n, K, C = points.ratios.shape
    dtype, layout = points.ratios.dtype, Layout(K, C)
    count_2, count_3, count_4 = layout.counts
    result_n_F = points.ratios.new_empty(n, layout.width if upper else layout.lower_width)
    end_3 = layout.lower_width - 1
    e_n_q_C = torch.matmul(_coordinates(K, dtype), points.ratios)
    squares_n_C = e_n_q_C.square().sum(1)
    lengths_n_C, t_n_C = squares_n_C.sqrt(), squares_n_C.mul_(points.means)
    left, right, roots_2 = _entries(K, 2, dtype)
    pairs_n_F_C = e_n_q_C.index_select(1, left).mul_(e_n_q_C.index_select(1, right))
    weighted_n_F_C = pairs_n_F_C * points.means[:, None]
    torch.mul(weighted_n_F_C.sum(2), roots_2, out=result_n_F[:, :count_2])
    result_n_F[:, count_2] = t_n_C.sum(1)
    torch.sqrt(result_n_F[:, count_2], out=result_n_F[:, count_2 + 1])
    triples_n_Fq = torch.bmm(weighted_n_F_C, e_n_q_C.transpose(1, 2)).flatten(1)
    result_n_F[:, end_3] = t_n_C.mul_(lengths_n_C).sum(1)
    if count_3:
        place, _, roots_3 = _entries(K, 3, dtype)
        torch.mul(triples_n_Fq.index_select(1, place), roots_3, out=result_n_F[:, count_2 + 2 : end_3])
    else:
        norm_n = triples_n_Fq.view(n, count_2, -1).mul_(roots_2[:, None]).square_().sum((1, 2)).sqrt_()
        result_n_F[:, end_3].mul_(layout.rounding(dtype)).add_(norm_n, alpha=1 + _SAFETY[dtype])
    if upper and count_4:
        place, _, roots_4 = _entries(K, 4, dtype)
        quadruples_n_FF = torch.bmm(weighted_n_F_C, pairs_n_F_C.transpose(1, 2)).flatten(1)
        torch.mul(quadruples_n_FF.index_select(1, place), roots_4, out=result_n_F[:, end_3 + 1 : -1])
        result_n_F[:, -1] = t_n_C.mul_(lengths_n_C).sum(1)
    return result_n_F


@dataclass(frozen=True)
class Probes:
    """Points in the form that others are bounded against: every bound is a matrix product with their features.

    Attributes:
        second: `[m, F2 + 2]` whose products with features are S2 less what rounding can move it by.
        divisor: `[m, F3]` whose products with features are `2 S2 + ⅔ S3` and what rounding can move that by.
        above: `[m, P, F]` whose products with features are, for each of P parabolas, a bound from above; `[m, 0, F]`
            where there are none.
    """

    second: Tensor
    divisor: Tensor
    above: Tensor

    @classmethod
    def of(cls, features_m_F: Tensor, layout: Layout) -> "Probes":
        """The form of given points.

        Args:
            features_m_F: features of m points.
            layout: what the features are. Without the fourth order there are no bounds from above.
        """
        dtype, count_2, end_3 = features_m_F.dtype, layout.counts[0], layout.lower_width - 1
        weights_2, weights_3, weights_P_F = _weights(layout, dtype)
        if features_m_F.shape[1] < layout.width:
            weights_P_F = weights_P_F[:0, : features_m_F.shape[1]]
        above = features_m_F[:, None] * weights_P_F
        return cls(features_m_F[:, : count_2 + 2] * weights_2, features_m_F[:, : end_3 + 1] * weights_3, above)

    def __len__(self) -> int:
        return len(self.second)

    def __getitem__(self, rows: slice) -> "Probes":
        return Probes(self.second[rows], self.divisor[rows], self.above[rows])

    def padded(self, capacity: int) -> "Probes":
        """The same points with room for more after them."""
        room = Probes(*(part.new_empty(capacity, *part.shape[1:]) for part in self._parts))
        room.put(slice(0, len(self)), self)
        return room

    def put(self, rows: slice, points: "Probes") -> None:
        """Write points over some of these."""
        for part, other in zip(self._parts, points._parts, strict=True):
            part[rows] = other

    @property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.second, self.divisor, self.above

    def lower(self, features_n_F: Tensor) -> Tensor:
        """`[n, m]` numbers that the pairwise informations with n points are never below."""
        second = (features_n_F[:, : self.second.shape[1]] @ self.second.T).clamp_min_(0.0)
        divisor = features_n_F[:, : self.divisor.shape[1]] @ self.divisor.T
        divisor.clamp_min_(torch.finfo(second.dtype).tiny)
        return second.square_().div_(divisor).mul_(1 - _SAFETY[second.dtype])

    def upper(self, features_n_F: Tensor) -> Tensor:
        """`[n, m]` numbers that the pairwise informations with n points are never above."""
        m, P, F = self.above.shape
        return (features_n_F @ self.above.view(m * P, F).T).view(len(features_n_F), m, P).amin(2)


def upper_of_self(features_n_F: Tensor, layout: Layout) -> Tensor:
    """`[n]` numbers that the information between two draws of each point's label is never above."""
    _, _, weights_P_F = _weights(layout, features_n_F.dtype)
    return (features_n_F.square() @ weights_P_F.T).amin(1)


@functools.cache
def _weights(layout: Layout, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """What the features are multiplied by to become the three parts of `Probes`."""
    margin, noise, safety = layout.rounding(dtype), _NOISE * torch.finfo(dtype).eps, 1 + _SAFETY[dtype]
    count_2, count_3, count_4 = layout.counts
    second = [1.0] * count_2 + [-margin, -2 * noise]
    divisor = [2.0] * count_2 + [2 * margin, 0.0] + [2 / 3] * count_3 + [2 / 3 * (margin if count_3 else 1.0)]
    above = [
        [a] * count_2 + [abs(a) * margin, noise] + [b] * count_3 + [abs(b) * margin] + [c] * count_4 + [abs(c) * margin]
        for a, b, c in (_parabolas() if layout.has_upper else ())
    ]
    above_P_F = torch.tensor(above, dtype=torch.float64).reshape(len(above), layout.width).mul_(safety)
    return torch.tensor(second, dtype=dtype), torch.tensor(divisor, dtype=dtype), above_P_F.to(dtype)


@functools.cache
def _parabolas() -> tuple[tuple[float, float, float], ...]:
    """`a + b δ + c δ²` that are nowhere below h, each touching it at one of a few places."""
    found = []
    for t in _TOUCHING:
        h, slope = _share(t)
        c = (1 - h + slope * (1 + t)) / (1 + t) ** 2
        found.append((h - slope * t + c * t * t, slope - 2 * c * t, c))
    return tuple(found)


def _share(t: float) -> tuple[float, float]:
    """`h(t) = φ(t) / t²` and its derivative; at 0 their limits."""
    if t == 0:
        return 1 / 2, -1 / 6
    logarithm = math.log1p(t)
    phi = (1 + t) * logarithm - t
    return phi / t**2, logarithm / t**2 - 2 * phi / t**3


@functools.cache
def _coordinates(K: int, dtype: torch.dtype) -> Tensor:
    """`[K - 1, K]` from deviations, which average to zero, to coordinates with `Σ_q e_iq e_jq = mean_k d_ik d_jk`."""
    basis = np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, 1:]]))[0]
    return torch.from_numpy(basis[:, 1:].T / np.sqrt(K)).to(dtype)


@functools.cache
def _entries(K: int, order: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The entries of a symmetric tensor, each once.

    Returns:
        For order two, the two coordinates of each entry. For order three and four, where the entry stands in the
        matrix of pairs of coordinates (first two) by a coordinate or a pair (the others), and nothing. And the square
        root of how often each entry occurs in the tensor.
    """
    tuples = itertools.combinations_with_replacement
    entries = list(tuples(range(K - 1), order))
    often = [math.factorial(order) / math.prod(map(math.factorial, Counter(entry).values())) for entry in entries]
    roots = torch.tensor(often, dtype=torch.float64).sqrt().to(dtype)
    if order == 2:
        left, right = torch.tensor(entries, dtype=torch.int64).reshape(-1, 2).T.contiguous()
        return left, right, roots
    rows: dict[tuple[int, ...], int] = {entry: place for place, entry in enumerate(tuples(range(K - 1), 2))}
    columns = {entry: place for place, entry in enumerate(tuples(range(K - 1), order - 2))}
    places = [rows[entry[:2]] * len(columns) + columns[entry[2:]] for entry in entries]
    return torch.tensor(places, dtype=torch.int64), torch.empty(0, dtype=torch.int64), roots
