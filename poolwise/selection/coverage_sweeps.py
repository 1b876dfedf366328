"""Passes over blocks of a kernel: what all candidates gain from some targets, and which pairs are worth a list.

A block has a few hundred targets and a few thousand candidates. While it is in a cache, several sums are taken from it.
"""

from dataclasses import dataclass

import numpy as np

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.coverage_kernels import Kernel, in_parts
from poolwise.selection.coverage_loops import loops
from poolwise.selection.coverage_tiles import Tiles

# Targets and candidates of a block: two megabytes, which stay in a cache while they are worked on.
ROWS, _COLUMNS = 512, 1024
# Numbers of a block whose targets are fewer.
_BLOCK = ROWS * _COLUMNS


# Where a block is: its rows, its columns, and whether its values count for the columns too; and what `above` found.
Part = tuple[slice, slice, bool, tuple[Array, Array, Array]]


@dataclass(frozen=True)
class Hits:
    """Pairs whose value is above a level of their target, as they were found in blocks.

    Attributes:
        targets_s: `[s]` the targets that are the rows of the blocks.
        above_s: `[s]` the level of each; infinite if it gets no list.
        counts_s: `[s]` how many pairs its list has.
        numbers: the candidates that are the columns of the blocks.
        parts: the blocks.
    """

    targets_s: Array
    above_s: Array
    counts_s: Array
    numbers: Array
    parts: list[Part]


def between(kernel: Kernel, points_n: Array, targets_d: Array, from_d: Array, to_d: Array, weights_d: Array) -> Array:
    """`[n]` what some candidates have at some targets between two levels, times the weight.

    Args:
        kernel: N candidates, T targets.
        points_n: `[n]` the candidates.
        targets_d: `[d]` the targets.
        from_d: `[d]` the lower level of each.
        to_d: `[d]` the upper level.
        weights_d: `[d]` what each target counts for.
    """
    add_between = loops(kernel.shape[0] * kernel.shape[1]).add_between

    def sums(some_n: Array) -> Array:
        sums_n = np.zeros(len(some_n))
        for part in _slices(0, len(targets_d), min(_COLUMNS, kernel.at_once)):
            places = part if len(targets_d) == kernel.shape[1] else targets_d[part]
            values_t_n = kernel.block(places, some_n).numpy()
            add_between(values_t_n, from_d[part], to_d[part], weights_d[part], sums_n)
        return sums_n

    return np.concatenate([np.empty(0), *ordered_map(sums, in_parts(points_n))])


def sweep(
    kernel: Kernel, targets_d: Array, from_d: Array, to_d: Array, weights_d: Array, above_d: Array
) -> tuple[Array, Hits]:
    """What all candidates have at some targets between two levels, and lists of pairs.

    Args:
        kernel: N candidates, T targets.
        targets_d: `[d]` the targets.
        from_d: `[d]` the lower level of each.
        to_d: `[d]` the upper level.
        weights_d: `[d]` what each target counts for.
        above_d: `[d]` pairs whose value is above this are listed.
    Returns:
        `[N]` sums of the parts of values that are between the levels, times the weight; and the lists.
    """
    N, loop = kernel.shape[0], loops(kernel.shape[0] * kernel.shape[1])
    listed_d = np.isfinite(above_d)

    def work(part: slice) -> tuple[Array, list[Part]]:
        sums_N, found, places_t = np.zeros(N), [], targets_d[part]
        for some in _slices(0, N, min(kernel.at_once, max(_COLUMNS, _BLOCK // len(places_t)))):
            values_t_n = kernel.block(places_t, some).numpy()
            if listed_d[part].any():
                found.append((part, some, False, loop.above(values_t_n, above_d[part], above_d[:0])))
            loop.add_between(values_t_n, from_d[part], to_d[part], weights_d[part], sums_N[some])
        return sums_N, found

    total_N, parts = np.zeros(N), []
    for sums_N, found in ordered_map(work, _slices(0, len(targets_d), ROWS)):
        total_N += sums_N
        parts.extend(found)
    counts_d = np.zeros(len(targets_d), np.int64)
    for rows, _, _, (lengths_t, _, _) in parts:
        counts_d[rows] += lengths_t
    return total_N, Hits(targets_d, above_d, counts_d, np.arange(N, dtype=np.int32), parts)


def sweep_symmetric(
    kernel: Kernel, from_T: Array, weights_T: Array, above_T: Array, tiles: Tiles | None = None
) -> tuple[Array, Hits]:
    """What all candidates have above a level, and lists of pairs, from half of the products.

    Args:
        kernel: a symmetric one of T points.
        from_T: `[T]` the level.
        weights_T: `[T]` what each target counts for.
        above_T: `[T]` pairs whose value is above this are listed.
        tiles: where values are kept; read from there if they are there.
    Returns:
        `[T]` sums of the parts of values that are above the level, times the weight; and the lists.
    """
    T, listed_T = len(from_T), np.isfinite(above_T)
    any_listed = bool(listed_T.any())
    loop, block = loops(T * T), kernel.block if tiles is None else tiles.block

    def work(rows: slice) -> tuple[slice, Array, Array, Array, list[Part]]:
        own_t, later_n, found = np.zeros(rows.stop - rows.start), np.zeros(T - rows.start), []
        counts_n = np.zeros(T - rows.start, np.int64)
        for some in [rows, *_slices(rows.stop, T, _COLUMNS)]:
            values_t_n, here = block(rows, some).numpy(), slice(some.start - rows.start, some.stop - rows.start)
            other = some is not rows
            if any_listed and (listed_T[rows].any() or (other and listed_T[some].any())):
                hits = loop.above(values_t_n, above_T[rows], above_T[some] if other else above_T[:0])
                found.append((rows, some, other, hits))
                if other:
                    loop.count(hits, above_T[rows], above_T[some], counts_n[: len(own_t)], counts_n[here])
                else:
                    counts_n[: len(own_t)] += hits[0]
            both = from_T[rows], weights_T[rows], later_n[here], from_T[some], weights_T[some], own_t
            loop.add_both(values_t_n, *both) if other else loop.add_between(
                values_t_n, from_T[rows], np.full(len(own_t), np.inf, from_T.dtype), weights_T[rows], later_n[here]
            )
        return rows, own_t, later_n, counts_n, found

    sums_T, counts_T, parts = np.zeros(T), np.zeros(T, np.int64), []
    for rows, own_t, later_n, counts_n, found in ordered_map(work, _slices(0, T, ROWS)):
        sums_T[rows] += own_t
        sums_T[rows.start :] += later_n
        counts_T[rows.start :] += counts_n
        parts.extend(found)
    return sums_T, Hits(np.arange(T), above_T, counts_T, np.arange(T, dtype=np.int32), parts)


def _slices(start: int, stop: int, step: int) -> list[slice]:
    return [slice(begin, min(begin + step, stop)) for begin in range(start, stop, step)]
