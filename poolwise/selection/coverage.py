"""Facility location: choose points that are each target's best representative, greedily and exactly.

The coverage of T targets by a batch S is `Σ_j u_j max_{i∈S∪L} k_ij`, with weights u and a kernel k of at least 0. The
points L cover already: those that are labelled. Coverage is monotone and submodular. So greedy selection is within
`1 - 1/e` of the best batch (Nemhauser et al. 1978), gains never grow, and lazy evaluation is exact (Minoux 1978).

No `N × T` matrix is kept. A gain is a sum over the pairs in which a point improves on what a target is covered already.
If i and t picks were equally likely to be the best representative of j, that would be so for one pair in t + 1; after
greedy picks it is a third of that. This makes later picks cheap in two ways:

1. Pick t changes what is covered at about one target in t + 1. A gain that was known s picks ago falls by what happened
   at the targets that changed since, and only their columns of the kernel are computed.
2. Once the pairs that still improve a target fit a part of the memory budget they are listed, and the gains of all
   points are kept up to date from these lists.

Rounding decides nothing. Values in blocks are known to within the noise of the kernel, and only serve to find the few
points that could win. Between those, and for what a pick covers, each pair is computed for itself, and sums are exact
(`math.fsum`). So picks depend neither on the order of the pool nor on blocks, lists, memory or threads.
"""

import math
from typing import Any

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.parallel import ordered_map
from poolwise.selection.coverage_bounds import Moments, moments_of
from poolwise.selection.coverage_kernels import Kernel, fingerprints, in_parts
from poolwise.selection.coverage_levels import Levels, Update
from poolwise.selection.coverage_lists import Lists, entries_above, joined
from poolwise.selection.objective import Evaluation, GreedyObjective
from poolwise.selection.task import Picks, Task

