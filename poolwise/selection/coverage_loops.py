"""The inner loops of coverage, over whole arrays.

`coverage_compiled` has the same functions in one pass each, compiled by Numba. They are several times as fast, but take
half a second to load. Both round differently, which decides nothing: see `coverage`.
"""

import importlib
import itertools
import sys
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.selection.coverage_kernels import Scratch

# Pairs whose terms are summed at a time, so that these never take much memory.
_STEP = 1 << 20
# Targets of a table that are looked at together.
_ROWS = 64
# With this many pairs compiled loops save more time than they take to load.
_MANY = 50_000_000
_COMPILED = "poolwise.selection.coverage_compiled"
_copies, _masks = Scratch(), Scratch()


def loops(pairs: int) -> ModuleType:
    """The compiled loops where they are worth it and Numba is installed, or those of this module.

    Args:
        pairs: how many pairs of points there are.
    """
    if pairs >= _MANY or _COMPILED in sys.modules:
        try:
            return importlib.import_module(_COMPILED)
        except ImportError:  # no Numba, or one that does not suit NumPy
            pass
    return sys.modules[__name__]


def add_between(values_t_n: Array, from_t: Array, to_t: Array, weights_t: Array, sums_n: Array) -> None:
    """Add, for each column, the parts of its values that are between two levels of the row, times the row's weight."""
    parts_t_n = torch.from_numpy(values_t_n).sub_(_column(from_t)).clamp_min_(0.0)
    if np.isfinite(to_t).any():
        torch.minimum(parts_t_n, _column(to_t - from_t), out=parts_t_n)
    sums_n += torch.mv(parts_t_n.T, torch.from_numpy(weights_t)).numpy()


def add_both(
    values_t_n: Array, from_t: Array, weights_t: Array, sums_n: Array, from_n: Array, weights_n: Array, sums_t: Array
) -> None:
    """Add, for each column, what its values have above levels of rows; the same with rows and columns swapped."""
    values, (rows, columns) = torch.from_numpy(values_t_n), values_t_n.shape
    copy_t_n = torch.sub(values, _column(from_t), out=_copies.shaped(rows, columns, values.dtype)).clamp_min_(0.0)
    sums_n += torch.mv(copy_t_n.T, torch.from_numpy(weights_t)).numpy()
    values.sub_(torch.from_numpy(from_n)).clamp_min_(0.0)
    sums_t += torch.mv(values, torch.from_numpy(weights_n)).numpy()


def above(values_t_n: Array, above_t: Array, above_n: Array) -> tuple[Array, Array, Array]:
    """Values above a level of their row, or of their column: how many each row has, their columns, and the values.

    Args:
        values_t_n: `[t, n]` values.
        above_t: `[t]` the level of each row.
        above_n: `[n]` the level of each column; none if only rows have levels.
    """
    rows, columns = values_t_n.shape
    mask_t_n = np.greater(values_t_n, above_t[:, None], out=_masks.shaped(rows, columns, torch.bool).numpy())
    if len(above_n):
        mask_t_n |= values_t_n > above_n
    hits = np.flatnonzero(mask_t_n)
    lengths_t = np.diff(np.searchsorted(hits, np.arange(rows + 1) * columns))
    places = hits - np.repeat(np.arange(rows) * columns, lengths_t)
    return lengths_t, places.astype(np.int32), values_t_n.ravel()[hits]


def count(found: tuple[Array, Array, Array], above_t: Array, above_n: Array, counts_t: Array, counts_n: Array) -> None:
    """Count, for each row and each column, the values above its level.

    Args:
        found: what `above` found.
        above_t: `[t]` the level of each row.
        above_n: `[n]` the level of each column.
        counts_t: `[t]` counts; added to.
        counts_n: `[n]` counts; added to.
    """
    lengths_t, places, values = found
    own = np.repeat(np.arange(len(lengths_t)), lengths_t)
    counts_t += np.bincount(own[values > above_t[own]], minlength=len(counts_t))
    counts_n += np.bincount(places[values > above_n[places]], minlength=len(counts_n))


