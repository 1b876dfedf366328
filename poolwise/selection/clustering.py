"""k-means on rows of any size.

Why not scikit-learn's: it needs the features in memory, its result depends on the number of threads, and it changes the
warning filters of all threads while it runs. Here sums are made in float64 and in order, over blocks that are always
the same. So clusters depend on the rows and the seed only.
"""

import itertools
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.feature_blocks import MULTIPLE, ROUNDING, Rows
from poolwise.selection.nearest_centres import NOISE, NearestCentres, distances, grouped

# How many centres of the start are drawn per pass over the rows, at most.
_DRAWN = 256
# Below this share of the squared lengths, squared distances are made in float64. It is 250 times their rounding.
_COARSE = 5e-4
# How many distances to these are made at a time, and to how many rows at least: they stay in the cache.
_AT_ONCE, _TOGETHER = 1 << 17, 512
# Lloyd's iterations end when the sum of squared distances falls by less than this share.
_TOLERANCE = 5e-5
_ITERATIONS = 100
# Centres are found on random samples first, of this many rows per cluster, if there are clearly more rows than that.
_PER_CLUSTER, _MUCH = (32, 64, 256), 1.4
# A smaller sample than this saves no time, and may miss clusters.
_SMALLEST = 8192
# Up to this many clusters, the start is the best of twice as many draws.
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

    It ends when no row changes its cluster, when the sum of squared distances falls by less than a twenty-thousandth,
    or after a hundred passes. A cluster that becomes empty gets the row that is farthest from its centre. Centres are
    found on random samples first, of 32, then of 64 and of 256 rows per cluster. After the last, two passes over all
    rows follow. If all rows are not many more than the last sample, iterations over all rows follow instead.

    Args:
        rows: what to cluster.
        count: how many clusters; there are fewer if there are fewer different rows.
        generator: where the sample and the start are drawn from.
        memory: working memory to stay within, in bytes.
    """
    centres_G_D: Tensor | None = None
    sizes = [each * count for each in _PER_CLUSTER if each * count >= _SMALLEST and _MUCH * each * count < len(rows)]
    for size in sizes:
        sample = rows.sample(np.sort(generator.choice(len(rows), size, replace=False)), memory)
        start_G_D = _start(sample, count, generator, memory) if centres_G_D is None else centres_G_D
        centres_G_D, _ = _lloyd(sample, start_G_D, _ITERATIONS, memory)
        if len(centres_G_D) < count:  # few rows are different: all are needed to find as many as there are
            return _lloyd(rows, _start(rows, count, generator, memory), _ITERATIONS, memory)[1]
    if centres_G_D is None:
        centres_G_D = _start(rows, count, generator, memory)
    whole = _PER_CLUSTER[-1] * count not in sizes
    return _lloyd(rows, centres_G_D, _ITERATIONS if whole else 2, memory)[1]


def _lloyd(rows: Rows, centres_G_D: Tensor, iterations: int, memory: int = 1 << 28) -> tuple[Tensor, Clusters]:
    """Lloyd's iterations: the centres that they lead to, and the clusters."""
    centres_G_D, starts = grouped(centres_G_D.clone())
    nearest = NearestCentres(rows, starts, memory)
    G, M = len(centres_G_D), len(rows)
    cluster_M = np.full(M, -1)
    sums_G_D, sizes_G = torch.zeros(G, rows.D, dtype=torch.float64), np.zeros(G, np.int64)
    before, inertia, done, whole = np.inf, np.inf, 0, 0.0
    while done < iterations:
        done += 1
        changed = 0
        for part, rows_n_D, nearest_n in nearest.find(centres_G_D):
            changed += _move(sums_G_D, sizes_G, cluster_M[part], nearest_n, rows_n_D, nearest.loops)
            # In float64: of tight clusters, only a small part of this is left below.
            whole += float(rows_n_D.double().square().sum()) if done == 1 else 0.0
        filled = _fill_empty(rows, cluster_M, centres_G_D, sums_G_D, sizes_G)
        full_G = torch.from_numpy(sizes_G > 0)
        centres_G_D[full_G] = sums_G_D[full_G] / torch.from_numpy(sizes_G)[full_G, None]
        # The sum of squared distances to the new centres: what all squared lengths have above those of the centres.
        inertia = max(whole - float((sums_G_D * centres_G_D)[full_G].sum()), 0.0)
        if not filled and (not changed or before - inertia <= _TOLERANCE * inertia):
            break
        before = inertia
    return centres_G_D, Clusters(G, cluster_M, done, inertia * rows.scale**2)


