"""LBB where most pairs are never computed: bounds from moments say which points could win, and which picks matter.

A point climbs a ladder, and drops out as soon as its bound cannot win:

1. its BALD score, from the first pass over the pool;
2. lower bounds of its pairs with the picks, from moments (`information.moments`): one matrix product for many points;
3. for `normalised`, `I_ii`, which until then is only bounded from above where it is expensive;
4. the exact pair with the pick that the bounds call the most redundant;
5. the exact pairs with all other picks, except those whose upper bound shows that they cannot matter.

A lower bound of a pair is an upper bound of the gain, which is what the engine needs.
"""

import numpy as np

from poolwise.arrays import Array
from poolwise.information import moments
from poolwise.information.moments import Layout
from poolwise.selection.moment_table import MomentTable
from poolwise.selection.redundancy import Pairs, PairwiseRedundancy, Redundancy
from poolwise.selection.task import Task

# A step of the ladder computes about this many logarithms, which take about as long as the calls of a step.
_STEP = 1 << 18
# At first, as many points take a step together as have this many pairs with the picks; then twice as many each time.
# More points would be compared in vain, once the best of them is known; fewer would waste calls.
_BOUNDS, _LEAST_TOGETHER = 1 << 15, 16
# This many points are added to the table at a time, and at least as many as in all the times before.
_INSERTED = 512
# `I_ii` is computed before pairs if it takes no more logarithms than this, and bounded from above otherwise.
_CHEAP_SELF = 1024
# Upper bounds may be in float32: this undoes the rounding of their scale.
_ROUND_DOWN = 1 - 2.0**-20