def place(
    found: tuple[Array, Array, Array],
    rows: tuple[Array, Array, Array],
    columns: tuple[Array, Array, Array],
    lists: tuple[Array, Array],
) -> None:
    """Write values to the lists of their rows and of their columns, where they are above a level of these.

    Args:
        found: what `above` found.
        rows: `[t]` numbers of the rows, where the next pair of each is to be written, which is written to, and levels.
        columns: `[n]` the same of the columns; no levels if columns have no lists.
        lists: numbers and values of all lists; written to.
    """
    lengths_t, places, values = found
    (own_t, ends_t, above_t), (others_n, ends_n, above_n) = rows, columns
    own = np.repeat(np.arange(len(lengths_t)), lengths_t)
    _append(own, others_n[places], values, above_t, ends_t, lists)
    if len(above_n):
        order = np.argsort(places, kind="stable")
        _append(places[order], own_t[own[order]], values[order], above_n, ends_n, lists)


def _append(
    owners: Array, numbers: Array, values: Array, above: Array, ends: Array, lists: tuple[Array, Array]
) -> None:
    """Write values above the level of their owner to its list; owners are in order."""
    kept = np.flatnonzero(values > above[owners])
    counts = np.bincount(owners[kept], minlength=len(ends))
    entries = runs(ends, counts)
    lists[0][entries], lists[1][entries] = numbers[kept], values[kept]
    ends += counts


def improved(
    places_n: Array, values_n: Array, covered_T: Array, weights_T: Array, grid: float
) -> tuple[Array, Array, Array]:
    """The targets whose value is above what is covered, by how much times their weight, and the values.

    Args:
        places_n: `[n]` targets.
        values_n: `[n]` the value of each.
        covered_T: `[T]` how far targets are covered.
        weights_T: `[T]` what they count for.
        grid: adding and subtracting it rounds terms to multiples of a number, so that their sums are exact.
    """
    better_n = values_n > covered_T[places_n]
    places_n, values_n = places_n[better_n].astype(np.int64), values_n[better_n]
    terms_n = np.subtract(values_n, covered_T[places_n], dtype=np.float64) * weights_T[places_n]
    return places_n, (terms_n + grid) - grid, values_n


def raise_levels(
    targets_n: Array, values_n: Array, noise: float, relative: float, covered_T: Array, high_T: Array, low_T: Array
) -> None:
    """Cover targets further, and set their levels.

    Args:
        targets_n: `[n]` targets.
        values_n: `[n]` how far they are covered now.
        noise: how far a value of a block may be off.
        relative: the same as a share of the value.
        covered_T: `[T]` how far targets are covered; written to.
        high_T: `[T]` values of blocks above this improve a target beyond doubt; written to.
        low_T: `[T]` values up to this do not; written to.
    """
    covered_T[targets_n] = values_n
    values_n = values_n.astype(np.float64)
    high_T[targets_n] = values_n * (1 + relative) + noise
    low_T[targets_n] = np.maximum(values_n * (1 - relative) - noise, 2 * noise)


def cover(
    places: Array,
    values: Array,
    starts: Array,
    lengths: Array,
    targets_n: Array,
    listed_T: Array,
    known_T: Array,
    high_T: Array,
    low_T: Array,
    weights_T: Array,
    gains_N: Array,
) -> tuple[int, int]:
    """Lower gains where targets are covered further, and drop pairs that improve nothing any more: see `Lists.cover`.

    Args:
        places: the candidates of all lists; written to.
        values: their values; written to.
        starts: `[T]` where each list begins.
        lengths: `[T]` how long it is; written to.
        targets_n: `[n]` the targets.
        listed_T: `[T]` whether a target has a list.
        known_T: `[T]` the level that it was covered to; written to.
        high_T: `[T]` the level that it is covered to now.
        low_T: `[T]` pairs up to this may be dropped.
        weights_T: `[T]` its weight.
        gains_N: `[N]` gains; written to.
    Returns:
        How many pairs were in the lists, and how many are left.
    """
    targets_n = targets_n[listed_T[targets_n]]
    starts_l, lengths_l = starts[targets_n], lengths[targets_n]
    entries, owner = runs(starts_l, lengths_l), np.repeat(targets_n, lengths_l)
    here, own = values[entries], places[entries]
    falls = np.minimum(here, high_T[owner]).astype(np.float64)
    falls -= known_T[owner]
    np.maximum(falls, 0, out=falls)
    falls *= weights_T[owner]
    np.subtract.at(gains_N, own, falls)
    known_T[targets_n] = high_T[targets_n]
    kept = np.flatnonzero(here > low_T[owner])
    lengths_l = np.diff(np.searchsorted(kept, np.append(0, np.cumsum(lengths_l))))
    lengths[targets_n] = lengths_l
    left = runs(starts_l, lengths_l)
    values[left], places[left] = here[kept], own[kept]
    return len(entries), len(kept)


