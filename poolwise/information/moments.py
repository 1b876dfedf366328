"""Bounds of pairwise information from moments of each point alone, at a price that does not depend on the classes.

The information of a pair is `I_ij = Σ_ab w_ab φ(δ_ab)` with `w_ab = p̄_i(a) p̄_j(b)` and `φ(δ) = (1 + δ) ln(1 + δ) - δ`
(see `pairs`). Its price is C² logarithms. Two sums over the same terms are much cheaper:

    S2 = Σ_ab w_ab δ_ab² = <G_i, G_j>    with  G_i[k, l]    = Σ_a p̄_i(a) d_ik(a) d_il(a) / K
    S3 = Σ_ab w_ab δ_ab³ = <T_i, T_j>    with  T_i[k, l, m] = Σ_a p̄_i(a) d_ik(a) d_il(a) d_im(a) / K^1.5

because `δ_ab = mean_k d_ik(a) d_jk(b)`, and a power of a sum over k is a sum over tuples of k. `G_i` and `T_i` are
symmetric tensors of point i alone. Deviations average to zero over k, so K - 1 coordinates hold all of them: with
K = 5 a point is 10 + 20 numbers, whatever C is, and bounds for many pairs are one matrix product.

From below: Bernstein's inequality, `φ(δ) ≥ δ² / (2 (1 + δ/3))` for `δ ≥ -1`, and Cauchy–Schwarz,
`(Σ w δ²)² ≤ Σ (w δ² / (1 + δ/3)) · Σ w δ² (1 + δ/3)`, give

    I_ij ≥ S2² / (2 S2 + ⅔ S3).

From above: `h(δ) = φ(δ) / δ²` is convex, falls from 1 at δ = -1, and has a negative third derivative. So a parabola q
with `q(-1) = 1` that touches h at some t > -1 is nowhere below h: the remainder `h - q` is a third derivative times
`(δ + 1)(δ - t)² / 6`. With `S4 = Σ_ab w_ab δ_ab⁴`, the same product for tensors of fourth order,
`I_ij = Σ w δ² h(δ) ≤ Σ w δ² q(δ)` is a sum of S2, S3 and S4. The t that makes it smallest is `(S4 + S3) / (S3 + S2)`.
No better bound can be had from these three sums.

Where K is so large that these tensors are too long, cheaper facts stand in for them. Let `M = s_i s_j` with
`s_i² = max_a mean_k d_ik(a)²`, so that `δ ≤ M`. For S3 from above: `|T_i| |T_j|` or `M S2`. For h from above: its chord
from -1 to M.

All bounds allow for the rounding of the matrix products that they are made of, so they hold for every pair.
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
# A product of F terms is off by at most F roundings of the product of the norms; doubled for what the entries
# themselves are off by.
_ROUNDINGS = 2.0
# Relative rounding of everything else, and of the exact pair that a bound is compared with.
_SAFETY = {torch.float32: 2.0**-17, torch.float64: 2.0**-40}
# The chord ends here at least: closer to 0, φ(M) / M² loses its digits.
_SMALLEST_CHORD = 0.05
# Closer to 0 than this, h and its derivative come from a series.
_CLOSE = 0.05
# What a logarithm costs in multiplications, and how much cheaper than a pair a bound should be.
_LOGARITHM, _ADVANTAGE = 25, 8


@dataclass(frozen=True)
class Moments:
    """Moments of n points.

    Attributes:
        second: `[n, F2]` the entries of `G`, each once, scaled so that products of rows are `S2`.
        third: `[n, F3]` the entries of `T` likewise; `F3` is 0 where K is too large.
        fourth: `[n, F4]` those of the tensor of fourth order; `F4` is 0 where K is too large or it was not asked for.
        scalars: `[n, 4]` the norm of `G`, an upper bound of the norm of `T`, `s`, the largest deviation, and an upper
            bound of `I_ii`, the information between two draws of the point's own label.
    """

    second: Tensor
    third: Tensor
    fourth: Tensor
    scalars: Tensor

    @classmethod
    def empty(cls, capacity: int, K: int, dtype: torch.dtype, fourth: bool = False) -> "Moments":
        """Room for some points."""
        second, third, most = _widths(K)
        widths = (second, third, most if fourth else 0, 4)
        return cls(*(torch.empty(capacity, width, dtype=dtype) for width in widths))

    @classmethod
    def of(cls, points: Deviations, fourth: bool = False) -> "Moments":
        """Moments of the given points.

        Args:
            points: n points.
            fourth: whether to compute the fourth order too, for tighter upper bounds.
        """
        _, K, C = points.ratios.shape
        dtype = points.ratios.dtype
        e_n_q_C = torch.matmul(_coordinates(K, dtype), points.ratios)
        largest_n = e_n_q_C.square().sum(1).mul_(points.means > 0).amax(1).sqrt_()
        products = e_n_q_C * points.means[:, None]  # of one coordinate, then of two, then of three
        found = []
        for order, width in zip((2, 3, 4), _widths(K), strict=True):
            if width == 0 or (order == 4 and not (fourth or width <= C)):
                found.append(largest_n.new_empty(len(points), 0))
                continue
            left, right, roots = _entries(K, order, dtype)
            products = products.index_select(1, left).mul_(e_n_q_C.index_select(1, right))
            found.append(products.sum(2).mul_(roots))
        second_n_F, third_n_F, fourth_n_F = found
        norm_n = second_n_F.square().sum(1).sqrt_()
        # |T|² = Σ_ab p̄(a) p̄(b) δ_ab³ of the point with itself, and |δ_ab| ≤ s².
        third_norm_n = third_n_F.square().sum(1).sqrt_() if third_n_F.shape[1] else norm_n * largest_n
        self_n = _upper_of_self(norm_n, third_n_F, fourth_n_F, largest_n)
        if not fourth:
            fourth_n_F = fourth_n_F[:, :0]
        return cls(second_n_F, third_n_F, fourth_n_F, torch.stack([norm_n, third_norm_n, largest_n, self_n], 1))

    def __len__(self) -> int:
        return len(self.scalars)

    def __getitem__(self, rows: slice) -> "Moments":
        return Moments(*(part[rows] for part in self._parts))

    @property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.second, self.third, self.fourth, self.scalars

    @property
    def width(self) -> int:
        """How many numbers a point takes."""
        return sum(part.shape[1] for part in self._parts)

    def take(self, rows_m: Tensor) -> "Moments":
        """The points at some positions."""
        return Moments(*(part.index_select(0, rows_m) for part in self._parts))

    def put(self, place: slice, rows: "Moments") -> None:
        """Write other points over some of these."""
        for part, other in zip(self._parts, rows._parts, strict=True):
            part[place] = other

    def padded(self, capacity: int) -> "Moments":
        """The same points with room for more after them."""
        room = Moments(*(part.new_empty(capacity, part.shape[1]) for part in self._parts))
        room.put(slice(0, len(self)), self)
        return room

    def lower(self, others: "Moments") -> Tensor:
        """`[n, m]` numbers that the pairwise informations are never below.

        Args:
            others: m points.
        """
        second = (self.second @ others.second.T).sub_(self._margin(others, 0)).clamp_min_(0.0)
        third = self._outer(others, 1)
        if self.third.shape[1]:
            third = (self.third @ others.third.T).add_(self._margin(others, 1))
        else:  # δ ≤ M makes S3 ≤ M · S2
            third = torch.minimum(third, self._outer(others, 2) * (second + 2 * self._margin(others, 0)))
        # The bound grows with S2 and falls with S3. δ ≥ -1 makes S3 ≥ -S2; a limit there undoes rounding.
        divisor = torch.maximum(third, -second).mul_(2 / 3).add_(second, alpha=2.0)
        divisor = divisor.clamp_min_(torch.finfo(second.dtype).tiny)
        return second.square_().div_(divisor).mul_(1 - _SAFETY[second.dtype])

    def upper(self, others: "Moments") -> Tensor:
        """`[n, m]` float64 numbers that the pairwise informations are never above.

        Args:
            others: m points.
        """
        margin = self._margin(others, 0).double()
        second = (self.second @ others.second.T).double()
        if not (self.fourth.shape[1] and others.fourth.shape[1]):
            third = -second - margin  # S3 ≥ -S2
            if self.third.shape[1]:
                third = torch.maximum(third, (self.third @ others.third.T).sub_(self._margin(others, 1)).double())
            return _below_chord(second + margin, third, self._outer(others, 2).double())
        third = (self.third @ others.third.T).double()
        fourth = (self.fourth @ others.fourth.T).double()
        a, b, c = _parabola(second, third, fourth)
        bound = a * second + b * third + c * fourth
        bound += a.abs() * margin + b.abs() * self._margin(others, 1) + c * self._margin(others, 2)
        return bound.mul_(1 + _SAFETY[self.second.dtype])

    def _outer(self, others: "Moments", scalar: int) -> Tensor:
        return torch.outer(self.scalars[:, scalar], others.scalars[:, scalar])

    def _margin(self, others: "Moments", order: int) -> Tensor:
        """`[n, m]` by how much rounding can move S2 (order 0), S3 (order 1) or S4 (order 2)."""
        terms = self._parts[order].shape[1] + 4
        norms = torch.outer(self.fourth.norm(dim=1), others.fourth.norm(dim=1)) if order == 2 else None
        norms = self._outer(others, order) if norms is None else norms
        return norms.mul_(_ROUNDINGS * terms * torch.finfo(self.second.dtype).eps)


def pays(K: int, C: int) -> bool:
    """Whether bounding a pair takes so much less than computing it that selection gains by it."""
    if K < 2:
        return False
    second, third, _ = _widths(K)
    return second + third <= C * C * (K + _LOGARITHM) / _ADVANTAGE


def _upper_of_self(norm_n: Tensor, third_n_F: Tensor, fourth_n_F: Tensor, largest_n: Tensor) -> Tensor:
    """`[n]` numbers that the information between two draws of each point's label is never above."""
    second_n = norm_n.square()
    third_n = third_n_F.square().sum(1) if third_n_F.shape[1] else -second_n
    if not fourth_n_F.shape[1]:
        return _below_chord(second_n, third_n, largest_n.square())
    fourth_n = fourth_n_F.square().sum(1)
    a, b, c = _parabola(second_n.double(), third_n.double(), fourth_n.double())
    bound_n = a * second_n + b * third_n + c * fourth_n
    # Sums of squares are off by a few roundings of themselves.
    bound_n += (a.abs() * second_n + b.abs() * third_n + c * fourth_n) * _SAFETY[norm_n.dtype]
    return bound_n.to(norm_n.dtype).mul_(1 + _SAFETY[norm_n.dtype])


