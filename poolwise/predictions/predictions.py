"""Predictions of K posterior samples for N points over C classes, wherever they are stored."""

import math
import mmap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

from poolwise import memory as budget
from poolwise.errors import EmptyPoolError, ParameterError, ShapeError
from poolwise.parallel import one_thread_an_operation, ordered_map
from poolwise.predictions.arrays import Array, as_array, as_embeddings, as_view
from poolwise.predictions.files import open_array
from poolwise.predictions.validation import check_block
from poolwise.progress import Report, silent

Kind = Literal["log-probs", "probs", "logits"]
Layout = Literal["NKC", "KNC", "NCK"]
Result = TypeVar("Result")

# Finite stand-ins for log 0 whose exponential is exactly 0, so that 0 · log 0 is 0 and never NaN.
_LOG_ZERO = {torch.float32: -110.0, torch.float64: -750.0}

# Pages of a mapped file that a scan has passed are given back this often (bytes), to keep resident memory low.
_RELEASE_EVERY = 1 << 26

_LOG2_E = 1 / math.log(2)
_VECTOR = 64  # numbers: a multiple of what any processor takes at a time


@dataclass(frozen=True)
class Block:
    """Some rows of the pool.

    Attributes:
        log_probs: `[n, K, C]` log-probabilities. Read by `rows`, they are finite: log 0 is replaced by a number whose
            exponential is 0. In a scan they may be the stored numbers themselves, and -inf.
        probs: `[n, K, C]` probabilities.
        raw: `[n, K, C]` room for what is stored, while it is converted.
    """

    log_probs: Tensor
    probs: Tensor
    raw: Tensor

    @classmethod
    def empty(cls, n: int, K: int, C: int, dtype: torch.dtype) -> "Block":
        """Room for n rows."""
        return cls(*torch.empty(3, n, K, C, dtype=dtype))

    def first(self, n: int) -> "Block":
        """The first n rows, in the same place."""
        return Block(self.log_probs[:n], self.probs[:n], self.raw[:n])


