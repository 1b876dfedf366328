"""Embeddings read in blocks, and distances to single points."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array


class Embeddings:
    """`[N, D]` embeddings in float32, shifted and scaled; kept whole if they fit the memory budget.

    Shifting by the mean changes no distance, and saves the digits that a large common offset would cost. Dividing by
    the largest size keeps squares within the range of float32.

    Attributes:
        scale: what the embeddings were divided by.
    """

    def __init__(self, source_N_D: Array, shift_D: Array, memory: int, scale: float | None = None) -> None:
        self._source, self._shift = source_N_D, shift_D
        self.scale = largest_of(source_N_D, shift_D) if scale is None else scale
        self._step = max(1, (1 << 22) // (4 * source_N_D.shape[1]))
        self._whole: Tensor | None = None
        if source_N_D.size * 4 <= memory // 2:
            parts = [self._convert(source_N_D[i : i + self._step]) for i in range(0, len(source_N_D), self._step)]
            self._whole = torch.cat(parts)

    def __len__(self) -> int:
        return len(self._source)

    def _convert(self, rows: Array) -> Tensor:
        shifted = np.subtract(rows, self._shift, dtype=np.float64)
        return torch.from_numpy(np.divide(shifted, self.scale, out=shifted).astype(np.float32))

    def rows(self, indices_n: Array) -> Tensor:
        """`[n, D]` embeddings of some points."""
        return self._convert(self._source[indices_n])

    def of(self, source_M_D: Array, indices_n: Array) -> Tensor:
        """`[n, D]` some rows of other embeddings, shifted and scaled like these."""
        return self._convert(source_M_D[indices_n])

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """All embeddings in order."""
        if self._whole is not None:
            yield slice(0, len(self)), self._whole
            return
        for start in range(0, len(self), self._step):
            part = slice(start, min(start + self._step, len(self)))
            yield part, self._convert(self._source[part])

    def products(self, vector_D: Tensor) -> Tensor:
        """`[N]` inner products of all embeddings with one vector."""
        return self._each(lambda block_n_D: torch.mv(block_n_D, vector_D))

    def squared_norms(self) -> Tensor:
        """`[N]` squared lengths."""
        return self._each(lambda block_n_D: block_n_D.square().sum(1))

    def _each(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """`[N]` a number for each row.

        The place for all of them is made first. Small results that are made between large blocks would keep the memory
        of these from being used again, so that it grows to the size of all embeddings.
        """
        values_N = torch.empty(len(self))
        for rows, block_n_D in self.blocks():
            values_N[rows] = function(block_n_D)
        return values_N


def mean_of(source_N_D: Array) -> Array:
    """`[D]` float64 mean, in blocks."""
    step = max(1, (1 << 22) // source_N_D.shape[1])
    total_D = np.zeros(source_N_D.shape[1])
    for start in range(0, len(source_N_D), step):
        total_D += source_N_D[start : start + step].sum(0, dtype=np.float64)
    return total_D / len(source_N_D)


def largest_of(source_N_D: Array, shift_D: Array) -> float:
    """The largest size of a shifted number, in blocks; 1 if all are zero."""
    step = max(1, (1 << 20) // source_N_D.shape[1])
    largest = 0.0
    for start in range(0, len(source_N_D), step):
        block = np.subtract(source_N_D[start : start + step], shift_D, dtype=np.float64)
        largest = max(largest, float(np.abs(block).max()))
    return largest or 1.0
