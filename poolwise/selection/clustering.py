"""k-means on rows of any size.

Why not scikit-learn's: it needs the features in memory, its result depends on the number of threads, and it changes the
warning filters of all threads while it runs. Here sums are made in float64 and in order, over blocks that are always
the same. So clusters depend on the rows and the seed only.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.feature_blocks import BLOCK, MULTIPLE, ROUNDING, Rows

# Squared distances in float64 below this share of the squared lengths are rounding errors.
_NOISE = 1e-13
# How many centres of the start are drawn per pass over the rows, at most.
_DRAWN = 256
# Lloyd's iterations end when the sum of squared distances falls by less than this share.
_TOLERANCE = 1e-4
_ITERATIONS = 100
# Centres are found on a random sample of this many rows per cluster.
_PER_CLUSTER = 256
# Up to this many clusters, the start is the best of three times as many draws.
_MOST_REDUCED = 1000


@dataclass(frozen=True)
class Clusters:
    """A partition of rows.

    Attributes:
        count: number of clusters, some of which may be empty.
        cluster: `[M]` cluster of each row.
        iterations: how many passes it took.
        inertia: sum of squared distances of the rows to their centres, in the units of the rows.
    """

    count: int
    cluster: Array
    iterations: int
    inertia: float


def k_means(rows: Rows, count: int, generator: np.random.Generator, memory: int) -> Clusters:
    """Lloyd's algorithm from a k-means++ start (Lloyd 1982; Arthur and Vassilvitskii 2007).

    It ends when no row changes its cluster, when the sum of squared distances falls by less than a ten-thousandth, or
    after a hundred passes. A cluster that becomes empty gets the row that is farthest from its centre. If there are
    more than 256 rows per cluster, that many are drawn at random to find the centres. Two passes over all rows follow.

    Args:
        rows: what to cluster.
        count: how many clusters; there are fewer if there are fewer different rows.
        generator: where the sample and the start are drawn from.
        memory: working memory to stay within, in bytes.
    """
    if len(rows) > _PER_CLUSTER * count:
        some = np.sort(generator.choice(len(rows), _PER_CLUSTER * count, replace=False))
        sample = rows.sample(some, memory)
        centres_G_D, _ = _lloyd(sample, _start(sample, count, generator), _ITERATIONS)
        if len(centres_G_D) == count:
            return _lloyd(rows, centres_G_D, 2)[1]
    return _lloyd(rows, _start(rows, count, generator), _ITERATIONS)[1]


def _lloyd(rows: Rows, centres_G_D: Tensor, iterations: int) -> tuple[Tensor, Clusters]:
    """Lloyd's iterations: the centres that they lead to, and the clusters."""
    G, M = len(centres_G_D), len(rows)
    centres_G_D, cluster_M = centres_G_D.clone(), np.full(M, -1)
    sums_G_D, sizes_G = torch.zeros(G, rows.D, dtype=torch.float64), np.zeros(G, np.int64)
    before, inertia, done = np.inf, np.inf, 0
    while done < iterations:
        done += 1
        distance_M, changed = np.empty(M), 0
        for part, rows_n_D, nearest_n, distance_n in _assigned(rows, centres_G_D.float()):
            changed += _move(sums_G_D, sizes_G, cluster_M[part], nearest_n, rows_n_D)
            distance_M[part] = distance_n
        inertia = float(distance_M.sum())
        filled = _fill_empty(rows, cluster_M, distance_M, sums_G_D, sizes_G)
        full_G = torch.from_numpy(sizes_G > 0)
        centres_G_D[full_G] = sums_G_D[full_G] / torch.from_numpy(sizes_G)[full_G, None]
        if not filled and (not changed or before - inertia <= _TOLERANCE * inertia):
            break
        before = inertia
    return centres_G_D, Clusters(G, cluster_M, done, inertia * rows.scale**2)