def lower(values_T_N: Array, targets_n: Array, from_T: Array, to_T: Array, weights_T: Array, gains_N: Array) -> None:
    """Subtract from gains what values of some targets have between two levels, times the weight of the target.

    Args:
        values_T_N: `[T, N]` values of all targets.
        targets_n: `[n]` some targets.
        from_T: `[T]` the lower level.
        to_T: `[T]` the upper level.
        weights_T: `[T]` the weights.
        gains_N: `[N]` gains; written to.
    """
    for start in range(0, len(targets_n), _ROWS):
        some_m = targets_n[start : start + _ROWS]
        low_m_1 = from_T[some_m, None]
        parts_m_N = np.clip(values_T_N[some_m], low_m_1, to_T[some_m, None]).astype(np.float64)
        parts_m_N -= low_m_1
        gains_N -= weights_T[some_m].astype(np.float64) @ parts_m_N


def mirror(values_t_n: Array, out_n_t: Array) -> None:
    """Write values with rows and columns swapped."""
    out_n_t[:] = values_t_n.T


def add_lists(
    places: Array,
    values: Array,
    starts: Array,
    lengths: Array,
    level_T: Array,
    weights_T: Array,
    gains_N: Array,
    counts_N: Array,
) -> None:
    """Add to gains what listed values have above the level of their target, times its weight; and count the pairs.

    Args:
        places: the candidates of all lists.
        values: their values.
        starts: `[T]` where each list begins.
        lengths: `[T]` how long it is.
        level_T: `[T]` the level.
        weights_T: `[T]` the weight.
        gains_N: `[N]` gains; written to.
        counts_N: `[N]` in how many pairs each candidate is; written to.
    """
    N, owners = len(gains_N), np.arange(len(level_T), dtype=np.int32)
    ends = np.cumsum(lengths)
    steps = np.arange(0, ends[-1] if len(ends) else 0, _STEP)
    bounds = np.append(np.searchsorted(ends, steps, side="right"), len(ends))
    for first, last in itertools.pairwise(bounds):
        part = slice(first, last)
        entries, targets = runs(starts[part], lengths[part]), np.repeat(owners[part], lengths[part])
        terms = np.maximum(values[entries], level_T[targets]).astype(np.float64)
        terms -= level_T[targets]
        terms *= weights_T[targets]
        gains_N += np.bincount(places[entries], terms, N)
        counts_N += np.bincount(places[entries], minlength=N)


def gather(
    places: Array, values: Array, starts_s: Array, lengths_s: Array, new_places: Array, new_values: Array
) -> None:
    """Copy lists, one after another, to the beginning of new arrays."""
    entries = runs(starts_s, lengths_s)
    np.take(places, entries, out=new_places[: len(entries)])
    np.take(values, entries, out=new_values[: len(entries)])


def turn(
    places: Array, values: Array, starts: Array, lengths: Array, ends_N: Array, targets: Array, turned: Array
) -> None:
    """Write the lists of each candidate: the targets in whose lists it is, and the values.

    Args:
        places: the candidates of all lists.
        values: their values.
        starts: `[T]` where each list begins.
        lengths: `[T]` how long it is.
        ends_N: `[N + 1]` zeros; then where the targets of each candidate begin, and where the last ones end.
        targets: the targets of all candidates, one candidate after another; written to.
        turned: the values of these pairs; written to.
    """
    entries = runs(starts, lengths)
    own = places[entries]
    order = np.argsort(own, kind="stable")
    targets[:] = np.repeat(np.arange(len(starts), dtype=np.int32), lengths)[order]
    turned[:] = values[entries[order]]
    ends_N[1:] = np.cumsum(np.bincount(own, minlength=len(ends_N) - 1))


def runs(starts_n: Array, lengths_n: Array) -> Array:
    """Consecutive numbers from each start on, as many as the length says, one run after another."""
    numbers: Array = np.arange(int(lengths_n.sum())) + np.repeat(starts_n - starts_of(lengths_n), lengths_n)
    return numbers


def starts_of(lengths_n: Array) -> Array:
    """`[n]` where runs of some lengths begin, one after another."""
    starts_n: Array = np.cumsum(lengths_n) - lengths_n
    return starts_n


def _column(values_t: Array) -> Tensor:
    return torch.from_numpy(values_t)[:, None]
