"""Similarities between points that coverage is made of, in blocks and pair by pair.

A kernel compares N candidates with T targets, which may be the same points. It is never in memory whole. Blocks come
from matrix products and are rounded differently in blocks of other shapes. What decides between two points is computed
pair by pair (`pairs`): each value then depends on its own two points only, to the last bit.
"""

import copy
import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array

# Rows that are converted, or compared with one point, at a time: a few megabytes for a thousand features.
_STEP = 1024
# Numbers of embeddings that are scaled at a time, in float64.
_NUMBERS = 1 << 17
# Numbers of rows that are compared with others at a time.
_COMPARED = 1 << 20
# Rows of a block of the kernel.
_ROWS = 256
# Rows that are taken at once if they are in memory; and if they have to be read, at most and at least.
_MANY, _FEW, _FEWEST = 1 << 20, 4096, 48

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
        self._few = max(_FEWEST, min(_FEW, memory // (2 * width * dtype.itemsize)))
        if count * width * dtype.itemsize <= memory // 2:
            self._whole = torch.empty(count, width, dtype=dtype)
            step = min(_STEP, self._few)
            for start in range(0, count, step):
                places = np.arange(start, min(start + step, count))
                self._whole[start : start + step] = read(places)

    def __len__(self) -> int:
        return self.count

    @property
    def whole(self) -> Array | None:
        """`[N, F]` all features, if they are in memory."""
        return None if self._whole is None else self._whole.numpy()

    @property
    def at_once(self) -> int:
        """How many rows to ask for at once."""
        return self._few if self._whole is None else _MANY

    def take(self, places_n: Array) -> Tensor:
        """`[n, F]` features of some points."""
        if self._whole is not None:
            return self._whole.index_select(0, torch.from_numpy(places_n))
        return self._read(places_n).to(self.dtype)

    def array(self, places_n: Array) -> Array:
        """`[n, F]` features of some points, as an array."""
        if self._whole is not None:
            rows_n_F: Array = self._whole.numpy()[places_n]
            return rows_n_F
        return self.take(places_n).numpy()

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
        memory = self._few * 2 * self.width * self.dtype.itemsize if self._whole is None else 2 * self._whole.nbytes
        return Rows(len(places_n), self.width, lambda some: self.take(places_n[some]), memory, self.dtype)


def unit_rows(source_N_D: Array, memory: int, dtype: torch.dtype = torch.float32) -> Rows:
    """`[N, D]` embeddings scaled to length one. A row of zeros has no direction, and stays as it is."""

    step = max(1, _NUMBERS // source_N_D.shape[1])

    def read(places_n: Array) -> Tensor:
        result_n_D = torch.empty(len(places_n), source_N_D.shape[1], dtype=dtype)
        for start in range(0, len(places_n), step):
            rows_m_D = np.array(source_N_D[places_n[start : start + step]], np.float64)
            sizes_m_1 = np.abs(rows_m_D).max(1, keepdims=True)
            rows_m_D /= np.where(sizes_m_1 > 0, sizes_m_1, 1.0)  # squares stay within the range of float64
            lengths_m_1 = np.sqrt(np.square(rows_m_D).sum(1, keepdims=True))
            rows_m_D /= np.where(lengths_m_1 > 0, lengths_m_1, 1.0)
            result_n_D[start : start + step] = torch.from_numpy(rows_m_D)
        return result_n_D

    return Rows(len(source_N_D), source_N_D.shape[1], read, memory, dtype)


class Scratch(threading.local):
    """Memory of a thread that is used again and again: fresh memory costs as much as the work that is done in it."""

    def __init__(self) -> None:
        self._flat = torch.empty(0)

    def shaped(self, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        """`[rows, columns]` numbers, whatever they are; the next call may overwrite them."""
        if self._flat.dtype != dtype or len(self._flat) < rows * columns:
            self._flat = torch.empty(rows * columns, dtype=dtype)
        return self._flat[: rows * columns].view(rows, columns)


class Kernel(ABC):
    """A similarity from 0 to 1 between N candidates and T targets.

    A similarity below four times the noise counts as 0. So whatever is above 0 is seen in every block.

    Attributes:
        shape: N and T.
        noise: how far a value of a block may be from the value of the pair.
        relative: the same as a share of the value, to be added to it.
        dtype: the type of its values.
        symmetric: whether candidates and targets are the same points, and all are in memory.
        at_once: how many candidates or targets to ask for at once.
        width: how many features a similarity is made of.
        factors: `[N, F]` and `[T, F]` rows whose product is the similarity, if it is that and they are in memory.
    """

    shape: tuple[int, int]
    width: int
    noise: float
    relative: float = 0.0
    dtype: torch.dtype
    symmetric: bool = False
    at_once: int
    factors: tuple[Array, Array] | None = None

    @abstractmethod
    def block(self, targets: Places, candidates: Places) -> Tensor:
        """`[t, n]` similarities of some targets with some candidates; what is below 0 stands for 0.

        They may be written to, and the next block that the same thread asks for may overwrite them.
        """

    @abstractmethod
    def pairs(self, candidates_n: Array, targets_n: Array) -> Array:
        """`[n]` similarities of candidates with one target each, or of one with n, each computed for its pair alone."""

    @abstractmethod
    def content(self, candidates_n: Array) -> Array:
        """`[n, F]` the numbers that a candidate's similarities depend on."""

    @abstractmethod
    def among(self, points_n: Array) -> "Kernel":
        """The same kernel with some candidates, in that order, which are also the targets."""

    @abstractmethod
    def restricted(self, targets_t: Array) -> "Kernel":
        """The same kernel with some of the targets only."""


class Cosine(Kernel):
    """`max(0, <z_i, z_j>)` of rows of length one, or zero for points that are like nobody.

    Args:
        candidates: `[N, F]` rows that are `on_grid`.
        targets: `[T, F]` rows; the candidates if None.
    """

    def __init__(self, candidates: Rows, targets: Rows | None = None) -> None:
        self.noise, self.dtype, self.width = rounding(candidates), candidates.dtype, candidates.width
        self._of(candidates, candidates if targets is None else targets)

    def _of(self, candidates: Rows, targets: Rows) -> None:
        self.candidates, self.targets, self._scratch = candidates, targets, Scratch()
        self.shape, self.at_once = (len(candidates), len(targets)), min(candidates.at_once, targets.at_once)
        self.symmetric = targets is candidates and self.at_once == _MANY
        whole_N_F, whole_T_F = candidates.whole, targets.whole
        if type(self) is Cosine:
            self.factors = None if whole_N_F is None or whole_T_F is None else (whole_N_F, whole_T_F)

    def block(self, targets: Places, candidates: Places) -> Tensor:
        """`[t, n]` similarities."""
        (count, step), (others, other_step) = _extent(targets, self.targets), _extent(candidates, self.candidates)
        out_t_n = self._scratch.shaped(count, others, self.dtype)
        for start in range(0, count, step):
            rows_t_F = self.targets.at(_within(targets, start, start + step))
            for first in range(0, others, other_step):
                rows_n_F = self.candidates.at(_within(candidates, first, first + other_step))
                self._between(rows_t_F, rows_n_F, out_t_n[start : start + step, first : first + other_step])
        return out_t_n

    def _between(self, targets_t_F: Tensor, candidates_n_F: Tensor, out_t_n: Tensor) -> Tensor:
        return torch.mm(targets_t_F, candidates_n_F.T, out=out_t_n)

    def among(self, points_n: Array) -> Kernel:
        """The same kernel with some points."""
        other, rows = copy.copy(self), self.candidates.some(points_n)
        other._of(rows, rows)
        return other

    def restricted(self, targets_t: Array) -> Kernel:
        """The same kernel with some of the targets."""
        other = copy.copy(self)
        other._of(self.candidates, self.targets.some(targets_t))
        return other

    def pairs(self, candidates_n: Array, targets_n: Array) -> Array:
        """`[n]` similarities."""
        values_n: Array = np.empty(len(targets_n), np.float64 if self.dtype == torch.float64 else np.float32)
        one = self.candidates.array(candidates_n) if len(candidates_n) == 1 else None
        step = min(_STEP, self.at_once)
        for start in range(0, len(targets_n), step):
            part = slice(start, start + step)
            rows_n_F = self.candidates.array(candidates_n[part]) if one is None else one
            values_n[part] = self._of_pairs(rows_n_F, self.targets.array(targets_n[part]))
        values_n[values_n < 4 * self.noise] = 0
        return values_n

    def _of_pairs(self, rows_n_F: Array, others_n_F: Array) -> Array:
        """`[n]` similarities of rows with one other each. In double precision products of rows on a grid are exact."""
        products_n: Array = (others_n_F * rows_n_F.astype(np.float64)).sum(1)
        return products_n

    def content(self, candidates_n: Array) -> Array:
        """`[n, F]` features."""
        return self.candidates.array(candidates_n)


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

    def _between(self, targets_t_F: Tensor, candidates_n_F: Tensor, out_t_n: Tensor) -> Tensor:
        torch.mm(targets_t_F, candidates_n_F.T, out=out_t_n)
        out_t_n.mul_(2.0).sub_(targets_t_F.square().sum(1)[:, None]).sub_(candidates_n_F.square().sum(1))
        return out_t_n.clamp_max_(0.0).mul_(self._scale).exp_()

    def _of_pairs(self, rows_n_F: Array, others_n_F: Array) -> Array:
        distances_n = np.square(others_n_F - rows_n_F).sum(1)
        similarities_n: Array = np.exp(distances_n * rows_n_F.dtype.type(-self._scale))
        return similarities_n


class Product(Kernel):
    """The product of two kernels on the same points."""

    def __init__(self, first: Kernel, second: Kernel) -> None:
        self.first, self.second = first, second
        self.shape, self.dtype, self.width = first.shape, first.dtype, first.width + second.width
        self.relative = first.relative + second.relative
        self.noise = first.noise + second.noise
        self.symmetric = first.symmetric and second.symmetric
        self.at_once = min(first.at_once, second.at_once)

    def block(self, targets: Places, candidates: Places) -> Tensor:
        """`[t, n]` similarities."""
        return self.first.block(targets, candidates).clamp_min_(0.0).mul_(self.second.block(targets, candidates))

    def among(self, points_n: Array) -> Kernel:
        """The same kernel with some points."""
        return Product(self.first.among(points_n), self.second.among(points_n))

    def restricted(self, targets_t: Array) -> Kernel:
        """The same kernel with some of the targets."""
        return Product(self.first.restricted(targets_t), self.second.restricted(targets_t))

    def pairs(self, candidates_n: Array, targets_n: Array) -> Array:
        """`[n]` similarities."""
        values_n: Array = self.first.pairs(candidates_n, targets_n) * self.second.pairs(candidates_n, targets_n)
        values_n[values_n < 4 * self.noise] = 0
        return values_n

    def content(self, candidates_n: Array) -> Array:
        """`[n, F]` features."""
        return np.concatenate([self.first.content(candidates_n), self.second.content(candidates_n)], 1)


def on_grid(rows_n_F: Tensor) -> Tensor:
    """Rows of length one, rounded to multiples of 2^-24, which is half a unit of the last digit of 1.

    A product of two such numbers is a multiple of 2^-48, and so are sums of them. These are at most 1, so double
    precision has a place for every digit: a product of rows is exact, in whatever order its terms are added.
    """
    return rows_n_F.mul(1 << 24).round_().mul_(1 / (1 << 24))


def _extent(places: Places, rows: Rows) -> tuple[int, int]:
    """How many places there are, and how many of them to read at once: all if they are in memory."""
    count = places.stop - places.start if isinstance(places, slice) else len(places)
    return count, max(1, min(count, rows.at_once))


def _within(places: Places, first: int, last: int) -> Places:
    """Some of the places."""
    if isinstance(places, slice):
        return slice(places.start + first, min(places.start + last, places.stop))
    return places[first:last]


def rounding(rows: Rows) -> float:
    """How far a product of two rows of length one may be off: a few units of the last digit, more of long sums."""
    return float(2 * torch.finfo(rows.dtype).eps * (1 + np.sqrt(rows.width) / 8))


def together(width: int) -> int:
    """How many rows with this many numbers are compared at a time: a few megabytes of them."""
    return max(_FEWEST, min(_STEP, _COMPARED // width))


def in_parts(indices_n: Array, step: int = _ROWS) -> list[Array]:
    """Candidates in the order given, a few at a time."""
    return [indices_n[start : start + step] for start in range(0, len(indices_n), step)]


def fingerprints(rows_n_F: Array) -> Array:
    """`[n, 1]` 64-bit hashes of rows of numbers. Different rows have different ones but for one pair in 10^19."""
    bits_n_F = np.ascontiguousarray(rows_n_F).view(np.uint32).astype(np.uint64)
    return np.asarray((bits_n_F * _odd(bits_n_F.shape[1])).sum(1, dtype=np.uint64, keepdims=True))


@functools.lru_cache(4)
def _odd(count: int) -> Array:
    """`[count]` random odd numbers, always the same."""
    return 2 * np.random.default_rng(0).integers(1 << 62, size=count, dtype=np.uint64) + 1
