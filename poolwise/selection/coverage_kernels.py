"""Similarities between points that coverage is made of, in blocks and pair by pair.

A kernel compares N candidates with T targets, which may be the same points. It is never in memory whole. Blocks come
from matrix products and are rounded differently in blocks of other shapes. What decides between two points is computed
pair by pair (`pairs`): each value then depends on its own two points only, to the last bit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array

# Rows that are converted, or compared with one point, at a time: a few megabytes for a thousand features.
_STEP = 1024
# Rows of a block of the kernel.
_ROWS = 256

Places = slice | Array
"""Positions: consecutive ones from a start to a stop, or an array of any."""


class Rows:
    """`[N, F]` features; kept whole if they fit half of the memory budget, else read again each time.

    Args:
        count: N.
        width: F.
        read: from `[n]` positions to `[n, F]` features, each row depending on its own position only.
        memory: the budget in bytes.
        dtype: the type to compute with.
    """

    def __init__(
        self, count: int, width: int, read: Callable[[Array], Tensor], memory: int, dtype: torch.dtype = torch.float32
    ) -> None:
        self.count, self.width, self.dtype = count, width, dtype
        self._read = read
        self._whole: Tensor | None = None
        if count * width * dtype.itemsize <= memory // 2:
            self._whole = torch.empty(count, width, dtype=dtype)
            for start in range(0, count, _STEP):
                places = np.arange(start, min(start + _STEP, count))
                self._whole[start : start + _STEP] = read(places)

    def __len__(self) -> int:
        return self.count

    def take(self, places_n: Array) -> Tensor:
        """`[n, F]` features of some points."""
        if self._whole is not None:
            return self._whole.index_select(0, torch.from_numpy(places_n))
        return self._read(places_n).to(self.dtype)

    def part(self, start: int, stop: int) -> Tensor:
        """`[n, F]` features of consecutive points."""
        if self._whole is not None:
            return self._whole[start:stop]
        return self._read(np.arange(start, min(stop, self.count))).to(self.dtype)

    def at(self, places: "Places") -> Tensor:
        """`[n, F]` features of consecutive points or of some points."""
        return self.part(places.start, places.stop) if isinstance(places, slice) else self.take(places)

    def some(self, places_n: Array) -> "Rows":
        """The features of some points only, in that order."""
        memory = 0 if self._whole is None else 2 * self._whole.nbytes
        return Rows(len(places_n), self.width, lambda some: self.take(places_n[some]), memory, self.dtype)


def unit_rows(source_N_D: Array, memory: int, dtype: torch.dtype = torch.float32) -> Rows:
    """`[N, D]` embeddings scaled to length one. A row of zeros has no direction, and stays as it is."""

    def read(places_n: Array) -> Tensor:
        rows_n_D = np.asarray(source_N_D[places_n], np.float64)
        sizes_n_1 = np.abs(rows_n_D).max(1, keepdims=True)
        rows_n_D = rows_n_D / np.where(sizes_n_1 > 0, sizes_n_1, 1.0)  # squares stay within the range of float64
        lengths_n_1 = np.sqrt(np.square(rows_n_D).sum(1, keepdims=True))
        return torch.from_numpy(rows_n_D / np.where(lengths_n_1 > 0, lengths_n_1, 1.0)).to(dtype)

    return Rows(len(source_N_D), source_N_D.shape[1], read, memory, dtype)


class Kernel(ABC):
    """A similarity from 0 to 1 between N candidates and T targets.

    A similarity below four times the noise counts as 0. So whatever is above 0 is seen in every block.

    Attributes:
        shape: N and T.
        noise: how far a value of a block may be from the value of the pair.
        relative: the same as a share of the value, to be added to it.
        dtype: the type of its values.
    """

    shape: tuple[int, int]
    noise: float
    relative: float = 0.0
    dtype: torch.dtype

    @abstractmethod
    def block(self, candidates_m: Array, targets: Places) -> Tensor:
        """`[m, t]` similarities of some candidates with some targets, in memory that may be written to."""

    @abstractmethod
    def pairs(self, candidates_n: Array, targets_n: Array) -> Array:
        """`[n]` similarities of candidates with one target each, or of one with n, each computed for its pair alone."""

    @abstractmethod
    def content(self, candidates_n: Array) -> Array:
        """`[n, F]` the numbers that a candidate's similarities depend on."""