class Predictions:
    """Predictions `[N, K, C]`: N pool points, K posterior samples, C classes.

    Sample k must be the same parameter draw for every point. The values are read where they are: nothing is copied
    or converted as a whole. Float16 and float32 are computed in float32, float64 in float64.

    Use `from_log_probs`, `from_probs`, `from_logits` or `open`; none guesses what it was given.
    """

    def __init__(
        self,
        source_N_K_C: Tensor,
        kind: Kind,
        *,
        embeddings: Array | None = None,
        labelled_embeddings: Array | None = None,
        index_N: Array | None = None,
        mapping: mmap.mmap | None = None,
        checked: bool = False,
    ) -> None:
        self._source, self._kind, self._index, self._mapping = source_N_K_C, kind, index_N, mapping
        self.dtype = torch.float64 if source_N_K_C.dtype == torch.float64 else torch.float32
        self.embeddings, self.labelled_embeddings = embeddings, labelled_embeddings
        self._checked = checked

    @classmethod
    def from_log_probs(
        cls,
        values: object,
        *,
        embeddings: object = None,
        labelled_embeddings: object = None,
        layout: Layout = "NKC",
        validate: bool = True,
    ) -> Self:
        """Predictions from log-probabilities, normalised over the classes; -inf is a probability of zero.

        Args:
            values: array or tensor whose axes are in the order of `layout`.
            embeddings: `[N, D]` features of the pool points, for the methods that need them.
            labelled_embeddings: `[L, D]` features of the points that are labelled already.
            layout: order of the axes: `"NKC"`, `"KNC"` or `"NCK"`.
            validate: check all values now; if False, the first pass over the pool checks them as it goes.
        """
        return cls._build(values, "log-probs", embeddings, labelled_embeddings, layout, validate)

    @classmethod
    def from_probs(
        cls,
        values: object,
        *,
        embeddings: object = None,
        labelled_embeddings: object = None,
        layout: Layout = "NKC",
        validate: bool = True,
    ) -> Self:
        """Predictions from probabilities; the arguments are those of `from_log_probs`."""
        return cls._build(values, "probs", embeddings, labelled_embeddings, layout, validate)

    @classmethod
    def from_logits(
        cls,
        values: object,
        *,
        embeddings: object = None,
        labelled_embeddings: object = None,
        layout: Layout = "NKC",
        validate: bool = True,
    ) -> Self:
        """Predictions from raw network outputs, normalised over the classes when they are read.

        The arguments are those of `from_log_probs`.
        """
        return cls._build(values, "logits", embeddings, labelled_embeddings, layout, validate)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        kind: Kind = "log-probs",
        layout: Layout = "NKC",
        key: str | None = None,
        embeddings: object = None,
        labelled_embeddings: object = None,
        validate: bool = True,
    ) -> Self:
        """Predictions in a file: `.npy` is mapped and never loaded whole; `.npz` and `.pt` are loaded, safely.

        Args:
            path: the file.
            kind: `"log-probs"`, `"probs"` or `"logits"`.
            layout: order of the axes in the file.
            key: which array of an `.npz` or `.pt`, where there is more than one.
            embeddings: an array or the path of a file.
            labelled_embeddings: likewise.
            validate: check all values now, in one streaming pass; if False, the first pass over the pool does it.
        """
        if kind not in get_args(Kind):
            raise ParameterError(f"kind must be one of {', '.join(get_args(Kind))}, not {kind!r}.")
        array, mapping = open_array(path, key)
        if isinstance(embeddings, str | Path):
            embeddings = open_array(embeddings)[0]
        if isinstance(labelled_embeddings, str | Path):
            labelled_embeddings = open_array(labelled_embeddings)[0]
        return cls._build(array, kind, embeddings, labelled_embeddings, layout, validate, mapping)

    @classmethod
    def _build(
        cls,
        values: object,
        kind: Kind,
        embeddings: object,
        labelled_embeddings: object,
        layout: Layout,
        validate: bool,
        mapping: mmap.mmap | None = None,
    ) -> Self:
        if layout not in get_args(Layout):
            raise ParameterError(f"layout must be one of {', '.join(get_args(Layout))}, not {layout!r}.")
        array = as_array(values, "predictions")
        if array.ndim != 3:
            raise ShapeError(
                f"predictions must have three axes {list(layout)} (points, posterior samples, classes), "
                f"not shape {list(array.shape)}. For a single model, add an axis of length 1 for K."
            )
        array = array.transpose([layout.index(axis) for axis in "NKC"])
        if len(array) == 0:
            raise EmptyPoolError(f"the pool is empty: predictions have shape {list(array.shape)}.")
        if 0 in array.shape:
            raise ShapeError(f"predictions need at least one sample and one class, not {list(array.shape)} [N, K, C].")
        features, labelled = _check_embeddings(embeddings, labelled_embeddings, len(array))
        predictions = cls(as_view(array), kind, embeddings=features, labelled_embeddings=labelled, mapping=mapping)
        if validate:
            predictions.check()
        return predictions

    def with_embeddings(self, embeddings: object = None, labelled_embeddings: object = None) -> "Predictions":
        """The same predictions with other embeddings; None keeps those that are there."""
        features, labelled = _check_embeddings(
            self.embeddings if embeddings is None else embeddings,
            self.labelled_embeddings if labelled_embeddings is None else labelled_embeddings,
            len(self),
        )
        return Predictions(
            self._source,
            self._kind,
            embeddings=features,
            labelled_embeddings=labelled,
            index_N=self._index,
            mapping=self._mapping,
            checked=self._checked,
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(N, K, C)`."""
        _, K, C = self._source.shape
        return len(self), K, C

    def __len__(self) -> int:
        return len(self._source) if self._index is None else len(self._index)

    def __repr__(self) -> str:
        N, K, C = self.shape
        where = "mapped " if self._mapping else ""
        return f"Predictions(N={N}, K={K}, C={C}, {where}{self._source.dtype} {self._kind})".replace("torch.", "")

    @property
    def row_bytes(self) -> int:
        """Bytes that one row takes in working precision."""
        _, K, C = self.shape
        return K * C * (8 if self.dtype == torch.float64 else 4)

    def scan(
        self,
        kernel: Callable[[Block], Result],
        memory: int = budget.DEFAULT,
        report: Report = silent,
        stage: str = "reading the pool",
    ) -> Iterator[tuple[slice, Result]]:
        """Walk the pool in order, in blocks sized for the cache and the memory budget, several at a time.

        The first complete walk also checks the values.

        Args:
            kernel: from a block of rows to whatever is wanted of them; each row's part must depend on that row only,
                so that no result depends on the size of a block. Blocks are reused, since fresh memory costs more than
                the arithmetic on it: the result must not be a view of one, and only `probs` may be overwritten.
            memory: working memory to stay within, in bytes.
            report: told about progress.
            stage: what to call the walk.
        Yields:
            The rows and the kernel's result for each block.
        """
        step = budget.block_rows(self.row_bytes, memory)
        parts = [slice(start, min(start + step, len(self))) for start in range(0, len(self), step)]
        checked, released, room = self._checked, 0, threading.local()

        def work(rows: slice) -> Result:
            if not hasattr(room, "block"):
                room.block = Block.empty(min(step, len(self)), *self.shape[1:], self.dtype)
            block: Block = room.block.first(rows.stop - rows.start)
            positions_n = np.arange(rows.start, rows.stop) if self._index is None else self._index[rows]
            stored = self._source[rows] if self._index is None else self._source[torch.from_numpy(positions_n)]
            if self._kind == "log-probs" and stored.dtype == self.dtype and stored.is_contiguous():
                # Nothing to convert: one pass less, on what is the most common input by far.
                block = Block(stored, _exp(stored, block.probs), block.raw)
                if not checked:
                    check_block(stored, block.probs, self._kind, stored.dtype, positions_n)
            else:
                self._read(stored, block, None if checked else positions_n)
            return kernel(block)

        for rows, result in zip(parts, ordered_map(work, parts), strict=True):
            yield rows, result
            report(stage, rows.stop, len(self))
            released += step * self.row_bytes
            if self._mapping is not None and released >= _RELEASE_EVERY:
                self._mapping.madvise(mmap.MADV_DONTNEED)
                released = 0
        self._checked = True

    def rows(self, indices_n: Array) -> Block:
        """The rows at some positions of the pool, in the order asked for."""
        block = Block.empty(len(indices_n), *self.shape[1:], self.dtype)
        positions_n = indices_n if self._index is None else self._index[indices_n]
        self._read(self._source[torch.from_numpy(positions_n)], block, None)
        return block

    def take(self, indices_n: Array) -> "Predictions":
        """The points at some positions of the pool, as predictions of their own; the predictions are not copied."""
        return Predictions(
            self._source,
            self._kind,
            embeddings=None if self.embeddings is None else self.embeddings[indices_n],
            labelled_embeddings=self.labelled_embeddings,
            index_N=indices_n if self._index is None else self._index[indices_n],
            mapping=self._mapping,
            checked=self._checked,
        )

    def check(self, memory: int = budget.DEFAULT, report: Report = silent) -> None:
        """Check every value in one streaming pass, unless an earlier pass did."""
        if not self._checked:
            with one_thread_an_operation():
                for _ in self.scan(lambda block: None, memory, report, "checking the pool"):
                    pass

    def _read(self, stored: Tensor, block: Block, check_n: Array | None) -> None:
        """Turn stored rows into a block; check them if their positions in the source are given."""
        log_probs, probs, floor = block.log_probs, block.probs, _LOG_ZERO[self.dtype]
        if self._kind == "log-probs":
            raw = log_probs
            if stored.dtype == raw.dtype:
                torch.clamp_min(stored, floor, out=raw)
            else:
                raw.copy_(stored).clamp_min_(floor)
            _exp(log_probs, probs)
        elif self._kind == "probs":
            raw = probs
            raw.copy_(stored)
            torch.log(probs, out=log_probs).clamp_min_(floor)
        else:
            raw = block.raw
            raw.copy_(stored)
            torch.log_softmax(raw, 2, out=log_probs).clamp_min_(floor)
            _exp(log_probs, probs)
        if check_n is not None:
            check_block(raw, probs, self._kind, self._source.dtype, check_n)
        if self._source.dtype == torch.float16 and self._kind != "logits":
            sums = probs.sum(2, keepdim=True)
            probs.div_(sums)
            log_probs.sub_(sums.log()).clamp_min_(floor)


def _exp(log_probs: Tensor, out: Tensor) -> Tensor:
    """The exponential, by way of base two: PyTorch's `exp2` takes half the time of its `exp` on a CPU.

    The product rounds the exponent, which moves a probability p by at most `p |ln p|` units of rounding: less than one.
    PyTorch computes what is left over of whole vectors with another routine, which rounds otherwise. So that a number
    does not depend on where in a block it stands, what is left over is computed within a whole vector as well.
    """
    flat = torch.mul(log_probs, _LOG2_E, out=out).view(-1)
    whole = flat.numel() - flat.numel() % _VECTOR
    flat[:whole].exp2_()
    if whole < flat.numel():
        rest = flat.new_zeros(_VECTOR)
        rest[: flat.numel() - whole] = flat[whole:]
        flat[whole:] = rest.exp2_()[: flat.numel() - whole]
    return out


def _check_embeddings(embeddings: object, labelled_embeddings: object, rows: int) -> tuple[Array | None, Array | None]:
    """Embeddings of the pool and of the labelled points as arrays that fit each other."""
    features = None if embeddings is None else as_embeddings(embeddings, "embeddings", rows)
    labelled = None if labelled_embeddings is None else as_embeddings(labelled_embeddings, "labelled_embeddings")
    if features is not None and labelled is not None and labelled.shape[1] != features.shape[1]:
        raise ShapeError(
            f"embeddings have {features.shape[1]} columns and labelled_embeddings {labelled.shape[1]}: "
            "both must come from the same layer of the same network."
        )
    return features, labelled
