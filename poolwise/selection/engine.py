"""The lazy greedy engine: the exact greedy batch, at a small part of its price.

A greedy method picks, B times over, the point whose *gain* given the picks so far is the largest. Gains cost work,
but an objective also knows an upper bound of each: at first from one pass over the pool, later from the gain that a
point had when fewer points were picked. The engine only refines points whose bound could still win (Minoux 1978).
It is exact: every point it leaves alone has a bound below the gain of the pick, so refining it could change nothing.

Ties go to the lowest index. Matrix products are rounded differently in blocks of different shapes, so a tie can look
like a lead in the last digits. Whenever several points are within rounding of the best, each is judged anew, by itself,
and equal points only once: both engines then decide by the same digits.
"""

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np

from poolwise.arrays import Array
from poolwise.progress import Report, silent
from poolwise.selection.journal import Journal, Pick
from poolwise.selection.task import Picks

Engine = Literal["lazy", "full"]

ENGINE_HELP = "'lazy' refines only points that could win; 'full' refines every point at every pick. Same picks."

# How many points the engine looks at closely. The rest wait behind a threshold that none of them exceeds.
_FRONT = 1024
# The front is chosen from a reserve so many times its size: to look at ten million bounds takes a third of a second.
_RESERVE = 64
# The first block refined at a pick; later blocks double, as long as the objective takes whole ones. A block costs a
# fixed overhead of about fifty points.
_FIRST_BLOCK = 128


