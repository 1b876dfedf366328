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

Where `q(δ) ≤ φ(δ) / δ²` for a polynomial q, `I_ij ≥ Σ w δ² q(δ)`, a sum of moments; and likewise from above. The
polynomials are those of `share_bounds`: cubics where there is a fifth order (K up to 6), which are much tighter than
the inequality above; parabolas from above where there is only a fourth. `docs/concepts/pair-bounds.md` derives it all.

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

from poolwise.information import share_bounds
from poolwise.information.pairs import Deviations

# Tensors of third order with more entries than this cost more than they save: K = 10 has 165.
_MOST_TRIPLES = 220
# Those of fourth order are used for a few pairs at a time only: K = 10 has 495.
_MOST_QUADRUPLES = 1000
# Those of fifth order make bounds from below: K = 6 has 126.
_MOST_QUINTUPLES = 130
# Relative rounding of what is not a long sum.
_SAFETY = {torch.float32: 2.0**-18, torch.float64: 2.0**-40}
# How many roundings of `Σ w |δ|` the computed pair may be off by.
_NOISE = 8
# Rounding of the coefficients of polynomials, as a share of the sums that they are multiplied by.
_COEFFICIENTS = 1e-10


@dataclass(frozen=True)
class Layout:
    """Which columns of the features of a point are what.

    The features are the different entries of `G`, scaled so that products of rows are S2; `t` of second order and its
    square root; the entries of `T` and `t` of third order; those of fourth and fifth order with their `t`. Where K is
    too large for `T`, an upper bound of its norm takes the place of both. Where it is too large for the higher orders,
    they are left out.

    Args:
        K: number of posterior samples.
        C: number of classes.
    """

    K: int
    C: int

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """How many entries of order two, three, four and five are used."""
        second, third, fourth, fifth = (math.comb(self.K - 2 + order, order) for order in (2, 3, 4, 5))
        third = third if third <= _MOST_TRIPLES else 0
        fourth = fourth if third and fourth <= _MOST_QUADRUPLES else 0
        return second, third, fourth, fifth if fourth and fifth <= _MOST_QUINTUPLES else 0

    @property
    def lower_width(self) -> int:
        """How many columns the inequality of Bernstein needs."""
        second, third, _, _ = self.counts
        return second + third + 3

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.lower_width + sum(count + 1 for count in self.counts[2:] if count)

    @property
    def has_upper(self) -> bool:
        """Whether there are bounds from above."""
        return self.counts[2] > 0

    @property
    def orders(self) -> list[slice]:
        """The columns of the entries of each order that there is; those of `t` follow, and its root for order two."""
        found, start = [], 0
        for count in self.counts:
            if count:
                found.append(slice(start, start + count))
                start += count + (1 if start else 2)
        return found

    def rounding(self, dtype: torch.dtype) -> float:
        """By how much a sum may be off, as a share of the product of both t: see the module's text.

        The terms are those of the products, of their entries, and of the computed pair.
        """
        return (self.width + self.C + 4 * self.K + 16) * torch.finfo(dtype).eps


def features(points: Deviations, upper: bool = True) -> Tensor:
    """`[n, F]` moments of the given points (see `Layout`).

    Args:
        points: n points.
        upper: whether to include the fourth and fifth order.
    """
    n, K, C = points.ratios.shape
    dtype, layout = points.ratios.dtype, Layout(K, C)
    count_2, count_3, count_4, count_5 = layout.counts
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
        end_4 = end_3 + 1 + count_4
        torch.mul(quadruples_n_FF.index_select(1, place), roots_4, out=result_n_F[:, end_3 + 1 : end_4])
        result_n_F[:, end_4] = t_n_C.mul_(lengths_n_C).sum(1)
        if count_5:
            place, _, roots_5 = _entries(K, 5, dtype)
            head, tail = _triples(K)
            triples_n_T_C = pairs_n_F_C.index_select(1, head).mul_(e_n_q_C.index_select(1, tail))
            quintuples_n_FT = torch.bmm(weighted_n_F_C, triples_n_T_C.transpose(1, 2)).flatten(1)
            torch.mul(quintuples_n_FT.index_select(1, place), roots_5, out=result_n_F[:, end_4 + 1 : -1])
            result_n_F[:, -1] = t_n_C.mul_(lengths_n_C).sum(1)
    return result_n_F


