"""Posterior coverage as it was in version 0.1, frozen: what "faster than before" is measured against.

Nothing but its place was changed, and that it says how many points it has. It runs over the greedy engine of today.
"""

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.parallel import ordered_map
from poolwise.selection.embeddings import Embeddings, mean_of
from poolwise.selection.margin import scores as margin_scores
from poolwise.selection.objective import GreedyObjective
from poolwise.selection.ranking import top
from poolwise.selection.task import Picks, Task

# Elements of one block of the kernel matrix, which is never in memory whole: four megabytes.
_BLOCK = 1 << 20
# Before this many picks lists would be long, and making them would cost more than they save.
_FIRST_LISTS = 4
# About how many pairs to list at most, of eight bytes each. It does not follow the memory budget: a sum over a list
# and one over all points are rounded differently, and no pick may depend on the budget.
_LISTED = 1 << 23
# Rounding of a gain that is summed over a list in double precision: that of its float32 entries.
_LIST_SLACK = 4e-6


class Coverage(GreedyObjective):
    """Facility location on the positive part of the cosine; points are positions among the T of the filter.

    A point i adds to the coverage of j only where `r_ij` is above what j is covered already. If i and t picks were
    equally likely to be the best informant of j, that would be so for one pair in t + 1; after greedy picks it is a
    third of that. Once these pairs are few enough to be kept they are listed, and a gain is a short sum instead of T
    products of vectors.

    Args:
        task: how many points to pick.
        features_T_F: `[T, F]` rows of length one, or zero for a point that tells nothing.
        weights_T: `[T]` what each point counts for.
    """

    floor = 0.0
    rounding = None

    def __init__(self, task: Task, features_T_F: Tensor, weights_T: Tensor) -> None:
        super().__init__(task)
        self.points = len(weights_T)
        self._features, self._weights = features_T_F, weights_T
        self._covered_T = torch.zeros_like(weights_T)
        self._lists: _Lists | None = None
        T = len(weights_T)
        self._picks, self._next_lists = 0, max(_FIRST_LISTS, T * T // (3 * _LISTED))
        # With more features than points the moments would cost more than the pairs that they save.
        many = features_T_F.shape[1] >= T
        self._moment_F_F = None if many else features_T_F.T @ (features_T_F * weights_T[:, None])
        # Rounding of T float32 terms that are summed in blocks of another shape, with plenty to spare.
        total = float(weights_T.sum())
        self.slack = 2e-6 * total**0.5 + 3e-8 * total

    def start(self) -> Array:
        """Upper bounds of the coverage of each point alone."""
        return self._bounds()

    def _bounds(self) -> Array:
        """`[T]` upper bounds `½ (Σ_j u_j a_ij + sqrt(Σ_j u_j · Σ_j u_j a_ij²))`, with `a_ij = <z_i, z_j> - covered_j`.

        The positive part of a number is half of the number plus its size, and the sum of sizes is bounded by Cauchy and
        Schwarz. Both sums follow from moments of the features, without a pass over pairs. Without moments, the gains.
        """
        if self._moment_F_F is None:
            gains_N: Array = self._all_pairs(np.arange(len(self._weights))) + self.slack
            return gains_N
        u_T, c_T, z_T_F = self._weights, self._covered_T, self._features
        first_T = z_T_F @ (u_T @ z_T_F) - (u_T @ c_T)
        second_T = (
            ((z_T_F @ self._moment_F_F) * z_T_F).sum(1) - 2 * (z_T_F @ ((u_T * c_T) @ z_T_F)) + u_T @ c_T.square()
        )
        bounds_T = (first_T + (u_T.sum() * second_T.clamp_min_(0.0)).sqrt_()) / 2
        bounds_N: Array = bounds_T.clamp_min_(0.0).double().numpy() + self.slack
        return bounds_N

    def gains(self, indices_n: Array) -> Array:
        """Coverage that each point adds."""
        if self._lists is not None:
            self.pairs += int(self._lists.lengths(indices_n).sum())
            gains_n = self._lists.gains(indices_n, self._covered_T.numpy(), self._weights.numpy())
            return np.where(gains_n > self.slack, gains_n, 0.0)
        return self._all_pairs(indices_n)

    def judge(self, index: int) -> float:
        """Coverage that one point adds."""
        return float(self._all_pairs(np.array([index]))[0])

    def content(self, indices_n: Array) -> Array:
        """The features."""
        return self._features[torch.from_numpy(indices_n)].numpy()

    def _all_pairs(self, indices_n: Array) -> Array:
        self.pairs += len(self._weights) * len(indices_n)
        parts = ordered_map(
            lambda some: self._above(some).clamp_min_(0.0).mul_(self._weights).sum(1).numpy(), self._parts(indices_n)
        )
        gains_n = np.concatenate([np.empty(0), *parts])
        return np.where(gains_n > self.slack, gains_n, 0.0)

    def add(self, index: int) -> None:
        """Credit each point to the new pick where that is its best informant."""
        self._picks += 1
        if self._lists is not None:
            columns, values = self._lists.row(index)
            self._covered_T[columns] = torch.maximum(self._covered_T[columns], values)
        else:
            torch.maximum(self._covered_T, torch.mv(self._features, self._features[index]), out=self._covered_T)

    def update(self, index: int, bounds_N: Array) -> Array:
        """Add a pick; bounds follow from moments at first, and from lists of pairs once these are short enough."""
        self.add(index)
        if self._picks < self._next_lists:
            return bounds_N if self._lists is not None else np.minimum(bounds_N, self._bounds())
        self._next_lists = 2 * self._picks
        if self._lists is not None:
            self._lists = self._lists.above(self._covered_T.numpy())
            return bounds_N
        self._lists = self._list_pairs()
        self.slack = _LIST_SLACK
        return self.gains(np.arange(len(bounds_N)))

    def _parts(self, indices_n: Array) -> list[Array]:
        step = max(1, _BLOCK // len(self._weights))
        return [indices_n[start : start + step] for start in range(0, len(indices_n), step)]

    def _above(self, indices_m: Array) -> Tensor:
        """`[m, T]` kernel less what is covered already."""
        some_m_F = self._features.index_select(0, torch.from_numpy(indices_m))
        return (some_m_F @ self._features.T).sub_(self._covered_T)

    def _list_pairs(self) -> "_Lists":
        """The pairs in which one point still improves on what the other is covered."""
        covered_T = self._covered_T.numpy()
        columns_T = np.arange(len(covered_T), dtype=np.int32)

        def improving(indices_m: Array) -> tuple[Array, Array, Array]:
            above_m_T = self._above(indices_m).numpy()
            mask_m_T = above_m_T > 0
            columns = np.broadcast_to(columns_T, mask_m_T.shape)[mask_m_T]
            return mask_m_T.sum(1), columns, above_m_T[mask_m_T] + covered_T[columns]

        parts = list(ordered_map(improving, self._parts(np.arange(len(covered_T)))))
        self.pairs += len(covered_T) ** 2
        lengths_T, columns, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return _Lists(np.concatenate([[0], np.cumsum(lengths_T)]), columns, values)


class _Lists:
    """Of each point, the points that it still improves, and the kernel there: rows of a sparse matrix."""

    def __init__(self, ends: Array, columns: Array, values: Array) -> None:
        self._ends, self._columns, self._values = ends, columns, values

    def lengths(self, indices_n: Array) -> Array:
        """`[n]` how many points each of some points improves."""
        result: Array = self._ends[indices_n + 1] - self._ends[indices_n]
        return result

    def row(self, index: int) -> tuple[Tensor, Tensor]:
        """The points that one point improves, and the kernel there."""
        part = slice(self._ends[index], self._ends[index + 1])
        return torch.from_numpy(self._columns[part]).long(), torch.from_numpy(self._values[part])

    def gains(self, indices_n: Array, covered_T: Array, weights_T: Array) -> Array:
        """`[n]` coverage that each of some points adds."""
        lengths_n = self.lengths(indices_n)
        if lengths_n.sum() > len(self._values) // 4:
            # Nearly everything is asked for: pass over all lists in order, and take the results wanted.
            return self._sums(self._ends, slice(None), covered_T, weights_T)[indices_n]
        ends_n = np.concatenate([[0], np.cumsum(lengths_n)])
        entries = np.arange(ends_n[-1]) + np.repeat(self._ends[indices_n] - ends_n[:-1], lengths_n)
        return self._sums(ends_n, entries, covered_T, weights_T)

    def _sums(self, ends_n: Array, entries: Array | slice, covered_T: Array, weights_T: Array) -> Array:
        """Sums over consecutive runs of entries, each in double precision and in order."""
        columns = self._columns[entries]
        terms = np.maximum(self._values[entries] - covered_T[columns], 0)
        terms *= weights_T[columns]
        sums_n = np.zeros(len(ends_n) - 1)
        filled_n = ends_n[1:] > ends_n[:-1]
        if filled_n.any():
            sums_n[filled_n] = np.add.reduceat(terms, ends_n[:-1][filled_n], dtype=np.float64)
        return sums_n

    def above(self, covered_T: Array) -> "_Lists":
        """The lists without the pairs that improve nothing any more."""
        kept = np.flatnonzero(self._values > covered_T[self._columns])
        return _Lists(np.searchsorted(kept, self._ends), self._columns[kept], self._values[kept])


def _features(task: Task, points_T: Array, kernel: str) -> Tensor:
    if kernel == "embeddings":
        source = task.embeddings
        rows_T_F = Embeddings(source, mean_of(source), 0).rows(points_T)  # scaled to sizes of at most one
    else:
        probs_T_K_C = task.predictions.rows(points_T).probs.float()
        rows_T_F = (probs_T_K_C - probs_T_K_C.mean(1, keepdim=True)).flatten(1)
    lengths_T_1 = rows_T_F.norm(dim=1, keepdim=True)
    # Centred predictions shorter than this differ by rounding only: such a point tells nothing.
    return torch.where(lengths_T_1 > 1e-6, rows_T_F / lengths_T_1.clamp_min(1e-6), 0.0)


def _filtered(scores_N: Array, filter: float, batch_size: int) -> Array:
    """`[T]` the low-margin points to choose from and to cover, most undecided first."""
    if not 1 <= filter < np.inf:
        raise ParameterError(f"posterior-coverage: filter must be finite and at least 1, not {filter}.")
    return top(scores_N, min(len(scores_N), int(np.ceil(filter * batch_size))))


def before(task: Task, *, filter: float = 10.0) -> Picks:
    """Select as version 0.1 did with its defaults."""
    scores_N = margin_scores(task)
    points_T = _filtered(scores_N, filter, task.batch_size)
    weights_T = torch.from_numpy(scores_N[points_T]).float()
    picks = Coverage(task, _features(task, points_T, "posterior"), weights_T).pick()
    picks.indices, picks.rows = points_T[picks.indices], len(points_T)
    return picks
