"""Facility location: choose points that are each target's best representative, greedily and exactly.

The coverage of T targets by a batch S is `Σ_j u_j max_{i∈S∪L} k_ij`, with weights u and a kernel k of at least 0. The
points L cover already: those that are labelled. Coverage is monotone and submodular. So greedy selection is within
`1 - 1/e` of the best batch (Nemhauser et al. 1978), gains never grow, and lazy evaluation is exact (Minoux 1978).

No `N × T` matrix is kept. A gain is a sum over the pairs in which a point improves on what a target is covered already.
If i and t picks were equally likely to be the best representative of j, that would be so for one pair in t + 1; after
greedy picks it is a third of that. Once these pairs fit a part of the memory budget they are listed, and a gain is a
short sum instead of T products of vectors.

Rounding decides nothing. Values in blocks and lists are known to within the noise of the kernel, and only serve to find
the few points that could win. Between those, and for what a pick covers, each pair is computed for itself, and sums are
exact (`math.fsum`). So picks depend neither on the order of the pool nor on blocks, lists, memory or threads.
"""

import math
from typing import Any

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.coverage_bounds import Moments, Pivots, moments_of, weighted_gain
from poolwise.selection.coverage_kernels import Kernel, fingerprints, in_parts
from poolwise.selection.coverage_lists import (
    Lists,
    RowLists,
    ends_of,
    entries_above,
    improvement,
    in_order,
    shortened,
    sums,
)
from poolwise.selection.objective import Evaluation, GreedyObjective
from poolwise.selection.task import Picks, Task

# Columns of a block of the kernel: with 256 rows four megabytes, which stay in a cache while several operations pass.
_COLUMNS = 4096
# How many pairs may be listed: a pair takes 12 bytes, and twice that while lists are made.
_BYTES_PER_PAIR, _MOST_PAIRS = 48, 1 << 25
# Rows of the kernel are listed if they improve no more than this share of the targets, and all rows if that share is
# smaller still. Otherwise lists would cost more than they save.
_SPARSE, _VERY_SPARSE = 0.12, 0.06
# Pivots that are kept with their rows of the kernel, as long as these fit an eighth of the memory budget.
_PIVOTS = 256
# How many points that may win to evaluate at a time: of those with lists, and of those without.
_LISTED, _NEW = 32, 128
# Rows that are looked at to estimate how many pairs there are to list.
_PROBES = 32
# A gain up to this is what rounding leaves of one that has fallen to zero.
_NOTHING = 1e-10
# Numbers in rows of the kernel that are listed at a time.
_WIDE = 1 << 22
_ALL = slice(None)


