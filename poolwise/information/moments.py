"""Bounds of pairwise information from moments of each point alone, at a price that does not depend on the classes.

The information of a pair is `I_ij = Σ_ab w_ab φ(δ_ab)` with `w_ab = p̄_i(a) p̄_j(b)` and `φ(δ) = (1 + δ) ln(1 + δ) - δ`
(see `pairs`). Its price is C² logarithms. Sums of powers over the same terms are much cheaper. Deviations average to
zero over k, so K - 1 coordinates `e_i(a)` keep all their products: `δ_ab = <e_i(a), e_j(b)>`. Then, for every order r,

    S_r = Σ_ab w_ab δ_ab^r = <T_i, T_j>    with  T_i = Σ_a p̄_i(a) e_i(a) ⊗ ... ⊗ e_i(a)  (r times)

because a power of a product of vectors is a product of tensors. These are symmetric tensors of point i alone. With
K = 5 those of order 2 to 5 have 10, 20, 35 and 56 different entries, whatever C is, and S_r of many pairs is one matrix
product. Where `q(δ) ≤ φ(δ) / δ²` for a polynomial q, `I_ij ≥ Σ w δ² q(δ)`, a sum of moments; and likewise from above.
The polynomials are those of `share_bounds`. `docs/concepts/pair-bounds.md` derives it all.

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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.information import share_bounds
from poolwise.information.pairs import Deviations

LOWEST, HIGHEST = 2, 5
# How many roundings of `Σ w |δ|` the computed pair may be off by.
_NOISE = 8
# Rounding of the coefficients of polynomials, as a share of the sums that they are multiplied by.
_COEFFICIENTS = 1e-10
# Numbers that are worked on together when features are computed: they stay in a cache of the processor.
_TOGETHER = 1 << 19


@functools.cache
def entries(K: int, order: int) -> int:
    """How many different entries the symmetric tensors from order two up to this one have, for K posterior samples."""
    return sum(math.comb(K - 2 + r, r) for r in range(LOWEST, order + 1))


@dataclass(frozen=True)
class Layout:
    """Which columns of the features of a point are what.

    The features are the different entries of the tensors, order by order, scaled so that products of rows are `S_r`;
    then `t` of each order; and last the square root of `t` of order two.

    Args:
        K: number of posterior samples.
        C: number of classes.
        order: the highest order that is used, 2 to 5.
    """

    K: int
    C: int
    order: int

    @functools.cached_property
    def width(self) -> int:
        """How many columns there are."""
        return entries(self.K, self.order) + self.order

    @functools.cached_property
    def orders(self) -> list[slice]:
        """The columns of the entries of each order."""
        ends = [entries(self.K, order) for order in range(LOWEST - 1, self.order + 1)]
        return [slice(first, last) for first, last in itertools.pairwise(ends)]

    def rounding(self, dtype: torch.dtype) -> float:
        """By how much a sum may be off, as a share of the product of both t: see the module's text.

        The terms are those of the products, of their entries, of the polynomials, and of the computed pair.
        """
        return (self.width + self.C + 4 * self.K + 32) * torch.finfo(dtype).eps + _COEFFICIENTS


def features(points: Deviations, layout: Layout) -> Tensor:
    """`[n, F]` moments of the given points (see `Layout`)."""
    result_n_F = points.ratios.new_empty(len(points), layout.width)
    pairs = entries(layout.K, LOWEST)
    rows = max(1, _TOGETHER // ((3 * pairs + entries(layout.K, layout.order - 2)) * layout.C))
    for start in range(0, len(points), rows):
        part = slice(start, start + rows)
        _fill(result_n_F[part], points[part], layout)
    return result_n_F


def _fill(result_n_F: Tensor, points: Deviations, layout: Layout) -> None:
    """Compute the features of a few points."""
    n, K, C = points.ratios.shape
    dtype, order = points.ratios.dtype, layout.order
    count = first_t = entries(K, order)
    e_n_q_C = torch.matmul(coordinates(K, dtype), points.ratios)
    left, right, place, roots = _places(K, order, dtype)
    if order == LOWEST:
        products_n_q_q = torch.bmm(e_n_q_C * points.means[:, None], e_n_q_C.transpose(1, 2))
        entries_n_F = products_n_q_q.flatten(1).index_select(1, left * (K - 1) + right)
        torch.mul(entries_n_F, roots, out=result_n_F[:, :count])
    else:
        pairs_n_F_C = e_n_q_C.index_select(1, left).mul_(e_n_q_C.index_select(1, right))
        weighted_n_F_C = pairs_n_F_C * points.means[:, None]
        # Products of two coordinates, times one, two and three more: every entry of a higher order is among them.
        factors = [torch.ones(n, 1, C, dtype=dtype), e_n_q_C, pairs_n_F_C]
        if order == HIGHEST:
            head, tail = _triples(K)
            factors.append(pairs_n_F_C.index_select(1, head).mul_(e_n_q_C.index_select(1, tail)))
        products_n_F_R = torch.bmm(weighted_n_F_C, torch.cat(factors[: order - 1], 1).transpose(1, 2))
        torch.mul(products_n_F_R.flatten(1).index_select(1, place), roots, out=result_n_F[:, :count])
    squares_n_C = e_n_q_C.square_().sum(1)
    lengths_n_C, t_n_C = squares_n_C.sqrt(), squares_n_C.mul_(points.means)
    for column in range(first_t, first_t + order - 1):
        torch.sum(t_n_C if column == first_t else t_n_C.mul_(lengths_n_C), 1, out=result_n_F[:, column])
    torch.sqrt(result_n_F[:, first_t], out=result_n_F[:, -1])


def lower(features_n_F: Tensor, features_m_F: Tensor, layout: Layout) -> Tensor:
    """`[n, m]` numbers that the pairwise informations of n points with m points are never below."""
    below, _ = _polynomials(layout, features_n_F.dtype)
    found = below.best(_sums(features_n_F, features_m_F, layout), torch.amax)
    return found.sub_(_margins(features_n_F, features_m_F, below))


def upper(features_n_F: Tensor, features_m_F: Tensor, layout: Layout) -> Tensor:
    """`[n, m]` numbers that the pairwise informations of n points with m points are never above."""
    _, above = _polynomials(layout, features_n_F.dtype)
    found = above.best(_sums(features_n_F, features_m_F, layout), torch.amin)
    return found.add_(_margins(features_n_F, features_m_F, above))


def linear(layout: Layout, dtype: torch.dtype) -> Tensor:
    """`[F]` weights: with moments of order two alone, `upper` is the sum of weighted products of features."""
    _, above = _polynomials(Layout(layout.K, layout.C, LOWEST), dtype)
    ones_F = above.margins.new_ones(entries(layout.K, LOWEST))
    return torch.cat([ones_F * above.coefficients[0, 0], above.margins])


def _sums(features_n_F: Tensor, features_m_F: Tensor, layout: Layout) -> Tensor:
    """`[S, n, m]` the sums S_2, S_3 ... of every pair."""
    sums_S_n_m = features_n_F.new_empty(layout.order - 1, len(features_n_F), len(features_m_F))
    for sum_n_m, columns in zip(sums_S_n_m, layout.orders, strict=True):
        torch.mm(features_n_F[:, columns], features_m_F[:, columns].T, out=sum_n_m)
    return sums_S_n_m


def _margins(features_n_F: Tensor, features_m_F: Tensor, polynomials: "_Polynomials") -> Tensor:
    """`[n, m]` how far rounding can move each bound, and the pair itself."""
    margins = polynomials.margins
    return torch.mm(features_n_F[:, -len(margins) :] * margins, features_m_F[:, -len(margins) :].T)


def upper_of_self(features_n_F: Tensor, layout: Layout) -> Tensor:
    """`[n]` numbers that the information between two draws of each point's label is never above."""
    _, above = _polynomials(layout, features_n_F.dtype)
    squares_n_F = features_n_F.square()
    sums_S_n = torch.stack([squares_n_F[:, columns].sum(1) for columns in layout.orders])
    return above.best(sums_S_n, torch.amin).add_(squares_n_F[:, -layout.order :] @ above.margins)


