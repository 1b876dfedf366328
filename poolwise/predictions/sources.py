"""Where stored numbers are read from: one protocol for arrays, mapped files and folders of shards."""

import mmap
from typing import Protocol, get_args

import torch
from torch import Tensor

from poolwise.arrays import Array, ArrayOrTensor, as_array, as_view
from poolwise.budget import shorten
from poolwise.errors import EmptyPoolError, ParameterError, ShapeError
from poolwise.predictions.forms import PredictionLayout

# Bytes of a mapped file that may become resident before its pages are given back to the system.
_RELEASE_EVERY = 1 << 26
# What the system may make resident around one number that is read from a mapped file: a large page.
_AROUND = 1 << 21


class Source(Protocol):
    """`[N, K, C]` stored numbers that are read in parts.

    Attributes:
        shape: `(N, K, C)`.
        dtype: the type they are stored in.
        where: where they are, in a word or two; empty for memory.
    """

    shape: tuple[int, int, int]
    dtype: torch.dtype
    where: str

    def part(self, rows: slice) -> Tensor:
        """`[n, K, C]` consecutive rows, to be used before the calling thread asks for the next; not to be written."""

    def at(self, positions_n: Array) -> Tensor:
        """`[n, K, C]` rows at some positions, in the order asked for."""


class ArraySource:
    """Numbers in memory, or in a mapped file, of which only what was read lately stays resident.

    Args:
        values_N_K_C: the numbers.
        mapping: the mapped file that they are in.
    """

    def __init__(self, values_N_K_C: Tensor, mapping: mmap.mmap | None = None) -> None:
        self.values, self._mapping = values_N_K_C, mapping
        N, K, C = values_N_K_C.shape
        self.shape, self.dtype, self.where = (N, K, C), values_N_K_C.dtype, "mapped" if mapping else ""
        self._resident = 0
        # A row whose numbers are not one after another is in as many places as there are samples.
        self._together = max(1, _RELEASE_EVERY // (_AROUND * (1 if values_N_K_C[0].is_contiguous() else K)))

    def part(self, rows: slice) -> Tensor:
        """A view."""
        part = self.values[rows]
        self._touched(part.nbytes)
        return part

    def at(self, positions_n: Array) -> Tensor:
        """A copy."""
        positions = torch.from_numpy(positions_n)
        if self._mapping is None or not len(positions):
            return self.values[positions]
        return torch.cat([self._copy(some) for some in torch.split(positions, self._together)])

    def _copy(self, positions: Tensor) -> Tensor:
        self._touched(_RELEASE_EVERY)
        return self.values[positions]

    def _touched(self, size: int) -> None:
        """Give pages back to the system once many were read. Those still in use are simply fetched again."""
        if self._mapping is not None:
            self._resident += size
            if self._resident >= _RELEASE_EVERY:
                self._mapping.madvise(mmap.MADV_DONTNEED)
                self._resident = 0


def array_source(values: ArrayOrTensor, layout: PredictionLayout, mapping: mmap.mmap | None = None) -> ArraySource:
    """Numbers in memory or in a mapped file, with their axes put in order.

    Args:
        values: array or tensor whose axes are in the order of `layout`.
        layout: that order.
        mapping: the mapped file that they are in.
    """
    if layout not in get_args(PredictionLayout):
        raise ParameterError(f"layout must be one of {', '.join(get_args(PredictionLayout))}, not {layout!r}.")
    array = as_array(values, "predictions")
    if array.ndim != 3:
        raise ShapeError(
            f"predictions must have three axes {list(layout)} (N points, K posterior samples, C classes), "
            f"not shape {list(array.shape)}. For a single model, add an axis of length 1 for K. For a file of flat "
            "lists [N, K·C], give K with samples=."
        )
    array = array.transpose([layout.index(axis) for axis in "NKC"])
    if len(array) == 0:
        raise EmptyPoolError(f"the pool is empty: predictions have shape {list(array.shape)}.")
    if 0 in array.shape:
        raise ShapeError(f"predictions need at least one sample and one class, not {list(array.shape)} [N, K, C].")
    return ArraySource(as_view(array), mapping)


def unflattened(array_N_KC: Array, samples: int, layout: PredictionLayout) -> Array:
    """`[N, K, C]` numbers, or `[N, C, K]` for that layout, from flat lists."""
    if array_N_KC.ndim != 2 or samples < 1 or array_N_KC.shape[1] % samples or layout == "KNC":
        raise ShapeError(
            f"samples={shorten(samples)} is for flat lists [N, K·C] of a length that it divides, in layout NKC or NCK, "
            f"not for shape {list(array_N_KC.shape)} in layout {layout}."
        )
    return array_N_KC.reshape(len(array_N_KC), *((samples, -1) if layout == "NKC" else (-1, samples)))
