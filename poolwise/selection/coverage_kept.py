"""A kernel that is kept whole, where there are few pairs of many features: each similarity is then computed once."""

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.selection.coverage_kernels import Kernel, Places, Scratch
from poolwise.selection.coverage_loops import loops

# How many pairs are kept at most: 5,000 points that cover each other take 100 MB; and which share of the memory.
_PAIRS, _SHARE = 1 << 25, 1 / 8
# Of 384 features a product takes longer than reading its result again from memory, of 81 it does not.
_WIDTH = 256
# Targets and candidates of a block.
_ROWS, _COLUMNS = 256, 2048


class Kept(Kernel):
    """The values of another kernel.

    Args:
        kernel: the kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self.shape, self.dtype = kernel, kernel.shape, kernel.dtype
        self.noise, self.relative, self.at_once = kernel.noise, kernel.relative, kernel.at_once
        self.width, self.factors = kernel.width, kernel.factors
        self._values_T_N, self._scratch = whole(kernel), Scratch()

    def block(self, targets: Places, candidates: Places) -> Tensor:
        """`[t, n]` similarities, copied."""
        values = self._values_T_N
        t, n = (p.stop - p.start if isinstance(p, slice) else len(p) for p in (targets, candidates))
        out_t_n = self._scratch.shaped(t, n, self.dtype)
        if not isinstance(targets, slice):
            return self._some(torch.from_numpy(targets), candidates, out_t_n)
        if isinstance(candidates, slice):
            return out_t_n.copy_(values[targets, candidates])
        return torch.index_select(values[targets], 1, torch.from_numpy(candidates), out=out_t_n)

    def _some(self, targets_t: Tensor, candidates: Places, out_t_n: Tensor) -> Tensor:
        if isinstance(candidates, slice):
            return torch.index_select(self._values_T_N[:, candidates], 0, targets_t, out=out_t_n)
        return out_t_n.copy_(self._values_T_N[targets_t[:, None], torch.from_numpy(candidates)])

    def pairs(self, candidates_n: Array, targets_n: Array) -> Array:
        """`[n]` similarities, each computed for its pair alone."""
        return self._kernel.pairs(candidates_n, targets_n)

    def content(self, candidates_n: Array) -> Array:
        """`[n, F]` the numbers that a candidate's similarities depend on."""
        return self._kernel.content(candidates_n)

    def among(self, points_n: Array) -> Kernel:
        """The same kernel with some points, not kept."""
        return self._kernel.among(points_n)

    def restricted(self, targets_t: Array) -> Kernel:
        """The same kernel with some of the targets, not kept."""
        return self._kernel.restricted(targets_t)


def whole(kernel: Kernel) -> Tensor:
    """`[T, N]` all values of a kernel."""
    (N, T), loop = kernel.shape, loops(kernel.shape[0] * kernel.shape[1])
    # NumPy asks for large pages of memory, PyTorch does not. To get many small ones takes as long as the products.
    values_T_N = torch.from_numpy(np.empty((T, N), np.float64 if kernel.dtype == torch.float64 else np.float32))
    for start in range(0, T, _ROWS):
        rows = slice(start, min(start + _ROWS, T))
        for begin in range(start if kernel.symmetric else 0, N, _COLUMNS):
            columns = slice(begin, min(begin + _COLUMNS, N))
            values_t_n = kernel.block(rows, columns)
            values_T_N[rows, columns] = values_t_n
            if kernel.symmetric:
                loop.mirror(values_t_n.numpy(), values_T_N[columns, rows].numpy())
    return values_T_N


def kept(kernel: Kernel, memory: int) -> Kernel:
    """The kernel, kept whole if that saves time and there is room for it.

    Args:
        kernel: the kernel.
        memory: the budget in bytes.
    """
    pairs = int(np.prod(kernel.shape))
    room = 0 < pairs <= _PAIRS and pairs * kernel.dtype.itemsize <= _SHARE * memory
    return Kept(kernel) if room and kernel.width >= _WIDTH else kernel
