"""All pairs of a few thousand points that cover each other, each kept once: later passes over them make no products."""

import threading

import numpy as np
import torch
from torch import Tensor

from poolwise.selection.coverage_kernels import Kernel

# How much of the memory they may take: with 1 GiB, 5,500 points in single precision. To get more memory than that from
# the system may take longer than the products that it saves.
_SHARE = 1 / 16


class Tiles:
    """The values of a symmetric kernel, in blocks that each have some rows, and columns that are not before these.

    Args:
        kernel: the kernel of T points.
        rows: how many rows a block has.
    """

    def __init__(self, kernel: Kernel, rows: int) -> None:
        self._kernel = kernel
        # NumPy asks for large pages of memory, PyTorch does not.
        numbers = np.empty(_size(kernel, rows), np.float64 if kernel.dtype == torch.float64 else np.float32)
        self._free = torch.from_numpy(numbers)
        self._there: dict[tuple[int, int], Tensor] = {}
        self._lock = threading.Lock()

    def block(self, rows: slice, columns: slice) -> Tensor:
        """`[t, n]` similarities, which must not be written to."""
        place = rows.start, columns.start
        if place in self._there:
            return self._there[place]
        values_t_n = self._kernel.block(rows, columns)
        with self._lock:
            tile, self._free = self._free[: values_t_n.numel()], self._free[values_t_n.numel() :]
        self._there[place] = tile.view_as(values_t_n).copy_(values_t_n)
        return values_t_n  # it is in a cache still


def _size(kernel: Kernel, rows: int) -> int:
    """How many numbers there are in all blocks."""
    T = kernel.shape[1]
    return sum(min(rows, T - start) * (T - start) for start in range(0, T, rows))


def fit(kernel: Kernel, rows: int, memory: int) -> bool:
    """Whether a kernel is symmetric and its blocks fit the memory, in bytes."""
    return kernel.symmetric and _size(kernel, rows) * kernel.dtype.itemsize <= _SHARE * memory