# Columns of a block of the kernel: with 256 rows four megabytes, which stay in a cache while several operations pass.
_COLUMNS = 4096
# How many pairs may be listed: a pair takes 12 bytes, and twice that while lists are made.
_BYTES_PER_PAIR, _MOST_PAIRS = 32, 1 << 25
# Pairs are listed if they are no larger a share of all, or this few. Otherwise lists would cost more than they save.
_SPARSE, _FEW = 0.06, 1 << 19
# Lists of up to this many pairs get values of each pair alone, so that hardly any points seem to tie.
_SETTLED = 1 << 20
# How many points that may win to evaluate at a time.
_NEW = 256
# Rows that are looked at to estimate how many pairs there are to list.
_PROBES = 32
# A gain up to this is what rounding leaves of one that has fallen to zero.
_NOTHING = 1e-10
# Rounding of sums in double precision that follow thousands of picks, as a share of all there is to cover.
_DOUBLE = 1e-13
# Numbers in rows of the kernel that are listed at a time.
_WIDE = 1 << 21
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
        self._kernel, self.points = kernel, kernel.shape[0]
        self._dtype: type[np.floating[Any]] = np.float64 if kernel.dtype == torch.float64 else np.float32
        self._weights_T = np.ascontiguousarray(weights_T, self._dtype)
        self.covered_T: Array = (
            np.zeros_like(self._weights_T) if covered_T is None else np.array(covered_T, self._dtype)
        )
        self._noise, self._relative = self._dtype(kernel.noise), self._dtype(kernel.relative)
        self._most_pairs = min(_MOST_PAIRS, task.memory // _BYTES_PER_PAIR)
        self._gains_N = np.zeros(kernel.shape[0])  # as they were when a point was last evaluated
        self._levels = Levels(self._high(), kernel.shape[0])
        self._lists: Lists | None = None
        self._moments: Moments | None = None
        self._share = 1.0  # about which share of all pairs still improves a target
        self._next = 1  # after which pick to look whether lists would fit
        self._total = float(self._weights_T.sum(dtype=np.float64))
        self.slack = 2 * (kernel.noise + kernel.relative) * self._total
        self._added: list[tuple[float, float]] = []  # of each pick, the sum of what it added at targets, and of squares

    def start(self) -> Array:
        """Upper bounds of the coverage of each point alone, or that coverage where no bounds are to be had for less."""
        self._probe()
        if self._listable():
            return self._list_all().gains_N
        self._moments = moments_of(self._kernel, self._weights_T)
        if self._moments is not None:
            return self._moments.bounds(self.covered_T)
        return self.gains(np.arange(self._kernel.shape[0]))

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
        if self._lists is None:
            afresh_m, updates = self._levels.stale(indices_n)
            self._gains_N[afresh_m] = self._summed(afresh_m)
            self.pairs += sum(len(change.points_n) * len(change.targets_c) for change in updates)
            for change, falls_n in zip(updates, ordered_map(self._falls, updates), strict=True):
                self._gains_N[change.points_n] -= falls_n
            self._levels.evaluated(indices_n)
        gains_n = (self._gains_N if self._lists is None else self._lists.gains_N)[indices_n]
        return np.where(gains_n > _NOTHING, gains_n, 0.0)

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Gains of some points. Others wait, since the next to be asked for may win already."""
        return super().refine(indices_n if self._lists is not None else indices_n[:_NEW])

    def judge(self, index: int) -> float:
        """Coverage that one point adds, exactly rounded from the values of its pairs."""
        return math.fsum(self._terms(index)[1].tolist())

    def content(self, indices_n: Array) -> Array:
        """`[n, 1]` a number per point that only equal points share."""
        return fingerprints(self._kernel.content(indices_n))

    def add(self, index: int) -> None:
        """Credit each target to the new pick where that is its best representative."""
        targets_n, terms_n, values_n = self._terms(index)
        before_n = self._high(targets_n)
        self.covered_T[targets_n] = values_n
        after_n = self._high(targets_n)
        self._added.append((math.fsum(terms_n.tolist()), float(np.square(terms_n).sum())))
        if self._lists is None:
            self._levels.raise_to(targets_n, after_n)
        else:
            self.pairs += self._lists.cover(targets_n, before_n, after_n)

    def update(self, index: int, bounds_N: Array) -> Array:
        """Add a pick. With lists of all pairs gains are exact at once; before, bounds get better now and then."""
        self.add(index)
        picks = len(self._added)
        if self._lists is not None:
            if picks >= self._next:
                self._next = 2 * picks
                self._lists.shorten(self._low())
                self._settle(self._lists)
            return self._gains_for(bounds_N)
        if picks < self._next:
            return bounds_N
        self._next = max(picks + 1, picks * 9 // 8)
        self._probe()
        if self._listable():
            self._list_all()
            return self._gains_for(bounds_N)
        if self._moments is not None:
            bounds_N = np.minimum(bounds_N, self._moments.bounds(self.covered_T))
        return bounds_N

    def _gains_for(self, bounds_N: Array) -> Array:
        """`[N]` gains that stay up to date, -inf for points that were picked, in place of bounds."""
        if self._lists is None or bounds_N is self._lists.gains_N:
            return bounds_N
        self._lists.gains_N[np.isneginf(bounds_N)] = -np.inf
        return self._lists.gains_N

    def _high(self, targets: Array | slice = _ALL) -> Array:
        """`[n]` a value in a block above this improves the target beyond doubt."""
        high_n: Array = self.covered_T[targets] * (1 + self._relative) + self._noise
        return high_n

    def _low(self) -> Array:
        """`[T]` no value in a block up to this improves the target."""
        low_T: Array = self.covered_T * (1 - self._relative) - self._noise
        return np.maximum(low_T, 2 * self._noise)

    def _terms(self, index: int) -> tuple[Array, Array, Array]:
        """The targets that one point improves, by how much times their weight, and their new values."""
        if self._lists is not None:
            near_n = self._lists.targets(index)
        else:
            row_T = torch.cat([self._kernel.block(np.array([index]), part)[0] for part in self._columns()])
            near_n = np.flatnonzero(row_T.numpy() > self._low())
        values_n = self._kernel.pairs(np.array([index]), near_n)
        better_n = values_n > self.covered_T[near_n]
        near_n, values_n = near_n[better_n], values_n[better_n]
        terms_n = np.subtract(values_n, self.covered_T[near_n], dtype=np.float64) * self._weights_T[near_n]
        return near_n, terms_n, values_n

    def _columns(self) -> list[slice]:
        T = len(self._weights_T)
        return [slice(start, min(start + _COLUMNS, T)) for start in range(0, T, _COLUMNS)]

    def _probe(self) -> None:
        """Estimate which share of all pairs may improve a target, from some of the rows."""
        N, T = self._kernel.shape
        rows_m, low_T = np.linspace(0, N - 1, min(N, _PROBES)).astype(np.int64), self._low()
        blocks = (self._kernel.block(rows_m, part).numpy() > low_T[part] for part in self._columns())
        self._share = sum(int(np.count_nonzero(block)) for block in blocks) / (len(rows_m) * T)
        self.pairs += len(rows_m) * T

    def _listable(self) -> bool:
        """Whether all pairs that count can be listed, and are few enough for lists to pay."""
        N, T = self._kernel.shape
        left = self.task.batch_size - len(self._added)
        count = self._share * N * T
        return left > 0 and (count <= _FEW or (self._share <= _SPARSE and count <= self._most_pairs))

    def _list_all(self) -> Lists:
        """Make lists of all pairs that may improve a target, and compute gains from these from now on."""
        self._moments = None
        N, T = self._kernel.shape
        self.pairs += N * T
        parts = in_parts(np.arange(N), max(1, min(_NEW, _WIDE // T)))
        self._lists = Lists(*joined(list(ordered_map(self._listed, parts))), self._high(), self._weights_T)
        self._next = 2 * max(1, len(self._added))
        self._settle(self._lists)
        return self._lists

    def _listed(self, some_m: Array) -> tuple[Array, Array, Array]:
        """Lists of some points: where each begins, targets and values."""
        values_m_T = torch.empty(len(some_m), len(self._weights_T), dtype=self._kernel.dtype)
        for part in self._columns():
            values_m_T[:, part] = self._kernel.block(some_m, part)
        return entries_above(values_m_T.numpy(), self._low())

    def _settle(self, lists: Lists) -> None:
        """Replace values of blocks by exact ones once they are few; until then, say how far sums may be off."""
        if self._noise == self._relative == 0:
            return
        if len(lists) <= _SETTLED:
            self._noise = self._relative = self._dtype(0)
            lists.settle(self._kernel, self.covered_T)
            self.slack, self.current = _DOUBLE * self._total, True
        else:  # values are rounded up as often as down, so that errors cancel
            count, noise = lists.longest(), 2 * (self._kernel.noise + self._kernel.relative)
            self.slack = noise * min(count, 8 * count**0.5) * float(self._weights_T.max(initial=0))

    def _summed(self, indices_n: Array) -> Array:
        """`[n]` gains of points that have none yet."""
        high_T, weights_T = torch.from_numpy(self._levels.now_T), torch.from_numpy(self._weights_T)
        self.pairs += len(indices_n) * len(weights_T)

        def gains(some_m: Array) -> Array:
            gains_m = np.zeros(len(some_m))
            for part in self._columns():
                above_m_t = self._kernel.block(some_m, part).sub_(high_T[part]).clamp_min_(0.0)
                gains_m += torch.mv(above_m_t, weights_T[part]).numpy()
            return gains_m

        return np.concatenate([np.empty(0), *ordered_map(gains, in_parts(indices_n))])

    def _falls(self, change: Update) -> Array:
        """`[n]` by how much gains fell since they were known, where targets were covered further."""
        falls_n = np.zeros(len(change.points_n))
        for start in range(0, len(change.targets_c), _COLUMNS):
            some = slice(start, start + _COLUMNS)
            targets_t = change.targets_c[some]
            values_n_t = self._kernel.block(change.points_n, targets_t)
            now_t, weights_t = torch.from_numpy(self._levels.now_T[targets_t]), self._weights_T[targets_t]
            for rows, before_c in change.parts:
                before_t, part = torch.from_numpy(before_c[some]), values_n_t[rows]
                torch.clamp(part, before_t, now_t, out=part).sub_(before_t)
            falls_n += torch.mv(values_n_t, torch.from_numpy(weights_t)).numpy()
        return falls_n


def nearest(kernel: Kernel) -> Array:
    """`[T]` the largest similarity of any candidate with each target; 0 if there are no candidates."""
    N, T = kernel.shape
    best_T = torch.zeros(T, dtype=kernel.dtype)
    for some_m in in_parts(np.arange(N)):
        for start in range(0, T, _COLUMNS):
            part = slice(start, min(start + _COLUMNS, T))
            torch.maximum(best_T[part], kernel.block(some_m, part).amax(0), out=best_T[part])
    result: Array = best_T.numpy()
    return result


def drawn_targets(task: Task, name: str, count: int, sample: int | None) -> tuple[Array | None, float]:
    """Which of some points to cover, None for all, and how many points each of them stands for.

    Args:
        task: where the random stream comes from.
        name: of the method, for errors.
        count: how many points there are.
        sample: how many of them to draw; None for all.
    """
    if sample is not None and sample < 2:
        raise ParameterError(f"{name}: sample must be at least 2, not {sample}. None covers every point.")
    if sample is None or sample >= count:
        return None, 1.0
    return np.sort(task.generator("targets").choice(count, sample, replace=False)), count / sample
