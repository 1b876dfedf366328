"""Rows that came from other machines, kept for a while: a selection often needs the same rows again."""

import threading
from collections.abc import Callable

import numpy as np

from poolwise.arrays import Array


class RowCache:
    """The rows fetched last; emptied when it is full.

    Args:
        fetch: from `[n]` distinct positions to `[n, K, C]` rows.
        room_M_K_C: where rows are kept.
    """

    def __init__(self, fetch: Callable[[Array], Array], room_M_K_C: Array) -> None:
        self._fetch, self._room = fetch, room_M_K_C
        self._slots: dict[int, int] = {}
        self._lock = threading.Lock()

    def at(self, positions_n: Array) -> Array:
        """`[n, K, C]` rows at some positions; those that are not here are fetched together."""
        distinct_m, place_n = np.unique(positions_n, return_inverse=True)
        with self._lock:
            missing = np.array([i for i in distinct_m.tolist() if i not in self._slots], np.int64)
            if len(self._slots) + len(missing) > len(self._room):
                self._slots.clear()
                missing = distinct_m
            if len(missing) > len(self._room):
                return self._fetch(distinct_m)[place_n]
            if len(missing):
                used = len(self._slots)
                self._room[used : used + len(missing)] = self._fetch(missing)
                self._slots.update(zip(missing.tolist(), range(used, used + len(missing)), strict=True))
            rows: Array = self._room[np.array([self._slots[i] for i in distinct_m.tolist()], np.int64)[place_n]]
            return rows
