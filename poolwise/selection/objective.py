"""The base of greedy methods: what a method must know about its gains, and what it then gets from the engine."""

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np

from poolwise.arrays import Array
from poolwise.selection import engine
from poolwise.selection.task import Picks, Task

Evaluation = Literal["lazy", "full"]

EVALUATION_HELP = "'lazy' refines only points that could win; 'full' refines every point at every pick. Same picks."


class GreedyObjective(ABC):
    """A method that picks greedily: base class of your own, with three methods to write.

    `start` gives the gain of every point while nothing is picked, `gains` the gains of some points now, and `add` takes
    note of a pick. `pick` then selects the batch greedily. If gains never grow as the batch grows, most of them are
    never computed. Points are positions in `task.predictions`.

    A subclass can be used as a method as it is, and registered with `poolwise.method`. The keyword-only parameters of
    its constructor are the parameters of the method, and it has the parameter `evaluation` as well.

    Args:
        task: what to choose from, and how many.

    Attributes:
        shrinking: whether gains never grow as the batch grows. If False, every gain is computed again at every pick.
        floor: the smallest possible gain, such as 0. Points whose bound is as low as this need no work.
        rounding: how far rounding may move a gain, as a share of the largest one at the start. Points that are closer
            than this are compared by gains that are computed for each alone. None if the subclass sets `slack` itself.
        slack: the same as a number in the units of the gains.
        embedded: whether gains depend on embeddings too. If False, points with equal predictions are equal.
        points: how many points `start` gives gains of; all of `task.predictions` unless the subclass changes it.
        negligible: what rounding may leave of a gain that has fallen to the floor.
        current: whether the bounds that `update` returned last are the gains of all points.
        pairs: how many pairs of points were compared so far, for the diagnostics.
        rows: how many rows of the pool were read after the first pass, for the diagnostics.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> class Spread(pw.GreedyObjective):
        ...     '''Points whose averaged predictions are far from those of the picks.'''
        ...     def start(self):
        ...         rows = self.task.predictions.rows(np.arange(len(self.task.predictions)))
        ...         self.mean = rows.probs.mean(1).numpy()
        ...         self.near = np.full(len(self.mean), 2.0)
        ...         return self.near
        ...     def gains(self, indices):
        ...         return self.near[indices]
        ...     def add(self, index):
        ...         self.near = np.minimum(self.near, np.abs(self.mean - self.mean[index]).sum(1))
        >>> x = np.log(np.array([[[0.9, 0.1]], [[0.8, 0.2]], [[0.1, 0.9]]]))
        >>> pw.select(x, 2, Spread).indices.tolist()
        [0, 2]
    """

    shrinking: bool = True
    floor: float = -np.inf
    rounding: float | None = 1e-6
    slack: float = 0.0
    embedded: bool = True
    points: int | None = None
    negligible: float = 0.0
    current: bool = False
    pairs: int = 0
    rows: int = 0

    def __init__(self, task: Task) -> None:
        self.task, self.points = task, len(task.predictions)

    @abstractmethod
    def start(self) -> Array:
        """`[N]` gains while nothing is picked, or upper bounds of them. Called once, before anything else."""

    @abstractmethod
    def gains(self, indices_n: Array) -> Array:
        """`[n]` gains of some points given the picks so far.

        Args:
            indices_n: the points.
        """

    @abstractmethod
    def add(self, index: int) -> None:
        """Take note of a pick.

        Args:
            index: the point that was picked.
        """

    def pick(self, evaluation: Evaluation = "lazy", tolerance: float | None = None) -> Picks:
        """Select the batch.

        Args:
            evaluation: `"lazy"` computes only the gains that matter, `"full"` all of them; the picks are the same.
            tolerance: the gain up to which a pick counts as worthless; `floor` by default.
        Returns:
            The picks. They say where the batch was saturated: from where on every gain was within the tolerance.
        """
        size, report = self.task.batch_size, self.task.report
        nothing = self.floor if tolerance is None else tolerance
        return engine.select_greedily(self, size, evaluation=evaluation, tolerance=nothing, report=report)

    # What follows can be left as it is. It is for objectives that know better bounds or a cheaper way.

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Better bounds of some points given the picks so far, with a moderate amount of work.

        Args:
            indices_n: points in the order of their bounds, largest first.
        Returns:
            Three arrays `[m]`: the points that were refined, the first of `indices_n` among them; their bounds; and
            whether each bound is now the exact gain. Repeated calls must reach the exact gain of every point.
        """
        return indices_n, self.gains(indices_n), np.ones(len(indices_n), bool)

    def contest(self, indices_n: Array, bounds_n: Array, least: float | Array) -> tuple[Array, Array, Array]:
        """Better bounds of the points that could be picked next, until it is clear which of them is.

        Args:
            indices_n: points.
            bounds_n: `[n]` bounds of their gains.
            least: the gain below which a point does not matter any more. A single number rises to the best gain that
                is found, since only the winner matters. An array has one number per point: refine each point until
                its gain is exact or its bound is below its number.
        Returns:
            The same as `refine`. Better bounds of other points, found on the way, may be among them.
        """
        return self.refine(indices_n[np.argsort(-bounds_n)])

    def first_accepted(self, points_n: Array, thresholds_n: Array, bounds_N: Array) -> tuple[int, bool] | None:
        """The first of some points whose gain is not below a threshold.

        Args:
            points_n: the points.
            thresholds_n: the threshold of each.
            bounds_N: upper bounds of all gains, which may be improved.
        Returns:
            How many of the first points have a gain below their threshold, and whether the next one is known to have
            none below. None if there is no quick way to tell.
        """
        return None

    def expect(self, indices_n: Array) -> None:
        """Prepare points that will probably be refined next, all at once.

        Args:
            indices_n: points in the order in which they will probably be asked for.
        """
        return

    def judge(self, index: int) -> float:
        """The exact gain of one point, computed for it alone.

        Args:
            index: the point.
        """
        return float(self.gains(np.array([index]))[0])

    def content(self, indices_n: Array) -> Array:
        """`[n, F]` the numbers that the gains depend on: points with equal numbers are equal.

        Args:
            indices_n: the points.
        """
        predictions = self.task.predictions
        rows_n_KC = predictions.rows(indices_n).log_probs.flatten(1).numpy()
        if predictions.embeddings is None or not self.embedded:
            return rows_n_KC
        return np.concatenate([rows_n_KC, np.asarray(predictions.embeddings[indices_n], np.float64)], 1)

    def update(self, index: int, bounds_N: Array) -> Array:
        """Add a pick.

        Args:
            index: the point picked.
            bounds_N: `[N]` bounds known before it.
        Returns:
            `[N]` bounds that hold from now on; the same array if the old ones still do.
        """
        self.add(index)
        return bounds_N if self.shrinking else np.full_like(bounds_N, np.inf)

    def ahead(self, count: int) -> tuple[Array, Array]:
        """Make the next picks at once, where `current` says that all gains are known and rounding decides nothing.

        Args:
            count: at most this many.
        Returns:
            The picks, in order, and their gains, all above the floor. The array that `update` returned last has been
            changed accordingly.
        """
        return np.empty(0, np.int64), np.empty(0)
