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
# How many rows are converted at a time: they stay in the cache.
_TOGETHER = 128
# Numbers below this, divided by one above its inverse, stay within the range of float32.
_MODERATE = 1e15


class Rows:
    """`[M, D]` rows of one or more arrays, less about their mean, and divided so that no number is above one.

    Shifting changes no distance, and saves the digits that a large common offset would cost. Scaling keeps squares
    within the range of float32. It is by a power of two, which rounds nothing. The rows are kept in float32 if they fit
    half of the memory budget.

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
            self._shift, self.scale = self._measured()
        else:
            self._shift, self.scale = like._shift, like.scale
        self._kept: list[Tensor] | None = None
        if len(self) * self.D * 4 <= memory // 2:
            self._kept = _room([part.stop - part.start for part in self.parts], self.D)
            for part, block_n_D in zip(self.parts, self._kept, strict=True):
                self._round(self._raw(part), block_n_D)

    def _measured(self) -> tuple[Array, float]:
        """`[D]` what to take away from the rows, and what to divide them by then."""
        shift_D, lowest_D, highest_D = np.zeros(self.D), np.full(self.D, np.inf), np.full(self.D, -np.inf)
        for part in self.parts:
            raw_n_D = self._raw(part)
            shift_D += raw_n_D.sum(0, dtype=np.float64) / len(self)
            np.minimum(lowest_D, raw_n_D.min(0), out=lowest_D)
            np.maximum(highest_D, raw_n_D.max(0), out=highest_D)
        if max(-lowest_D.min(), highest_D.max()) < _MODERATE:
            # Nothing is lost by a shift that is not quite the mean, and float32 rows are then shifted in float32.
            shift_D = shift_D.astype(np.float32).astype(np.float64)
        largest = float(np.maximum(highest_D - shift_D, shift_D - lowest_D).max())
        return shift_D, float(np.ldexp(1.0, np.frexp(largest)[1])) if largest else 1.0

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
        raw_n_D = np.empty((len(positions_n), self.D), np.result_type(*self._sources))
        for number, source in enumerate(self._sources):
            here = which_n == number
            raw_n_D[here] = source[positions_n[here] - self._starts[number]]
        return raw_n_D

    def _convert(self, raw_n_D: Array) -> Tensor:
        shifted = np.subtract(raw_n_D, self._shift, dtype=np.float64)
        return torch.from_numpy(np.divide(shifted, self.scale, out=shifted))

    def _round(self, raw_n_D: Array, rounded_n_D: Tensor) -> Tensor:
        """Write float32 rows, rounded once: each number is the float32 that is nearest to that of `_convert`."""
        if raw_n_D.dtype == np.float32 and self._is_moderate:
            shift_D, factor = self._shift.astype(np.float32), np.float32(1 / self.scale)
            for start in range(0, len(raw_n_D), _TOGETHER):
                some = rounded_n_D.numpy()[start : start + _TOGETHER]
                np.multiply(np.subtract(raw_n_D[start : start + _TOGETHER], shift_D, out=some), factor, out=some)
            return rounded_n_D
        return rounded_n_D.copy_(self._convert(raw_n_D))

    @cached_property
    def _is_moderate(self) -> bool:
        """Whether shift and scale can be applied in float32."""
        shift_D = self._shift
        with np.errstate(over="ignore"):
            same = bool((shift_D.astype(np.float32) == shift_D).all())
        return same and float(np.abs(shift_D).max()) < _MODERATE and 1 / _MODERATE < self.scale < _MODERATE

    def block(self, index: int) -> Tensor:
        """`[n, D]` float32 rows of one block."""
        if self._kept is not None:
            return self._kept[index]
        raw_n_D = self._raw(self.parts[index])
        return self._round(raw_n_D, torch.empty(raw_n_D.shape))

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


def squared_lengths(rows_n_D: Tensor) -> Array:
    """`[n]` squared lengths, without memory for the squares."""
    lengths_n: Array = np.einsum("ij,ij->i", rows_n_D.numpy(), rows_n_D.numpy())
    return lengths_n


def _room(sizes: Sequence[int], D: int) -> list[Tensor]:
    """Room for float32 blocks of some numbers of rows, each where a cache line begins: one array, in large pages."""
    ends = np.cumsum([-(-size * D // 16) * 16 for size in sizes])
    flat = np.empty(int(ends[-1]) + 16, np.float32)
    begin = -flat.ctypes.data % 64 // 4
    return [
        torch.from_numpy(flat[begin + end - (-(-size * D // 16) * 16) :][: size * D].reshape(size, D))
        for size, end in zip(sizes, ends, strict=True)
    ]
