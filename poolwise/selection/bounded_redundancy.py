"""LBB where most pairs are never computed: bounds from moments say which points could win, and which picks matter.

A point climbs a ladder, and drops out as soon as its bound cannot win:

1. its BALD score, from the first pass over the pool;
2. lower bounds of its pairs with the picks, from moments (`information.moments`): one matrix product for many points;
3. for `normalised`, `I_ii`, which until then is only bounded from above where it is expensive;
4. the exact pair with the pick that the bounds call the most redundant;
5. the exact pairs with all other picks, except those whose upper bound shows that they cannot matter.

A lower bound of a pair is an upper bound of the gain, which is what the engine needs. Where pairs are cheap, steps are
left out: a call costs as much as a few hundred small pairs. Bounds that turn out to be loose are given up.
"""

import numpy as np
from torch import Tensor

from poolwise.arrays import Array
from poolwise.information import moments
from poolwise.information.moments import Layout, upper_of_self
from poolwise.information.pairs import Deviations, with_itself
from poolwise.selection.moment_cache import MomentCache, PickMoments
from poolwise.selection.redundancy import Pairs, PairwiseRedundancy, Redundancy
from poolwise.selection.task import Task

# Points that lag behind by more picks than this are bounded apart from the others.
_LAG = 16
# Exact pairs are computed this many logarithms at a time: they take about as long as the call itself.
_WORTH_A_CALL = 400_000
# `I_ii` is computed with the moments if it takes no more logarithms than this, and bounded from above otherwise.
_CHEAP_SELF = 1024
# At a pick, this many points at most are compared at first, then twice as many each time: where bounds say little,
# thousands must be compared, and a call has a fixed cost. The next pick begins with a quarter of where this one ended.
_AT_ONCE = 16
# Where pairs are cheap, bounds are on trial for this many points that they say a pick is redundant with. They are used
# no longer if less than this share of the gain that they leave to those points is there when the pair is computed. With
# K = C = 10 it was 0.73 and 0.75 on pools where selection was faster without them, 0.82 to 0.99 where it was slower.
_TRIAL, _REAL_SHARE = 200, 0.78
# Prices in units of one logarithm of a pair, about 6 ns here: what a pair costs beside its C² logarithms, and a row of
# moments for each product of two coordinates and a class, and for each column. Fitted to K = 5 to 20 and C = 2 to 100.
_PER_PAIR, _PER_PRODUCT, _PER_COLUMN = 25, 1.25, 1.25
# Where moments cost more than a pair, or pairs are cheap, bounds pay only if a point can be compared with many times
# as many picks as that: with 10 to 100 classes and batches of 40 to 100, selection was 0.7 to 1.5 times as fast.
_MANY_TIMES = 150
# The most points whose bounds are brought up to date at every pick.
_WATCHED = 4096
# Bounds of many pairs are computed this many at a time, so that they stay in a cache of the processor.
_BOUNDS = 1 << 18
# Bounds are kept in float32: this undoes their rounding.
_ROUND_DOWN, _ROUND_UP = 1 - 2.0**-20, 1 + 2.0**-20