@dataclass(frozen=True)
class Probes:
    """Points in the form that others are bounded against: every bound is made of matrix products with their features.

    Attributes:
        second: `[m, F2 + 2]` whose products with features are S2 less what rounding can move it by.
        divisor: `[m, F3]` whose products with features are `2 S2 + ⅔ S3` and what rounding can move that by.
        features: `[m, F]` the features themselves; `[m, 0]` where there are no higher orders.
        layout: what the features are.
    """

    second: Tensor
    divisor: Tensor
    features: Tensor
    layout: Layout

    @classmethod
    def of(cls, features_m_F: Tensor, layout: Layout) -> "Probes":
        """The form of given points.

        Args:
            features_m_F: features of m points.
            layout: what the features are. Without the fourth order there are no bounds from above.
        """
        weights_2, weights_3 = _weights(layout, features_m_F.dtype)
        second, divisor = features_m_F[:, : len(weights_2)] * weights_2, features_m_F[:, : len(weights_3)] * weights_3
        whole = layout.has_upper and features_m_F.shape[1] == layout.width
        return cls(second, divisor, features_m_F if whole else features_m_F[:, :0], layout)

    def __len__(self) -> int:
        return len(self.second)

    def __getitem__(self, rows: slice) -> "Probes":
        return Probes(self.second[rows], self.divisor[rows], self.features[rows], self.layout)

    def padded(self, capacity: int) -> "Probes":
        """The same points with room for more after them."""
        second, divisor, features = (part.new_empty(capacity, part.shape[1]) for part in self._parts)
        room = Probes(second, divisor, features, self.layout)
        room.put(slice(0, len(self)), self)
        return room

    def put(self, rows: slice, points: "Probes") -> None:
        """Write points over some of these."""
        for part, other in zip(self._parts, points._parts, strict=True):
            part[rows] = other

    @property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.second, self.divisor, self.features

    def lower(self, features_n_F: Tensor) -> Tensor:
        """`[n, m]` numbers that the pairwise informations with n points are never below."""
        second = (features_n_F[:, : self.second.shape[1]] @ self.second.T).clamp_min_(0.0)
        divisor = features_n_F[:, : self.divisor.shape[1]] @ self.divisor.T
        divisor.clamp_min_(torch.finfo(second.dtype).tiny)
        found = second.square_().div_(divisor).mul_(1 - _SAFETY[second.dtype])
        if self.features.shape[1] and self.layout.counts[3]:
            below_P_S, _ = _polynomials(self.layout, found.dtype)
            found = torch.maximum(found, self._combined(below_P_S, features_n_F).amax(0))
        return found

    def upper(self, features_n_F: Tensor) -> Tensor:
        """`[n, m]` numbers that the pairwise informations with n points are never above."""
        _, above_P_S = _polynomials(self.layout, features_n_F.dtype)
        return self._combined(above_P_S, features_n_F).amin(0)

    def _combined(self, coefficients_P_S: Tensor, features_n_F: Tensor) -> Tensor:
        """`[P, n, m]` sums of every order with given coefficients, and of what rounding can move them by."""
        n, m, orders = len(features_n_F), len(self), self.layout.orders
        sums_S_n_m = features_n_F.new_empty(coefficients_P_S.shape[1], n, m)
        rows_F_m = self.features.T
        for number, columns in enumerate(orders):
            t = slice(columns.stop, columns.stop + 1)
            torch.mm(features_n_F[:, columns], rows_F_m[columns], out=sums_S_n_m[number])
            torch.mul(features_n_F[:, t], rows_F_m[t], out=sums_S_n_m[len(orders) + number])
        root = slice(orders[0].stop + 1, orders[0].stop + 2)
        torch.mul(features_n_F[:, root], rows_F_m[root], out=sums_S_n_m[-1])
        return (coefficients_P_S @ sums_S_n_m.view(-1, n * m)).view(-1, n, m)


def upper_of_self(features_n_F: Tensor, layout: Layout) -> Tensor:
    """`[n]` numbers that the information between two draws of each point's label is never above."""
    _, above_P_S = _polynomials(layout, features_n_F.dtype)
    squares_n_F = features_n_F.square()
    orders = layout.orders
    sums = [squares_n_F[:, columns].sum(1) for columns in orders]
    sums += [squares_n_F[:, columns.stop] for columns in orders]
    return (above_P_S @ torch.stack([*sums, squares_n_F[:, orders[0].stop + 1]])).amin(0)


@functools.cache
def _weights(layout: Layout, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What the features are multiplied by to become the first two parts of `Probes`."""
    margin, noise = layout.rounding(dtype), _NOISE * torch.finfo(dtype).eps
    count_2, count_3, _, _ = layout.counts
    second = [1.0] * count_2 + [-margin, -2 * noise]
    divisor = [2.0] * count_2 + [2 * margin, 0.0] + [2 / 3] * count_3 + [2 / 3 * (margin if count_3 else 1.0)]
    return torch.tensor(second, dtype=dtype), torch.tensor(divisor, dtype=dtype)


@functools.cache
def _polynomials(layout: Layout, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`[P, S]` coefficients of bounds from below and from above.

    They are those of the sum of each order, then of the product of both `t` of each order, which bounds how far
    rounding can move the sum, and last of the product of their roots, which bounds the rounding of the pair itself.
    """
    eps = torch.finfo(dtype).eps
    margin, noise = layout.rounding(dtype) + 16 * eps + _COEFFICIENTS, _NOISE * eps
    fifth = layout.counts[3] > 0
    below = [[*q, *(-margin * abs(a) for a in q), -noise] for q in (share_bounds.below() if fifth else ())]
    above = [
        [*q, *(margin * abs(a) for a in q), noise]
        for q in (share_bounds.above(layout.K if fifth else None) if layout.has_upper else ())
    ]
    return torch.tensor(below, dtype=dtype), torch.tensor(above, dtype=dtype)


@functools.cache
def _coordinates(K: int, dtype: torch.dtype) -> Tensor:
    """`[K - 1, K]` from deviations, which average to zero, to coordinates with `Σ_q e_iq e_jq = mean_k d_ik d_jk`."""
    basis = np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, 1:]]))[0]
    return torch.from_numpy(basis[:, 1:].T / np.sqrt(K)).to(dtype)


@functools.cache
def _entries(K: int, order: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The entries of a symmetric tensor, each once.

    Returns:
        For order two, the two coordinates of each entry. For higher orders, where the entry stands in the matrix of
        pairs of coordinates (first two) by one, two or three of them (the others), and nothing. And the square root of
        how often each entry occurs in the tensor.
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


@functools.cache
def _triples(K: int) -> tuple[Tensor, Tensor]:
    """For each product of three coordinates, in order: where the first two stand among the pairs, and the third."""
    tuples = itertools.combinations_with_replacement
    pairs = {entry: place for place, entry in enumerate(tuples(range(K - 1), 2))}
    found = [(pairs[entry[0], entry[1]], entry[2]) for entry in tuples(range(K - 1), 3)]
    head, tail = torch.tensor(found, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return head, tail
