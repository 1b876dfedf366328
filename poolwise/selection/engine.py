"""The lazy greedy engine: the exact greedy batch, with a fraction of the work.

A greedy method picks, B times over, the point whose *gain* given the picks so far is the largest. Computing gains takes
time, but an objective also knows an upper bound of each: at first from one pass over the pool, later the gain that the
point had when fewer points were picked. Lazy evaluation only refines points whose bound could still win (Minoux 1978).
It is exact: every point it leaves alone has a bound below the gain of the pick, so refining it would change nothing.
Full evaluation refines every point at every pick.

Ties go to the lowest index. Matrix products are rounded differently in blocks of different shapes, so equal points can
differ in the last digits. Whenever several points are within rounding of the best, each is judged again, alone, and
equal points only once. So lazy and full evaluation decide by the same digits.
"""

from typing import TYPE_CHECKING

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import MethodError
from poolwise.progress import Report, silent
from poolwise.selection.task import Picks

if TYPE_CHECKING:
    from poolwise.selection.objective import Evaluation, GreedyObjective

# How many points are compared closely: this many, or one in that many of a large pool, where choosing them takes
# longer. The rest wait behind a threshold that none of them exceeds.
_FRONT, _ONE_IN = 1024, 2048
# The front is chosen from a reserve this many times its size, which saves passes over all bounds.
_RESERVE = 16
# One of this many values is looked at to find out which are large.
_SAMPLED = 64
# The first block refined at a pick; later blocks double, as long as the objective takes whole ones. A block costs a
# fixed overhead of about fifty points.
_FIRST_BLOCK = 128
# This many rows are compared with each other, more are sorted.
_FEW = 16