class BoundedRedundancy(PairwiseRedundancy):
    """`PairwiseRedundancy` of the forms `normalised` and `max`, with bounds from moments."""

    def __init__(self, task: Task, redundancy: Redundancy, pairs: Pairs) -> None:
        super().__init__(task, redundancy, pairs)
        N, K, C = task.predictions.shape
        self._layout = Layout(K, C, order(K, C))
        self._table = MomentTable(N, task.batch_size, self._layout, task.predictions.dtype, task.memory // 4)
        self._limit = min(self._table.limit, self._cache.limit)
        self._expected = np.empty(0, np.int64)
        self._compared_N = np.full(N, -1, np.int32)  # the last pick that a point was compared with
        self._step = max(1, _STEP // (C * C))
        self._dear = C * C > _CHEAP_SELF

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Exact gains, with pairs that could matter only."""
        return self.contest(indices_n, np.full(len(indices_n), np.inf), np.full(len(indices_n), -np.inf))

    def expect(self, indices_n: Array) -> None:
        """Forget the moments of other points; these may be added in this order."""
        self._table.keep(indices_n)
        self._expected = indices_n

    def update(self, index: int, bounds_N: Array) -> Array:
        """Put a point into the batch, and lower the bounds of the points in the table."""
        self.add(index)
        self._know_self(self._picks[-1:])
        if len(self._picks) == self.task.batch_size:
            return bounds_N
        self._note(index)
        table = self._table
        if table.has_lower:
            bounds_N[table.points] = np.minimum(bounds_N[table.points], self._ceilings(table.points))
        return bounds_N

    def _note(self, index: int) -> None:
        """Bound the pairs of the points in the table with a pick."""
        if self._table.row_N[index] < 0:
            self._insert(np.array([index]), np.array([index]), ahead=not self._dear)
        self_ = float(self._self_N[index]) if self._normalised else 1.0
        self._table.note(index, self_**-0.5 if self_ > 0 else 0.0)

    def contest(self, indices_n: Array, bounds_n: Array, least: float | Array) -> tuple[Array, Array, Array]:
        """Take points up the ladder, the first ones first, until nothing more need be known of any."""
        if len(self._picks) == 0:
            return indices_n, self._bald_N[indices_n], np.ones(len(indices_n), bool)
        race = np.ndim(least) == 0
        order_n = np.argsort(-bounds_n)[: self._limit]
        points_n, bounds_n = indices_n[order_n], bounds_n[order_n]
        least_n = np.full(len(points_n), least) if race else np.asarray(least)[order_n]
        exact_n, compared_n = np.zeros(len(points_n), bool), np.zeros(len(points_n), bool)
        together = min(self._step, max(_LEAST_TOGETHER, _BOUNDS // len(self._picks)))
        known, live, others = 0, np.empty(0, np.int64), np.empty(0, np.int64)
        while True:
            more = known == 0 or (known < len(points_n) and bounds_n[known] >= least_n[known])
            if more and (len(live) == 0 or bounds_n[known] >= bounds_n[live].max()):
                new = slice(known, min(len(points_n), known + max(_INSERTED, known)))
                added = self._insert(points_n[new], points_n, ahead=not (race and self._dear))
                if self._table.has_lower:
                    others = np.append(others, added)
                    bounds_n[new] = np.minimum(bounds_n[new], self._ceilings(points_n[new]))
                known = new.stop
            elif len(live) == 0:
                break
            else:
                if len(live) > together:
                    live = live[np.argpartition(-bounds_n[live], together)[:together]]
                live = live[np.argsort(-bounds_n[live])]
                together = min(2 * together, self._step)
                points_m = points_n[live]
                done_m = np.zeros(len(live), bool)
                if self._meet(points_m):
                    done_m, compared_n[live] = self._climb(points_m, compared_n[live], not exact_n.any()), True
                gains_m = self._bounds(points_m)
                bounds_n[live] = np.minimum(bounds_n[live], self._ceilings(points_m, gains_m))
                if done_m.any():
                    won, gains_w = live[done_m], gains_m[done_m]
                    exact_n[won], bounds_n[won] = True, gains_w
                    self._seen_N[points_n[won]] = len(self._picks)
                    if race:
                        np.maximum(least_n, gains_w.max() - self.slack, out=least_n)
            live = np.flatnonzero((bounds_n[:known] >= least_n[:known]) & ~exact_n[:known])
        if race or len(others) == 0:
            return points_n[:known], bounds_n[:known], exact_n[:known]
        # More points were added than were asked for, and so bounded.
        others = others[~np.isin(others, points_n[:known])]
        found_n = np.concatenate([points_n[:known], others])
        bounds = np.concatenate([bounds_n[:known], self._ceilings(others)])
        return found_n, bounds, np.concatenate([exact_n[:known], np.zeros(len(others), bool)])

    def _meet(self, points_m: Array) -> bool:
        """Compute `I_ii` where it is not known; whether the points can go on at once, without new bounds."""
        if not self._normalised:
            return True
        known_m = self._self_known_N[points_m]
        if known_m.all():
            return True
        self._know_self(points_m[~known_m])
        return not self._dear

    def _climb(self, points_m: Array, compared_m: Array, leader: bool) -> Array:
        """Compare each point with its most redundant pick; those that were, with all picks that could matter.

        Where pairs are cheap, the leader is compared with all at once: it is the most likely to win.

        Args:
            points_m: points in the table, in the order of their bounds.
            compared_m: whether each was compared in this contest before.
            leader: whether no gain is known yet, so that the first point leads.
        Returns:
            `[m]` whether the overlap of each is exactly known now.
        """
        rows_m, seen_m, last_m = np.arange(len(points_m)), self._seen_N[points_m], self._compared_N[points_m]
        upper_m_t = self._table.upper(points_m)
        if seen_m.any():
            upper_m_t *= np.arange(upper_m_t.shape[1]) >= seen_m[:, None]
        upper_m_t[rows_m, last_m] *= last_m < seen_m
        suspect_m = upper_m_t.argmax(1)
        mark_m = self._overlap_N[points_m] * _ROUND_DOWN
        if self._normalised:
            mark_m *= np.sqrt(self._self_N[points_m])
        done_m = upper_m_t[rows_m, suspect_m] <= mark_m
        whole_m = compared_m & ~done_m
        whole_m[0] |= leader and not (self._dear or done_m[0])
        first = np.flatnonzero(~(done_m | whole_m))
        point_p, pick_p = first, suspect_m[first]
        if whole_m.any():
            whole = np.flatnonzero(whole_m)
            open_p, open_picks_p = np.nonzero(upper_m_t[whole] > mark_m[whole, None])
            point_p, pick_p = np.concatenate([first, whole[open_p]]), np.concatenate([pick_p, open_picks_p])
        if len(point_p):
            points_p = points_m[point_p]
            np.maximum.at(self._overlap_N, points_p, self._evaluate(points_p, pick_p))
            self._compared_N[points_p] = pick_p
        known_m: Array = done_m | whole_m
        return known_m

    def _insert(self, points_n: Array, contestants: Array, ahead: bool) -> Array:
        """Add those points to the table that are not in it yet.

        Args:
            points_n: the points.
            contestants: points that must stay in the table.
            ahead: whether to add some that are expected next as well, which saves calls.
        Returns:
            The points that were added.
        """
        table = self._table
        new: Array = points_n[table.row_N[points_n] < 0]
        if len(new) == 0:
            return new
        room = self._limit - len(table.points) - len(new)
        if room < 0:
            table.keep(contestants)
        elif ahead and len(new) < _INSERTED:
            table.row_N[new] = 0  # no longer missing
            missing = self._expected[table.row_N[self._expected] < 0]
            new = np.concatenate([new, missing[: min(room, _INSERTED - len(new))]])
        features_n_F = moments.features(self._cache.take(new), self._layout)
        if self._normalised and table.has_lower:
            upper_n = moments.upper_of_self(features_n_F, self._layout).numpy()
            unknown_n = ~self._self_known_N[new]
            self._self_N[new[unknown_n]] = np.minimum(upper_n, self._bald_N[new] + self.slack)[unknown_n]
        table.insert(new, features_n_F)
        if not self._dear:
            self._know_self(new)  # of all at once, which saves calls
        return new

    def _ceilings(self, indices_n: Array, gains_n: Array | None = None) -> Array:
        """Upper bounds of the gains of points in the table, as far as pairs and moments tell.

        Args:
            indices_n: the points.
            gains_n: what pairs alone tell, if that is known.
        """
        if gains_n is None:
            gains_n = self._bounds(indices_n)
        if not self._table.has_lower:
            return gains_n + self.slack
        lower_n = self._table.lower_n[self._table.row_N[indices_n]]
        if self._normalised:
            root_n = np.sqrt(self._self_N[indices_n])  # of `I_ii`, or of an upper bound of it
            lower_n = np.minimum(np.divide(lower_n, root_n, out=np.zeros_like(lower_n), where=root_n > 0), 1.0)
        return np.minimum(gains_n, self._gains(self._bald_N[indices_n], lower_n)) + self.slack


def order(K: int, C: int) -> int:
    """Up to which order moments are used."""
    found = moments.LOWEST
    while found < moments.HIGHEST and moments.entries(K, found + 1) <= C * C / 10:
        found += 1
    return found


def pays(K: int, C: int) -> bool:
    """Whether bounding pairs by moments is expected to make selection faster."""
    return K >= 2 and moments.entries(K, 2) <= 20 * C
