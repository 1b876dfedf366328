"""A walk over stored predictions in blocks, wherever it is made: in this process, or where the numbers are."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.predictions.blocks import Block, Kind
from poolwise.predictions.sources import Source
from poolwise.predictions.traffic import Traffic

Result = TypeVar("Result")


@dataclass(frozen=True)
class Walk(Generic[Result]):
    """What is done with each block of a walk. It holds nothing of the pool, and can be sent to another process.

    Attributes:
        kernel: from a block of rows to whatever is wanted of them (see `Predictions.scan`).
        kind: what the stored numbers are.
        dtype: the type to compute in.
        step: how many rows a block has.
        check: whether to check the values.
    """

    kernel: Callable[[Block], Result]
    kind: Kind
    dtype: torch.dtype
    step: int
    check: bool

    def over(self, source: Source, where: slice | Array, first: int = 0) -> Iterator[tuple[slice, Result]]:
        """The kernel's result for each block, several at a time, with the part of `where` that it is of.

        Args:
            source: the numbers.
            where: which rows of it: consecutive ones, or `[n]` positions.
            first: what row 0 of the source is called in errors.
        """
        count = where.stop - where.start if isinstance(where, slice) else len(where)
        parts = [slice(start, min(start + self.step, count)) for start in range(0, count, self.step)]
        room = threading.local()

        def work(part: slice) -> Result:
            if not hasattr(room, "block"):
                room.block = Block.empty(min(self.step, count), *source.shape[1:], self.dtype)
            block: Block = room.block.first(part.stop - part.start)
            if isinstance(where, slice):
                rows = slice(where.start + part.start, where.start + part.stop)
                positions_n, stored = np.arange(rows.start, rows.stop), source.part(rows)
            else:
                positions_n = where[part]
                stored = source.at(positions_n)
            check_n = positions_n + first if self.check else None
            if self.kind == "log-probs" and stored.dtype == self.dtype and stored.is_contiguous():
                # Nothing to convert: one pass less, on what is the most common input by far.
                block = block.around(stored, check_n)
            else:
                block.fill(stored, self.kind, check_n)
            return self.kernel(block)

        yield from zip(parts, ordered_map(work, parts), strict=True)


@runtime_checkable
class FarSource(Source, Protocol):
    """Numbers on other machines, to which a walk is sent, and from which only its results come back.

    Attributes:
        traffic: what was moved so far.
    """

    traffic: Traffic

    def walk(self, walk: Walk[Result], where: slice | Array) -> Iterator[tuple[slice, Result]]:
        """The results of a walk, in order, as `Walk.over` gives them; the parts may be larger."""
