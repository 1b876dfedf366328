"""Rows of features in blocks, read from memory or from disk.

The blocks are always the same, whether the rows are kept in memory or read again in every pass. Equal blocks are
rounded equally. So what is computed block by block and in order does not depend on memory or threads.
"""

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.parallel import ordered_map

# Bytes of a block in float32: a size that suits the cache.
BLOCK = 1 << 22
# No block has more rows than this, however few columns there are.
_TALLEST = 8192
# Blocks are multiples of this many rows: all of them then begin at the same alignment, on which rounding may depend.
MULTIPLE = 16
# Squared distances in float32 are wrong by less than this share of the sum of both squared lengths.
ROUNDING = 2e-6


class Rows:
    """`[M, D]` rows of one or more arrays, less their mean and divided by their largest number.

    Shifting changes no distance, and saves the digits that a large common offset would cost. Scaling keeps squares
    within the range of float32. The rows are kept in float32 if they fit half of the memory budget.

    Args:
        sources: arrays `[m, D]`, which may be memory-mapped; their rows are numbered consecutively.
        memory: working memory to stay within, in bytes.
        positions: which rows to take; None for all.
        like: shift and scale the rows as these were; None to find out what suits them.

    Attributes:
        parts: where each block is.
        scale: what the rows were divided by.
    """

    def __init__(
        self, sources: Sequence[Array], memory: int, positions: Array | None = None, like: "Rows | None" = None
    ) -> None:
        self._sources, self._positions = [source for source in sources if len(source)], positions
        self._starts = np.cumsum([0, *(len(source) for source in self._sources)])
        self.D = self._sources[0].shape[1]
        borders = self._starts if positions is None else np.array([0, len(positions)])
        step = max(1, min(BLOCK // (4 * self.D), _TALLEST) // MULTIPLE) * MULTIPLE
        self.parts = [
            slice(start, min(start + step, int(end)))
            for begin, end in itertools.pairwise(borders)
            for start in range(int(begin), int(end), step)
        ]
        # Some rows that fit a block are gathered once.
        self._only: Array | None = None
        if positions is not None and len(self.parts) == 1:
            self._only = self._raw(self.parts[0])
        if like is None:
            self._shift: Array = np.zeros(self.D)
            for part in self.parts:
                self._shift = self._shift + self._raw(part).sum(0, dtype=np.float64) / len(self)
            self.scale = max(float(np.abs(self._raw(part) - self._shift).max()) for part in self.parts) or 1.0
        else:
            self._shift, self.scale = like._shift, like.scale
        self._kept: list[Tensor] | None = None
        if len(self) * self.D * 4 <= memory // 2:
            self._kept = [self._convert(self._raw(part)).float() for part in self.parts]

    def __len__(self) -> int:
        return int(self.parts[-1].stop)

    def sample(self, positions_n: Array, memory: int) -> "Rows":
        """Some of the rows, shifted and scaled as here."""
        positions_n = positions_n if self._positions is None else self._positions[positions_n]
        return Rows(self._sources, memory, positions_n, self)

    def _raw(self, part: slice) -> Array:
        """The rows of one block as they are given."""
        if self._only is not None:
            return self._only
        if self._positions is not None:
            return self._gather(self._positions[part])
        which = int(np.searchsorted(self._starts, part.start, "right")) - 1
        return self._sources[which][part.start - self._starts[which] : part.stop - self._starts[which]]

    def _gather(self, positions_n: Array) -> Array:
        if len(self._sources) == 1:
            return self._sources[0][positions_n]
        which_n = np.searchsorted(self._starts, positions_n, "right") - 1
        raw_n_D = np.empty((len(positions_n), self.D))
        for number, source in enumerate(self._sources):
            here = which_n == number
            raw_n_D[here] = source[positions_n[here] - self._starts[number]]
        return raw_n_D

    def _convert(self, raw_n_D: Array) -> Tensor:
        shifted = np.subtract(raw_n_D, self._shift, dtype=np.float64)
        return torch.from_numpy(np.divide(shifted, self.scale, out=shifted))

    def block(self, index: int) -> Tensor:
        """`[n, D]` float32 rows of one block."""
        return self.exact_block(index).float() if self._kept is None else self._kept[index]

    def exact_block(self, index: int) -> Tensor:
        """`[n, D]` float64 rows of one block."""
        return self._convert(self._raw(self.parts[index]))

    def take(self, indices_n: Array) -> Tensor:
        """`[n, D]` float64 rows."""
        return self._convert(self._gather(indices_n if self._positions is None else self._positions[indices_n]))

    @cached_property
    def lengths(self) -> Array:
        """`[M]` float64 squared lengths."""
        lengths_M = np.empty(len(self))  # first: small results between large blocks would scatter the memory

        def measure(index: int) -> None:
            lengths_M[self.parts[index]] = self.exact_block(index).square().sum(1).numpy()

        for _ in ordered_map(measure, range(len(self.parts))):
            pass
        return lengths_M
