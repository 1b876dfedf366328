"""What a selection method is given, and what it returns."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array
from poolwise.errors import MethodError, MissingInputError
from poolwise.predictions import Block, Predictions
from poolwise.progress import Report, silent
from poolwise.scores.kernels import Kernel
from poolwise.scores.pool import score_pool
from poolwise.seeding import stream


@dataclass(frozen=True)
class Task:
    """What a method is asked to do: choose `batch_size` of the points of `predictions`.

    Attributes:
        predictions: the points to choose from.
        batch_size: how many to choose, at most as many as there are.
        seed: root of all randomness of the selection; use `generator` to draw.
        memory: working memory to stay within, in bytes.
        report: told about progress.
        whole: the whole pool, if only a part of it may be chosen.
        positions: `[n]` positions of that part in the whole pool.
        labels: `[L]` classes of the points that are labelled already, or None.
        labelled_predictions: `[L, K, C]` predictions of those points, or None.
        held_out_predictions: `[H, K, C]` predictions of some labelled points by a model that was trained without them,
            or None.
        held_out_labels: `[H]` classes of those points, or None. H is 0 if no point could be held out.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log(np.array([[[0.9, 0.1]], [[0.5, 0.5]], [[0.7, 0.3]]]))
        >>> task = pw.Task(pw.Predictions.from_log_probs(x), batch_size=1)
        >>> task.scores(lambda block: 1 - block.probs.mean(1).amax(1)).round(2).tolist()
        [0.1, 0.5, 0.3]
    """

    predictions: Predictions
    batch_size: int
    seed: int = 0
    memory: int = budget.DEFAULT
    report: Report = silent
    whole: Predictions | None = None
    positions: Array | None = None
    labels: Array | None = None
    labelled_predictions: Predictions | None = None
    held_out_predictions: Predictions | None = None
    held_out_labels: Array | None = None

    @property
    def pool(self) -> Predictions:
        """The whole pool, with the points that may not be chosen. Picks are positions in `predictions`, not in it."""
        return self.predictions if self.whole is None else self.whole

    @property
    def embeddings(self) -> Array:
        """`[N, D]` features of the points."""
        if self.predictions.embeddings is None:
            raise MissingInputError("this needs embeddings: give the predictions some with `with_embeddings`.")
        return self.predictions.embeddings

    @property
    def labelled_embeddings(self) -> Array:
        """`[L, D]` features of the points that are labelled already; L is 0 if there are none."""
        known = self.predictions.labelled_embeddings
        return self.embeddings[:0] if known is None else known

    def generator(self, *names: str | int) -> np.random.Generator:
        """A random generator that depends on the seed and on its name only.

        Args:
            names: what it is for, in texts or whole numbers, such as `"ties"`.
        """
        return stream(self.seed, *names)

    def scores(self, kernel: Kernel, stage: str = "scoring the pool") -> Array:
        """`[N]` float64 scores of all points, in one pass over the pool, whatever its size.

        Args:
            kernel: from a block of n rows (`block.probs` and `block.log_probs`, both `[n, K, C]`) to `[n]` scores. Each
                score must depend on its own row only, since no result may depend on the size of a block.
            stage: name of the pass, for the progress report.
        """
        return score_pool(self.predictions, _CheckedKernel(kernel), self.memory, self.report, stage)


@dataclass(frozen=True)
class _CheckedKernel:
    """A kernel whose result is a tensor with one score per row. Whatever else it returns is an error that says so."""

    kernel: Kernel

    def __call__(self, block: Block) -> Tensor:
        scores, n = self.kernel(block), len(block.log_probs)
        if isinstance(scores, np.ndarray):
            scores = torch.from_numpy(scores)
        if not isinstance(scores, Tensor) or scores.shape != (n,):
            found = list(scores.shape) if isinstance(scores, Tensor) else f"an object of type {type(scores).__name__}"
            raise MethodError(
                f"the kernel of task.scores must return one score for each row of its block, a tensor of shape [{n}], "
                f"not {found}."
            )
        return scores


@dataclass
class Picks:
    """The points that a method chose, in order.

    Attributes:
        indices: `[B]` different positions in `task.predictions`, not in the whole pool.
        scores: `[B]` gain of each pick when it was made.
        tolerance: the gain up to which a pick counts as worthless.
        saturated_at: number of picks made before no remaining point had a gain above the tolerance, or None.
        pairs: how many pairs of points were compared.
        rows: how many rows were read after the first pass over the pool.
        standard_error: `[B]` standard error of each gain, where gains are estimated by sampling.
        notes: settings that the method chose by itself, one per line, for the diagnostics.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> pw.Picks(np.array([4, 0]), np.array([0.7, 0.2])).indices.tolist()
        [4, 0]
    """

    indices: Array
    scores: Array
    tolerance: float = 0.0
    saturated_at: int | None = None
    pairs: int = 0
    rows: int = 0
    standard_error: Array | None = field(default=None)
    notes: tuple[str, ...] = ()
