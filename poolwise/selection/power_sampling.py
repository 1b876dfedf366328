"""Sampling each pick in proportion to a power of its current gain, without computing most gains.

Every point i has a weight that its gain can never exceed: its first bound `u_i`. Candidates are proposed with
probability proportional to `u_i^α`, and a proposal is accepted with probability `(gain_i / u_i)^α`: those accepted are
distributed exactly as `gain_i^α`, whatever the bounds are. A proposal compares a uniform number v with that ratio,
which asks whether `gain_i ≥ u_i · v^(1/α)`. Most proposals are settled by the bound that is known already, and the
rest by a few pairs. Nothing is done for all N points at a pick, where fresh Gumbel noise on every bound would cost N
draws.

The proposals depend on the seed and on the first bounds only, so lazy and full evaluation see the same ones and make
the same picks. When the gains have become so small that proposals keep failing, all gains are computed once, the pick
is drawn from them, and they become the new weights.
"""

import numpy as np

from poolwise.arrays import Array
from poolwise.progress import Report, silent
from poolwise.selection.engine import Greedy
from poolwise.selection.objective import Evaluation, GreedyObjective
from poolwise.selection.task import Picks

_PROPOSALS = 256
# After this many refused proposals in a row, computing all gains is cheaper than proposing more.
_PATIENCE = 8192
# How many proposals that passed the known bounds are refined together. Few of them are compared in vain: what was found
# about a point is kept until it is proposed again, or until its turn comes.
_TOGETHER = 64


class _Proposals:
    """An endless stream of (point, threshold): points by weight `u^α`, thresholds `u · v^(1/α)`."""

    def __init__(self, bounds_N: Array, alpha: float, generator: np.random.Generator) -> None:
        self.alpha, self._generator, self.refills = alpha, generator, 0
        self.rebase(bounds_N)

    def rebase(self, bounds_N: Array) -> None:
        """Use new first bounds, and forget the proposals that were waiting."""
        self._bounds_N = np.maximum(bounds_N, 0.0)
        largest = self._bounds_N.max()
        scaled_N = self._bounds_N / (largest if largest > 0 else 1.0)
        np.power(scaled_N, self.alpha, out=scaled_N)
        self._cumulative_N = np.cumsum(scaled_N, out=scaled_N)
        self.possible = bool(largest > 0)
        self.points, self.thresholds = np.empty(0, np.int64), np.empty(0)

    def refill(self) -> None:
        """Make the next proposals."""
        self.refills += 1
        total = self._cumulative_N[-1]
        self.points = np.searchsorted(self._cumulative_N, self._generator.random(_PROPOSALS) * total, "right")
        self.points = np.minimum(self.points, len(self._cumulative_N) - 1)
        uniform = self._generator.random(_PROPOSALS)
        self.thresholds = self._bounds_N[self.points] * uniform ** (1 / self.alpha)

    def drop(self, count: int) -> None:
        """Forget the first proposals."""
        self.points, self.thresholds = self.points[count:], self.thresholds[count:]


def sample_by_power(
    objective: GreedyObjective,
    batch_size: int,
    alpha: float,
    generator: np.random.Generator,
    *,
    evaluation: Evaluation = "lazy",
    tolerance: float = 0.0,
    report: Report = silent,
) -> Picks:
    """Draw a batch, each pick with probability proportional to the power `alpha` of its gain given the picks so far.

    Args:
        objective: where the gains come from; negative gains count as zero.
        batch_size: how many points to draw.
        alpha: the power, above 0.
        generator: source of the draws.
        evaluation: `"lazy"`, or `"full"` to refine every point at every pick; the picks are the same.
        tolerance: gains up to this count as nothing.
        report: told about progress.
    """
    greedy = Greedy(objective, evaluation)
    proposals = _Proposals(greedy.bounds_N, alpha, generator)
    indices, scores = np.empty(batch_size, np.int64), np.empty(batch_size)
    saturated_at = None
    for t in range(batch_size):
        if evaluation == "full":
            greedy.refine_all()
        indices[t] = index = _draw(greedy, proposals, generator)
        scores[t] = greedy.gain(index)
        if scores[t] <= tolerance and saturated_at is None and greedy.saturated(tolerance):
            saturated_at = t
        greedy.take(index)
        report("picking", t + 1, batch_size)
    return Picks(indices, scores, tolerance, saturated_at, objective.pairs, objective.rows)


def _draw(greedy: Greedy, proposals: _Proposals, generator: np.random.Generator) -> int:
    """One point by the power of its gain; uniformly, if no gain is positive."""
    refused = 0
    while proposals.possible and refused < _PATIENCE:
        if len(proposals.points) == 0:
            proposals.refill()
            open_points = proposals.points[greedy.bounds_N[proposals.points] >= proposals.thresholds]
            greedy.objective.expect(open_points[np.sort(np.unique(open_points, return_index=True)[1])])
        points, thresholds = proposals.points, proposals.thresholds
        together, found = _TOGETHER, None
        if greedy.evaluation == "lazy":
            found = greedy.objective.first_accepted(points, thresholds, greedy.bounds_N)
        if found is not None:
            place, accepts = found
            proposals.drop(place + accepts)
            if accepts:
                return int(points[place])
            points, thresholds, together = proposals.points, proposals.thresholds, 1
        passed = np.flatnonzero(greedy.bounds_N[points] >= thresholds)[:together]
        _settle(greedy, points[passed], thresholds[passed])
        accepted = passed[greedy.bounds_N[points[passed]] >= thresholds[passed]]
        if len(accepted):
            proposals.drop(int(accepted[0]) + 1)
            return int(points[accepted[0]])
        proposals.drop(int(passed[-1]) + 1 if len(passed) == together else len(points))
        if len(proposals.points) == 0:  # counted by whole refills, which lazy and full evaluation make alike
            refused += _PROPOSALS
    return _draw_from_all(greedy, proposals, generator)


def _draw_from_all(greedy: Greedy, proposals: _Proposals, generator: np.random.Generator) -> int:
    """One point, from the gains of all, which become the new weights.

    A point whose bound is not positive has no weight, so its gain need not be known: once nothing can be gained, the
    rest of the batch costs next to nothing.
    """
    greedy.know(above=0.0)
    gains_N = np.where(greedy.alive_N, np.maximum(greedy.bounds_N, 0.0), 0.0)
    if greedy.objective.shrinking:
        proposals.rebase(gains_N)
    if not (gains_N > 0).any():
        return int(generator.choice(np.flatnonzero(greedy.alive_N)))
    cumulative_N = np.cumsum((gains_N / gains_N.max()) ** proposals.alpha)
    index = int(np.searchsorted(cumulative_N, generator.random() * cumulative_N[-1], "right"))
    return min(index, int(np.flatnonzero(gains_N)[-1]))


def _settle(greedy: Greedy, points: Array, thresholds: Array) -> None:
    """Refine points until each is exactly known or known to be below its threshold."""
    while True:
        undecided = np.flatnonzero((greedy.bounds_N[points] >= thresholds) & ~greedy.exact(points))
        if len(undecided) == 0:
            return
        undecided = undecided[np.argsort(thresholds[undecided])]
        _, first = np.unique(points[undecided], return_index=True)  # with the lowest threshold of each point
        greedy.contest(points[undecided[first]], thresholds[undecided[first]])
