"""The rows that are closest to their nearest others: exact, without sorting the distances of most rows.

The mean of the k smallest of some distances d is at least r - (1/k) sum max(0, r - d), whatever the number r. So one
sum per row bounds the mean from below. It is tight where about k distances are below r. Rows are looked at in the order
of these sums, until no other row can be among the closest. Bounds are made in float32. What rounding leaves in doubt is
decided in float64.
"""

import importlib
import itertools
import sys
from types import ModuleType

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.coverage_kernels import Scratch
from poolwise.selection.feature_blocks import ROUNDING, Rows, squared_lengths

# How many rows are compared with those of a block at a time: their distances stay in the cache.
_STRIP = 128
# The most distances that are kept at a time; of very many rows, fewer are then looked at together.
_DISTANCES = 1 << 24
# How many rows near the mean are looked at first, before there are sums.
_FIRST = 16
# Sums of up to a hundred thousand float32 numbers are wrong by less than this share.
_SUMMED = 6e-3
# With this many products of numbers, compiled loops save more time than they take to load.
_MANY = 500_000_000
_products = Scratch()


def closest(rows: Rows, count: int, k: int) -> tuple[Array, Array]:
    """Rows whose mean distance to the nearest k others is smallest, and `[m, k]` these squared distances in float64.

    There are `count` of them or more: all rows that rounding of float32 leaves in doubt.
    """
    n = len(rows)
    strip = max(1, min(_STRIP, _DISTANCES // n))
    lengths_n = np.concatenate([squared_lengths(rows.block(index)) for index in range(len(rows.parts))])
    doubt_n = ROUNDING * (lengths_n + lengths_n.max())
    least_n, most_n, last_n = np.full(n, np.inf), np.full(n, np.inf), np.empty(n)

    def measure(some_m: Array) -> float:
        """Bound the means of some rows. Returns which mean is exceeded by no row of the result."""
        nearest_m_k = np.partition(_squares(rows, some_m, lengths_n), k - 1, 1)[:, :k].astype(np.float64)
        least_n[some_m] = np.sqrt(np.maximum(nearest_m_k - doubt_n[some_m, None], 0.0)).mean(1)
        most_n[some_m] = np.sqrt(np.maximum(nearest_m_k, 0.0) + doubt_n[some_m, None]).mean(1)
        last_n[some_m] = nearest_m_k[:, -1]
        return float(np.partition(most_n, count - 1)[count - 1])

    first_m = np.argpartition(lengths_n, min(max(_FIRST, count), n) - 1)[: max(_FIRST, count)]
    for start in range(0, len(first_m), strip):
        bound = measure(first_m[start : start + strip])
    best = first_m[most_n[first_m].argmin()]
    reach = max(float(np.sqrt(max(last_n[best], 0.0) + doubt_n[best])), bound)
    sums_n = _nearness(rows, lengths_n, doubt_n, reach) * (1 + _SUMMED)
    sums_n[first_m] = -1.0
    order_n = np.argsort(-sums_n, kind="stable")[: n - len(first_m)]
    for start in range(0, len(order_n), strip):
        some_m = order_n[start : start + strip]
        some_m = some_m[sums_n[some_m] >= k * (reach - bound)]
        if not len(some_m):
            break
        bound = measure(some_m)
    doubtful_m = np.flatnonzero(least_n <= bound)
    squared_m_k = np.empty((len(doubtful_m), k))
    for start in range(0, len(doubtful_m), strip):
        some_m = doubtful_m[start : start + strip]
        near_m_n = _squares(rows, some_m, lengths_n) <= (last_n[some_m] + 2 * doubt_n[some_m])[:, None]
        for place, (row, near_n) in enumerate(zip(some_m, near_m_n, strict=True), start):
            apart = rows.take(np.flatnonzero(near_n)) - rows.take(np.array([row]))
            squared_m_k[place] = np.sort(apart.square().sum(1).numpy())[:k]
    return doubtful_m, squared_m_k


def _squares(rows: Rows, some_m: Array, lengths_n: Array) -> Array:
    """`[m, n]` squared distances of some rows to all, up to rounding; infinite to themselves. To be used at once."""
    own_m_D = rows.take(some_m).float()
    squared_m_n = _products.shaped(len(some_m), len(rows), torch.float32)
    for index, part in enumerate(rows.parts):
        torch.mm(own_m_D, rows.block(index).T, out=squared_m_n[:, part])
    squared_m_n.mul_(-2.0).add_(torch.from_numpy(lengths_n)).add_(torch.from_numpy(lengths_n[some_m])[:, None])
    squared_m_n[torch.arange(len(some_m)), torch.from_numpy(some_m)] = torch.inf
    return squared_m_n.numpy()


def _nearness(rows: Rows, lengths_n: Array, doubt_n: Array, reach: float) -> Array:
    """`[n]` the sum, over all other rows, of how far their distances are below the reach; or more, by rounding."""
    loops = _loops(len(rows) ** 2 * rows.D)
    limit = np.float32(reach * (1 + 1e-6))

    def compare(pair: tuple[int, int]) -> tuple[slice, slice, Array, Array]:
        a, b = (rows.parts[index] for index in pair)
        rows_a_D, rows_b_D = rows.block(pair[0]), rows.block(pair[1])
        less_a, lengths_b = lengths_n[a] - doubt_n[a], lengths_n[b]
        sums_a = np.zeros(len(less_a), np.float32)
        sums_b = sums_a if a == b else np.zeros(len(lengths_b), np.float32)
        for start in range(0, len(less_a), _STRIP):
            strip, skip = slice(start, start + _STRIP), start if a == b else 0
            lengths_s, lengths_m = less_a[strip], lengths_b[skip:]
            products_s_m = _products.shaped(len(lengths_s), len(lengths_m), torch.float32)
            torch.mm(rows_a_D[strip], rows_b_D[skip:].T, out=products_s_m)
            if loops:
                loops.add_nearness(
                    products_s_m.numpy(), lengths_s, lengths_m, limit, a == b, sums_a[strip], sums_b[skip:]
                )
                continue
            squared_s_m = products_s_m.mul_(-2.0).add_(torch.from_numpy(lengths_m))
            distance_s_m = squared_s_m.add_(torch.from_numpy(lengths_s)[:, None]).clamp_min_(0.0).sqrt_()
            near_s_m = distance_s_m.neg_().add_(float(limit)).clamp_min_(0.0)
            if a == b:
                near_s_m = near_s_m.triu_(1)
            sums_a[strip] += near_s_m.sum(1).numpy()
            sums_b[skip:] += near_s_m.sum(0).numpy()
        return a, b, sums_a, sums_b

    sums_n = np.zeros(len(rows))
    for a, b, sums_a, sums_b in ordered_map(
        compare, list(itertools.combinations_with_replacement(range(len(rows.parts)), 2))
    ):
        sums_n[a] += sums_a
        if a != b:
            sums_n[b] += sums_b
    return sums_n


def _loops(products: int) -> ModuleType | None:
    """The compiled loop, where it is worth it or Numba is there anyway."""
    if products >= _MANY or "numba" in sys.modules:
        try:
            return importlib.import_module("poolwise.selection.closest_compiled")
        except ImportError:  # no Numba, or one that does not suit NumPy
            pass
    return None
