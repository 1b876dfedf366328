"""Reading predictions wherever they are stored: in blocks, by rows, or in one pass over all of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from poolwise import budget
from poolwise.arrays import Array
from poolwise.errors import NotFiniteError, NotNormalisedError
from poolwise.parallel import one_thread_an_operation
from poolwise.predictions.array_access import Rows
from poolwise.predictions.blocks import Block
from poolwise.predictions.forms import PredictionKind
from poolwise.predictions.passes import PoolPass, is_remote, read
from poolwise.predictions.sources import Source
from poolwise.predictions.traffic import Traffic
from poolwise.progress import Report, silent

Result = TypeVar("Result")


class PoolReader:
    """Some rows of a source, read as log-probabilities and probabilities.

    Args:
        source: where the numbers are stored.
        kind: what they are.
        name: the file that they are from, for errors.
    """

    def __init__(self, source: Source, kind: PredictionKind, name: str = "") -> None:
        self._source, self._kind, self._name = source, kind, name
        self._rows: Rows = slice(0, source.shape[0])
        self.dtype = torch.float64 if source.dtype == torch.float64 else torch.float32
        self._checked = False

    @property
    def source(self) -> Source:
        """Where the numbers are stored."""
        return self._source

    @property
    def kind(self) -> PredictionKind:
        """What the stored numbers are: `"log-probs"`, `"probs"` or `"logits"`."""
        return self._kind

    @property
    def positions(self) -> Rows:
        """Which rows of the source these points are: a slice with a start and a stop, or `[N]` positions."""
        return self._rows

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(N, K, C)`."""
        return len(self), *self._source.shape[1:]

    def __len__(self) -> int:
        return self._rows.stop - self._rows.start if isinstance(self._rows, slice) else len(self._rows)

    def __repr__(self) -> str:
        N, K, C = self.shape
        stored = f"{self._source.where} {self._source.dtype} {self._kind}".strip().replace("torch.", "")
        return f"Predictions(N={N}, K={K}, C={C}, {stored})"

    def __iter__(self) -> Iterator[Block]:
        for _, block in self.blocks():
            yield block

    def blocks(self, memory: int | str = budget.DEFAULT) -> Iterator[tuple[slice, Block]]:
        """Read the points in order, block by block. Each block has memory of its own and can be kept.

        Values are checked, unless an earlier pass has done so.

        Args:
            memory: the memory budget that decides how long a block is, in bytes or as `"500MB"`.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> p = pw.Predictions.from_probs(np.full((4, 3, 2), 0.5))
            >>> [(rows, len(block)) for rows, block in p.blocks()]
            [(slice(0, 4, None), 4)]
        """
        step = budget.block_rows(self.row_bytes, budget.parse(memory))
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            positions_n, stored = read(self._source, self._rows, rows)
            room = Block.empty(rows.stop - rows.start, *self.shape[1:], self.dtype)
            with self._naming_itself():
                room.fill(stored, self._kind, None if self._checked else positions_n)
            yield rows, room

    @property
    def traffic(self) -> Traffic:
        """What was moved between machines so far; nothing where the predictions are on this one."""
        return self._source.traffic if is_remote(self._source) else Traffic()

    @property
    def on_disk(self) -> bool:
        """Whether rows are read from a file on this machine."""
        return bool(self._source.where) and not is_remote(self._source)

    @property
    def row_bytes(self) -> int:
        """Bytes per row while computing."""
        _, K, C = self.shape
        return K * C * (8 if self.dtype == torch.float64 else 4)

    def scan(
        self,
        kernel: Callable[[Block], Result],
        memory: int = budget.DEFAULT,
        report: Report = silent,
        stage: str = "reading the pool",
    ) -> Iterator[tuple[slice, Result]]:
        """Read the pool in order, in blocks sized for the cache and the memory budget, several at a time.

        The first complete pass also checks the values.

        Args:
            kernel: a function from a block of rows to a result. What it says about a row must depend on that row only,
                so that no result depends on the size of a block. The memory of blocks is reused: the result must not
                be a view of a block, and only `probs` may be overwritten.
            memory: working memory to stay within, in bytes.
            report: told about progress.
            stage: what to call the pass.
        Yields:
            The rows and the kernel's result for each block.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> p = pw.Predictions.from_probs(np.full((4, 3, 2), 0.5))
            >>> [(rows, largest) for rows, largest in p.scan(lambda block: block.probs.max().item())]
            [(slice(0, 4, None), 0.5)]
        """
        step = budget.block_rows(self.row_bytes, memory)
        task = PoolPass(kernel, self._kind, self.dtype, step, not self._checked)
        source, rows = self._source, self._rows
        results = source.run_pass(task, rows) if is_remote(source) else task.over(source, rows)
        with self._naming_itself():
            for part, result in results:
                yield part, result
                report(stage, part.stop, len(self))
        self._checked = True

    def rows(self, indices_n: Array) -> Block:
        """The rows at some positions of the pool, as one block.

        Args:
            indices_n: the positions, in the order in which the rows are wanted.
        """
        block = Block.empty(len(indices_n), *self.shape[1:], self.dtype)
        positions_n = indices_n + self._rows.start if isinstance(self._rows, slice) else self._rows[indices_n]
        block.fill(self._source.at(positions_n), self._kind, None)
        return block

    def check(self, memory: int = budget.DEFAULT, report: Report = silent) -> None:
        """Check every value in one pass, unless an earlier pass has done so.

        Args:
            memory: working memory to stay within, in bytes.
            report: told about progress.
        """
        if not self._checked:
            with one_thread_an_operation():
                for _ in self.scan(lambda block: None, memory, report, "checking the pool"):
                    pass

    @contextmanager
    def _naming_itself(self) -> Iterator[None]:
        """Put the name of the file in front of an error about values."""
        try:
            yield
        except (NotFiniteError, NotNormalisedError) as error:
            raise type(error)(f"{self._name}: {error}" if self._name else str(error)) from None