class Objective(Protocol):
    """A function of a growing batch, seen through the gains of single points.

    Attributes:
        shrinking: whether gains never grow as the batch grows.
        floor: a gain that none can be below; points with such a bound need no work.
        slack: by how much rounding may move a gain. Gains up to this are given as 0.
        pairs: how many pairs of points were compared so far, for the diagnostics.
    """

    shrinking: bool
    floor: float
    slack: float
    pairs: int

    @property
    def rows(self) -> int:
        """Rows of the pool read after the first pass."""

    def start(self) -> Array:
        """`[N]` upper bounds of the gains given no picks."""

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Better bounds of some points given the picks so far, for a moderate amount of work.

        Args:
            indices_n: points in the order of their bounds, largest first.
        Returns:
            `[m]` those of the points that were refined, the first among them; `[m]` their bounds; and `[m]` whether
            each is now the exact gain. Repeated calls reach the exact gain of every point.
        """

    def gains(self, indices_n: Array) -> Array:
        """`[n]` exact gains of some points given the picks so far."""

    def judge(self, index: int) -> float:
        """The exact gain of one point, computed by itself."""

    def content(self, indices_n: Array) -> Array:
        """`[n, F]` the numbers that the gains depend on, for recognising equal points."""

    def add(self, index: int, bounds_N: Array) -> Array:
        """Take note of a pick.

        Args:
            index: the point picked.
            bounds_N: `[N]` bounds known before it.
        Returns:
            `[N]` bounds that hold from now on; the same array if the old ones still do.
        """


class Greedy:
    """The state of a greedy selection: bounds of all points, and the points already picked.

    Args:
        objective: where the gains come from.
        engine: `"lazy"`, or `"full"` to refine every point at every pick.
    """

    def __init__(self, objective: Objective, engine: Engine = "lazy") -> None:
        self.objective, self.engine = objective, engine
        self.bounds_N = objective.start()
        self.alive_N = np.ones(len(self.bounds_N), bool)
        self._picks = 0
        self._refined_at_N = np.full(len(self.bounds_N), -1, np.int32)
        self._front = np.empty(0, np.int64)
        self._threshold = np.inf
        self._reserve = np.empty(0, np.int64)  # points with the largest bounds, and a bound that none outside is above
        self._beyond = np.inf
        self._last_block = _FIRST_BLOCK

    def exact(self, indices_n: Array) -> Array:
        """`[n]` whether the bounds of some points are their gains given the current picks."""
        known: Array = self._refined_at_N[indices_n] == self._picks
        return known | (self.bounds_N[indices_n] <= self.objective.floor)

    def refine(self, indices_n: Array) -> int:
        """Improve the bounds of some points, given in the order of their bounds; of how many is up to the objective."""
        done_m, bounds_m, exact_m = self.objective.refine(indices_n)
        self.bounds_N[done_m] = bounds_m
        self._refined_at_N[done_m[exact_m]] = self._picks
        return len(done_m)

    def refine_all(self) -> None:
        """Make the bounds of all points exact."""
        rest = np.flatnonzero(self.alive_N & (self._refined_at_N != self._picks))
        self.bounds_N[rest] = self.objective.gains(rest)
        self._refined_at_N[rest] = self._picks

    def best(self) -> tuple[int, float]:
        """The point with the largest gain, and that gain."""
        if self.engine == "full":
            self.refine_all()
            index = int(np.argmax(self.bounds_N))
            return self._finish(index, float(self.bounds_N[index]), np.flatnonzero(self.alive_N))
        block, refined, size = max(_FIRST_BLOCK, self._last_block // 2), 0, _FRONT
        while True:
            index, gain = self._leader()
            open_n = self._challengers(index, gain)
            hidden = self._threshold + self.objective.slack >= gain
            if hidden and (len(open_n) == 0 or self.bounds_N[open_n].max() <= self._threshold):
                if max(self._beyond, self.bounds_N[self._reserve].max(initial=-np.inf)) <= self.objective.floor:
                    return int(np.argmax(self.alive_N)), self.objective.floor
                self._choose_front(size)
                size *= 2
            elif len(open_n) == 0:
                self._last_block = refined
                return self._finish(index, gain, self._front[self.alive_N[self._front] & self.exact(self._front)])
            else:
                if len(open_n) > block:
                    open_n = open_n[np.argpartition(-self.bounds_N[open_n], block)[:block]]
                done = self.refine(open_n[np.argsort(-self.bounds_N[open_n])])
                refined += done
                block *= 2 if done == len(open_n) else 1

    def take(self, index: int) -> None:
        """Make a point the next pick."""
        self.alive_N[index] = False
        self.bounds_N[index] = -np.inf
        self._picks += 1
        bounds_N = self.objective.add(index, self.bounds_N)
        if bounds_N is not self.bounds_N:
            self.bounds_N, self._threshold, self._beyond = bounds_N, np.inf, np.inf
            self.bounds_N[~self.alive_N] = -np.inf

    def _finish(self, index: int, gain: float, known_n: Array) -> tuple[int, float]:
        """Decide between the leader and the exactly known points that are within rounding of it."""
        close_m = known_n[self.bounds_N[known_n] >= gain - self.objective.slack]
        if gain == 0 or self.objective.slack == 0 or len(close_m) == 1:
            return index, gain
        _, first, same = np.unique(self.objective.content(close_m), axis=0, return_index=True, return_inverse=True)
        judged_m = np.array([self.objective.judge(int(i)) for i in close_m[first]])[same.ravel()]
        return int(close_m[judged_m == judged_m.max()].min()), float(judged_m.max())

    def _leader(self) -> tuple[int, float]:
        """The exactly known point of the front with the largest gain, the lowest index on ties."""
        known = self._front[self.exact(self._front) & self.alive_N[self._front]]
        if len(known) == 0:
            return -1, -np.inf
        values = self.bounds_N[known]
        gain = values.max()
        return int(known[values == gain].min()), float(gain)

    def _challengers(self, index: int, gain: float) -> Array:
        """Points of the front that are not exactly known and could beat the leader, or tie with a lower index."""
        front, slack = self._front, self.objective.slack
        values = self.bounds_N[front]
        could_win = (values + slack > gain) | ((values == gain) & (front < index))
        result: Array = front[could_win & ~self.exact(front) & self.alive_N[front]]
        return result

    def _choose_front(self, size: int) -> None:
        """Make the points with the largest bounds the front, and remember the largest bound behind it."""
        chosen, rest = _largest(self.bounds_N[self._reserve], size)
        if len(chosen) < size or self.bounds_N[self._reserve[chosen]].min() < self._beyond:
            # Bounds have become smaller, so that points outside the reserve may be among the largest now.
            inside, outside = _largest(self.bounds_N, _RESERVE * size)
            self._reserve, self._beyond = inside, outside
            chosen, rest = _largest(self.bounds_N[self._reserve], size)
        self._front, self._threshold = self._reserve[chosen], max(rest, self._beyond)


def _largest(values_n: Array, count: int) -> tuple[Array, float]:
    """Positions of the largest values, and the largest of the others; -inf if there are no others."""
    if count >= len(values_n):
        return np.arange(len(values_n)), -np.inf
    order = np.argpartition(values_n, len(values_n) - count - 1)
    return order[len(values_n) - count :], float(values_n[order[len(values_n) - count - 1]])


def run(
    objective: Objective,
    batch_size: int,
    *,
    engine: Engine = "lazy",
    tolerance: float = 0.0,
    report: Report = silent,
    on_pick: Callable[[int], None] | None = None,
    journal: Journal | None = None,
) -> Picks:
    """Pick a batch greedily.

    Args:
        objective: what to maximise.
        batch_size: how many points to pick.
        engine: `"lazy"` or `"full"`; the picks are the same.
        tolerance: gains up to this count as nothing.
        report: told about progress.
        on_pick: called with each point before it is added to the objective.
        journal: where picks are kept as they are made, and those of an earlier start taken from.
    """
    greedy = Greedy(objective, engine)
    early = [] if journal is None else journal.begin(greedy.bounds_N)
    indices, scores = np.empty(batch_size, np.int64), np.empty(batch_size)
    saturated_at = None
    for t in range(batch_size):
        index, gain = (early[t].index, early[t].score) if t < len(early) else greedy.best()
        if gain <= tolerance and saturated_at is None:
            saturated_at = t
        if on_pick is not None:
            on_pick(index)
        indices[t], scores[t] = index, gain
        if journal is not None and t >= len(early):
            journal.append(Pick(index, gain))
        greedy.take(index)
        report("picking", t + 1, batch_size)
    return Picks(indices, scores, tolerance, saturated_at, objective.pairs, objective.rows)
