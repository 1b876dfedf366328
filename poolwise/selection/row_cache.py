"""Rows of the pool that an objective keeps coming back to, kept in working form."""

import math

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.information import entropies
from poolwise.information.pairs import Deviations
from poolwise.predictions import Block, Predictions
from poolwise.predictions.passes import DirectKernel
from poolwise.scores import kernels
from poolwise.selection.task import Task


class DeviationCache:
    """Deviations of the points asked for so far, within a memory budget; the oldest make room for new ones.

    Args:
        predictions: where the rows come from.
        memory: how many bytes the cache may take.
    """

    def __init__(self, predictions: Predictions, memory: int) -> None:
        N, K, C = predictions.shape
        self._predictions, self.shape = predictions, predictions.shape
        self._limit = max(1, min(N, memory // (predictions.row_bytes + C * 8)))
        self._slot_N = np.full(N, -1, np.int32)
        self._point_s = np.full(self._limit, -1, np.int64)  # which point was last written to each slot
        self._next = 0  # the slot that is written to next
        self.store = Deviations.room(self._limit, K, C, predictions.dtype)
        # The same by NumPy, whose calls cost less for few numbers.
        self.ratios_s_K_C, self.means_s_C = self.store.ratios.numpy(), self.store.means.numpy()
        self.rows_read = 0

    def scan(self, task: Task, kept: int) -> Array:
        """`[N]` float64 BALD scores in one pass, which also keeps the rows that are most likely to be asked for.

        Of each block, those with the largest scores are kept. Which rows these are changes no result, only how often
        the file is read again.

        Args:
            task: whose points to score.
            kept: how many rows to keep, as far as they fit.
        """
        if kept == 0:
            return task.scores(kernels.bald)
        N, K, C = self._predictions.shape
        share = min(kept, 3 * self._limit // 4) / N
        scores_N = np.empty(N)

        def best(scores_n: Tensor) -> Tensor:
            return scores_n.topk(int(share * len(scores_n)), sorted=False).indices

        def work(block: Block) -> tuple[Tensor, Tensor, Deviations]:
            scores_n = entropies.bald(block.log_probs, block.probs)  # without overwriting the probabilities
            best_m = best(scores_n)
            return scores_n, best_m, Deviations.of(block.probs[best_m])

        def direct(log_probs_n_K_C: Tensor) -> tuple[Tensor, Tensor, Deviations] | None:
            scores_n = kernels.direct_bald(log_probs_n_K_C)
            if scores_n is None:
                return None
            best_m = best(scores_n)
            rows = Block.empty(len(best_m), K, C, log_probs_n_K_C.dtype)
            rows.fill(log_probs_n_K_C[best_m], "log-probs", None)
            return scores_n, best_m, Deviations.of(rows.probs)

        large = math.prod(self._predictions.shape) >= kernels.MANY
        for rows, (scores_n, best_m, deviations) in self._predictions.scan(
            DirectKernel(work, direct) if large else work, task.memory, task.report, "scoring the pool"
        ):
            scores_N[rows] = scores_n.numpy()
            self._put(rows.start + best_m.numpy(), deviations)
        return scores_N

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

    def has(self, indices_n: Array) -> Array:
        """`[n]` whether the points can be had without reading."""
        found_n: Array = self._slot_N[indices_n] >= 0
        return found_n

    def slot(self, index: int) -> int:
        """Where one point stands in `store`."""
        found = int(self._slot_N[index])
        return found if found >= 0 else int(self.slots(np.array([index]))[0])

    def take(self, indices_n: Array) -> Deviations:
        """Deviations of some points; at most `limit` different points may be asked for at once."""
        slots_n = torch.from_numpy(self.slots(indices_n))
        return self.store.take(slots_n)

    def _read(self, indices_n: Array, missing: Array) -> None:
        place, slots_n = self._place(len(missing)), self._slot_N[indices_n]
        if ((slots_n >= place.start) & (slots_n < place.stop)).any():  # some of these would have to make room
            missing = np.unique(indices_n)
        self._put(missing, Deviations.of(self._predictions.rows(missing).probs))
        self.rows_read += len(missing)

    def _put(self, indices_n: Array, rows: Deviations) -> None:
        place = self._place(len(indices_n))
        slots_n, old_n = np.arange(place.start, place.stop), self._point_s[place]
        self._slot_N[old_n[(old_n >= 0) & (self._slot_N[old_n] == slots_n)]] = -1
        self.store.ratios[place], self.store.means[place] = rows.ratios, rows.means
        self._slot_N[indices_n], self._point_s[place] = slots_n, indices_n
        self._next = place.stop

    def _place(self, count: int) -> slice:
        """Where the next rows are written: after the last ones, or at the beginning if there is no room."""
        start = self._next if self._next + count <= self._limit else 0
        return slice(start, start + count)