def _parabola(second: Tensor, third: Tensor, fourth: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`a + b δ + c δ²`, nowhere below h and the best for these sums; it stays valid however the sums are rounded."""
    t = ((fourth + third) / (third + second)).nan_to_num_(0.0, 0.0, 0.0).clamp_(-0.9, 1e6)
    h, slope = _share(t)
    c = (1 - h + slope * (1 + t)) / (1 + t).square()
    return h - slope * t + c * t.square(), slope - 2 * c * t, c


def _share(t: Tensor) -> tuple[Tensor, Tensor]:
    """`h(t) = φ(t) / t²` and its derivative, in float64; a series close to 0, where the quotients lose their digits."""
    far = torch.where(t.abs() < _CLOSE, 1.0, t)
    logs = far.log1p()
    phi = (1 + far) * logs - far
    h, slope = phi / far.square(), logs / far.square() - 2 * phi / far**3
    # φ(t) = Σ_n (-t)^n / (n (n - 1)), from n = 2.
    near = torch.where(t.abs() < _CLOSE, t, 0.0)
    series, series_slope = torch.zeros_like(t), torch.zeros_like(t)
    for n in range(9, 1, -1):
        series_slope = series_slope * near + series
        series = series * near + (-1.0) ** n / (n * (n - 1))
    close = t.abs() < _CLOSE
    return torch.where(close, series, h), torch.where(close, series_slope, slope)


def _below_chord(second: Tensor, third: Tensor, largest: Tensor) -> Tensor:
    """`(1 + c) S2 + c S3`, where `1 + c + c δ` is the chord of h from -1 to `largest`."""
    M = largest.clamp_min(_SMALLEST_CHORD)
    c = (((1 + M) * M.log1p() - M) / M.square() - 1) / (M + 1)
    return ((1 + c) * second).addcmul_(c, third).mul_(1 + _SAFETY[torch.float32])


def _widths(K: int) -> tuple[int, int, int]:
    """How many entries of the symmetric tensors of order two, three and four are used for K posterior samples."""
    second, third, fourth = (math.comb(K - 2 + order, order) for order in (2, 3, 4))
    third = third if third <= _MOST_TRIPLES else 0
    return second, third, fourth if third and fourth <= _MOST_QUADRUPLES else 0


@functools.cache
def _coordinates(K: int, dtype: torch.dtype) -> Tensor:
    """`[K - 1, K]` from deviations, which average to zero, to coordinates with `Σ_q e_iq e_jq = mean_k d_ik d_jk`."""
    basis = np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, 1:]]))[0]
    return torch.from_numpy(basis[:, 1:].T / np.sqrt(K)).to(dtype)


@functools.cache
def _entries(K: int, order: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The entries of a symmetric tensor, each once: which entry of the order below times which coordinate.

    Returns:
        Positions in the order below, coordinates, and the square root of how often each entry occurs in the tensor.
    """
    tuples = itertools.combinations_with_replacement
    below = {entry: place for place, entry in enumerate(tuples(range(K - 1), order - 1))}
    entries = list(tuples(range(K - 1), order))
    often = [math.factorial(order) / math.prod(map(math.factorial, Counter(entry).values())) for entry in entries]
    return (
        torch.tensor([below[entry[:-1]] for entry in entries], dtype=torch.int64),
        torch.tensor([entry[-1] for entry in entries], dtype=torch.int64),
        torch.tensor(often, dtype=torch.float64).sqrt().to(dtype),
    )
