"""A pass over stored predictions in blocks: in this process, or on the machines where the numbers are."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeGuard, TypeVar

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.predictions.blocks import Block
from poolwise.predictions.forms import PredictionKind
from poolwise.predictions.sources import Source
from poolwise.predictions.traffic import Traffic

Result = TypeVar("Result")


@dataclass(frozen=True)
class DirectKernel(Generic[Result]):
    """A kernel that can do without a block where float32 log-probabilities are stored: it makes one pass over these.

    Attributes:
        kernel: from a block of rows to the result that is wanted.
        direct: the same from `[n, K, C]` log-probabilities as they are stored, contiguous and not checked; None if they
            are not normalised, and where it cannot be computed.
    """

    kernel: Callable[[Block], Result]
    direct: Callable[[torch.Tensor], Result | None]

    def __call__(self, block: Block) -> Result:
        """The result for a block."""
        return self.kernel(block)


@dataclass(frozen=True)
class PoolPass(Generic[Result]):
    """What a pass does with each block. It keeps nothing of the pool, so it can be sent to another process.

    Attributes:
        kernel: from a block of rows to the result that is wanted (see `Predictions.scan`).
        kind: what the stored numbers are.
        dtype: the type to compute in.
        step: how many rows a block has.
        check: whether to check the values.
    """

    kernel: Callable[[Block], Result]
    kind: PredictionKind
    dtype: torch.dtype
    step: int
    check: bool

    def over(self, source: Source, where: slice | Array, first: int = 0) -> Iterator[tuple[slice, Result]]:
        """The kernel's result for each block, several at a time, with the part of `where` that it belongs to.

        Args:
            source: the numbers.
            where: which rows of it: consecutive ones, or `[n]` positions.
            first: what row 0 of the source is called in errors.
        """
        count = where.stop - where.start if isinstance(where, slice) else len(where)
        parts = [slice(start, min(start + self.step, count)) for start in range(0, count, self.step)]
        workspace = threading.local()

        def work(part: slice) -> Result:
            if not hasattr(workspace, "block"):
                workspace.block = Block.empty(min(self.step, count), *source.shape[1:], self.dtype)
            room: Block = workspace.block.first(part.stop - part.start)
            positions_n, stored = read(source, where, part)
            if isinstance(self.kernel, DirectKernel) and self.kind == "log-probs":
                found: Result | None = self.kernel.direct(stored) if _plain(stored) else None
                if found is not None:
                    return found
            return self.kernel(room.load(stored, self.kind, positions_n + first if self.check else None))

        yield from zip(parts, ordered_map(work, parts), strict=True)


def _plain(stored: torch.Tensor) -> bool:
    return stored.dtype == torch.float32 and stored.is_contiguous()


def read(source: Source, where: slice | Array, part: slice) -> tuple[Array, torch.Tensor]:
    """`[n]` positions in the source and `[n, K, C]` stored numbers of some of the chosen rows.

    Args:
        source: the numbers.
        where: the chosen rows: consecutive ones, or `[m]` positions.
        part: which of those to read.
    """
    if isinstance(where, slice):
        rows = slice(where.start + part.start, where.start + part.stop)
        return np.arange(rows.start, rows.stop), source.part(rows)
    positions_n = where[part]
    return positions_n, source.at(positions_n)


class RemoteSource(Source, Protocol):
    """Numbers on other machines. A pass is sent to them, and only its results come back.

    Attributes:
        traffic: what was moved so far.
    """

    traffic: Traffic

    def run_pass(self, task: PoolPass[Result], where: slice | Array) -> Iterator[tuple[slice, Result]]:
        """The results of a pass, in order, as `PoolPass.over` gives them; the parts may be larger."""


def is_remote(source: Source) -> TypeGuard[RemoteSource]:
    """Whether numbers are on other machines. Asked in every pass, so not by `isinstance`, which takes a while."""
    return hasattr(source, "run_pass")
