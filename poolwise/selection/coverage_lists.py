"""Of each target, the candidates that may still improve it: from these, gains follow every pick."""

from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.selection.coverage_kernels import Kernel
from poolwise.selection.coverage_loops import loops, starts_of
from poolwise.selection.coverage_sweeps import Hits


class Lists:
    """Lists of pairs, and what they say about gains.

    When a target is covered further, the gains of the candidates in its list fall by what they could have added there.
    All other gains stay unchanged. The falls add up exactly: each is the difference of two numbers, and the next one
    begins with the second of them.

    Args:
        shape: how many candidates and targets there are.
        weights_T: `[T]` what each target counts for.

    Attributes:
        listed_T: `[T]` whether all pairs that may improve a target are in its list.
        without: how many targets have no list.
        unknown_n: targets of which `targets` knows nothing.
    """

    def __init__(self, shape: tuple[int, int], weights_T: Array) -> None:
        self._shape, self._weights_T = shape, weights_T
        self._loops = loops(shape[0] * shape[1])
        self._used = self._count = 0
        self._orderly = True  # lists are in the order of their targets, without gaps
        self._places, self._values = np.empty(0, np.int32), np.empty(0, weights_T.dtype)
        self._starts, self._lengths = np.zeros(shape[1], np.int64), np.zeros(shape[1], np.int64)
        self._ends_N, self._numbers = np.zeros(shape[0] + 1, np.int64), np.empty(0, np.int32)
        self._turned = self._values
        self.listed_T = np.zeros(shape[1], bool)
        self.without = shape[1]
        self.unknown_n = np.arange(shape[1])

    def __len__(self) -> int:
        return self._count

    @property
    def complete(self) -> bool:
        """Whether every target has its list."""
        return self.without == 0

    def add(self, hits: Hits) -> None:
        """Keep new lists, of targets that had none."""
        total = int(hits.counts_s.sum())
        self._make_room(total)
        starts_s = self._used + starts_of(hits.counts_s)
        ends_s, nothing = starts_s.copy(), hits.above_s[:0]
        for rows, columns, both, found in hits.parts:
            own = hits.numbers[rows] if both else hits.numbers[:0]
            others = (ends_s[columns], hits.above_s[columns]) if both else (ends_s[:0], nothing)
            of_rows, of_columns = (own, ends_s[rows], hits.above_s[rows]), (hits.numbers[columns], *others)
            self._loops.place(found, of_rows, of_columns, (self._places, self._values))
        listed = np.isfinite(hits.above_s)
        targets = hits.targets_s[listed]
        self._starts[targets], self._lengths[targets] = starts_s[listed], hits.counts_s[listed]
        self.listed_T[targets] = True
        self.without -= len(targets)
        self._used, self._orderly = self._used + total, False
        self._count += total

    def cover(self, gains_N: Array, targets_n: Array, known_T: Array, high_T: Array, low_T: Array) -> int:
        """Lower gains where targets are covered further, and drop the pairs that improve nothing any more.

        Args:
            gains_N: `[N]` gains, which are written to.
            targets_n: `[n]` targets; those without lists are left alone.
            known_T: `[T]` the level that targets were covered to; written to.
            high_T: `[T]` the level that they are covered to now.
            low_T: `[T]` pairs up to this improve nothing any more.
        Returns:
            How many pairs were looked at.
        """
        lists, levels = (self._starts, self._lengths), (known_T, high_T, low_T)
        cover = self._loops.cover
        read, kept = cover(
            self._places, self._values, *lists, targets_n, self.listed_T, *levels, self._weights_T, gains_N
        )
        self._dropped(read - kept)
        return int(read)

    def ahead(self, gains_N: Array, *state: Any) -> tuple[Array, Array, Array, Array]:
        """Make picks with compiled loops (`coverage_compiled.ahead`); none if there are no such loops.

        Args:
            gains_N: `[N]` gains, which are written to.
            state: what else the loop takes.
        """
        lists = self._places, self._values, self._starts, self._lengths
        ends_N = self._ends_N[:0] if len(self.unknown_n) else self._ends_N
        made: tuple[Array, Array, Array, Array] = self._loops.ahead(
            gains_N, lists, (ends_N, self._numbers, self._turned), *state
        )
        self._dropped(int(made[3][1] - made[3][2]))
        return made

    def _dropped(self, count: int) -> None:
        self._count -= count
        self._orderly = self._orderly and count == 0

    def targets(self, candidate: int) -> Array:
        """The targets with lists of which one candidate may be a part; all others with lists are not improved by it."""
        return self._numbers[self._ends_N[candidate] : self._ends_N[candidate + 1]]

    def index(self) -> None:
        """Make `targets` know the lists as they are; `unknown_n` are the targets that have none."""
        self._ends_N, self._numbers = np.zeros(self._shape[0] + 1, np.int64), np.empty(self._count, np.int32)
        self._turned = np.empty(self._count, self._values.dtype)
        lists = self._places, self._values, self._starts, self._lengths
        self._loops.turn(*lists, self._ends_N, self._numbers, self._turned)
        self.unknown_n = np.flatnonzero(~self.listed_T)

    def settle(self, kernel: Kernel) -> None:
        """Replace values from blocks by those of each pair alone."""
        self._make_room(0)
        places, values = self._places[: self._used], self._values[: self._used]
        targets = np.repeat(np.arange(self._shape[1], dtype=np.int32), self._lengths)
        if kernel.factors is None or not hasattr(self._loops, "products_of_pairs"):
            values[:] = kernel.pairs(places.astype(np.int64), targets)
        else:
            values[:] = self._loops.products_of_pairs(*kernel.factors, places, targets, 4 * kernel.noise)

    def gains(self, level_T: Array) -> tuple[Array, int]:
        """What each candidate would add to targets with lists, given how far these are covered.

        Returns:
            `[N]` gains, and the largest number of pairs that are listed of one candidate.
        """
        gains_N, counts_N = np.zeros(self._shape[0]), np.zeros(self._shape[0], np.int64)
        lists = self._places, self._values, self._starts, self._lengths
        self._loops.add_lists(*lists, level_T, self._weights_T, gains_N, counts_N)
        return gains_N, int(counts_N.max(initial=0))

    def _make_room(self, count: int) -> None:
        """Make room for more pairs by moving all lists together, in order; without gaps if for none."""
        if self._orderly if count == 0 else count <= len(self._places) - self._used:
            return
        total = int(self._lengths.sum())
        size = 2 * (total + count)  # the next lists will then fit; memory that is not written to costs nothing
        new_places, new_values = np.empty(size, self._places.dtype), np.empty(size, self._values.dtype)
        self._loops.gather(self._places, self._values, self._starts, self._lengths, new_places, new_values)
        self._places, self._values = new_places, new_values
        self._starts, self._used, self._orderly = starts_of(self._lengths), total, True
