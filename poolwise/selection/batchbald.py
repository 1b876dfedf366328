"""BatchBALD: greedy joint mutual information (Kirsch, van Amersfoort and Gal 2019)."""

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.information.entropies import ceiling, member_entropies
from poolwise.information.joint import Configurations, Weighted
from poolwise.parallel import ordered_map
from poolwise.selection.bald import bald_scores
from poolwise.selection.coverage_kernels import fingerprints
from poolwise.selection.objective import EVALUATION_HELP, Evaluation, GreedyObjective
from poolwise.selection.registry import method
from poolwise.selection.saturation import information_tolerance
from poolwise.selection.task import Picks, Task

# Gains are known to about this much, so that smaller ones are zero and an earlier gain bounds a later one only with
# this much to spare.
_NOISE = {torch.float32: 4e-6, torch.float64: 1e-12}

# How many merged configurations to judge points by before all of them are used.
_LEVELS = (256, 32)
# How many points times configurations to judge at a time.
_TOGETHER = 1 << 17


class JointInformation(GreedyObjective):
    """Gains `I(y_i; θ | y_S)`.

    While the configurations of the batch are enumerated, the gain of a point never grows, and its last value is a
    bound. Once they are drawn, that fails: with other draws the gain of a point may be larger than before. So no old
    value is used then. The bounds come from the same configurations as the gains. Merging configurations into groups
    and averaging their posterior weights can only raise the expected information, for every point, by Jensen's
    inequality (`Weighted.merged`). A point is left alone only if such a bound is below the gain of the pick. Refining
    it on all configurations could not have made it win, so the picks are those of full evaluation.

    Attributes:
        standard_errors: standard error of the gain of each pick.
    """

    floor, embedded = 0.0, False
    rounding = None

    def __init__(self, task: Task, configurations: int) -> None:
        super().__init__(task)
        N, K, _ = task.predictions.shape
        self._noise = self.slack = _NOISE[task.predictions.dtype]
        self._configurations = Configurations(K, configurations, task.generator("labels"), task.predictions.dtype)
        self._merging = task.generator("merging")
        self._levels: list[Weighted] = []
        self._level_N = np.zeros(N, np.int8)
        self._bald_N = np.zeros(N)
        self.standard_errors: list[float] = []

    def start(self) -> Array:
        """BALD scores: the gains given no picks."""
        self._bald_N = bald_scores(self.task)
        self._levels = [self._configurations.undecided]
        return self._clean(self._bald_N)

    def refine(self, indices_n: Array) -> tuple[Array, Array, Array]:
        """Judge the points that are where the first one is by the next finer set of configurations.

        The finer the set, the fewer points at a time: the first ones are likely to settle the rest.
        """
        level = self._level_N[indices_n[0]]
        affordable = max(1, _TOGETHER // max(1, len(self._levels[level].weights)))
        done_m = indices_n[self._level_N[indices_n] == level][:affordable]
        bounds_m = self._evaluate(done_m, self._levels[level])
        self._level_N[done_m] += 1
        return done_m, bounds_m, np.full(len(done_m), level == len(self._levels) - 1)

    def gains(self, indices_n: Array) -> Array:
        """Judge each point by all configurations."""
        return self._evaluate(indices_n, self._configurations.undecided)

    def add(self, index: int) -> None:
        """Put a point into the batch."""
        row = self.task.predictions.rows(np.array([index]))
        self.standard_errors.append(self._configurations.standard_error(row.probs[0], row.log_probs[0]))
        self._configurations.add(row.log_probs[0])
        self._levels = [self._configurations.undecided]
        if len(self._level_N) * len(self._levels[0].weights) > _TOGETHER:  # else all points are judged at a time anyway
            for groups in _LEVELS:
                if 2 * groups <= len(self._levels[0].weights):
                    self._levels.insert(0, self._levels[0].merged(groups, self._merging))
        self._level_N.fill(0)

    def update(self, index: int, bounds_N: Array) -> Array:
        """Put a point into the batch; old bounds hold while the configurations are exact."""
        self.add(index)
        if self._configurations.exact:
            return bounds_N
        # Information is at most the mean divergence from any fixed distribution, here the averaged prediction. With
        # weights W_k on the samples that is Σ_k W_k KL(p_ik | p̄_i), at most K · max_k W_k times the BALD score. And no
        # label can tell more than what is still open about the samples.
        posterior = self._configurations.posterior
        K = posterior.weights.shape[1]
        weight = K * float((posterior.probabilities[:, None] * posterior.weights).sum(0).max())
        return self._clean(np.minimum(self._bald_N * weight, ceiling(K) - self._configurations.information()))

    def _clean(self, values: Array) -> Array:
        return np.where(values > self._noise, values, 0.0)

    def _evaluate(self, indices_n: Array, weighted: Weighted) -> Array:
        """`[n]` gains; equal points are judged once."""

        def work(some_m: Array) -> Array:
            block = self.task.predictions.rows(some_m)
            marks_m = fingerprints(block.log_probs.flatten(1).numpy())[:, 0]
            _, first, same = np.unique(marks_m, return_index=True, return_inverse=True)
            rows = slice(None) if len(first) == len(some_m) else torch.from_numpy(first)
            probs, log_probs = block.probs[rows], block.log_probs[rows]
            gains_m: Array = weighted.gains(probs, member_entropies(log_probs, probs)).numpy()
            return gains_m if len(first) == len(some_m) else gains_m[same]

        self.rows += len(indices_n)
        step = max(1, min(1024, _TOGETHER // max(1, len(weighted.weights))))
        parts = [indices_n[start : start + step] for start in range(0, len(indices_n), step)]
        return self._clean(np.concatenate([np.empty(0), *ordered_map(work, parts)]))


@method(
    "batchbald",
    summary="Greedy joint information of the whole batch.",
    formula="argmax_i I(y_i; θ | y_S), exact while C^|S| ≤ configurations, then over stratified label draws",
    paper="Kirsch, van Amersfoort, Gal: BatchBALD, NeurIPS 2019",
    parameters={
        "configurations": "How many joint label configurations to enumerate at most, then to draw.",
        "evaluation": EVALUATION_HELP,
    },
    stochastic=True,
    bound=bald_scores,
)
def batchbald(task: Task, *, configurations: int = 10_000, evaluation: Evaluation = "lazy") -> Picks:
    """Select by joint information (see `JointInformation` for why lazy evaluation is right on sampled gains)."""
    if configurations < 1:
        raise ParameterError(f"batchbald: configurations must be at least 1, not {configurations}.")
    objective = JointInformation(task, configurations)
    picks = objective.pick(evaluation, information_tolerance(task.predictions.shape[1]))
    picks.standard_error = np.array(objective.standard_errors)
    return picks