def _assigned(rows: Rows, centres_G_D: Tensor) -> Iterator[tuple[slice, Tensor, Array, Array]]:
    """Of each block of rows: where it is, the rows, the nearest centre of each, and its squared distance."""
    half_G = centres_G_D.square().sum(1).div_(2)
    columns_D_G = centres_G_D.T.contiguous()
    step = max(1, BLOCK // (4 * len(centres_G_D)) // MULTIPLE) * MULTIPLE

    def assign(index: int) -> tuple[slice, Tensor, Array, Array]:
        rows_n_D = rows.block(index)
        found = [torch.addmm(half_G, some, columns_D_G, beta=-1).max(1) for some in torch.split(rows_n_D, step)]
        half_n = torch.cat([value for value, _ in found])
        distance_n = rows_n_D.square().sum(1).sub_(half_n, alpha=2).clamp_min_(0.0).double()
        return rows.parts[index], rows_n_D, torch.cat([nearest for _, nearest in found]).numpy(), distance_n.numpy()

    return ordered_map(assign, range(len(rows.parts)))


def _move(sums_G_D: Tensor, sizes_G: Array, cluster_n: Array, nearest_n: Array, rows_n_D: Tensor) -> int:
    """Move rows to other clusters: writes to the sums, the sizes and the clusters. Returns how many were moved."""
    moved = np.flatnonzero(cluster_n != nearest_n)
    old, new, moved_m_D = cluster_n[moved], nearest_n[moved], rows_n_D[torch.from_numpy(moved)].double()
    sums_G_D.index_add_(0, torch.from_numpy(new), moved_m_D)
    known = old >= 0
    sums_G_D.index_add_(0, torch.from_numpy(old[known]), moved_m_D[torch.from_numpy(known)], alpha=-1)
    sizes_G += np.bincount(new, minlength=len(sizes_G)) - np.bincount(old[known], minlength=len(sizes_G))
    cluster_n[moved] = new
    return len(moved)


def _fill_empty(rows: Rows, cluster_M: Array, distance_M: Array, sums_G_D: Tensor, sizes_G: Array) -> bool:
    """Give each empty cluster the row that is farthest from its centre; whether there was one to give."""
    empty, filled = np.flatnonzero(sizes_G == 0), False
    for group in empty:
        possible_M = np.where(sizes_G[cluster_M] > 1, distance_M, 0.0)
        farthest = int(possible_M.argmax())
        if possible_M[farthest] <= ROUNDING * rows.lengths[farthest]:  # rounding errors of float32: all are at a centre
            break
        here = slice(farthest, farthest + 1)
        _move(sums_G_D, sizes_G, cluster_M[here], np.array([group]), rows.take(np.array([farthest])))
        distance_M[farthest], filled = 0.0, True
    return filled


def _start(rows: Rows, count: int, generator: np.random.Generator) -> Tensor:
    """`[G, D]` centres to start from; fewer than `count` if there are fewer different rows.

    k-means++ alone misses some of the clusters that are there. So it draws three times as many rows, of which the best
    are kept. This is done by k-means++ again, where each of them counts for all rows that are nearest to it, and each
    choice is the best of several draws.
    """
    many = 3 * count if count <= _MOST_REDUCED else count
    drawn = draw_centres(rows, min(many, len(rows)), generator)
    centres_g_D = rows.take(drawn)
    if len(drawn) <= count:
        return centres_g_D
    assigned = _assigned(rows, centres_g_D.float())
    weight_g = np.sum([np.bincount(nearest_n, minlength=len(drawn)) for _, _, nearest_n, _ in assigned], 0)
    distance_g_g = _distances(centres_g_D, centres_g_D, centres_g_D.square().sum(1))
    best = int((distance_g_g @ weight_g).argmin())
    kept, open_g = [best], distance_g_g[best]
    trials = 2 + int(np.log(count))
    while len(kept) < count:
        chances_g = np.cumsum(open_g * weight_g)
        some = np.searchsorted(chances_g, generator.random(trials) * chances_g[-1], "right")
        some = np.unique(np.minimum(some, len(drawn) - 1))
        left = np.minimum(open_g, distance_g_g[some])
        best = int((left @ weight_g).argmin())
        kept.append(int(some[best]))
        open_g = left[best]
        if not open_g.any():
            break
    return centres_g_D[torch.from_numpy(np.array(kept))]


def draw_centres(rows: Rows, count: int, generator: np.random.Generator) -> Array:
    """`[G]` rows drawn by k-means++: each in proportion to its squared distance to those drawn before.

    The draws are a race. A row is drawn when the integral of its weight over time reaches a number that was drawn for
    it from the exponential distribution. That distribution has no memory: whatever has happened, the next row is drawn
    by the current weights. Weights only shrink, so a row comes no sooner than its present weight says. Some rows that
    could come next are therefore followed alone, until another row could come. The distances of all rows to these
    draws are then one matrix product.

    Returns fewer than `count` if there are fewer different rows.
    """
    left_M = generator.standard_exponential(len(rows))
    first = int(left_M.argmin())
    left_M -= left_M[first]
    chosen = [first]
    weight_M = np.full(len(rows), np.inf)
    lengths_M = torch.empty(len(rows), dtype=torch.float64)

    def measure(index: int) -> None:
        lengths_M[rows.parts[index]] = rows.block(index).double().square().sum(1)

    for _ in ordered_map(measure, range(len(rows.parts))):
        pass
    _approach(rows, lengths_M, weight_M, left_M, rows.take(np.array(chosen)), np.zeros(1))
    while len(chosen) < count and weight_M.any():
        size = min(count - len(chosen), _DRAWN, 1 + len(chosen) // 2)
        drawn, times = _race(rows, weight_M, left_M, size)
        _approach(rows, lengths_M, weight_M, left_M, rows.take(drawn), times)
        chosen += drawn.tolist()
    return np.array(chosen)


def _race(rows: Rows, weight_M: Array, left_M: Array, size: int) -> tuple[Array, Array]:
    """The next rows drawn, at most `size`, and when."""
    with np.errstate(divide="ignore", invalid="ignore"):
        soonest_M = np.where(weight_M > 0, left_M / weight_M, np.inf)
    entrants = min(2 * size, len(rows) - 1)
    order = np.argpartition(soonest_M, entrants)
    some, others_from = order[:entrants], soonest_M[order[entrants]]
    rows_n_D = rows.take(some)
    distance_n_n = _distances(rows_n_D, rows_n_D, rows_n_D.square().sum(1))
    weight_n, left_n, now = weight_M[some], left_M[some], 0.0
    drawn: list[int] = []
    times: list[float] = []
    while len(drawn) < size:
        with np.errstate(divide="ignore", invalid="ignore"):
            time_n = np.where(weight_n > 0, left_n / weight_n, np.inf)
        at = int(time_n.argmin())
        if not np.isfinite(time_n[at]) or (drawn and now + time_n[at] > others_from):
            break
        left_n = np.maximum(left_n - weight_n * time_n[at], 0.0)
        now += float(time_n[at])
        drawn.append(int(some[at]))
        times.append(now)
        weight_n = np.minimum(weight_n, distance_n_n[at])
        weight_n[at] = 0.0
    return np.array(drawn), np.array(times)


def _approach(rows: Rows, lengths_M: Tensor, weight_M: Array, left_M: Array, drawn_m_D: Tensor, times_m: Array) -> None:
    """Lower the weights to the squared distances to the nearest of more centres, and let the time of the race pass."""
    spans_m = np.diff(times_m, prepend=0.0)

    def pass_time(index: int) -> None:
        part = rows.parts[index]
        weight_m_n = _distances(drawn_m_D, rows.block(index).double(), lengths_M[part])
        weight_m_n = np.minimum.accumulate(np.concatenate([weight_M[None, part], weight_m_n]), 0)
        if times_m[-1] > 0:
            left_M[part] = np.maximum(left_M[part] - spans_m @ weight_m_n[:-1], 0.0)
        weight_M[part] = weight_m_n[-1]

    for _ in ordered_map(pass_time, range(len(rows.parts))):
        pass


def _distances(some_m_D: Tensor, others_n_D: Tensor, lengths_n: Tensor) -> Array:
    """`[m, n]` squared distances of float64 rows, of which some squared lengths are known; 0 between equal rows."""
    lengths_m = some_m_D.square().sum(1)
    noise_n = _NOISE * (lengths_n + lengths_m.max())
    distance_m_n = torch.addmm(lengths_n - noise_n, some_m_D, others_n_D.T, alpha=-2).add_(lengths_m[:, None])
    return distance_m_n.clamp_min_(0.0).numpy()
