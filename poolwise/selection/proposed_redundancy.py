"""`power-lbb` with compiled loops: which proposal is accepted (see `proposals_compiled`)."""

import importlib
from types import ModuleType

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.information.moments import LoopTables
from poolwise.information.pair_loops import pair_room
from poolwise.selection.bounded_redundancy import BoundedRedundancy
from poolwise.selection.redundancy import Pairs, PairwiseRedundancy, Redundancy
from poolwise.selection.task import Task

# Loops are compiled, which takes seconds, but only once on a machine, if all pairs of a batch would have this many
# logarithms; if they have been, they are used for fewer.
_MANY_TERMS, _SOME_TERMS = 1 << 31, 1 << 18
_COMPILED = "poolwise.selection.proposals_compiled"


class ProposedRedundancy(BoundedRedundancy):
    """`BoundedRedundancy` that goes through proposals by compiled loops. All else is as there.

    Args:
        task: what to choose from, and how many.
        redundancy: `normalised` or `max`.
        pairs: how often each pair is counted.
        loops: the compiled loops.
    """

    def __init__(self, task: Task, redundancy: Redundancy, pairs: Pairs, loops: ModuleType) -> None:
        super().__init__(task, redundancy, pairs)
        N, K, C = task.predictions.shape
        self._loops = loops
        self._arrays = LoopTables(self._layout).arrays
        places, ends = self._arrays[1], self._arrays[3]
        self._quick_self_N = np.zeros(N)
        self._columns_F_B = np.empty((self._layout.width, task.batch_size + 1), np.float32)
        self._scales_B, self._overlaps_B = np.ones(task.batch_size), np.empty(task.batch_size)
        self._sums_S_B = np.empty((len(ends) + 1, task.batch_size + 1), np.float32)
        self._room_R_C, self._room = np.empty((K - 1 + len(places) + 2, C), np.float32), pair_room(C)
        self._noted = self._filled = 0  # how many picks the table of moments knows, and how many the loops
        self._last: tuple[int, Array] = (-1, self._order_B[:0])  # a point, and the picks that it may overlap most

    def update(self, index: int, bounds_N: Array) -> Array:
        """Put a point into the batch."""
        count = len(self._picks)
        self.add(index)
        self._know_self(self._picks[-1:])
        if self._normalised:
            self._scales_B[count] = self._self_N[index] ** -0.5 if self._self_N[index] > 0 else 0.0
        return bounds_N

    def first_accepted(self, points_n: Array, thresholds_n: Array, bounds_N: Array) -> tuple[int, bool] | None:
        """Go through proposals, and improve bounds on the way.

        Args:
            points_n: the points.
            thresholds_n: what their gains must not be below.
            bounds_N: upper bounds of all gains.
        Returns:
            The first proposal that is accepted, or that these loops cannot decide, or how many there are; and whether
            it is accepted. None if there is nothing to compare with, or no room for the points.
        """
        count = len(self._picks)
        if count == 0 or len(points_n) > self._cache.limit:
            return None
        slots_n = np.full(len(points_n), -1)
        open_n = bounds_N[points_n] >= thresholds_n
        slots_n[open_n] = self._cache.slots(points_n[open_n])
        state = np.array([0, 0, 0, self._filled])
        self._loops.propose(
            points_n,
            thresholds_n,
            slots_n,
            self._cache.ratios_s_K_C,
            self._cache.means_s_C,
            bounds_N,
            self._bald_N,
            self._quick_self_N,
            self.slack,
            self._normalised,
            self._picks,
            self._picked_ratios_B_K_C,
            self._picked_means_B_C,
            self._columns_F_B,
            self._scales_B[:count],
            *self._arrays,
            self._sums_S_B,
            np.empty(self._layout.width, np.float32),
            np.empty(count + 1, np.float32),
            np.empty(count + 1, np.float32),
            self._room_R_C,
            self._room,
            self._overlaps_B[:count],
            state,
        )
        self.pairs += int(state[2])
        self._filled, place, accepted = count, int(state[0]), bool(state[1] == 1)
        if place < len(points_n) and state[1] >= 0:
            self._last = int(points_n[place]), np.flatnonzero(self._overlaps_B[:count] >= 0)
        return place, accepted

    def contest(self, indices_n: Array, bounds_n: Array, least: float | Array) -> tuple[Array, Array, Array]:
        """As everywhere, but for the point that the loops stopped at: they know which picks it may overlap most."""
        point, picks = self._last
        self._last = -1, picks
        if len(indices_n) == 1 and indices_n[0] == point:
            self._know_self(indices_n)
            overlap = self._evaluate(np.full(len(picks), point), picks).max()
            return indices_n, self._gains(self._bald_N[indices_n], np.array([overlap])), np.ones(1, bool)
        if len(indices_n) == 1:  # not worth making the table of moments ready
            return PairwiseRedundancy.refine(self, indices_n)
        self._note_picks()
        return super().contest(indices_n, bounds_n, least)

    def expect(self, indices_n: Array) -> None:
        """Nothing is made ready for what these loops go through."""

    def _note_picks(self) -> None:
        """Let the table of moments know the picks that it does not know yet."""
        for index in self._picks[self._noted :]:
            self._note(int(index))
        self._noted = len(self._picks)


def proposal_loops(task: Task) -> ModuleType | None:
    """The compiled loops, where they are worth it and Numba is installed."""
    C = task.predictions.shape[2]
    terms = task.batch_size**2 // 2 * C * C
    if task.predictions.dtype == torch.float32 and terms >= _SOME_TERMS:
        try:
            loops = importlib.import_module(_COMPILED)
            if terms >= _MANY_TERMS or loops.propose.is_kept():
                loops.propose.load()
                return loops
        except ImportError:  # no Numba, or one that does not suit NumPy
            pass
    return None
