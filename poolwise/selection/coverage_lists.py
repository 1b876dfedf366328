"""The pairs in which a candidate may still improve a target: lists by candidates, and gains that follow every pick."""

import numpy as np
from scipy import sparse

from poolwise.arrays import Array

# A list takes as much memory as this many pairs beside its pairs, for its two array objects.
_OVERHEAD = 32


class RowLists:
    """For some of N candidates, the targets that each may still improve, and the kernel there.

    Args:
        count: N.
        room: how many pairs to keep at most; each takes 8 bytes, or 12 in double precision.

    Attributes:
        known_N: `[N]` of which candidates there are lists.
        full: whether there was no room for a list.
    """

    def __init__(self, count: int, room: int) -> None:
        self._targets: list[Array | None] = [None] * count
        self._values: list[Array | None] = [None] * count
        self._room = room
        self.known_N = np.zeros(count, bool)
        self.full = False

    def put(self, indices_n: Array, ends_n: Array, targets: Array, values: Array) -> None:
        """Keep the lists of some candidates, as long as there is room.

        Args:
            indices_n: the candidates.
            ends_n: `[n + 1]` where the list of each begins, and the end of the last.
            targets: the targets, candidate by candidate.
            values: the kernel of each pair.
        """
        ends = ends_n.tolist()
        for t, index in enumerate(indices_n.tolist()):
            self.drop(index)
            size = ends[t + 1] - ends[t] + _OVERHEAD
            if size <= self._room:
                part = slice(ends[t], ends[t + 1])
                self._targets[index], self._values[index] = targets[part].copy(), values[part].copy()
                self.known_N[index] = True
                self._room -= size
            else:
                self.full = True

    def drop(self, index: int) -> None:
        """Forget the list of one candidate, if there is one."""
        targets_n = self._targets[index]
        if targets_n is not None:
            self._room += len(targets_n) + _OVERHEAD
            self._targets[index] = self._values[index] = None
            self.known_N[index] = False

    def get(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """`[n + 1]` ends, targets and values of the lists of some candidates that have one, one after another."""
        targets = [found for index in indices_n.tolist() if (found := self._targets[index]) is not None]
        values = [found for index in indices_n.tolist() if (found := self._values[index]) is not None]
        return ends_of(np.array([len(found) for found in targets])), np.concatenate(targets), np.concatenate(values)

    def shorten(self, low_T: Array, step: int = 1024) -> None:
        """Drop the pairs that improve nothing any more: those up to a level of their target."""
        known, self.full = np.flatnonzero(self.known_N), False
        for start in range(0, len(known), step):
            some = known[start : start + step]
            self.put(some, *shortened(*self.get(some), low_T))


class Lists:
    """Gains of all candidates, kept up to date from the pairs that count.

    When a target is covered further, the gains of the candidates in its list fall by what they could have added there.
    All other gains stay as they are. The falls add up exactly: each is the difference of two numbers, and the next one
    begins with the second of them.

    Args:
        ends_N: `[N + 1]` where the list of each candidate begins, and the end of the last.
        targets: the targets that each candidate may improve, candidate by candidate.
        values: the kernel of each pair.
        covered_T: `[T]` how far each target is covered.
        high_T: `[T]` a value of the kernel above this improves a target beyond doubt.
        weights_T: `[T]` what each target counts for.

    Attributes:
        gains_N: `[N]` what each candidate would add, up to the rounding of the values.
    """

    def __init__(
        self, ends_N: Array, targets: Array, values: Array, covered_T: Array, high_T: Array, weights_T: Array
    ) -> None:
        self._shape = len(ends_N) - 1, len(weights_T)
        self._weights = weights_T.astype(np.float64)
        self._ends_N, self._targets = ends_N, targets
        by_target = sparse.csr_array((values, targets, ends_N), shape=self._shape).tocsc()
        self._ends_T, self._candidates, self._values = by_target.indptr, by_target.indices, by_target.data
        self.gains_N: Array = np.zeros(self._shape[0])
        for start in range(0, self._shape[1], 1024):  # so that terms in double precision never take much memory
            part = slice(self._ends_T[start], self._ends_T[min(start + 1024, self._shape[1])])
            lengths_t = np.diff(self._ends_T[start : start + 1025])
            levels = (np.repeat(level_T[start : start + 1024], lengths_t) for level_T in (covered_T, high_T))
            terms = improvement(self._values[part], *levels).astype(np.float64)
            terms *= np.repeat(self._weights[start : start + 1024], lengths_t)
            self.gains_N += np.bincount(self._candidates[part], terms, self._shape[0])

    def longest(self) -> int:
        """The largest number of targets that one candidate may improve."""
        return int(np.diff(self._ends_N).max(initial=0))

    def targets(self, candidate: int) -> Array:
        """The targets that one candidate may improve."""
        return self._targets[self._ends_N[candidate] : self._ends_N[candidate + 1]].astype(np.int64)

    def cover(self, targets_n: Array, before: tuple[Array, Array], after: tuple[Array, Array]) -> Array:
        """Lower the gains where targets are covered further.

        Args:
            targets_n: the targets.
            before: how far they were covered, and the level above which a value counted.
            after: the same from now on.
        Returns:
            The candidates whose gains changed, one for each pair.
        """
        lengths_n = self._ends_T[targets_n + 1] - self._ends_T[targets_n]
        ends_n = ends_of(lengths_n)
        entries = np.arange(ends_n[-1]) + np.repeat(self._ends_T[targets_n] - ends_n[:-1], lengths_n)
        values: Array = self._values[entries]
        candidates: Array = self._candidates[entries]
        terms = improvement(values, *(np.repeat(level_n, lengths_n) for level_n in before)).astype(np.float64)
        terms -= improvement(values, *(np.repeat(level_n, lengths_n) for level_n in after))
        terms *= np.repeat(self._weights[targets_n], lengths_n)
        np.subtract.at(self.gains_N, candidates, terms)
        return candidates

    def shorten(self, low_T: Array) -> None:
        """Drop the pairs that improve nothing any more: those up to a level of their target."""
        kept = np.flatnonzero(self._values > np.repeat(low_T, np.diff(self._ends_T)))
        self._ends_T = np.searchsorted(kept, self._ends_T)
        self._candidates, self._values = self._candidates[kept], self._values[kept]
        by_target = sparse.csc_array((np.ones(len(kept), np.int8), self._candidates, self._ends_T), shape=self._shape)
        by_candidate = by_target.tocsr()
        self._ends_N, self._targets = by_candidate.indptr, by_candidate.indices


def improvement(values: Array, covered: Array, high: Array) -> Array:
    """By how much values of the kernel improve their targets, where they are above the level that counts."""
    better: Array = np.where(values > high, values - covered, 0)
    return better


def shortened(ends_n: Array, targets: Array, values: Array, low_T: Array) -> tuple[Array, Array, Array]:
    """Lists without the pairs up to a level of their target."""
    kept = np.flatnonzero(values > low_T[targets])
    return np.searchsorted(kept, ends_n), targets[kept], values[kept]


def sums(terms: Array, ends_n: Array) -> Array:
    """`[n]` sums over consecutive runs of terms, in double precision."""
    sums_n = np.zeros(len(ends_n) - 1)
    filled_n = ends_n[1:] > ends_n[:-1]
    if filled_n.any():
        sums_n[filled_n] = np.add.reduceat(terms, ends_n[:-1][filled_n], dtype=np.float64)
    return sums_n


def entries_above(values_m_T: Array, low_T: Array) -> tuple[Array, Array, Array]:
    """The entries of some rows that are above the level of their column: where each row begins, columns and values."""
    M, T = values_m_T.shape
    hits = np.flatnonzero(values_m_T > low_T)
    ends_m = np.searchsorted(hits, np.arange(M + 1) * T)
    columns = (hits - np.repeat(np.arange(M) * T, np.diff(ends_m))).astype(np.int32)
    return ends_m, columns, values_m_T.ravel()[hits]


def in_order(ends_n: Array, targets: Array, values: Array, order_n: Array) -> tuple[Array, Array, Array]:
    """The same lists in another order."""
    width = int(targets.max(initial=0)) + 1
    rows = sparse.csr_array((values, targets, ends_n), shape=(len(order_n), width))[order_n]
    return rows.indptr, rows.indices, rows.data


def ends_of(lengths_n: Array) -> Array:
    """`[n + 1]` where runs of some lengths begin, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths_n, dtype=np.int64)])