class BoundedRedundancy(PairwiseRedundancy):
    """`PairwiseRedundancy` of the forms `normalised` and `max`, with bounds from moments."""

    _memory_share = 4

    def __init__(self, task: Task, redundancy: Redundancy, pairs: Pairs) -> None:
        super().__init__(task, redundancy, pairs)
        N, K, C = task.predictions.shape
        self._layout = Layout(K, C)
        self._dear = dear(K, C)
        width = self._layout.width if self._dear else self._layout.lower_width
        self._moments = MomentCache(self._cache, task.memory // 4, width, self._compute)
        self._picked_moments = PickMoments(self._layout)
        # What moments say of the picks that were not seen: a lower bound of the overlap (of `ρ_ij sqrt(I_ii)` for
        # `normalised`), how many picks it takes into account, and the pick that has the largest share in it. Picks
        # are counted from 1 here, and negative once the point was compared with that pick.
        self._lower_N = np.zeros(N, np.float32)
        self._lowered_N = np.zeros(N, np.int32)
        self._suspect_N = np.zeros(N, np.int32)
        self._watched = np.empty(0, np.int64)
        self._watched_n_F: Tensor | None = None  # their features
        self._worth = max(1, _WORTH_A_CALL // (C * C))
        self._bounding, self._on_trial = True, not self._dear
        self._tried, self._claimed, self._real = 0, 0.0, 0.0  # points on trial, and their gains before and after
        self._at_once = _AT_ONCE
        self._bounded_at_once = _BOUNDS // (16 if self._dear else 1)  # polynomials need many numbers per pair

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Take each point one step up the ladder; of the expensive steps only as many as are worth a call."""
        indices_n = indices_n[: self._moments.limit]
        count = len(self._picks)
        if count == 0:
            return indices_n, self._bald_N[indices_n], np.ones(len(indices_n), bool)
        if not self._bounding:
            return super().refine(indices_n)
        behind_n = self._lowered_N[indices_n] < count
        behind, rest = indices_n[behind_n], indices_n[~behind_n]
        if len(behind):
            self._lower(behind)
        if len(rest):
            rest = self._climb(rest[: self._at_once])
            self._at_once *= 2 if len(rest) == self._at_once else 1
        indices_n = np.concatenate([behind, rest])
        exact_n = self._seen_N[indices_n] == count
        return indices_n, self._bounds(indices_n) + np.where(exact_n, 0.0, self.slack), exact_n

    def expect(self, indices_n: Array) -> None:
        """Keep the bounds of these points up to date from now on."""
        self._watched, self._watched_n_F = indices_n[: min(_WATCHED, self._moments.limit)], None

    def add(self, index: int) -> None:
        """Put a point into the batch."""
        super().add(index)
        self._at_once = max(_AT_ONCE, self._at_once // 4)

    def update(self, index: int, bounds_N: Array) -> Array:
        """Put a point into the batch, and lower the bounds of the points that are watched."""
        self.add(index)
        if not self._bounding or len(self._watched) == 0 or len(self._picks) == self.task.batch_size:
            return bounds_N
        if self._watched_n_F is None:
            self._lower(self._watched)
            self._watched_n_F = self._moments.take(self._watched)
        else:
            self._note_picks()
            self._lower_by(self._watched, self._watched_n_F, len(self._picks) - 1)
        new_n = self._bounds(self._watched) + self.slack
        bounds_N[self._watched] = np.minimum(bounds_N[self._watched], new_n)
        return bounds_N

    def judge(self, index: int) -> float:
        """Compare one point with all picks that could matter, anew."""
        if not self._dear or len(self._picks) == 0:
            return super().judge(index)
        one = np.array([index])
        self._seen_N[one], self._overlap_N[one], self._suspect_N[one] = 0, 0.0, 0
        self._self_known_N[one] = False
        self._forget(one)
        self._lower(one)
        while self._seen_N[index] < len(self._picks):
            self._climb(one)
        return float(self._bounds(one)[0])

    def _bounds(self, indices_n: Array) -> Array:
        """Gains as far as pairs and moments tell, which is an upper bound."""
        overlap_n = np.maximum(self._overlap_N[indices_n], self._lower_n(indices_n))
        return self._gains(self._bald_N[indices_n], overlap_n)

    def _lower_n(self, indices_n: Array) -> Array:
        """What moments say the overlap with the picks that were not seen is at least."""
        lower_n = self._lower_N[indices_n].astype(np.float64) * _ROUND_DOWN
        if self._normalised:
            self_n = self._self_N[indices_n]
            np.divide(lower_n, np.sqrt(self_n), out=lower_n, where=self_n > 0)
            np.minimum(lower_n, 1.0, out=lower_n)
        return lower_n

    def _compute(self, indices_n: Array, points: Deviations) -> Tensor:
        """`[n, F]` features of new points; `I_ii` or an upper bound of it is noted."""
        features_n_F = moments.features(points, self._dear)
        unknown_n = ~self._self_known_N[indices_n]
        if self._normalised and unknown_n.any():
            if self._dear:
                self_n = upper_of_self(features_n_F, self._layout).numpy()
                self_n = np.minimum(self_n, self._bald_N[indices_n] + self.slack)
            else:
                self_n = with_itself(points).numpy()
                self._self_known_N[indices_n] = True
                self.pairs += len(indices_n)
            self._self_N[indices_n[unknown_n]] = self_n[unknown_n]
        return features_n_F

    def _lower(self, indices_n: Array) -> None:
        """Bound, from below, the overlap with the picks that moments were not compared with yet."""
        self._note_picks()
        lag_n = len(self._picks) - self._lowered_N[indices_n]
        late_n = lag_n > _LAG
        groups = (indices_n[~late_n], indices_n[late_n]) if late_n.any() else (indices_n,)
        for group in groups:
            if len(group) == 0:
                continue
            first = int(self._lowered_N[group].min())
            step = max(1, self._bounded_at_once // (len(self._picks) - first))
            for start in range(0, len(group), step):
                part = group[start : start + step]
                self._lower_by(part, self._moments.take(part), first)

    def _note_picks(self) -> None:
        """Compute the moments of the picks made since the last time, within the limit of the cache."""
        new = self._picks[self._picked_moments.count :]
        for start in range(0, len(new), self._moments.limit):
            part = new[start : start + self._moments.limit]
            self_m = self._self_N[part] if self._normalised else np.ones(len(part))
            scales_m = np.divide(1.0, np.sqrt(self_m), out=np.zeros(len(part)), where=self_m > 0)
            self._picked_moments.add(self._moments.take(part), scales_m)

    def _lower_by(self, indices_n: Array, features_n_F: Tensor, first: int) -> None:
        """Bound the overlap with all picks but the first few; points must have been compared with those."""
        value_n, pick_n = self._picked_moments.most_redundant(features_n_F, first)
        higher_n = value_n > self._lower_N[indices_n]
        higher = indices_n[higher_n]
        self._lower_N[higher] = value_n[higher_n]
        self._suspect_N[higher] = pick_n[higher_n] + 1
        self._lowered_N[indices_n] = len(self._picks)

    def _climb(self, indices_n: Array) -> Array:
        """Take points that moments say no more about one step up, as many as are worth a call; those that were."""
        if self._normalised and self._dear:
            known_n = self._self_known_N[indices_n]
            if not known_n.all():
                strangers = indices_n[~known_n][: self._worth]
                self._know_self(strangers)
                if not known_n[: self._worth].any():
                    return strangers
                return np.concatenate([strangers, self._climb(indices_n[: self._worth][known_n[: self._worth]])])
        suspected_n = self._lower_n(indices_n) > self._overlap_N[indices_n]
        return self._compare_open(indices_n, suspected_n) if self._dear else self._compare_all(indices_n, suspected_n)

    def _compare_all(self, indices_n: Array, suspected_n: Array) -> Array:
        """Compare suspected points with their suspects, and others with all picks that they have not seen."""
        missing_n = len(self._picks) - self._seen_N[indices_n]
        suspected_n &= missing_n > 1
        counts_n = np.where(suspected_n, 1, missing_n)
        ends_n = np.cumsum(counts_n)
        within = max(1, int(np.searchsorted(ends_n, self._worth, "right")))
        indices_n, suspected_n, counts_n = indices_n[:within], suspected_n[:within], counts_n[:within]
        starts_n = ends_n[:within] - counts_n
        if within == 1 and not suspected_n[0]:
            point_p, pick_p = np.zeros(counts_n[0], np.int64), np.arange(self._seen_N[indices_n[0]], len(self._picks))
        else:
            point_p = np.repeat(np.arange(within), counts_n)
            first_n = np.where(suspected_n, self._suspect_N[indices_n] - 1, self._seen_N[indices_n])
            pick_p = np.arange(len(point_p)) - np.repeat(starts_n - first_n, counts_n)
        overlap_n = np.maximum.reduceat(self._evaluate(indices_n, point_p, pick_p), starts_n)
        self._overlap_N[indices_n] = np.maximum(self._overlap_N[indices_n], overlap_n)
        if self._on_trial:
            self._try(indices_n[suspected_n], overlap_n[suspected_n])
        self._note(indices_n, suspected_n)
        return indices_n

    def _try(self, indices_n: Array, overlap_n: Array) -> None:
        """Compare the gains that bounds leave to some points with what the pair leaves, until enough were tried."""
        self._tried += len(indices_n)
        self._claimed += float(self._gains(self._bald_N[indices_n], self._lower_n(indices_n)).sum())
        self._real += float(self._gains(self._bald_N[indices_n], overlap_n).sum())
        if self._tried >= _TRIAL:
            self._on_trial, self._bounding = False, self._real >= _REAL_SHARE * self._claimed

    def _compare_open(self, indices_n: Array, suspected_n: Array) -> Array:
        """Like `_compare_all`, but leave out pairs whose upper bounds show that they cannot matter."""
        count = len(self._picks)
        seen_n, suspect_n = self._seen_N[indices_n], self._suspect_N[indices_n]
        first = int(seen_n.min())
        picks_m = np.arange(first, count)
        open_n_m = picks_m >= seen_n[:, None]
        open_n_m &= picks_m + 1 != -suspect_n[:, None]
        open_n_m[suspected_n] = picks_m + 1 == suspect_n[suspected_n, None]
        if count - first > 1:
            self._close(indices_n, ~suspected_n, open_n_m, first)
        within = max(1, int(np.searchsorted(np.cumsum(open_n_m.sum(1)), self._worth, "right")))
        indices_n, suspected_n = indices_n[:within], suspected_n[:within]
        point_p, pick_p = np.nonzero(open_n_m[:within])
        if len(point_p):
            overlap_p = self._evaluate(indices_n, point_p, first + pick_p)
            np.maximum.at(self._overlap_N, indices_n[point_p], overlap_p)
        self._note(indices_n, suspected_n)
        return indices_n

    def _note(self, indices_n: Array, suspected_n: Array) -> None:
        """Remember which points were compared with their suspects, and that the others have seen all picks."""
        some, whole = indices_n[suspected_n], indices_n[~suspected_n]
        self._suspect_N[some] *= -1
        self._lower_N[some] = 0.0  # the overlap says more now
        self._seen_N[whole] = len(self._picks)
        self._forget(whole)

    def _close(self, indices_n: Array, which_n: Array, open_n_m: Array, first: int) -> None:
        """Close the pairs whose upper bounds show that they cannot matter."""
        chosen = indices_n[which_n]
        if len(chosen):
            upper_l_m = self._picked_moments.upper(self._moments.take(chosen), first)
            least_l = self._overlap_N[chosen]
            if self._normalised:
                least_l = least_l * np.sqrt(self._self_N[chosen])
            open_n_m[which_n] &= upper_l_m * _ROUND_UP > least_l[:, None]

    def _compare(self, indices_n: Array, counts_n: Array) -> None:
        super()._compare(indices_n, counts_n)
        self._forget(indices_n)

    def _forget(self, indices_n: Array) -> None:
        """Drop what moments said of picks that have been seen since."""
        self._lower_N[indices_n] = 0.0
        self._lowered_N[indices_n] = self._seen_N[indices_n]


def lbb_objective(task: Task, redundancy: Redundancy, pairs: Pairs) -> PairwiseRedundancy:
    """The gains of LBB, with bounds from moments where they pay."""
    _, K, C = task.predictions.shape
    bounded = redundancy in ("normalised", "max") and pays(K, C, task.batch_size)
    return (BoundedRedundancy if bounded else PairwiseRedundancy)(task, redundancy, pairs)


def price(K: int, C: int) -> float:
    """How many pairs cost as much as the moments of a point."""
    layout = Layout(K, C)
    return (_PER_PRODUCT * layout.counts[0] * C + _PER_COLUMN * layout.lower_width) / (_PER_PAIR + C * C)


def dear(K: int, C: int) -> bool:
    """Whether pairs are so expensive that bounds from above pay as well."""
    return Layout(K, C).has_upper and C * C > _CHEAP_SELF


def pays(K: int, C: int, batch_size: int) -> bool:
    """Whether bounding pairs by moments is expected to make selection faster."""
    if K < 2:
        return False
    return (dear(K, C) and price(K, C) <= 1) or batch_size >= _MANY_TIMES * price(K, C)
