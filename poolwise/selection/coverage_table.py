"""All pairs of few points in one table: nothing is sorted into lists, and gains follow every pick."""

from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.selection.coverage_kept import whole
from poolwise.selection.coverage_kernels import Kernel
from poolwise.selection.coverage_loops import loops

# Targets that are looked at to estimate how many pairs may still matter.
_PROBES = 32


class Table:
    """What `Lists` does, where all pairs are looked at: of each target, its value with every candidate.

    Args:
        kernel: N candidates, T targets.
        weights_T: `[T]` what each target counts for.
        low_T: `[T]` values up to this improve nothing; the caller writes to it.

    Attributes:
        listed_T: `[T]` whether a target is in the table, as all are.
        without: how many are not.
        unknown_n: targets of which `targets` knows nothing: none.
    """

    complete, without = True, 0

    def __init__(self, kernel: Kernel, weights_T: Array, low_T: Array) -> None:
        (_, T), self._weights_T, self._low_T = kernel.shape, weights_T, low_T
        self._values_T_N: Array = whole(kernel).numpy()
        self._loops = loops(self._values_T_N.size)
        self._all = np.arange(T)
        self._probes_n = np.unique(np.linspace(0, T - 1, min(T, _PROBES)).astype(np.int64))
        self.listed_T, self.unknown_n = np.ones(T, bool), self._all[:0]
        self._estimate()

    def __len__(self) -> int:
        return self._count

    def _estimate(self) -> None:
        """Estimate how many pairs may still improve something."""
        some_n = self._probes_n
        above = int(np.count_nonzero(self._values_T_N[some_n] > self._low_T[some_n, None]))
        self._count = above * len(self._all) // max(1, len(some_n))

    def cover(self, gains_N: Array, targets_n: Array, known_T: Array, high_T: Array, low_T: Array) -> int:
        """Lower gains where targets are covered further: see `Lists.cover`."""
        self._loops.lower(self._values_T_N, targets_n, known_T, high_T, self._weights_T, gains_N)
        known_T[targets_n] = high_T[targets_n]
        self._estimate()
        return len(targets_n) * len(gains_N)

    def ahead(self, gains_N: Array, *state: Any) -> tuple[Array, Array, Array, Array]:
        """Make picks with compiled loops: see `Lists.ahead`."""
        made: tuple[Array, Array, Array, Array] = self._loops.ahead_in_table(gains_N, self._values_T_N, *state)
        self._estimate()
        return made

    def targets(self, candidate: int) -> Array:
        """The targets that one candidate may improve."""
        return np.flatnonzero(self._values_T_N[:, candidate] > self._low_T)

    def index(self) -> None:
        """Nothing to do: `targets` knows all."""

    def settle(self, kernel: Kernel) -> None:
        """Replace values that may matter by those of each pair alone, and others by 0."""
        values, N = self._values_T_N.ravel(), self._values_T_N.shape[1]
        pairs = np.flatnonzero(self._values_T_N > self._low_T[:, None])
        targets, places = pairs // N, pairs % N
        if kernel.factors is None or not hasattr(self._loops, "products_of_pairs"):
            exact = kernel.pairs(places, targets)
        else:
            exact = self._loops.products_of_pairs(*kernel.factors, places, targets, 4 * kernel.noise)
        values[:] = 0
        values[pairs] = exact

    def gains(self, level_T: Array) -> tuple[Array, int]:
        """What each candidate would add, given how far targets are covered, and the most targets it may improve."""
        falls_N = np.zeros(self._values_T_N.shape[1])
        self._loops.lower(self._values_T_N, self._all, level_T, np.full_like(level_T, np.inf), self._weights_T, falls_N)
        return -falls_N, len(level_T)
