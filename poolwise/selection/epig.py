"""EPIG: expected information about the labels of target points (Bickford Smith et al. 2023).

A score does not depend on the picks, so the batch is the top b. A score costs one logarithm for each target and pair of
classes, and few scores are needed. Every point gets an upper bound from one pass over the pool. Those that could be
among the top b get a tighter one, and only those that still could are scored (see `information/target_bounds.py`).
"""

from functools import partial

import numpy as np
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array
from poolwise.information.lookahead import expected_information
from poolwise.information.pairs import Deviations
from poolwise.information.target_bounds import TargetSums
from poolwise.predictions import Block
from poolwise.selection.objective import EVALUATION_HELP, Evaluation, GreedyObjective
from poolwise.selection.references import SAMPLE_HELP, TARGETS_HELP, reference_probs, warn_if_long
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


class ExpectedInformation(GreedyObjective):
    """Mean information of each point about the labels of the targets, whatever was picked."""

    floor = 0.0

    def __init__(self, task: Task, targets: object, sample: int) -> None:
        super().__init__(task)
        self._targets = Deviations.of(warn_if_long(task.batch_size, reference_probs(task, targets, sample)))
        self._sums = TargetSums.of(self._targets)
        self._tight_N = np.zeros(len(task.predictions), bool)
        self._known_N = np.full(len(task.predictions), np.nan)
        self._judged: dict[int, float] = {}

    def start(self) -> Array:
        """Loose upper bounds, from one pass over the pool."""
        return self.task.scores(partial(_loose, sums=self._sums))

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Tighter bounds of points that have none yet; the scores of others."""
        wide_n = ~self._tight_N[indices_n]
        if not wide_n[0] or not self._sums.can_tighten:
            return super().refine(indices_n)
        chosen = indices_n[wide_n]
        bounds_n = np.concatenate([self._sums.tight(self._rows(some)).numpy() for some in self._parts(chosen)])
        self._tight_N[chosen] = True
        return chosen, bounds_n, np.zeros(len(chosen), bool)

    def gains(self, indices_n: Array) -> Array:
        """Scores. They are kept, since no pick changes them."""
        new = indices_n[np.isnan(self._known_N[indices_n])]
        for some in self._parts(new):
            self._known_N[some] = expected_information(self._rows(some), self._targets).numpy()
            self.pairs += len(some) * len(self._targets)
        return self._known_N[indices_n]

    def judge(self, index: int) -> float:
        """The score of one point, computed for it alone and kept: points that are tied are judged at every pick."""
        if index not in self._judged:
            self._judged[index] = float(expected_information(self._rows(np.array([index])), self._targets)[0])
        return self._judged[index]

    def add(self, index: int) -> None:
        """Nothing changes."""

    def _parts(self, indices_n: Array) -> list[Array]:
        """The points in parts that fit the memory budget."""
        _, K, C = self.task.predictions.shape
        step = budget.block_rows(8 * K * C, self.task.memory)
        return [indices_n[start : start + step] for start in range(0, len(indices_n), step)]

    def _rows(self, indices_n: Array) -> Deviations:
        self.rows += len(indices_n)
        return Deviations.of(self.task.predictions.rows(indices_n).probs)


def _loose(block: Block, sums: TargetSums) -> Tensor:
    return sums.loose(Deviations.of(block.probs))


def bounds(task: Task, *, targets: object = None, sample: int = 500, **parameters: object) -> Array:
    """`[N]` upper bounds of the scores."""
    return ExpectedInformation(task, targets, sample).start()


@method(
    "epig",
    summary="Most information about the labels of target points.",
    formula="top b of mean_r I(y_i; y_r) over the targets r",
    paper="Bickford Smith, Kirsch, Farquhar, Gal, Foster, Rainforth: "
    "Prediction-Oriented Bayesian Active Learning, AISTATS 2023",
    parameters={"targets": TARGETS_HELP, "sample": SAMPLE_HELP, "evaluation": EVALUATION_HELP},
    stochastic=True,
    bound=bounds,
)
def epig(task: Task, *, targets: object = None, sample: int = 500, evaluation: Evaluation = "lazy") -> Picks:
    """Select the top b."""
    return ExpectedInformation(task, targets, sample).pick(evaluation)
