"""Coverage in batches of thousands: a random sample of the points gives the first picks, all points the rest.

The first picks are what makes large batches slow. Each of them improves thousands of targets, so that lists of the
pairs which matter are long. But a sum over thousands of targets is also what a sample estimates well, and a point that
covers so many has others like it in the sample. So the first picks are chosen from the sample and by it. After them
lists are short: all pairs are compared once, and from there on every pick is the exact one, given those before it. What
the first picks left open, later ones cover.
"""

import numpy as np

from poolwise.arrays import Array
from poolwise.selection.coverage import Coverage
from poolwise.selection.coverage_kernels import Kernel
from poolwise.selection.objective import Evaluation, GreedyObjective
from poolwise.selection.task import Picks, Task

# Up to this many picks, or points to cover, all picks are exact.
LARGE_BATCH, MANY_TARGETS = 2_000, 20_000
# How many points to draw, and how many of them to pick at most.
SAMPLE, _PICKS = 10_000, 400
# The sample chooses no longer once the standard error of a gain is more than this share of it.
_UNSURE = 0.5


class EarlySample(GreedyObjective):
    """The coverage of points by each other, of which the first picks see a sample.

    Args:
        task: how many points to pick, and the memory budget.
        kernel: similarities between T points.
        weights_T: `[T]` what each counts for, at least 0.
        covered_T: `[T]` how far each is covered already; not at all if None.
        drawn_t: `[t]` the points of the sample, drawn without replacement.
    """

    floor = 0.0
    rounding = None

    def __init__(self, task: Task, kernel: Kernel, weights_T: Array, covered_T: Array | None, drawn_t: Array) -> None:
        super().__init__(task)
        self.points = kernel.shape[0]
        self._kernel, self._weights_T, self._covered_T = kernel, weights_T, covered_T
        scale, covered_t = len(weights_T) / len(drawn_t), None if covered_T is None else covered_T[drawn_t]
        self._now = Coverage(task, kernel.among(drawn_t), scale * weights_T[drawn_t], covered_t)
        # The points that `_now` knows, and the number by which it knows each; -1 for others.
        self._known, self._place_T = drawn_t, np.full(len(weights_T), -1)
        self._place_T[drawn_t] = np.arange(len(drawn_t))
        self._drawn, self._first = len(drawn_t), min(_PICKS, task.batch_size)
        self._picked: list[int] = []
        self._errors_n: Array | None = None  # of the first picks, once they are made
        self._earlier = 0  # pairs that were compared before

    def pick(self, evaluation: Evaluation = "lazy", tolerance: float | None = None) -> Picks:
        """The batch with its gains; `standard_error` is that of the estimates by which the first picks were chosen."""
        picks, errors_n = super().pick(evaluation, tolerance), self._errors_n
        assert errors_n is not None  # since the batch is not shorter
        n = len(errors_n)
        known_B = (picks.scores > picks.tolerance) | (np.arange(len(picks.scores)) < n)
        picks.scores = np.where(known_B, self._now.gained, picks.scores)
        # Picks may have covered all of the sample, but not all targets.
        last = int(np.flatnonzero(picks.scores > picks.tolerance).max(initial=-1)) + 1
        picks.saturated_at = None if last == len(picks.scores) else last
        picks.standard_error = np.append(errors_n, np.zeros(len(picks.scores) - n))
        picks.notes += (
            f"the first {n} picks were chosen from a random sample of {self._drawn:,} of {len(self._weights_T):,} "
            "points, which they cover best (see standard_error), all others exactly, given those; sample='all' makes "
            "every pick exact",
        )
        return picks

    def start(self) -> Array:
        """Upper bounds of gains, estimated by the sample; points outside it are not picked yet."""
        return self._of_all(self._now.start())

    def gains(self, indices_n: Array) -> Array:
        """Coverage that each point adds."""
        known_n = self._place_T[indices_n] >= 0
        gains_n = np.full(len(indices_n), -np.inf)
        gains_n[known_n] = self._now.gains(self._place_T[indices_n[known_n]])
        self._follow()
        return gains_n

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Gains of some points."""
        places_m, gains_m, exact_m = self._now.refine(self._place_T[indices_n])
        self._follow()
        return self._known[places_m], gains_m, exact_m

    def judge(self, index: int) -> float:
        """Coverage that one point adds, exactly."""
        return self._now.judge(int(self._place_T[index]))

    def content(self, indices_n: Array) -> Array:
        """`[n, 1]` a number per point that only equal points share."""
        return self._now.content(self._place_T[indices_n])

    def add(self, index: int) -> None:
        """Take note of a pick."""
        self._picked.append(index)
        self._now.add(int(self._place_T[index]))

    def update(self, index: int, bounds_N: Array) -> Array:
        """Add a pick. After the last one that the sample chooses, compare all points with all targets."""
        place = int(self._place_T[index])
        self._picked.append(index)
        if self._errors_n is not None:
            bounds_N = self._now.update(place, bounds_N)
            self._follow()
            return bounds_N
        # The sample may be covered, so that any point was picked.
        bounds_n = self._now.update(place, bounds_N[self._known]) if place >= 0 else bounds_N[self._known]
        errors_n = self._now.standard_errors(len(self._weights_T))
        unsure = place < 0 or errors_n[-1] >= _UNSURE * self._now.gained[-1]
        if not unsure and len(errors_n) < self._first:
            return self._of_all(bounds_n)
        self._errors_n, self._earlier = errors_n, self._now.pairs
        self._known = self._place_T = np.arange(len(self._weights_T))
        self._now = Coverage(self.task, self._kernel, self._weights_T, self._covered_T)
        bounds_N = self._now.after(self._picked)
        self._follow()
        return bounds_N

    def ahead(self, count: int) -> tuple[Array, Array]:
        """Picks that compiled loops can make, once all points are compared."""
        if self._errors_n is None:
            return super().ahead(count)
        picks_n, gains_n = self._now.ahead(count)
        self._picked += picks_n.tolist()
        self._follow()
        return picks_n, gains_n

    def _of_all(self, bounds_n: Array) -> Array:
        """`[N]` bounds of all points, from those of the points that are known now."""
        self._follow()
        bounds_N = np.full(len(self._place_T), -np.inf)
        bounds_N[self._known] = bounds_n
        return bounds_N

    def _follow(self) -> None:
        """Take over what the engine asks about rounding, and how much work was done."""
        now = self._now
        self.slack, self.negligible, self.current = now.slack, now.negligible, now.current
        self.pairs = self._earlier + now.pairs
