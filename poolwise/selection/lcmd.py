"""LCMD: the farthest point of the largest cluster, on predictions alone (Holzmüller et al. 2023; Kirsch 2023).

Every point belongs to the cluster of its nearest centre. The size of a cluster is the sum of the squared distances in
it. The features are those of the black-box form (Kirsch 2023): the centred predictions of the posterior samples. The
product of two points' features is then the posterior covariance of their predictions.
"""

import numpy as np
import torch
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array
from poolwise.predictions import Block
from poolwise.selection.gp_variance import centred
from poolwise.selection.point_features import PointFeatures
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task

# Squared distances that differ by less than this share of the largest squared length are equal up to rounding.
_NOISE = 1e-12
# Sizes of clusters that differ by less than this share are equal up to rounding.
_CLOSE = 1e-9


def features(block: Block) -> Tensor:
    """`[n, K·C]` float64 centred predictions over `sqrt(K)`."""
    return centred(block).flatten(1)


class Clusters:
    """The nearest centre of every point, and its squared distance.

    Attributes:
        distance: `[N]` squared distances to the nearest centre; the squared lengths while there is no centre.
        nearest: `[N]` which centre that is, by the order of adding; all 0 while there is none.
        count: how many centres there are.
    """

    def __init__(self, task: Task) -> None:
        _, K, C = task.predictions.shape
        self._task, self._points = task, PointFeatures(task, features, K * C)
        self._lengths_N = self._points.map(lambda z_n_F: z_n_F.square().sum(1)).numpy()
        self.noise = _NOISE * float(self._lengths_N.max())
        self.distance, self.nearest, self.count = self._lengths_N.copy(), np.zeros(len(self._lengths_N), np.int64), 0
        known = task.labelled_predictions
        if known is not None and len(known):
            step = min(256, budget.block_rows(8 * K * C, task.memory))
            for start in range(0, len(known), step):
                some = np.arange(start, min(start + step, len(known)))
                self.add(self._points.rows(known, some))
                task.report("distances to labelled points", int(some[-1]) + 1, len(known))

    def add_pick(self, index: int) -> None:
        """Make a point a centre."""
        self.add(self._points.of(index)[None])
        self.distance[index], self.nearest[index] = 0.0, self.count - 1

    def add(self, centres_m_F: Tensor) -> None:
        """Add centres. A point moves to a new one only if that is closer by more than rounding."""
        lengths_m = centres_m_F.square().sum(1)

        def relative(z_n_F: Tensor) -> Tensor:
            """`[n, 2]` the first of the nearest new centres, and its squared distance less the point's own length."""
            reduced_n_m = torch.addmm(lengths_m, z_n_F, centres_m_F.T, alpha=-2)
            smallest_n = reduced_n_m.amin(1)
            first_n = (reduced_n_m <= smallest_n[:, None] + self.noise).int().argmax(1)
            return torch.stack([first_n.double(), smallest_n], 1)

        first_N, reduced_N = self._points.map(relative).numpy().T
        distance_N = reduced_N + self._lengths_N
        distance_N[distance_N <= self.noise] = 0.0
        closer_N = np.full(len(distance_N), True) if self.count == 0 else distance_N < self.distance - self.noise
        self.distance = np.where(closer_N, distance_N, self.distance)
        self.nearest = np.where(closer_N, first_N.astype(np.int64) + self.count, self.nearest)
        self.count += len(centres_m_F)

    def farthest(self, free_N: Array) -> int:
        """The farthest point of the largest cluster; of those that are equal up to rounding, the lowest index."""
        sizes_M = np.bincount(self.nearest, self.distance)
        largest = sizes_M.max()
        if largest <= 0:
            return int(np.argmax(free_N))
        candidates = []
        for cluster in np.flatnonzero(sizes_M >= largest * (1 - _CLOSE)):
            members = np.flatnonzero(self.nearest == cluster)
            distances = self.distance[members]
            candidates.append(members[np.argmax(distances >= distances.max() - self.noise)])
        return int(min(candidates))


@method(
    "lcmd",
    summary="The farthest point of the largest cluster of posterior deviations, again and again.",
    formula="argmax of |z_i - z_c|² in the cluster c with the largest Σ_i |z_i - z_c|²; centres: labelled points, "
    "picks; z = (p_k - p̄)/sqrt(K); first pick without centres: largest |z|",
    paper="Holzmüller, Zaverkin, Kästner, Steinwart: A Framework and Benchmark for Deep Batch Active Learning for "
    "Regression, JMLR 2023; Kirsch: Black-Box Batch Active Learning for Regression, TMLR 2023",
    needs=("predictions", "labelled_predictions"),
)
def lcmd(task: Task) -> Picks:
    """Select greedily; the score of a pick is its squared distance to the centre of its cluster."""
    clusters = Clusters(task)
    free_N = np.ones(len(task.predictions), bool)
    indices, scores = np.empty(task.batch_size, np.int64), np.empty(task.batch_size)
    for t in range(task.batch_size):
        indices[t] = index = clusters.farthest(free_N)
        scores[t] = clusters.distance[index] if clusters.distance[index] > clusters.noise else 0.0
        free_N[index] = False
        clusters.add_pick(index)
        task.report("picking", t + 1, task.batch_size)
    worthless = scores <= 0
    return Picks(indices, scores, 0.0, int(np.argmax(worthless)) if worthless.any() else None)