@dataclass(frozen=True)
class LoopTables:
    """What compiled loops need to know to compute features and bounds in float32 (see `moment_loops`).

    Args:
        layout: what the features are.
    """

    layout: Layout

    @functools.cached_property
    def arrays(self) -> tuple[Array, ...]:
        """Coordinates, places and roots of entries, their ends by order, polynomials below and above, and margins."""
        (K, order), dtype = (self.layout.K, self.layout.order), torch.float32
        found = [entry for r in range(LOWEST, order + 1) for entry in _tuples(K, r)]
        rows = {entry: K - 1 + place for place, entry in enumerate(found)}
        rows |= {(q,): q for q in range(K - 1)}
        below, above = _polynomials(self.layout, dtype)
        return (
            np.ascontiguousarray(coordinates(K, dtype).numpy()),
            np.array([(rows[entry[:-1]], entry[-1]) for entry in found]),
            _places(K, order, dtype)[3].numpy(),
            np.array([columns.stop for columns in self.layout.orders]),
            below.coefficients.numpy(),
            above.coefficients.numpy(),
            torch.stack([below.margins, above.margins]).numpy(),
        )


@dataclass(frozen=True)
class _Polynomials:
    """`[P, S]` coefficients of the sum of each order, and `[order]` margins for the products of the last columns.

    The margins are for the largest coefficients, so one serves all polynomials. They bound how far rounding can move
    the sums, and, in the last place, the pair itself.
    """

    coefficients: Tensor
    margins: Tensor

    def best(self, sums_S_x: Tensor, choose: Callable[[Tensor, int], Tensor]) -> Tensor:
        """The largest or smallest of the polynomials' sums of moments."""
        if len(self.coefficients) == 1 and len(sums_S_x) == 1:
            return sums_S_x[0].mul_(self.coefficients[0, 0])
        return choose(self.coefficients @ sums_S_x.flatten(1), 0).view(sums_S_x.shape[1:])