def _move(
    sums_G_D: Tensor,
    sizes_G: Array,
    cluster_n: Array,
    nearest_n: Array,
    rows_n_D: Tensor,
    loops: ModuleType | None = None,
) -> int:
    """Move rows to other clusters: writes to the sums, the sizes and the clusters. Returns how many were moved."""
    moved = np.flatnonzero(cluster_n != nearest_n)
    old, new = cluster_n[moved], nearest_n[moved]
    known = old >= 0
    if loops:
        loops.move(rows_n_D.numpy(), cluster_n, nearest_n, sums_G_D.numpy())
    else:
        moved_m_D = rows_n_D[torch.from_numpy(moved)].double()
        sums_G_D.index_add_(0, torch.from_numpy(new), moved_m_D)
        sums_G_D.index_add_(0, torch.from_numpy(old[known]), moved_m_D[torch.from_numpy(known)], alpha=-1)
    sizes_G += np.bincount(new, minlength=len(sizes_G)) - np.bincount(old[known], minlength=len(sizes_G))
    cluster_n[moved] = new
    return len(moved)


def _fill_empty(rows: Rows, cluster_M: Array, centres_G_D: Tensor, sums_G_D: Tensor, sizes_G: Array) -> bool:
    """Give each empty cluster the row that is farthest from its centre; whether there was one to give."""
    empty, filled = np.flatnonzero(sizes_G == 0), False
    if not len(empty):
        return False
    distance_M = np.empty(len(rows))
    for index, part in enumerate(rows.parts):
        apart_n_D = rows.block(index).double() - centres_G_D[torch.from_numpy(cluster_M[part])]
        distance_M[part] = apart_n_D.square().sum(1).numpy()
    for group in empty:
        possible_M = np.where(sizes_G[cluster_M] > 1, distance_M, 0.0)
        farthest = int(possible_M.argmax())
        if possible_M[farthest] <= ROUNDING * rows.lengths[farthest]:  # rounding errors of float32: all are at a centre
            break
        here = slice(farthest, farthest + 1)
        _move(sums_G_D, sizes_G, cluster_M[here], np.array([group]), rows.take(np.array([farthest])))
        distance_M[farthest], filled = 0.0, True
    return filled


def _start(rows: Rows, count: int, generator: np.random.Generator, memory: int) -> Tensor:
    """`[G, D]` centres to start from; fewer than `count` if there are fewer different rows.

    k-means++ alone misses some of the clusters that are there. So it draws twice as many rows, of which the best
    are kept. This is done by k-means++ again, where each of them counts for all rows that are nearest to it, and each
    choice is the best of several draws.
    """
    many = 2 * count if count <= _MOST_REDUCED else count
    drawn = draw_centres(rows, min(many, len(rows)), generator)
    centres_g_D = rows.take(drawn)
    if len(drawn) <= count:
        return centres_g_D
    found = NearestCentres(rows, np.array([0, len(drawn)]), memory).find(centres_g_D)
    weight_g = np.sum([np.bincount(nearest_n, minlength=len(drawn)) for _, _, nearest_n in found], 0)
    distance_g_g = distances(centres_g_D, centres_g_D)
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
    distance_n_n = distances(rows_n_D, rows_n_D)
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
    step = max(_TOGETHER, _AT_ONCE // len(drawn_m_D) // MULTIPLE * MULTIPLE)

    def pass_time(index: int) -> None:
        begin, rows_N_D = rows.parts[index].start, rows.block(index)
        for start in range(0, len(rows_N_D), step):
            some_n_D = rows_N_D[start : start + step]
            part = slice(begin + start, begin + start + len(some_n_D))
            weight_m_n = _weights(drawn_m_D, some_n_D, lengths_M[part])
            np.minimum(weight_m_n[0], weight_M[part], out=weight_m_n[0])
            for nearer_n, weight_n in itertools.pairwise(weight_m_n):  # quicker than `np.minimum.accumulate`
                np.minimum(nearer_n, weight_n, out=weight_n)
            if times_m[-1] > 0:
                passed_n = spans_m[0] * weight_M[part] + spans_m[1:] @ weight_m_n[:-1]
                left_M[part] = np.maximum(left_M[part] - passed_n, 0.0)
            weight_M[part] = weight_m_n[-1]

    for _ in ordered_map(pass_time, range(len(rows.parts))):
        pass


def _weights(drawn_m_D: Tensor, rows_n_D: Tensor, lengths_n: Tensor) -> Array:
    """`[m, n]` squared distances of drawn rows to float32 rows: in float32, or in float64 where rounding would show."""
    of_m, of_n = drawn_m_D.square().sum(1).float(), lengths_n.float()
    longest = float(of_m.max() + of_n.max())
    weight_m_n = torch.addmm(of_n, drawn_m_D.float(), rows_n_D.T, alpha=-2).add_(of_m[:, None]).numpy()
    coarse = np.flatnonzero(weight_m_n < _COARSE * longest)
    if len(coarse) > weight_m_n.size // 64:
        return distances(drawn_m_D, rows_n_D.double(), lengths_n).astype(np.float32)
    i, j = np.divmod(coarse, len(rows_n_D))
    apart = drawn_m_D[torch.from_numpy(i)] - rows_n_D[torch.from_numpy(j)].double()
    weight_m_n[i, j] = np.maximum(apart.square().sum(1).numpy() - NOISE * longest, 0.0)
    return weight_m_n