class Greedy:
    """The state of a greedy selection: bounds of all points, and the points already picked.

    Args:
        objective: where the gains come from.
        evaluation: `"lazy"`, or `"full"` to refine every point at every pick.
    """

    def __init__(self, objective: "GreedyObjective", evaluation: "Evaluation" = "lazy") -> None:
        self.objective, self.evaluation = objective, evaluation
        start_N = objective.start()
        count = len(start_N) if objective.points is None else objective.points
        self.bounds_N = np.array(_checked(start_N, count, "start()", objective))  # a copy, which is written to
        if objective.rounding is not None:
            objective.slack = objective.rounding * float(
                np.abs(self.bounds_N[np.isfinite(self.bounds_N)]).max(initial=0)
            )
        self.alive_N = np.ones(len(self.bounds_N), bool)
        self._picks = 0
        self._refined_at_N = np.full(len(self.bounds_N), -1, np.int32)
        self._front = np.empty(0, np.int64)
        self._threshold = np.inf
        self._reserve = np.empty(0, np.int64)  # points with the largest bounds, and a bound that none outside is above
        self._beyond = np.inf
        self._last_block = _FIRST_BLOCK
        self._best = -1  # the best point when `saturated` looked for it last

    def exact(self, indices_n: Array) -> Array:
        """`[n]` whether the bounds of some points are their gains given the current picks."""
        known: Array = self._refined_at_N[indices_n] == self._picks
        return known | (self.bounds_N[indices_n] <= self.objective.floor)

    def refine(self, indices_n: Array) -> int:
        """Improve the bounds of some points, given in the order of their bounds; of how many is up to the objective."""
        return self.contest(indices_n, -np.inf)

    def contest(self, indices_n: Array, least: float | Array) -> int:
        """Improve the bounds of some points as long as they are not below a number (see `GreedyObjective.contest`)."""
        done_m, bounds_m, exact_m = self.objective.contest(indices_n, self.bounds_N[indices_n], least)
        bounds_m = _checked(bounds_m, len(done_m), "gains(indices)", self.objective)
        self.bounds_N[done_m] = np.where(exact_m, bounds_m, np.minimum(bounds_m, self.bounds_N[done_m]))
        self._refined_at_N[done_m[exact_m]] = self._picks
        return len(done_m)

    def refine_all(self, above: float = -np.inf) -> None:
        """Make the bounds of all points exact, or of those whose bound is above a number."""
        rest = np.flatnonzero(self.alive_N & (self._refined_at_N != self._picks) & (self.bounds_N > above))
        self.bounds_N[rest] = _checked(self.objective.gains(rest), len(rest), "gains(indices)", self.objective)
        self._refined_at_N[rest] = self._picks

    def know(self, above: float) -> None:
        """Make the bounds of all points exact that are above a number, with as little work as lazy evaluation needs."""
        if self.evaluation == "full":
            return self.refine_all(above)
        rest = np.flatnonzero(self.alive_N & (self.bounds_N > above))
        for start in range(0, len(rest), _FRONT):
            part = rest[start : start + _FRONT]
            while len(part := part[~self.exact(part)]):
                self.contest(part, np.full(len(part), -np.inf))
        return None

    def gain(self, index: int) -> float:
        """The exact gain of one point."""
        while not self.exact(np.array([index]))[0]:
            self.refine(np.array([index]))
        return float(self.bounds_N[index])

    def best(self) -> tuple[int, float]:
        """The point with the largest gain, and that gain."""
        if self.evaluation == "full":
            self.refine_all()
            index = int(np.argmax(self.bounds_N))
            gain = float(self.bounds_N[index])
            return self._finish(index, gain, np.flatnonzero(self.bounds_N >= gain - self.objective.slack))
        if self.objective.current:
            index = int(np.argmax(self.bounds_N))
            gain = float(self.bounds_N[index])
            if gain <= self.objective.floor + self.objective.negligible:
                return int(np.argmax(self.alive_N)), self.objective.floor
            return self._finish(index, gain, np.flatnonzero(self.bounds_N >= gain - self.objective.slack))
        block, refined = max(_FIRST_BLOCK, self._last_block // 2), 0
        size = max(_FRONT, len(self.bounds_N) // _ONE_IN)
        while True:
            index, gain, close_n, open_n = self._contest()
            hidden = self._threshold + self.objective.slack >= gain
            if hidden and (len(open_n) == 0 or self.bounds_N[open_n].max() <= self._threshold):
                if self._beyond <= (floor := self.objective.floor) and (self.bounds_N[self._reserve] <= floor).all():
                    return int(np.argmax(self.alive_N)), floor
                self._choose_front(size)
                size *= 2
            elif len(open_n) == 0:
                self._last_block = refined
                return self._finish(index, gain, close_n)
            else:
                least = max(gain - self.objective.slack, self._threshold)
                if len(open_n) > block:
                    order = np.argpartition(-self.bounds_N[open_n], block)
                    least = max(least, float(self.bounds_N[open_n[order[block]]]))
                    open_n = open_n[order[:block]]
                done = self.contest(open_n, least)
                refined += done
                block *= 2 if done == len(open_n) else 1

    def saturated(self, tolerance: float) -> bool:
        """Whether no point has a gain above a number."""
        known_N = self._refined_at_N == self._picks
        if known_N.any() and self.bounds_N[known_N].max() > tolerance:
            return False
        if self._best >= 0 and self.alive_N[self._best] and self.gain(self._best) > tolerance:
            return False
        self._best, gain = self.best()
        return gain <= tolerance

    def take(self, index: int) -> None:
        """Make a point the next pick."""
        self.alive_N[index] = False
        self.bounds_N[index] = -np.inf
        self._front = self._front[self._front != index]
        self._picks += 1
        bounds_N = self.objective.update(index, self.bounds_N)
        if bounds_N is not self.bounds_N:
            self.bounds_N, self._threshold, self._beyond = bounds_N, np.inf, np.inf
            self.bounds_N[~self.alive_N] = -np.inf

    def ahead(self, count: int) -> tuple[Array, Array]:
        """Further picks that the objective makes at once, and their gains."""
        if not self.objective.current or self.evaluation == "full":
            return np.empty(0, np.int64), np.empty(0)
        indices_n, gains_n = self.objective.ahead(count)
        self.alive_N[indices_n] = False
        self._picks += len(indices_n)
        if len(indices_n):
            self._front = self._front[self.alive_N[self._front]]
        return indices_n, gains_n

    def _finish(self, index: int, gain: float, close_m: Array) -> tuple[int, float]:
        """Decide between the leader and the exactly known points that are within rounding of it, itself among them."""
        floor, slack = self.objective.floor, self.objective.slack
        if gain <= floor or gain == 0 or slack == 0 or (len(close_m) == 1 and gain > floor + 2 * slack):
            return index, gain
        first, same = _distinct(self.objective.content(close_m))
        judged_m = np.array([self.objective.judge(int(i)) for i in close_m[first]])[same]
        if judged_m.max() <= floor:  # then so is every other gain
            self.bounds_N[close_m] = floor  # or they would be judged again at every pick
            return int(np.argmax(self.alive_N)), floor
        return int(close_m[judged_m == judged_m.max()].min()), float(judged_m.max())

    def _contest(self) -> tuple[int, float, Array, Array]:
        """The leader of the front, its gain, who is as good within rounding, and the challengers.

        The leader is the exactly known point with the largest gain, the lowest index on ties. Challengers are not
        exactly known, and could beat the leader or tie with it by a lower index.
        """
        front, values = self._front, self.bounds_N.take(self._front)
        known = self._refined_at_N.take(front) == self._picks
        known |= values <= self.objective.floor
        if not known.any():
            return -1, -np.inf, front[:0], front
        gain = float(values[known].max())
        index = int(front[known & (values == gain)].min())
        close = values >= gain - self.objective.slack
        could_win = (close if self.objective.slack > 0 else (values > gain) | (close & (front < index))) & ~known
        return index, gain, front[close & known], front[could_win]

    def _choose_front(self, size: int) -> None:
        """Make the points with the largest bounds the front, and remember the largest bound behind it."""
        values_r = self.bounds_N.take(self._reserve)
        chosen, rest = _largest(values_r, size)
        if len(chosen) < size or values_r[chosen].min() < self._beyond:
            # Bounds have become smaller, so that points outside the reserve may be among the largest now.
            self._reserve, self._beyond = _about_largest(self.bounds_N, _RESERVE * size)
            values_r = self.bounds_N.take(self._reserve)
            chosen, rest = _largest(values_r, size)
        front = self._reserve[chosen[np.argsort(-values_r[chosen])]]
        self._front, self._threshold = front[self.alive_N[front]], max(rest, self._beyond)
        self.objective.expect(self._front)


def _distinct(rows_n_F: Array) -> tuple[Array, Array]:
    """Positions of distinct rows, and for each row which of them it is equal to."""
    if len(rows_n_F) <= _FEW:
        equal_n_n = (rows_n_F[:, None] == rows_n_F).all(2)
        first, same = np.unique(equal_n_n.argmax(1), return_inverse=True)
    else:
        _, first, same = np.unique(rows_n_F, axis=0, return_index=True, return_inverse=True)
    return first, same.ravel()


def _largest(values_n: Array, count: int) -> tuple[Array, float]:
    """Positions of the largest values, and the largest of the others; -inf if there are no others."""
    if count >= len(values_n):
        return np.arange(len(values_n)), -np.inf
    order = np.argpartition(values_n, len(values_n) - count - 1)
    return order[len(values_n) - count :], float(values_n[order[len(values_n) - count - 1]])


def _about_largest(values_n: Array, count: int) -> tuple[Array, float]:
    """Positions of about that many of the largest values, at least half of it, and a number that no other is above.

    A sample says what a large value is, so that one comparison of each is enough: partitioning ten million values takes
    ten times as long, and an array of ten million positions.
    """
    sample = values_n[::_SAMPLED]
    if count < len(values_n) // 2 and count >= _SAMPLED * _FEW:
        above = _largest(sample, count // _SAMPLED)[1]
        chosen = np.flatnonzero(values_n > above)
        if count // 2 <= len(chosen) <= 2 * count:
            return chosen, above
    return _largest(values_n, count)


def _checked(values_n: Array, count: int, what: str, objective: "GreedyObjective") -> Array:
    """Numbers of an objective as float64: one for each point, and none of them NaN."""
    name = type(objective).__name__
    try:
        numbers_n: Array = np.asarray(values_n, np.float64)
        found = "None" if values_n is None else str(list(numbers_n.shape))
    except (TypeError, ValueError):
        numbers_n, found = np.empty((0, 0)), f"an object of type {type(values_n).__name__}"
    if numbers_n.shape != (count,):
        raise MethodError(f"{name}.{what} must return one number for each point, shape [{count}], not {found}.")
    if np.isnan(numbers_n).any():
        raise MethodError(f"{name}.{what} returned NaN: gains must be numbers.")
    return numbers_n


def select_greedily(
    objective: "GreedyObjective",
    batch_size: int,
    *,
    evaluation: "Evaluation" = "lazy",
    tolerance: float = 0.0,
    report: Report = silent,
) -> Picks:
    """Pick a batch greedily.

    Args:
        objective: what to maximise.
        batch_size: how many points to pick.
        evaluation: `"lazy"` or `"full"`; the picks are the same.
        tolerance: gains up to this count as nothing.
        report: told about progress.
    """
    greedy = Greedy(objective, evaluation)
    indices, scores = np.empty(batch_size, np.int64), np.empty(batch_size)
    t = 0
    while t < batch_size:
        indices[t], scores[t] = greedy.best()
        greedy.take(int(indices[t]))
        more_n, gains_n = greedy.ahead(batch_size - t - 1)
        end = t + 1 + len(more_n)
        indices[t + 1 : end], scores[t + 1 : end] = more_n, gains_n
        t = end
        report("picking", t, batch_size)
    low_B = scores <= tolerance
    saturated_at = int(np.argmax(low_B)) if low_B.any() else None
    return Picks(indices, scores, tolerance, saturated_at, objective.pairs, objective.rows)
