"""Rows of the pool that an objective keeps coming back to, held in working form."""

import numpy as np
import torch

from poolwise.information.pairs import Deviations
from poolwise.predictions import Predictions
from poolwise.predictions.arrays import Array


class DeviationCache:
    """Deviations of the points asked for so far, within a memory budget; emptied when it is full.

    Args:
        predictions: where the rows come from.
        memory: how many bytes the cache may take.
    """

    def __init__(self, predictions: Predictions, memory: int) -> None:
        N, K, C = predictions.shape
        self._predictions = predictions
        self._limit = max(1, min(N, memory // (predictions.row_bytes + C * 8)))
        self._slot_N = np.full(N, -1, np.int64)
        self._used = 0
        empty = torch.empty(0, K, C, dtype=predictions.dtype)
        self.store = Deviations(empty, empty[:, 0])
        self.rows_read = 0

    @property
    def limit(self) -> int:
        """How many different points may be asked for at once."""
        return self._limit

    def slots(self, indices_n: Array) -> Array:
        """`[n]` where the points stand in `store`; at most `limit` different points may be asked for at once."""
        slots_n: Array = self._slot_N[indices_n]
        if slots_n.min(initial=0) < 0:
            self._read(indices_n, np.unique(indices_n[slots_n < 0]))
            slots_n = self._slot_N[indices_n]
        return slots_n

    def _read(self, indices_n: Array, missing: Array) -> None:
        if self._used + len(missing) > self._limit:
            self._slot_N.fill(-1)
            self._used, missing = 0, np.unique(indices_n)
        needed = self._used + len(missing)
        if needed > len(self.store):
            self.store = self.store.padded(min(self._limit, max(needed, 2 * len(self.store))))
        rows = Deviations.of(self._predictions.rows(missing).probs)
        place = slice(self._used, needed)
        self.store.ratios[place], self.store.means[place] = rows.ratios, rows.means
        self._slot_N[missing] = np.arange(self._used, needed)
        self._used = needed
        self.rows_read += len(missing)
