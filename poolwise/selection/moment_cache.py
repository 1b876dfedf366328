"""Moments of the points and of the picks of a selection, kept in working form."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.information.moments import Layout, Probes
from poolwise.information.pairs import Deviations
from poolwise.selection.row_cache import DeviationCache

# Numbers that are worked on together when moments are computed: they stay in a cache of the processor.
_TOGETHER = 1 << 18


class MomentCache:
    """Features of the points asked for so far, within a memory budget; emptied when it is full.

    Args:
        deviations: where the points come from.
        memory: how many bytes the cache may take.
        width: how many features a point has.
        compute: from positions and deviations of n new points to their `[n, width]` features.
    """

    def __init__(
        self, deviations: DeviationCache, memory: int, width: int, compute: Callable[[Array, Deviations], Tensor]
    ) -> None:
        N, K, C = deviations.shape
        self._deviations, self._compute = deviations, compute
        self._store = torch.empty(0, width, dtype=deviations.store.means.dtype)
        self.limit = max(1, min(N, memory // (width * self._store.element_size()), deviations.limit))
        self._together = max(1, min(_TOGETHER // (K * K * C), self.limit))
        self._slot_N = np.zeros(N, np.int32)  # counted from 1; 0 is none
        self._used = 0

    def take(self, indices_n: Array) -> Tensor:
        """`[n, F]` features of some points; at most `limit` different ones may be asked for at once."""
        slots_n = self._slot_N[indices_n]
        if slots_n.min(initial=1) == 0:
            self._fill(indices_n, np.unique(indices_n[slots_n == 0]))
            slots_n = self._slot_N[indices_n]
        return self._store.index_select(0, torch.from_numpy(slots_n - 1))

    def _fill(self, indices_n: Array, missing: Array) -> None:
        if self._used + len(missing) > self.limit:
            self._slot_N.fill(0)
            self._used, missing = 0, np.unique(indices_n)
        needed = self._used + len(missing)
        if needed > len(self._store):
            room = self._store.new_empty(min(self.limit, max(needed, 2 * len(self._store))), self._store.shape[1])
            room[: self._used] = self._store[: self._used]
            self._store = room
        for start in range(0, len(missing), self._together):
            part = missing[start : start + self._together]
            first = self._used + start
            self._store[first : first + len(part)] = self._compute(part, self._deviations.take(part))
        self._slot_N[missing] = np.arange(self._used + 1, needed + 1)
        self._used = needed


class PickMoments:
    """Moments of the picks made so far, with room for more.

    Args:
        layout: what their features are.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout, self.count = layout, 0
        self._probes: Probes | None = None
        self._scales = torch.empty(0)

    def add(self, features_m_F: Tensor, scales_m: Array) -> None:
        """Add picks.

        Args:
            features_m_F: their features.
            scales_m: what their pairs are multiplied by.
        """
        found, needed = Probes.of(features_m_F, self._layout), self.count + len(features_m_F)
        if self._probes is None:
            self._probes, self._scales = found[:0].padded(max(64, needed)), found.second.new_zeros(max(64, needed))
        elif needed > len(self._probes):
            self._probes = self._probes.padded(2 * needed)
            self._scales = torch.cat([self._scales, self._scales.new_zeros(2 * needed - len(self._scales))])
        self._probes.put(slice(self.count, needed), found)
        self._scales[self.count : needed] = torch.from_numpy(scales_m)
        self.count = needed

    def most_redundant(self, features_n_F: Tensor, first: int) -> tuple[Array, Array]:
        """Which of the picks after the first few is the most redundant with each point, as far as moments tell.

        Args:
            features_n_F: features of n points.
            first: how many picks to leave out.
        Returns:
            `[n]` the largest product of lower bound and scale, and `[n]` the number of the pick.
        """
        values_n_m = self._since(first).lower(features_n_F).mul_(self._scales[first : self.count])
        largest_n, pick_n = values_n_m.max(1)
        return largest_n.numpy(), pick_n.add_(first).numpy()

    def upper(self, features_n_F: Tensor, first: int) -> Array:
        """`[n, m]` products of scale and a number that the pair with each pick after the first few is never above."""
        return self._since(first).upper(features_n_F).mul_(self._scales[first : self.count]).numpy()

    def _since(self, first: int) -> Probes:
        assert self._probes is not None
        return self._probes[first : self.count]