class Cosine(Kernel):
    """`max(0, <z_i, z_j>)` of rows of length one, or zero for points that are like nobody.

    Args:
        candidates: `[N, F]` rows.
        targets: `[T, F]` rows; the candidates if None.
    """

    def __init__(self, candidates: Rows, targets: Rows | None = None) -> None:
        self.candidates, self.targets = candidates, candidates if targets is None else targets
        self.shape = len(self.candidates), len(self.targets)
        self.noise, self.dtype = rounding(candidates), candidates.dtype

    def block(self, candidates_m: Array, targets: Places) -> Tensor:
        """`[m, t]` similarities."""
        return self._between(self.candidates.take(candidates_m), self.targets.at(targets))

    def _between(self, rows_m_F: Tensor, rows_n_F: Tensor) -> Tensor:
        return (rows_m_F @ rows_n_F.T).clamp_min_(0.0)

    def pairs(self, candidates_n: Array, targets_n: Array) -> Array:
        """`[n]` similarities."""
        values_n: Array = np.empty(len(targets_n), np.float64 if self.dtype == torch.float64 else np.float32)
        one = self.candidates.take(candidates_n).numpy() if len(candidates_n) == 1 else None
        for start in range(0, len(targets_n), _STEP):
            part = slice(start, start + _STEP)
            rows_n_F = self.candidates.take(candidates_n[part]).numpy() if one is None else one
            values_n[part] = self._of_pairs(rows_n_F, self.targets.take(targets_n[part]).numpy())
        return np.where(values_n >= 4 * self.noise, values_n, values_n.dtype.type(0))

    def _of_pairs(self, rows_n_F: Array, others_n_F: Array) -> Array:
        """`[n]` similarities of rows with one other each. NumPy sums each row by itself."""
        products_n: Array = (others_n_F * rows_n_F).sum(1)
        return products_n

    def content(self, candidates_n: Array) -> Array:
        """`[n, F]` features."""
        return self.candidates.take(candidates_n).numpy()


class Gaussian(Cosine):
    """`exp(-|x_i - x_j|² / σ²)`.

    Args:
        candidates: `[N, F]` rows of length one or zero.
        targets: `[T, F]` rows; the candidates if None.
        bandwidth: σ, more than 0.
    """

    def __init__(self, candidates: Rows, targets: Rows | None = None, *, bandwidth: float = 1.0) -> None:
        super().__init__(candidates, targets)
        self._scale = 1.0 / bandwidth**2
        # The kernel changes by its 1/σ²-th part with the squared distance, whose rounding is twice that of a product.
        self.relative = 2 * rounding(candidates) * self._scale
        self.noise = float(torch.finfo(candidates.dtype).eps)

    def _between(self, rows_m_F: Tensor, rows_n_F: Tensor) -> Tensor:
        products_m_n = rows_m_F @ rows_n_F.T
        products_m_n.mul_(2.0).sub_(rows_m_F.square().sum(1)[:, None]).sub_(rows_n_F.square().sum(1))
        return products_m_n.clamp_max_(0.0).mul_(self._scale).exp_()

    def _of_pairs(self, rows_n_F: Array, others_n_F: Array) -> Array:
        distances_n = np.square(others_n_F - rows_n_F).sum(1)
        similarities_n: Array = np.exp(distances_n * rows_n_F.dtype.type(-self._scale))
        return similarities_n


class Product(Kernel):
    """The product of two kernels on the same points."""

    def __init__(self, first: Kernel, second: Kernel) -> None:
        self.first, self.second = first, second
        self.shape, self.dtype = first.shape, first.dtype
        self.relative = first.relative + second.relative
        self.noise = first.noise + second.noise

    def block(self, candidates_m: Array, targets: Places) -> Tensor:
        """`[m, t]` similarities."""
        return self.first.block(candidates_m, targets).mul_(self.second.block(candidates_m, targets))

    def pairs(self, candidates_n: Array, targets_n: Array) -> Array:
        """`[n]` similarities."""
        values_n: Array = self.first.pairs(candidates_n, targets_n) * self.second.pairs(candidates_n, targets_n)
        return np.where(values_n >= 4 * self.noise, values_n, values_n.dtype.type(0))

    def content(self, candidates_n: Array) -> Array:
        """`[n, F]` features."""
        return np.concatenate([self.first.content(candidates_n), self.second.content(candidates_n)], 1)


def rounding(rows: Rows) -> float:
    """How far a product of two rows of length one may be off: a few units of the last digit, more of long sums."""
    return float(2 * torch.finfo(rows.dtype).eps * (1 + np.sqrt(rows.width) / 8))


def in_parts(indices_n: Array, step: int = _ROWS) -> list[Array]:
    """Candidates in the order given, a few at a time."""
    return [indices_n[start : start + step] for start in range(0, len(indices_n), step)]


def fingerprints(rows_n_F: Array) -> Array:
    """`[n, 1]` 64-bit hashes of rows of numbers. Different rows have different ones but for one pair in 10^19."""
    bits_n_F = np.ascontiguousarray(rows_n_F).view(np.uint32).astype(np.uint64)
    factors_F = np.random.default_rng(0).integers(1 << 62, size=bits_n_F.shape[1], dtype=np.uint64)
    return np.asarray((bits_n_F * (2 * factors_F + 1)).sum(1, dtype=np.uint64, keepdims=True))
