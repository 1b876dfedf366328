"""Facility location: choose points that are each target's best representative, greedily and exactly.

The coverage of T targets by a batch S is `Σ_j u_j max_{i∈S∪L} k_ij`, with weights u and a kernel k of at least 0. The
points L cover already: those that are labelled. Coverage is monotone and submodular. So greedy selection is within
`1 - 1/e` of the best batch (Nemhauser et al. 1978), gains never grow, and lazy evaluation is exact (Minoux 1978).

No `N × T` matrix is kept, but for few points, or a few thousand of many features. A gain sums over the pairs in which a
point improves on what a target is covered already. After six greedy picks that is one pair in twenty, after a hundred
one in 250. So a target gets a list of the candidates that may still improve it as soon as that is short. When it is
covered further, the gains of these fall by what they could have added, and all gains are up to date again. Pairs of few
points are in a table from the start, which serves as lists do. Pairs of a few thousand points that cover each other are
kept, each once, until all targets have lists: after each of the first picks one pass over them gives all gains.

Targets that are covered further before they have a list are *open*: the gains of all points are up to date but for
these. A *sweep* compares all points with them, and gives lists to most. Near the end of a batch that would not pay:
points that may win are then compared with the open targets alone. Before the first sweep there are upper bounds from
moments of the features, where these are few.

Rounding decides nothing. Values in blocks are known to within the noise of the kernel, and only serve to find the few
points that could win. Between those, and for what a pick covers, each pair is computed for itself, and its term is
rounded to a multiple of a small number, so that sums are exact in whatever order. So picks depend neither on the order
of the pool nor on blocks, lists, memory or threads.
"""

import math
from typing import Any

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.selection.coverage_bounds import Moments, moments_of
from poolwise.selection.coverage_kept import kept
from poolwise.selection.coverage_kernels import Kernel, fingerprints, in_parts
from poolwise.selection.coverage_lists import Lists
from poolwise.selection.coverage_loops import loops
from poolwise.selection.coverage_sweeps import ROWS, between, sweep, sweep_symmetric
from poolwise.selection.coverage_table import Table
from poolwise.selection.coverage_tiles import Tiles, fit
from poolwise.selection.objective import Evaluation, GreedyObjective
from poolwise.selection.task import Picks, Task

