"""Pairs of rows within a radius of each other: each pair is looked at once, and most of them in few dimensions.

A sketch of a row is its projection onto some directions, and the length of what the projection leaves out. Two sketches
are never farther apart than their rows. So pairs with distant sketches are left out, and only the others are compared.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.parallel import ordered_map
from poolwise.selection.balls import COLUMNS, Balls, piece, tiles
from poolwise.selection.feature_blocks import ROUNDING, Rows, squared_lengths

# Rows that are compared at a time: their distances to a piece stay in the cache, and they need the same columns.
_STRIP = 128
# How many directions a sketch has. With fewer than four times as many features it saves too little.
_DIRECTIONS = 48
# The directions are those in which this many rows vary most.
_SAMPLE = 1024
# If more pairs than this share are left, the sketches are not used.
_MOST_LEFT = 0.1

Found = tuple[slice, slice, Array, Array]


def near_pairs(rows: Rows, count: int, balls: Balls, memory: int) -> tuple[Array, Iterator[Found]]:
    """Pairs of the first `count` rows that are within the radius of each other, in some order of the rows.

    Args:
        rows: the points; those after the first `count` are left out.
        count: a border between blocks.
        balls: which rows are near.
        memory: working memory to stay within, in bytes.
    Returns:
        `[count]` the order, and for each two pieces of it: where they are, and the pairs, as places in both. Two
        different pieces come once, a piece with itself once too, with every pair in both directions.
    """
    order = np.arange(count)
    sketch = _sketch(rows, count, memory) if rows.D >= 4 * _DIRECTIONS and count > _SAMPLE else None
    if sketch is not None and not _is_worth_it(sketch, balls):
        sketch = None
    if sketch is not None:
        order = _by_pivot(sketch)
        sketch, rows = sketch[torch.from_numpy(order)], rows.sample(order, memory)
        of_sketch = sketch.square().sum(1)
    lengths = torch.from_numpy(
        np.concatenate([squared_lengths(rows.block(i)) for i, part in enumerate(rows.parts) if part.start < count])
    )
    pieces = tiles(rows, COLUMNS, 0, count)

    def compare(pair: tuple[tuple[int, slice], tuple[int, slice]]) -> Found:
        (_, first), (_, second) = pair
        rows_n_D, rows_m_D = piece(rows, pair[0]), piece(rows, pair[1])
        lengths_m = lengths[second]
        found: list[tuple[Array, Array]] = []
        for start in range(0, len(rows_n_D), _STRIP):
            strip = slice(start, min(start + _STRIP, len(rows_n_D)))
            some_n, own_n_D = order[first][strip], rows_n_D[strip]
            if sketch is None:
                i, j = balls.pairs(some_n, own_n_D, order[second], rows_m_D, lengths_m)
            else:
                possible_n_m = balls.possible(sketch[first][strip], sketch[second], of_sketch[second], 2 * ROUNDING)
                left = np.flatnonzero(possible_n_m.amax(0).numpy() >= 0)
                taken = torch.from_numpy(left)
                i, j = balls.pairs(some_n, own_n_D, order[second][left], rows_m_D[taken], lengths_m[taken])
                j = left[j]
            found.append((i + start, j))
        i, j = (np.concatenate(arrays).astype(np.uint16) for arrays in zip(*found, strict=True))
        return first, second, i, j

    pairs = [(a, b) for number, a in enumerate(pieces) for b in pieces[number:]]
    return order, ordered_map(compare, pairs)


def _is_worth_it(sketch_M_d: Tensor, balls: Balls) -> bool:
    """Whether few pairs are left, by a sample."""
    some = sketch_M_d[:: len(sketch_M_d) // 256]
    possible_n_n = balls.possible(some, some, some.square().sum(1), 2 * ROUNDING)
    return float((possible_n_n >= 0).float().mean()) < _MOST_LEFT


def _by_pivot(sketch_M_d: Tensor) -> Array:
    """Rows in an order in which near ones are often together: each with the nearest of some rows."""
    pivots = sketch_M_d[::_STRIP]
    half = pivots.square().sum(1).div_(2)
    nearest = [torch.addmm(half, some, pivots.T, beta=-1).argmax(1) for some in torch.split(sketch_M_d, COLUMNS)]
    return np.argsort(torch.cat(nearest).numpy(), kind="stable")


def _sketch(rows: Rows, count: int, memory: int) -> Tensor | None:
    """`[count, d]` float32 sketches; None if there is no room for them."""
    if count * (_DIRECTIONS + 1) * 4 > memory // 4:
        return None
    some_s_D = rows.take(np.arange(0, count, count // _SAMPLE))
    draw = torch.Generator().manual_seed(0)  # what the directions are decides nothing but the time
    basis_D_d = torch.randn(rows.D, _DIRECTIONS, dtype=torch.float64, generator=draw)
    for _ in range(3):
        basis_D_d = torch.linalg.qr(some_s_D.T @ (some_s_D @ basis_D_d)).Q
    sketch = torch.empty(count, _DIRECTIONS + 1)

    def project(index: int) -> None:
        rows_n_D = rows.block(index).double()
        inside_n_d = rows_n_D @ basis_D_d
        sketch[rows.parts[index], :-1] = inside_n_d.float()
        rest_n = rows_n_D.square().sum(1) - inside_n_d.square().sum(1)
        sketch[rows.parts[index], -1] = rest_n.clamp_min_(0.0).sqrt_().float()

    for _ in ordered_map(project, [index for index, part in enumerate(rows.parts) if part.start < count]):
        pass
    return sketch
