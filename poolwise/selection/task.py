"""What a selection method is given, and what it hands back."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array
from poolwise.predictions import Block, Predictions
from poolwise.progress import Report, silent
from poolwise.scores.pool import score_pool
from poolwise.seeding import stream
from poolwise.selection.journal import Journal


@dataclass(frozen=True)
class Task:
    """Choose `batch_size` of the points of `predictions`.

    Attributes:
        predictions: the points to choose from.
        batch_size: how many to choose, at most as many as there are.
        seed: root of all randomness of the selection.
        memory: working memory to stay within, in bytes.
        report: told about progress.
        whole: the pool, if the points to choose from are only a part of it.
        positions: `[n]` where they then stand in it.
        journal: where picks are kept as they are made; None for nowhere.
    """

    predictions: Predictions
    batch_size: int
    seed: int = 0
    memory: int = budget.DEFAULT
    report: Report = silent
    whole: Predictions | None = None
    positions: Array | None = None
    journal: Journal | None = None

    @property
    def pool(self) -> Predictions:
        """All points, also those that may not be chosen."""
        return self.predictions if self.whole is None else self.whole

    def generator(self, *names: str | int) -> np.random.Generator:
        """The random stream of that name."""
        return stream(self.seed, *names)

    def scores(self, kernel: Callable[[Block], Tensor], stage: str = "scoring the pool") -> Array:
        """`[N]` float64 scores of all points, one pass over the pool.

        Args:
            kernel: from a block of n rows to `[n]` scores, each depending on its own row only.
            stage: name of the pass, for the progress report.
        """
        return score_pool(self.predictions, kernel, self.memory, self.report, stage)


@dataclass
class Picks:
    """The points that a method chose, in order.

    Attributes:
        indices: `[B]` positions in the task's predictions.
        scores: `[B]` gain of each pick when it was made.
        tolerance: the gain up to which a pick counts as worthless.
        saturated_at: number of picks made before no remaining point had a gain above the tolerance, or None.
        pairs: how many pairs of points were compared.
        rows: how many rows were read after the first pass over the pool.
        standard_error: `[B]` standard error of each gain, where gains are estimated by sampling.
    """

    indices: Array
    scores: Array
    tolerance: float = 0.0
    saturated_at: int | None = None
    pairs: int = 0
    rows: int = 0
    standard_error: Array | None = field(default=None)
