"""LBB with few classes and many picks: the race for each pick is compiled (see `raced_compiled`)."""

import importlib
import math
from types import ModuleType

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.information import moments
from poolwise.information.moments import Layout
from poolwise.information.pair_loops import pair_room
from poolwise.scores import kernels
from poolwise.selection.redundancy import Pairs, PairwiseRedundancy, Redundancy
from poolwise.selection.task import Task

# With this many picks loops are compiled, which takes seconds, but only once on a machine; with that many they are used
# if they have been, since they save more than the 50 ms that they take to load.
_MANY_PICKS, _SOME_PICKS = 800, 50
# This many points are looked at and read at a time, and at least as many as in all the times before.
_READ = 512
_COMPILED = "poolwise.selection.raced_compiled"


class RacedRedundancy(PairwiseRedundancy):
    """`PairwiseRedundancy` of the forms `normalised` and `max`, where the largest gain is found by compiled loops.

    Pairs are bounded from above by moments of second order, which are computed whenever a point is looked at: with few
    classes that takes no longer than one pair.

    Args:
        task: what to choose from, and how many.
        redundancy: `normalised` or `max`.
        pairs: how often each pair is counted.
        loops: the compiled loops.
    """

    def __init__(self, task: Task, redundancy: Redundancy, pairs: Pairs, loops: ModuleType) -> None:
        super().__init__(task, redundancy, pairs)
        N, K, C = task.predictions.shape
        layout, dtype = Layout(K, C, moments.LOWEST), task.predictions.dtype
        self._loops = loops
        self._coordinates_q_K = np.ascontiguousarray(moments.coordinates(K, dtype).numpy())
        self._weights_F = moments.linear(layout, dtype).numpy()
        self._probes_F_B = np.empty((layout.width, task.batch_size), self._weights_F.dtype)
        self._compared_N = np.zeros(N, np.int32)  # the last pick that a point was compared with, counted from 1
        self._raced_self_N = np.zeros(N, np.float32)  # `I_ii` as the loops round it, or 0
        self._room_q_C, self._room = np.empty((K, C), np.float32), pair_room(C)
        self._expected = np.empty(0, np.int64)
        self._probed = 0  # how many picks the loops have bounds for

    def expect(self, indices_n: Array) -> None:
        """These points may be read in this order."""
        self._expected = indices_n

    def contest(self, indices_n: Array, bounds_n: Array, least: float | Array) -> tuple[Array, Array, Array]:
        """Find the point with the largest gain; what else is wanted is not compiled."""
        if not isinstance(least, float) or len(self._picks) == 0:
            return super().contest(indices_n, bounds_n, least)
        order_n = np.argsort(-bounds_n)
        points_n, bounds_n, exact_n = indices_n[order_n], bounds_n[order_n], np.zeros(len(order_n), bool)
        known = 0
        while known == 0 or (known < len(points_n) and bounds_n[known] >= least):
            part = slice(known, known + min(max(_READ, known), self._cache.limit))
            slots_n, state = self._slots(points_n[part]).astype(np.int64), np.array([least, 0, 0, self._probed])
            self._loops.race(
                points_n[part],
                bounds_n[part],
                exact_n[part],
                state,
                self.slack,
                self._normalised,
                self._bald_N,
                self._raced_self_N,
                self._overlap_N,
                self._seen_N,
                self._compared_N,
                slots_n,
                self._cache.ratios_s_K_C,
                self._cache.means_s_C,
                self._picks,
                self._picked_ratios_B_K_C,
                self._picked_means_B_C,
                self._probes_F_B,
                self._weights_F,
                self._coordinates_q_K,
                np.empty(len(slots_n), np.int64),
                np.empty_like(self._weights_F),
                np.empty(len(self._picks), np.float32),
                self._room_q_C,
                self._room,
            )
            least, looked_at, pairs = state[0], int(state[1]), int(state[2])
            self._probed = len(self._picks)
            self.pairs += pairs
            known += looked_at
            if known < part.stop:
                break
        return points_n[:known], bounds_n[:known], exact_n[:known]

    def _slots(self, points_n: Array) -> Array:
        """Where points stand in the cache. If some must be read, others that are expected are read with them."""
        room = min(_READ, self._cache.limit) - len(points_n)
        if room > 0 and not self._cache.has(points_n).all():
            missing = self._expected[~self._cache.has(self._expected)]
            self._cache.slots(np.concatenate([points_n, missing[:room]]))
        return self._cache.slots(points_n)


def compiled_loops(task: Task) -> ModuleType | None:
    """The compiled loops, where they are worth it and Numba is installed."""
    many = task.batch_size >= _MANY_PICKS or math.prod(task.predictions.shape) >= kernels.MANY
    if task.predictions.dtype == torch.float32 and (many or task.batch_size >= _SOME_PICKS):
        try:
            loops = importlib.import_module(_COMPILED)
            if many or loops.race.is_kept():
                loops.race.load()
                return loops
        except ImportError:  # no Numba, or one that does not suit NumPy
            pass
    return None