# How many pairs may be listed: a pair takes 8 bytes, four times that while lists are made.
_BYTES_PER_PAIR, _MOST_PAIRS = 32, 1 << 26
# A target gets a list if no larger a share of the candidates would be in it: reading one costs several times as much
# as a product of a matrix, per pair.
_SHORT = 0.15
# This few pairs are kept in a table, if there is room: 1,400 points that cover each other. Where loops are compiled, a
# table is faster than lists up to this many times as many, if candidates and targets are not the same points.
_FEW, _COMPILED = 1 << 21, 4
# Where all pairs are kept, all targets get lists once a pick improves no larger a share of them, or after this many
# passes over the pairs.
_SOON, _PASSES = 0.1, 12
# Candidates that are looked at to estimate how long lists would be, for so many targets at a time.
_PROBES, _PROBED = 256, 4096
# A symmetric sweep costs about this share of one that makes every product.
_HALF = 0.6
# Before the first sweep, points may be evaluated for this share of what all would cost.
_PATIENCE = 0.15
# Open targets wait if all picks that are left will probably ask for no more pairs than this many times those of a
# sweep, and these are not few. A pick asks for this share of them, or for what the last one asked for.
_WORTH, _SHARE, _CHEAP = 1.0, 0.1, 1 << 19
# Points that may win are evaluated this many at a time.
_NEW = 256
# Judging a point costs about as much as giving this many listed pairs their exact values.
_JUDGED = 2000
# Indexing a listed pair costs about as much as looking at this many targets for one point, and an exact value of a pair
# as much as looking at that many.
_INDEXED, _EXACT = 0.3, 2
# Compiled loops make this many picks at a time.
_AHEAD = 256
# A gain up to this is what rounding leaves of one that has fallen to zero.
_NOTHING = 1e-10
# Rounding of sums in double precision that follow thousands of picks, as a share of all there is to cover.
_DOUBLE = 1e-13
# Sums of n numbers that are rounded up as often as down are off by no more than this times the root of n.
_SIGMAS = 16
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
        self._noise, self._relative = kernel.noise, kernel.relative
        self._loops = loops(math.prod(kernel.shape))
        self._compiled = hasattr(self._loops, "ahead")
        self._room = min(_MOST_PAIRS, task.memory // _BYTES_PER_PAIR)
        few = _FEW * (_COMPILED if self._compiled else 1)
        self._keep = self._compiled and math.prod(kernel.shape) > _FEW and fit(kernel, ROWS, task.memory)
        self._tiles: Tiles | None = None
        self._few = not self._keep and math.prod(kernel.shape) <= min(few, self._room)
        self._total = float(self._weights_T.sum(dtype=np.float64))
        self._largest = float(self._weights_T.max(initial=0))
        # Terms of exact sums are multiples of 2^-52 times the power of two that is above all of these sums.
        self._grid = 1.5 * 2.0 ** math.ceil(math.log2(max(2 * kernel.shape[1] * self._largest, _NOTHING)))
        self._moments: Moments | None = None
        self._lists: Lists | Table = Lists(kernel.shape, self._weights_T)
        self._gains_N: Array | None = None  # up to date but for open targets; None before the first sweep
        # Values of blocks above `_high_T` improve the target beyond doubt, values up to `_low_T` do not.
        self._high_T, self._low_T = np.empty_like(self._weights_T), np.empty_like(self._weights_T)
        self._raise(np.arange(kernel.shape[1]), self.covered_T)
        self._known_T = self._high_T.copy()  # as far as `_gains_N` knows
        self._open_T = np.zeros(kernel.shape[1], bool)
        self._no_end_T = np.full(kernel.shape[1], np.inf, self._dtype)
        self._spent = 0  # pairs that were compared since the last sweep, for some points only
        self._spent_before, self._share = 0, _SHARE  # the same before the last pick, and what share of all it asked for
        self._judged = self._looked = self._passes = 0
        self._improved = kernel.shape[1]  # how many targets the last pick did
        self._settled = False
        count = min(kernel.shape[0], _PROBES)
        self._probes_n = np.sort(np.random.default_rng(0).choice(kernel.shape[0], count, replace=False))
        self._added: list[tuple[float, float]] = []  # of each pick, the sum of what it added at targets, and of squares
        self.slack = 2 * (kernel.noise + kernel.relative) * self._total

    def start(self) -> Array:
        """Upper bounds of the coverage of each point alone, or that coverage where no bounds are to be had for less."""
        self._moments = None if self._few or self._keep else moments_of(self._kernel, self._weights_T)
        return self._sweep() if self._moments is None else self._moments.bounds(self.covered_T)

    def after(self, picks: list[int]) -> Array:
        """Gains of all points once some have been picked, instead of `start`."""
        for index in picks:
            self.add(index)
        gains_N = self._sweep()
        gains_N[picks] = -np.inf
        self.current = True
        return gains_N

    def pick(self, evaluation: Evaluation = "lazy", tolerance: float | None = None) -> Picks:
        """The batch, with gains summed over the values of the pairs."""
        picks = super().pick(evaluation, tolerance)
        picks.scores = np.where(picks.scores > picks.tolerance, self.gained, picks.scores)
        return picks

    @property
    def gained(self) -> Array:
        """`[B]` the gain of each pick so far, summed over the values of its pairs."""
        return np.array([gain for gain, _ in self._added])

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
        (N, T), open_d = self._kernel.shape, np.flatnonzero(self._open_T)
        each = T if self._gains_N is None else len(open_d)
        if each:
            self._spent += each * len(indices_n)
            if self._spent > each * N * (_PATIENCE if self._gains_N is None else 1):
                self._sweep()
            else:
                self.pairs += each * len(indices_n)
        if self._gains_N is None:
            gains_n = between(self._kernel, indices_n, np.arange(T), self._high_T, self._no_end_T, self._weights_T)
        else:
            gains_n = self._gains_N[indices_n]
            if self._open_T.any():
                levels = self._known_T[open_d], self._high_T[open_d]
                gains_n = gains_n - between(self._kernel, indices_n, open_d, *levels, self._weights_T[open_d])
        return np.where(gains_n > max(_NOTHING, self.negligible), gains_n, 0.0)

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Gains of some points. Others wait, since the next to be asked for may win already."""
        return super().refine(indices_n[:_NEW])

    def judge(self, index: int) -> float:
        """Coverage that one point adds, an exact sum over the values of its pairs."""
        self._judged += 1
        return float(self._terms(index)[1].sum())

    def content(self, indices_n: Array) -> Array:
        """`[n, 1]` a number per point that only equal points share."""
        return fingerprints(self._kernel.content(indices_n))

    def add(self, index: int) -> None:
        """Credit each target to the new pick where that is its best representative."""
        targets_n, terms_n, values_n = self._terms(index)
        self._added.append((float(terms_n.sum()), float(terms_n @ terms_n)))
        self._improved = len(targets_n)
        self._raise(targets_n, values_n)
        if self._gains_N is not None:
            self._gains_N[index] = -np.inf
            levels = self._known_T, self._high_T, self._low_T
            if not self._lists.complete:
                self._open_T[targets_n[~self._lists.listed_T[targets_n]]] = True
            self.pairs += self._lists.cover(self._gains_N, targets_n, *levels)

    def update(self, index: int, bounds_N: Array) -> Array:
        """Add a pick. Without open targets the gains of all points are known at once; else old ones are bounds."""
        waited = int(np.count_nonzero(self._open_T)) * self._kernel.shape[0] if self._gains_N is not None else 0
        if waited:
            self._share = (self._spent - self._spent_before) / waited
        self.add(index)
        if self._gains_N is None:
            return self._bounds(bounds_N)
        pairs = int(np.count_nonzero(self._open_T)) * self._kernel.shape[0]
        soon = (self.task.batch_size - len(self._added)) * self._share <= _WORTH
        if pairs and (self._keep or not soon or pairs <= max(_CHEAP, self._spent)):
            self._sweep()
        self._spent_before = self._spent
        self._tidy()
        self.current = not self._open_T.any()
        return self._gains_N if self.current else np.minimum(bounds_N, self._gains_N)

    def ahead(self, count: int) -> tuple[Array, Array]:
        """Picks that compiled loops can make, and their gains."""
        kernel, lists, gains_N = self._kernel, self._lists, self._gains_N
        ready = lists.complete and kernel.factors is not None and self._compiled
        if gains_N is None or not ready:
            return super().ahead(count)
        targets = self.covered_T, self._weights_T, self._known_T, self._high_T, self._low_T, lists.listed_T
        noise = float(self._noise), float(self._relative), 4 * kernel.noise
        # Until `_tidy` has something to do.
        least = self.negligible if self._settled else 8 * self.slack
        dropped = len(lists) - (0 if self._settled else self._judged * _JUDGED)
        most = min(count, _AHEAD), self._until_index() // _EXACT, dropped
        picks_n, added_n, squares_n, work = lists.ahead(
            gains_N, kernel.factors, targets, noise, self._grid, self.slack, least, most
        )
        self._added += zip(added_n.tolist(), squares_n.tolist(), strict=True)
        self._looked += _EXACT * int(work[0])
        self.pairs += int(work[1])
        if len(picks_n):
            self._tidy()
        return picks_n, added_n

    def _until_index(self) -> int:
        """How much more may be looked at before the lists are indexed again."""
        return max(0, int(self._kernel.shape[1] + _INDEXED * len(self._lists)) - self._looked)

    def _raise(self, targets_n: Array, values_n: Array) -> None:
        """Set how far targets are covered, and the levels that follow."""
        levels = self.covered_T, self._high_T, self._low_T
        self._loops.raise_levels(targets_n, values_n, self._noise, self._relative, *levels)

    def _bounds(self, bounds_N: Array) -> Array:
        """`[N]` upper bounds of gains before the first sweep; better ones after picks 1, 2, 4, 8 and so on."""
        picks = len(self._added)
        if self._moments is None or picks & (picks - 1):
            return bounds_N
        return np.minimum(bounds_N, self._moments.bounds(self.covered_T))

    def _terms(self, index: int) -> tuple[Array, Array, Array]:
        """The targets that one point improves, by how much times their weight, and their new values."""
        near, unknown_n = [self._lists.targets(index)], self._lists.unknown_n
        self._looked += len(unknown_n) + _EXACT * len(near[0])
        for part_n in in_parts(unknown_n, self._kernel.at_once):
            # Consecutive targets are taken without a copy.
            places = slice(0, len(part_n)) if len(part_n) == len(self._weights_T) else part_n
            values_n = self._kernel.block(places, np.array([index])).numpy()[:, 0]
            near.append(part_n[values_n > self._low_T[places]])
        near_n = near[0] if len(near) == 1 else np.concatenate(near)
        values_n = self._values(index, near_n)
        found: tuple[Array, Array, Array] = self._loops.improved(
            near_n, values_n, self.covered_T, self._weights_T, self._grid
        )
        return found

    def _values(self, index: int, targets_n: Array) -> Array:
        """`[n]` similarities of one point with some targets, each computed for its pair alone."""
        if self._kernel.factors is None or not self._compiled:
            return self._kernel.pairs(np.array([index]), targets_n)
        rows_N_F, rows_T_F = self._kernel.factors
        values_n: Array = self._loops.products(rows_N_F[index], rows_T_F, targets_n, 4 * self._kernel.noise)
        return values_n

    def _sweep(self, everything: bool = False) -> Array:
        """Bring all gains up to date with the open targets, or compute them afresh, and make lists of these targets.

        Args:
            everything: close and list every target that has no list, as far as there is room.
        """
        if self._few:
            return self._tabulate()
        if self._gains_N is None and not self._keep:
            self._kernel = kept(self._kernel, self.task.memory)
        kernel, (N, T), high_T, keep = self._kernel, self._kernel.shape, self._high_T, self._keep
        targets_d = np.flatnonzero(~self._lists.listed_T if everything else self._open_T)
        if keep or self._gains_N is None or (kernel.symmetric and len(targets_d) > _HALF * T):
            self._moments, self._lists = None, Lists((N, T), self._weights_T)
            targets_d = np.arange(T)
            above_T = self._once_short(everything) if keep else self._worth_listing(targets_d, everything)
            if kernel.symmetric:
                gains_N, found = sweep_symmetric(kernel, high_T, self._weights_T, above_T, self._tiles)
            else:
                gains_N, found = sweep(kernel, targets_d, high_T, self._no_end_T, self._weights_T, above_T)
            picked_N = np.zeros(N, bool) if self._gains_N is None else np.isneginf(self._gains_N)
            gains_N[picked_N] = -np.inf
            noise = 2 * (kernel.noise + kernel.relative)
            sums = _SIGMAS * float(np.finfo(self._dtype).eps) * float(gains_N.max())
            self.slack = min(noise * self._total, noise * self._largest * _SIGMAS * T**0.5 + sums)
        else:
            above_d = self._worth_listing(targets_d, everything)
            levels = self._known_T[targets_d], high_T[targets_d]
            falls_N, found = sweep(kernel, targets_d, *levels, self._weights_T[targets_d], above_d)
            gains_N = self._gains_N
            gains_N -= falls_N
        self.pairs += len(targets_d) * N
        assert isinstance(self._lists, Lists)  # few pairs are in a table
        self._lists.add(found)
        self._known_T[targets_d], self._open_T[targets_d], self._spent = high_T[targets_d], False, 0
        self._gains_N = gains_N
        if found.parts and self._lists.complete:
            self._sum_up(gains_N)
        if keep and found.parts:
            self._tiles, self._keep = None, False
        return gains_N

    def _once_short(self, everything: bool) -> Array:
        """`[T]` the same where all pairs are kept: of all targets, or of none as long as lists would be long."""
        N, T = self._kernel.shape
        self._tiles = self._tiles or Tiles(self._kernel, ROWS)
        self._passes += 1
        if not everything and self._improved > _SOON * T and self._passes <= _PASSES:
            return self._no_end_T
        # A pick improves more targets than most points would.
        fits = self._improved * N <= self._room
        return self._low_T.copy() if fits else self._worth_listing(np.arange(T), True)

    def _tabulate(self) -> Array:
        """Put all pairs into a table, where they are few."""
        self._lists, self._known_T = Table(self._kernel, self._weights_T, self._low_T), self._high_T.copy()
        self._gains_N = np.zeros(self._kernel.shape[0])
        self._sum_up(self._gains_N)
        self.pairs += math.prod(self._kernel.shape)
        return self._gains_N

    def _worth_listing(self, targets_d: Array, everything: bool) -> Array:
        """`[d]` values above which pairs of some targets are to be listed; infinite for targets without a list."""
        N = self._kernel.shape[0]
        low_d = self._low_T[targets_d]
        counts_d = np.zeros(len(targets_d))
        for start in range(0, len(targets_d), _PROBED):
            part = slice(start, start + _PROBED)
            values_t_n = self._kernel.block(targets_d[part], self._probes_n).numpy()
            counts_d[part] = np.count_nonzero(values_t_n > low_d[part, None], axis=1)
        share_d = counts_d / len(self._probes_n)
        order = np.argsort(share_d, kind="stable")
        room = np.cumsum(share_d[order]) * N <= self._room - len(self._lists)
        short = room & (everything | (share_d[order] <= _SHORT))
        low_d[order[~short]] = np.inf
        return low_d

    def _sum_up(self, gains_N: Array) -> None:
        """Compute all gains from the lists of all targets, which removes what rounding left of earlier values."""
        picked_N = np.isneginf(gains_N)
        gains_N[:], count = self._lists.gains(self._known_T)
        gains_N[picked_N] = -np.inf
        if self._noise > 0:
            noise = 2 * (self._kernel.noise + self._kernel.relative)
            self.slack = noise * self._largest * min(count, _SIGMAS * count**0.5)

    def _tidy(self) -> None:
        """Index the lists where that saves looking at targets; compute exact values where that saves judging points."""
        N, T = self._kernel.shape
        without = self._lists.without
        if 2 * without <= T and self._until_index() == 0:
            self._lists.index()
            self._looked = 0
        unclear = self._added[-1][0] <= 8 * self.slack or self._judged * _JUDGED > len(self._lists) + without * N
        if unclear and not self._settled:
            self._settle()

    def _settle(self) -> None:
        """Give all listed pairs their exact values, if they fit the memory; rounding is then that of double numbers."""
        if not self._lists.complete:
            self._sweep(everything=True)
        self._settled = True
        if self._lists.complete and self._gains_N is not None:
            self._noise = self._relative = 0.0
            self._lists.settle(self._kernel)
            self._lists.index()
            self._raise(np.arange(len(self.covered_T)), self.covered_T)
            self._known_T = self._high_T.copy()
            self._sum_up(self._gains_N)
            self.slack = self.negligible = max(_NOTHING, _DOUBLE * self._total)
