"""The LBB objective: a point's own information less what the picks already tell about its label.

All forms start from BALD, `I_i = I(y_i; θ)`, and from the pairwise informations `I_ij = I(y_i; y_j)` with the picks
j made so far. They differ in how the pairs are put together, and each is named after that:

- `sum`: `I_i - Σ_j I_ij`, the paper's formula. With `pairs="unordered"` each pair is counted once, which is exact for
  a batch of two; with `pairs="ordered"` twice, as the printed double sum has it. The sum exceeds `I_i` after a few
  picks (on digits, ordered: 3 with 5 ensemble members, 11 with 20), and from then on the largest gain belongs to points
  that tell nothing at all. Use it to reproduce the formula, not to label data.
- `mean`: `I_i - mean_j I_ij`, the average share. Never below zero, since `I_ij ≤ I_i`.
- `max`: `I_i - max_j I_ij`. What remains after the most redundant pick alone; an upper bound of the true gain
  `I_i - I(y_i; y_S)`, because conditioning on more picks can only take away more.
- `normalised`: `I_i · (1 - max_j ρ_ij)` with `ρ_ij = I_ij / sqrt(I_ii I_jj)` between 0 and 1, where `I_ii` is the
  information between two independent draws of one point's label. Soft labels share little even between copies of one
  image (`I_ii` is far below `I_i`), so `max` and `mean` let duplicates through; a correlation does not: a copy has
  ρ = 1 and no gain left.

Gains of `sum`, `max` and `normalised` never grow with the batch, so an old gain is a valid bound; for `mean` the
partial sum over the current count is one. Pairs are evaluated pick by pick in the order of picking, and a point is
dropped as soon as its bound cannot win: most points need one or two pairs only.
"""

from typing import Literal

import numpy as np
import torch

from poolwise import budget
from poolwise.arrays import Array
from poolwise.information.pairs import Deviations, aligned, with_itself
from poolwise.selection.objective import GreedyObjective
from poolwise.selection.row_cache import DeviationCache
from poolwise.selection.task import Task

Redundancy = Literal["normalised", "max", "mean", "sum"]
Pairs = Literal["unordered", "ordered"]

REDUNDANCY_HELP = "How the overlap with the picks is measured: see the formula."
PAIRS_HELP = "For redundancy='sum': count each pair once (exact for two points) or twice (as printed)."

# Sums of multiples of this are exact in float64, so they do not depend on how the engine groups the pairs.
_GRAIN = 2.0**-40

# Of a pool on a disk, this many rows per pick are kept from the first pass, if they fit. A batch of 1,000 from a
# million synthetic points with K = 10 read 108 rows per pick, from 200,000 points 30: the number grows with the pool.
_KEPT = 1000

# A point is first compared with this many picks, and then with this many times those that it has seen. Fewer would
# waste fewer pairs on points that are soon out, but each round has a fixed cost.
_FIRST_PAIRS, _GROWTH = 2, 2