class Coverage(GreedyObjective):
    """The coverage of targets; points are the candidates of the kernel.

    Args:
        task: how many points to pick, and the memory budget.
        kernel: similarities between N candidates and T targets.
        weights_T: `[T]` what each target counts for, at least 0.
        covered_T: `[T]` how far each is covered already; not at all if None.
    """

    floor = 0.0
    rounding = None

    def __init__(self, task: Task, kernel: Kernel, weights_T: Array, covered_T: Array | None = None) -> None:
        super().__init__(task)
        self._kernel = kernel
        self._dtype: type[np.floating[Any]] = np.float64 if kernel.dtype == torch.float64 else np.float32
        self._weights_T = np.ascontiguousarray(weights_T, self._dtype)
        self.covered_T: Array = (
            np.zeros_like(self._weights_T) if covered_T is None else np.array(covered_T, self._dtype)
        )
        self._most_pairs = min(_MOST_PAIRS, task.memory // _BYTES_PER_PAIR)
        self._rows = RowLists(kernel.shape[0], self._most_pairs)
        self._lists: Lists | None = None
        self._pivots: Pivots | None = None
        self._moments: Moments | None = None
        self._share = 1.0  # about which share of all pairs still improves a target
        self._picks, self._next = 0, 1
        self._computed = 0  # rows of the kernel, for points that could win
        self._noise = 2 * (kernel.noise + kernel.relative)
        self.slack = self._noise * float(self._weights_T.sum(dtype=np.float64))
        self._added: list[tuple[float, float]] = []  # of each pick, the sum of what it added at targets, and of squares

    def start(self) -> Array:
        """Upper bounds of the coverage of each point alone, or that coverage where no bounds are to be had for less."""
        N, T = self._kernel.shape
        self._probe()
        if self._share * N * T <= self._most_pairs:
            return self._list_all().gains_N.copy()
        count = min(_PIVOTS, N // 16, self.task.memory // 8 // (4 * T))
        if count:
            self._pivots = Pivots(self._kernel, count, self._columns())
        self._moments = moments_of(self._kernel, self._weights_T)
        return self.gains(np.arange(N)) if self._moments is None else self._moments.bounds(self.covered_T)

    def pick(self, evaluation: Evaluation = "lazy", tolerance: float | None = None) -> Picks:
        """The batch, with gains summed over the values of the pairs."""
        picks = super().pick(evaluation, tolerance)
        sums_B = np.array([gain for gain, _ in self._added])
        picks.scores = np.where(picks.scores > picks.tolerance, sums_B, picks.scores)
        return picks

    def standard_errors(self, population: int) -> Array:
        """`[B]` standard error of each gain, if the T targets are a random sample drawn without replacement.

        Args:
            population: of how many they are a sample. Weights are those of the population, times that over T.
        """
        T = len(self._weights_T)
        sums_B, squares_B = np.array(self._added).reshape(-1, 2).T
        variance_B = np.maximum(squares_B - sums_B**2 / T, 0.0) / max(T - 1, 1)
        errors_B: Array = np.sqrt(variance_B * T * (1 - T / population))
        return errors_B

    def gains(self, indices_n: Array) -> Array:
        """Coverage that each point adds, up to rounding."""
        if self._lists is not None:
            gains_n = self._lists.gains_N[indices_n]
            return np.where(gains_n > _NOTHING, gains_n, 0.0)
        known_n, gains_n = self._rows.known_N[indices_n], np.zeros(len(indices_n))
        if known_n.any():
            gains_n[known_n] = self._from_lists(indices_n[known_n])
        if not known_n.all():
            gains_n[~known_n] = self._from_products(indices_n[~known_n])
        return gains_n

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Gains of some points. Others wait, since the next to be asked for may win already."""
        if self._lists is None:
            known_n = self._rows.known_N[indices_n]
            first_n = np.where(known_n, np.cumsum(known_n) <= _LISTED, np.cumsum(~known_n) <= _NEW)
            self._computed += int((first_n & ~known_n).sum())
            indices_n = indices_n[first_n]
        return indices_n, self.gains(indices_n), np.ones(len(indices_n), bool)

    def judge(self, index: int) -> float:
        """Coverage that one point adds, exactly rounded from the values of its pairs."""
        return math.fsum(self._terms(index)[1].tolist())

    def content(self, indices_n: Array) -> Array:
        """`[n, 1]` a number per point that only equal points share."""
        return fingerprints(self._kernel.content(indices_n))

    def add(self, index: int) -> None:
        """Credit each target to the new pick where that is its best representative."""
        self._credit(index)

    def _credit(self, index: int) -> Array:
        """Add a pick; the candidates whose gains that changed, as far as there are lists of all pairs."""
        targets_n, terms_n, values_n = self._terms(index)
        before = self.covered_T[targets_n], self._high(targets_n)
        self.covered_T[targets_n] = values_n
        self._added.append((math.fsum(terms_n.tolist()), float(np.square(terms_n).sum())))
        self._picks += 1
        if self._lists is None:
            return np.empty(0, np.int64)
        changed = self._lists.cover(targets_n, before, (values_n, self._high(targets_n)))
        self.pairs += len(changed)
        return changed

    def update(self, index: int, bounds_N: Array) -> Array:
        """Add a pick. With lists of all pairs gains are exact at once; before, bounds get better now and then."""
        changed = self._credit(index)
        due = self._picks >= self._next
        if self._lists is not None:
            bounds_N[changed] = np.minimum(bounds_N[changed], self.gains(changed))
            if due:
                self._next = 2 * self._picks
                self._lists.shorten(self._low())
                self._set_slack(self._lists)
            return bounds_N
        if not due:
            return bounds_N
        self._next = max(self._picks + 1, self._picks * 9 // 8)
        self._probe()
        if self._worth_listing():
            return np.where(np.isneginf(bounds_N), -np.inf, self._list_all().gains_N)
        if self._rows.full:
            self._rows.shorten(self._low())
        if self._pivots is not None:
            bounds_N = np.minimum(bounds_N, self._pivots.bounds(self._high(), self._weights_T) + 2 * self.slack)
        if self._moments is not None:
            bounds_N = np.minimum(bounds_N, self._moments.bounds(self.covered_T))
        return bounds_N

    def _high(self, targets: Array | slice = _ALL) -> Array:
        """`[n]` a value in a block above this improves the target beyond doubt."""
        noise = self._dtype(self._kernel.noise)
        high_n: Array = self.covered_T[targets] * self._dtype(1 + self._kernel.relative) + noise
        return high_n

    def _low(self) -> Array:
        """`[T]` no value in a block up to this improves the target."""
        noise = self._dtype(self._kernel.noise)
        low_T: Array = self.covered_T * self._dtype(1 - self._kernel.relative) - noise
        return np.maximum(low_T, 2 * noise)

    def _terms(self, index: int) -> tuple[Array, Array, Array]:
        """The targets that one point improves, by how much times their weight, and their new values."""
        if self._lists is not None:
            near_n = self._lists.targets(index)
        elif self._rows.known_N[index]:
            near_n = self._rows.get(np.array([index]))[1].astype(np.int64)
        else:
            row_1_T = [self._kernel.block(np.array([index]), *ends).numpy() for ends in self._columns()]
            near_n = np.flatnonzero(np.concatenate(row_1_T, 1)[0] > self._low())
        values_n = self._kernel.pairs(index, near_n)
        better_n = values_n > self.covered_T[near_n]
        near_n, values_n = near_n[better_n], values_n[better_n]
        terms_n = np.subtract(values_n, self.covered_T[near_n], dtype=np.float64) * self._weights_T[near_n]
        return near_n, terms_n, values_n

    def _columns(self) -> list[tuple[int, int]]:
        return _steps(len(self._weights_T), _COLUMNS)

    def _probe(self) -> None:
        """Estimate which share of all pairs may improve a target, from some of the rows."""
        N, T = self._kernel.shape
        rows_m, low_T = np.linspace(0, N - 1, min(N, _PROBES)).astype(np.int64), self._low()
        blocks = (self._kernel.block(rows_m, a, b).numpy() > low_T[a:b] for a, b in self._columns())
        self._share = sum(int(np.count_nonzero(block)) for block in blocks) / (len(rows_m) * T)
        self.pairs += len(rows_m) * T

    def _worth_listing(self) -> bool:
        """Whether all pairs can be listed, and at this rate as many rows would be computed again as have no list."""
        N, T = self._kernel.shape
        left, missing = self.task.batch_size - self._picks, N - int(self._rows.known_N.sum())
        few = self._share <= _VERY_SPARSE and self._share * N * T <= self._most_pairs
        return few and self._computed * left >= self._picks * missing

    def _list_all(self) -> Lists:
        """Make lists of all pairs that may improve a target, and compute gains from these from now on."""
        self._pivots = self._moments = None
        known = np.flatnonzero(self._rows.known_N)
        missing = np.flatnonzero(~self._rows.known_N)
        self.pairs += len(missing) * len(self._weights_T)
        low_T, rows = self._low(), self._rows
        parts = [shortened(*rows.get(some_m), low_T) for some_m in in_parts(known)]
        self._rows = RowLists(len(known) + len(missing), 0)
        parts += list(ordered_map(self._listed, self._wide_parts(missing)))
        ends_N = ends_of(np.concatenate([np.diff(ends_m) for ends_m, _, _ in parts]))
        targets, values = (np.concatenate([part[which] for part in parts]) for which in (1, 2))
        order_N = np.argsort(np.concatenate([known, missing]), kind="stable")
        if len(known):
            ends_N, targets, values = in_order(ends_N, targets, values, order_N)
        self._lists = Lists(ends_N, targets, values, self.covered_T, self._high(), self._weights_T)
        self._set_slack(self._lists)
        return self._lists

    def _from_lists(self, indices_n: Array) -> Array:
        """`[n]` gains of points that have lists."""
        ends_n, targets, values = self._rows.get(indices_n)
        self.pairs += len(targets)
        shorter = shortened(ends_n, targets, values, self._low())
        if 2 * len(shorter[1]) < len(targets):
            self._rows.put(indices_n, *shorter)
        return self._sum(*shorter)

    def _sum(self, ends_n: Array, targets: Array, values: Array) -> Array:
        terms = improvement(values, self.covered_T[targets], self._high()[targets])
        terms *= self._weights_T[targets]
        return sums(terms, ends_n)

    def _from_products(self, indices_n: Array) -> Array:
        """`[n]` gains by products of matrices. Where few pairs count, these are listed."""
        self.pairs += len(indices_n) * len(self._weights_T)
        if self._share > _SPARSE:
            summed = list(ordered_map(self._summed, in_parts(indices_n)))
            if self._pivots is not None:
                self._pivots.further_N[indices_n] = np.concatenate([further_m for _, further_m in summed])
            return np.concatenate([gains_m for gains_m, _ in summed])
        gains_n, parts = [], self._wide_parts(indices_n)
        for some_m, listed in zip(parts, ordered_map(self._listed, parts), strict=True):
            gains_n.append(self._sum(*listed))
            self._rows.put(some_m, *listed)
        return np.concatenate(gains_n)

    def _wide_parts(self, indices_n: Array) -> list[Array]:
        """Points in parts whose whole rows of the kernel take no more than a few megabytes."""
        return in_parts(indices_n, max(1, min(_NEW, _WIDE // len(self._weights_T))))

    def _summed(self, some_m: Array) -> tuple[Array, Array]:
        """Gains of some points, and what each covers further than its pivot."""
        high_T, weights_T, pivots = torch.from_numpy(self._high()), torch.from_numpy(self._weights_T), self._pivots
        gains_m, further_m = np.zeros(len(some_m)), np.zeros(len(some_m))
        for start, stop in self._columns():
            values_m_t = self._kernel.block(some_m, start, stop)
            if pivots is not None:
                level_m_t = pivots.rows(some_m, start, stop).clamp_min_(high_T[start:stop])
                further_m += weighted_gain(torch.sub(values_m_t, level_m_t, out=level_m_t), weights_T[start:stop])
            gains_m += weighted_gain(values_m_t.sub_(high_T[start:stop]), weights_T[start:stop])
        return gains_m, further_m

    def _listed(self, some_m: Array) -> tuple[Array, Array, Array]:
        """Lists of some points: where each begins, targets and values."""
        values_m_T = torch.empty(len(some_m), len(self._weights_T), dtype=self._kernel.dtype)
        for start, stop in self._columns():
            values_m_T[:, start:stop] = self._kernel.block(some_m, start, stop)
        return entries_above(values_m_T.numpy(), self._low())

    def _set_slack(self, lists: Lists) -> None:
        """How far a sum over a list may be off. Values are rounded up as often as down, so that errors cancel."""
        count = lists.longest()
        self.slack = self._noise * min(count, 8 * count**0.5) * float(self._weights_T.max(initial=0))


def _steps(count: int, step: int) -> list[tuple[int, int]]:
    """Where consecutive runs of that many numbers begin and end."""
    return [(start, min(start + step, count)) for start in range(0, count, step)]


def nearest(kernel: Kernel) -> Array:
    """`[T]` the largest similarity of any candidate with each target; 0 if there are no candidates."""
    N, T = kernel.shape
    best_T = torch.zeros(T, dtype=kernel.dtype)
    for some_m in in_parts(np.arange(N)):
        for start in range(0, T, _COLUMNS):
            stop = min(start + _COLUMNS, T)
            torch.maximum(best_T[start:stop], kernel.block(some_m, start, stop).amax(0), out=best_T[start:stop])
    result: Array = best_T.numpy()
    return result