@functools.cache
def _polynomials(layout: Layout, dtype: torch.dtype) -> tuple[_Polynomials, _Polynomials]:
    """Polynomials from below and from above."""
    found = []
    for coefficients in (
        share_bounds.below(layout.order - 2, layout.K),
        share_bounds.above(layout.order - 2, layout.K),
    ):
        largest = np.abs(coefficients).max(0) * layout.rounding(dtype)
        margins = [*largest, _NOISE * torch.finfo(dtype).eps]
        found.append(_Polynomials(torch.tensor(coefficients, dtype=dtype), torch.tensor(margins, dtype=dtype)))
    return found[0], found[1]


@functools.cache
def coordinates(K: int, dtype: torch.dtype) -> Tensor:
    """`[K - 1, K]` from deviations, which average to zero, to coordinates with `Σ_q e_iq e_jq = mean_k d_ik d_jk`."""
    basis = np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, 1:]]))[0]
    return torch.from_numpy(basis[:, 1:].T / np.sqrt(K)).to(dtype)


def _tuples(K: int, order: int) -> list[tuple[int, ...]]:
    """The different products of coordinates, as their numbers in rising order."""
    return list(itertools.combinations_with_replacement(range(K - 1), order))


@functools.cache
def _places(K: int, order: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where the entries of symmetric tensors are found.

    Returns:
        The two coordinates of each entry of order two. Where each entry of any order stands in the matrix of products
        of two coordinates (first two) by products of none, one, two and three (the others). And the square root of how
        often each entry occurs in its tensor.
    """
    left, right = torch.tensor(_tuples(K, 2), dtype=torch.int64).reshape(-1, 2).T.contiguous()
    rows = {entry: place for place, entry in enumerate(_tuples(K, 2))}
    others = itertools.chain.from_iterable(_tuples(K, rest) for rest in range(order - 1))
    columns = {entry: place for place, entry in enumerate(others)}
    found = [entry for r in range(LOWEST, order + 1) for entry in _tuples(K, r)]
    place = torch.tensor([rows[entry[:2]] * len(columns) + columns[entry[2:]] for entry in found], dtype=torch.int64)
    often = [math.factorial(len(entry)) / math.prod(map(math.factorial, Counter(entry).values())) for entry in found]
    return left, right, place, torch.tensor(often, dtype=torch.float64).sqrt().to(dtype)


@functools.cache
def _triples(K: int) -> tuple[Tensor, Tensor]:
    """For each product of three coordinates, in order: where the first two stand among the pairs, and the third."""
    pairs = {entry: place for place, entry in enumerate(_tuples(K, 2))}
    found = [(pairs[entry[0], entry[1]], entry[2]) for entry in _tuples(K, 3)]
    head, tail = torch.tensor(found, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return head, tail