class PairwiseRedundancy(GreedyObjective):
    """Gains `I_i` less redundancy with the picks (see the module's text for the forms)."""

    rounding, embedded = None, False

    def __init__(self, task: Task, redundancy: Redundancy, pairs: Pairs) -> None:
        super().__init__(task)
        self._redundancy = redundancy
        self._factor = 2.0 if pairs == "ordered" and redundancy == "sum" else 1.0
        self.shrinking = redundancy != "mean"
        self.slack = 2e-6 if task.predictions.dtype == torch.float32 else 1e-12
        self.floor = -np.inf if redundancy == "sum" else 0.0
        self._combine = np.maximum if redundancy in ("max", "normalised") else np.add
        self._normalised = redundancy == "normalised"
        self._cache = DeviationCache(task.predictions, task.memory // 2)
        N, K, C = task.predictions.shape
        self._bald_N = np.zeros(N)
        self._self_N = np.zeros(N)  # `I_ii`, or an upper bound of it
        self._self_known_N = np.zeros(N, bool)
        self._overlap_N = np.zeros(N)  # the largest correlation, the largest pair, or the sum of pairs so far
        self._seen_N = np.zeros(N, np.int32)  # how many picks the overlap takes into account
        self._order_B = np.empty(task.batch_size, np.int64)
        self._picks = self._order_B[:0]
        self._picked = Deviations.room(task.batch_size, K, C, task.predictions.dtype)
        self._picked_ratios_B_K_C, self._picked_means_B_C = self._picked.ratios.numpy(), self._picked.means.numpy()
        self._block = max(1, budget.block_rows(C * C * 4, task.memory))

    def start(self) -> Array:
        """BALD scores: the gains given no picks."""
        kept = _KEPT * self.task.batch_size if self.task.predictions.on_disk else 0
        self._bald_N = self._cache.scan(self.task, kept)
        gains_N = self._bald_N.copy()
        gains_N[gains_N <= self.slack] = 0.0
        return gains_N

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Compare each point with a few more picks, the more the more it has seen."""
        missing_n = len(self._picks) - self._seen_N[indices_n]
        self._compare(indices_n, np.minimum(missing_n, np.maximum(_FIRST_PAIRS, _GROWTH * self._seen_N[indices_n])))
        return indices_n, self._bounds(indices_n), self._seen_N[indices_n] == len(self._picks)

    def gains(self, indices_n: Array) -> Array:
        """Compare each point with all picks that it has not seen."""
        for start in range(0, len(indices_n), self._cache.limit):
            part = indices_n[start : start + self._cache.limit]
            self._compare(part, len(self._picks) - self._seen_N[part])
        return self._bounds(indices_n)

    def add(self, index: int) -> None:
        """Put a point into the batch."""
        count = len(self._picks)
        slot = self._cache.slot(index)
        self._picked_ratios_B_K_C[count] = self._cache.ratios_s_K_C[slot]
        self._picked_means_B_C[count] = self._cache.means_s_C[slot]
        self._order_B[count] = index
        self._picks = self._order_B[: count + 1]
        self.rows = self._cache.rows_read

    def update(self, index: int, bounds_N: Array) -> Array:
        """Put a point into the batch; a mean over more picks needs new bounds."""
        self.add(index)
        return self._gains(self._bald_N, self._overlap_N) if self._redundancy == "mean" else bounds_N

    def judge(self, index: int) -> float:
        """Compare one point with all picks, anew."""
        count, one = len(self._picks), np.array([index])
        if count == 0:
            return float(self._bounds(one)[0])
        self._know_self(one)
        self._know_self(self._picks)
        overlap_t = self._evaluate(np.full(count, index), np.arange(count))
        return float(self._gains(self._bald_N[one], self._combine.reduce(overlap_t, keepdims=True))[0])

    def _bounds(self, indices_n: Array) -> Array:
        """Gains as far as the pairs seen so far tell, which is an upper bound."""
        return self._gains(self._bald_N[indices_n], self._overlap_N[indices_n])

    def _gains(self, bald_n: Array, overlap_n: Array) -> Array:
        """Information less overlap; nothing, if that is within rounding of zero."""
        if self._normalised:
            gains_n = bald_n * (1 - overlap_n)
        elif self._redundancy == "mean":
            gains_n = bald_n - overlap_n / max(1, len(self._picks))
        else:
            gains_n = bald_n - self._factor * overlap_n
        return np.where(np.abs(gains_n) > self.slack, gains_n, 0.0)

    def _compare(self, indices_n: Array, counts_n: Array) -> None:
        """Compare each point with its next `counts_n` picks; one that tells nothing has no overlap with any."""
        nothing_n = self._bald_N[indices_n] == 0
        if nothing_n.any():
            self._seen_N[indices_n[nothing_n]] += counts_n[nothing_n]
            indices_n, counts_n = indices_n[~nothing_n], counts_n[~nothing_n]
        if not counts_n.all():
            indices_n, counts_n = indices_n[counts_n > 0], counts_n[counts_n > 0]
        # Whole points are put together into blocks of about `self._block` pairs.
        ends_n = np.cumsum(counts_n)
        first = 0
        while first < len(indices_n):
            done = ends_n[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends_n, done + self._block, "right")))
            last = min(last, first + self._cache.limit)
            self._compare_block(indices_n[first:last], counts_n[first:last])
            first = last

    def _compare_block(self, indices_n: Array, counts_n: Array) -> None:
        self._know_self(indices_n)
        self._know_self(self._picks)
        starts_n = np.cumsum(counts_n) - counts_n
        points_p = np.repeat(indices_n, counts_n)
        pick_p = np.arange(len(points_p)) - np.repeat(starts_n - self._seen_N[indices_n], counts_n)
        overlap_n = self._combine.reduceat(self._evaluate(points_p, pick_p), starts_n)
        self._overlap_N[indices_n] = self._combine(self._overlap_N[indices_n], overlap_n)
        self._seen_N[indices_n] += counts_n

    def _evaluate(self, points_p: Array, pick_p: Array) -> Array:
        """`[p]` what pairs count for: of each point with the pick of that number."""
        slots, picks = torch.from_numpy(self._cache.slots(points_p)), torch.from_numpy(pick_p)
        values_p = np.empty(len(points_p))
        for start in range(0, len(points_p), self._block):
            part = slice(start, start + self._block)
            values_p[part] = aligned(self._cache.store.take(slots[part]), self._picked.take(picks[part])).numpy()
        self.pairs += len(points_p)
        return self._overlap(values_p, points_p, self._picks[pick_p])

    def _overlap(self, values_p: Array, points_p: Array, picks_p: Array) -> Array:
        """What pairwise informations count for; the clipping undoes rounding errors only."""
        if self._normalised:
            scale_p = np.sqrt(self._self_N[points_p] * self._self_N[picks_p])
            ratio_p: Array = np.divide(values_p, scale_p, out=np.zeros_like(values_p), where=scale_p > 0)
            return ratio_p.clip(0, 1)
        values_p = np.minimum(values_p, np.minimum(self._bald_N[points_p], self._bald_N[picks_p]))
        return values_p if self._redundancy == "max" else np.round(values_p / _GRAIN) * _GRAIN

    def _know_self(self, indices_n: Array) -> None:
        """Compute `I_ii`, if this form needs it, of the points for which it is not known yet."""
        if not self._normalised:
            return
        unknown = indices_n[~self._self_known_N[indices_n]]
        step = min(self._block, self._cache.limit)
        for start in range(0, len(unknown), step):
            part = unknown[start : start + step]
            self._self_N[part] = with_itself(self._cache.take(part)).numpy()
            self._self_known_N[part] = True
            self.pairs += len(part)
