"""How far targets were covered at each pick, so that gains known some picks ago can be brought up to date."""

from dataclasses import dataclass

import numpy as np

from poolwise.arrays import Array

# Points are brought up to date together if none of them needs more than this many times the targets of another.
_TOGETHER = 1.5
_AT_ONCE = 256
# If more than this share of the targets has changed, a gain is computed afresh.
_AFRESH = 0.7


class Levels:
    """Levels of T targets over the picks, and at which pick each of N points was last evaluated.

    Args:
        level_T: `[T]` levels before any pick.
        count: N.

    Attributes:
        now_T: `[T]` levels after all picks so far.
    """

    def __init__(self, level_T: Array, count: int) -> None:
        self.now_T = level_T
        self._raised: list[tuple[Array, Array]] = []  # by pick: the targets that it raised, and their levels before
        self._last_T = np.zeros(len(level_T), np.int64)  # after which pick each target was last raised
        self._at_N = np.full(count, -1)

    def raise_to(self, targets_n: Array, levels_n: Array) -> None:
        """Take note of a pick that raises some targets."""
        self._raised.append((targets_n, self.now_T[targets_n]))
        self.now_T[targets_n] = levels_n
        self._last_T[targets_n] = len(self._raised)

    def evaluated(self, indices_n: Array) -> None:
        """Take note that gains of some points are known as of now."""
        self._at_N[indices_n] = len(self._raised)

    def stale(self, indices_n: Array) -> tuple[Array, list["Update"]]:
        """What to do to know the gains of some points as of now.

        Returns:
            The points to be evaluated afresh, and for the others how to bring their gains up to date. Points whose
            gains are known as of now are in neither.
        """
        at_n, T = self._at_N[indices_n], len(self.now_T)
        # How many targets were raised after each pick.
        raised = T - np.cumsum(np.bincount(self._last_T, minlength=len(self._raised) + 1))
        needed_n = np.where(at_n < 0, T, raised[at_n])
        afresh_n = needed_n > _AFRESH * T
        order = np.argsort(-at_n, kind="stable")
        order = order[~afresh_n[order] & (needed_n[order] > 0)]
        updates: list[Update] = []
        while len(order):
            many = needed_n[order] > _TOGETHER * needed_n[order[0]]
            count = min(_AT_ONCE, int(np.argmax(many)) if many.any() else len(order))
            updates.append(self._update(indices_n[order[:count]], at_n[order[:count]]))
            order = order[count:]
        return indices_n[afresh_n], updates

    def _update(self, points_n: Array, at_n: Array) -> "Update":
        """Of points in the order of when they were evaluated, latest first."""
        targets_c = np.flatnonzero(self._last_T > at_n[-1])
        times, first = np.unique(-at_n, return_index=True)
        level_T, pick, parts = self.now_T.copy(), len(self._raised), []
        for time, start, stop in zip(-times, first, [*first[1:], len(at_n)], strict=True):
            while pick > time:  # undo the picks since then
                pick -= 1
                level_T[self._raised[pick][0]] = self._raised[pick][1]
            parts.append((slice(int(start), int(stop)), level_T[targets_c]))
        return Update(points_n, targets_c, parts)


@dataclass(frozen=True)
class Update:
    """How to bring some gains up to date.

    Attributes:
        points_n: `[n]` the points.
        targets_c: `[c]` targets among which all are that were raised since these points were evaluated.
        parts: for each run of points, `[c]` the levels of those targets when they were evaluated.
    """

    points_n: Array
    targets_c: Array
    parts: list[tuple[slice, Array]]
