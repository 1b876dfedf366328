"""The pairs in which a candidate may still improve a target, and gains that follow every pick."""

import numpy as np
from scipy import sparse

from poolwise.arrays import Array
from poolwise.selection.coverage_kernels import Kernel

# Targets whose pairs are summed at a time, so that terms in double precision never take much memory.
_STEP = 1024


class Lists:
    """Gains of all candidates, kept up to date from the pairs that count.

    When a target is covered further, the gains of the candidates in its list fall by what they could have added there.
    All other gains stay as they are. The falls add up exactly: each is the difference of two numbers, and the next one
    begins with the second of them.

    Args:
        ends_N: `[N + 1]` where the list of each candidate begins, and the end of the last.
        targets: the targets that each candidate may improve, candidate by candidate.
        values: the kernel of each pair.
        level_T: `[T]` values of the kernel up to this add nothing to a target.
        weights_T: `[T]` what each target counts for.

    Attributes:
        gains_N: `[N]` what each candidate would add.
    """

    def __init__(self, ends_N: Array, targets: Array, values: Array, level_T: Array, weights_T: Array) -> None:
        self._shape = len(ends_N) - 1, len(weights_T)
        self._weights = weights_T.astype(np.float64)
        self._ends_N, self._targets = ends_N, targets
        by_target = sparse.csr_array((values, targets, ends_N), shape=self._shape).tocsc()
        self._ends_T, self._candidates, self._values = by_target.indptr, by_target.indices, by_target.data
        self.gains_N: Array = np.zeros(self._shape[0])
        self._sum_up(level_T)

    def __len__(self) -> int:
        return len(self._values)

    def longest(self) -> int:
        """The largest number of targets that one candidate may improve."""
        return int(np.diff(self._ends_N).max(initial=0))

    def targets(self, candidate: int) -> Array:
        """The targets that one candidate may improve."""
        return self._targets[self._ends_N[candidate] : self._ends_N[candidate + 1]].astype(np.int64)

    def cover(self, targets_n: Array, before_n: Array, after_n: Array) -> int:
        """Lower the gains where targets are covered further, from one level to another; in how many pairs."""
        lengths_n = self._ends_T[targets_n + 1] - self._ends_T[targets_n]
        ends_n = _ends_of(lengths_n)
        entries = np.arange(ends_n[-1]) + np.repeat(self._ends_T[targets_n] - ends_n[:-1], lengths_n)
        before, after = np.repeat(before_n, lengths_n), np.repeat(after_n, lengths_n)
        reached = np.minimum(np.maximum(self._values[entries], before), after)
        falls = np.subtract(reached, before, dtype=np.float64)
        falls *= np.repeat(self._weights[targets_n], lengths_n)
        np.subtract.at(self.gains_N, self._candidates[entries], falls)
        return len(entries)

    def shorten(self, low_T: Array) -> None:
        """Drop the pairs that improve nothing any more: those up to a level of their target."""
        kept = np.flatnonzero(self._values > np.repeat(low_T, np.diff(self._ends_T)))
        self._ends_T = np.searchsorted(kept, self._ends_T)
        self._candidates, self._values = self._candidates[kept], self._values[kept]
        by_target = sparse.csc_array((np.ones(len(kept), np.int8), self._candidates, self._ends_T), shape=self._shape)
        by_candidate = by_target.tocsr()
        self._ends_N, self._targets = by_candidate.indptr, by_candidate.indices

    def settle(self, kernel: Kernel, level_T: Array) -> None:
        """Replace values from blocks by those of each pair alone, and sum up again.

        Args:
            kernel: where the values come from.
            level_T: `[T]` how far each target is covered.
        """
        targets = np.repeat(np.arange(self._shape[1]), np.diff(self._ends_T))
        self._values = kernel.pairs(self._candidates.astype(np.int64), targets)
        self._sum_up(level_T)

    def _sum_up(self, level_T: Array) -> None:
        """Gains from the values as they are. Points that were picked have no gain, and keep none."""
        picked_N = np.isneginf(self.gains_N)
        self.gains_N[:] = 0.0
        for start in range(0, self._shape[1], _STEP):
            part = slice(self._ends_T[start], self._ends_T[min(start + _STEP, self._shape[1])])
            lengths_t = np.diff(self._ends_T[start : start + _STEP + 1])
            levels = np.repeat(level_T[start : start + _STEP], lengths_t)
            terms = np.subtract(np.maximum(self._values[part], levels), levels, dtype=np.float64)
            terms *= np.repeat(self._weights[start : start + _STEP], lengths_t)
            self.gains_N += np.bincount(self._candidates[part], terms, self._shape[0])
        self.gains_N[picked_N] = -np.inf


def entries_above(values_m_T: Array, low_T: Array) -> tuple[Array, Array, Array]:
    """The entries of some rows that are above the level of their column: where each row begins, columns and values."""
    M, T = values_m_T.shape
    hits = np.flatnonzero(values_m_T > low_T)
    ends_m = np.searchsorted(hits, np.arange(M + 1) * T)
    columns = (hits - np.repeat(np.arange(M) * T, np.diff(ends_m))).astype(np.int32)
    return ends_m, columns, values_m_T.ravel()[hits]


def joined(parts: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
    """Lists of consecutive rows one after the other."""
    lengths = [np.diff(ends_m) for ends_m, _, _ in parts]
    ends_N = _ends_of(np.concatenate(lengths))
    targets = np.concatenate([targets for _, targets, _ in parts])
    return ends_N, targets, np.concatenate([values for _, _, values in parts])


def _ends_of(lengths_n: Array) -> Array:
    """`[n + 1]` where runs of some lengths begin, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths_n, dtype=np.int64)])
