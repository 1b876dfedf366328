"""Passes over blocks of a kernel: what all candidates gain from some targets, and which pairs are worth a list.

A block has a few hundred targets and a few thousand candidates. While it is in a cache, several sums are taken from it.
"""

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from scipy import sparse

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.coverage_kernels import Kernel, in_parts
from poolwise.selection.coverage_loops import loops, starts_of

# Targets and candidates of a block: two megabytes, which stay in a cache while they are worked on.
_ROWS, _COLUMNS = 256, 2048
# Numbers of a block whose targets are fewer.
_BLOCK = _ROWS * _COLUMNS


@dataclass(frozen=True)
class Hits:
    """Pairs whose value is above a level of their target, target by target.

    Attributes:
        targets_s: `[s]` the targets that have a list.
        lengths_s: `[s]` how long each list is.
        candidates: the candidates of all lists, one list after another.
        values: the kernel of each pair.
    """

    targets_s: Array
    lengths_s: Array
    candidates: Array
    values: Array


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
) -> tuple[Array, list[Hits]]:
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

    def work(part: slice) -> tuple[Array, Hits | None]:
        sums_N, found, places_t = np.zeros(N), [], targets_d[part]
        for some in _slices(0, N, min(kernel.at_once, max(_COLUMNS, _BLOCK // len(places_t)))):
            values_t_n = kernel.block(places_t, some).numpy()
            if listed_d[part].any():
                found.append(_shifted(loop.above(values_t_n, above_d[part]), some.start))
            loop.add_between(values_t_n, from_d[part], to_d[part], weights_d[part], sums_N[some])
        hits = _joined(loop, found)
        return sums_N, None if hits is None else Hits(places_t[listed_d[part]], hits[0][listed_d[part]], *hits[1:])

    total_N, lists = np.zeros(N), []
    for sums_N, hits in ordered_map(work, _slices(0, len(targets_d), _ROWS)):
        total_N += sums_N
        lists.extend([] if hits is None else [hits])
    return total_N, lists


def sweep_symmetric(kernel: Kernel, from_T: Array, weights_T: Array, above_T: Array) -> tuple[Array, list[Hits]]:
    """What all candidates have above a level, and lists of pairs, from half of the products.

    Points are taken in the order of the values above which they list pairs. Of two points, what is worth a list for the
    second is then worth one for the first, so that every block is compared once.

    Args:
        kernel: a symmetric one of T points.
        from_T: `[T]` the level.
        weights_T: `[T]` what each target counts for.
        above_T: `[T]` pairs whose value is above this are listed.
    Returns:
        `[T]` sums of the parts of values that are above the level, times the weight; and the lists. A target has up to
        two of these, in different `Hits`.
    """
    order_T = np.argsort(above_T, kind="stable")
    kernel, T = kernel.permuted(order_T), len(order_T)
    from_T, weights_T, above_T = from_T[order_T], weights_T[order_T], above_T[order_T]
    listed, loop = int(np.isfinite(above_T).sum()), loops(T * T)

    def work(rows: slice) -> tuple[slice, Array, Array, tuple[Array, Array, Array] | None]:
        own_t, later_n, found = np.zeros(rows.stop - rows.start), np.zeros(T - rows.start), []
        for some in [rows, *_slices(rows.stop, T, _COLUMNS)]:
            values_t_n = kernel.block(rows, some).numpy()
            if rows.start < listed:
                found.append(_shifted(loop.above(values_t_n, above_T[rows]), some.start))
            here_n = later_n[some.start - rows.start : some.stop - rows.start]
            both = from_T[rows], weights_T[rows], here_n, from_T[some], weights_T[some], own_t
            loop.add_both(values_t_n, *both) if some is not rows else loop.add_between(
                values_t_n, from_T[rows], np.full(len(own_t), np.inf, from_T.dtype), weights_T[rows], here_n
            )
        return rows, own_t, later_n, _joined(loop, found)

    sums_T, first, second = np.zeros(T), [], []
    for rows, own_t, later_n, hits in ordered_map(work, _slices(0, T, _ROWS)):
        sums_T[rows] += own_t
        sums_T[rows.start :] += later_n
        if hits is not None:
            first.append(hits)
            second.append(loop.backwards(*hits, rows.stop, above_T))
    gains_T = np.empty(T)
    gains_T[order_T] = sums_T
    if not first:
        return gains_T, []
    by_target, by_candidate = _one_list(first), _one_list(second)
    lengths, others, values = by_candidate
    turned = sparse.csr_array((values, others, _ends_of(lengths)), shape=(len(lengths), T)).tocsc()
    places = order_T.astype(np.int32)
    return gains_T, [
        Hits(order_T[:listed], by_target[0][:listed], places[by_target[1]], by_target[2]),
        Hits(order_T[:listed], np.diff(turned.indptr)[:listed], places[turned.indices], turned.data),
    ]


def _shifted(hits: tuple[Array, Array, Array], start: int) -> tuple[Array, Array, Array]:
    """Lists of columns that are counted from a start on."""
    places = hits[1]
    places += start
    return hits[0], places, hits[2]


def _joined(loop: ModuleType, parts: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array] | None:
    """Lists of the same rows in different columns, joined row by row."""
    if len(parts) < 2:
        return parts[0] if parts else None
    lengths_p_t = np.stack([lengths_t for lengths_t, _, _ in parts])
    places, values = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    return lengths_p_t.sum(0), *loop.merged(lengths_p_t, places, values)


def _one_list(parts: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
    """Lists of different rows, one after another; the parts are emptied."""
    lengths, places, values = (np.concatenate([part[k] for part in parts]) for k in range(3))
    parts.clear()
    return lengths, places, values


def _ends_of(lengths_n: Array) -> Array:
    """`[n + 1]` where runs of some lengths begin, and where the last one ends."""
    return np.append(starts_of(lengths_n), lengths_n.sum())


def _slices(start: int, stop: int, step: int) -> list[slice]:
    return [slice(begin, min(begin + step, stop)) for begin in range(start, stop, step)]
