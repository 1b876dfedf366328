"""The inner loops of coverage, compiled: the functions of `coverage_loops`, which says what they do."""

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.compiling import compiled, compiled_exactly
from poolwise.selection.coverage_kernels import Scratch

# The first bit of each of eight bytes, where the last of these begins, and one.
_FIRST_BITS, _LAST_BYTE, _ONE = np.uint64(0x0101010101010101), np.uint64(56), np.uint64(1)
# Looking at this many values of an index costs as much as computing one.
_SCANNED = 16
# Rows and columns of a square that is mirrored.
_SQUARE = 8
_places, _values = Scratch(), Scratch()


@compiled
def add_between(values_t_n: Array, from_t: Array, to_t: Array, weights_t: Array, sums_n: Array) -> None:
    """Add parts of values between two levels."""
    rows, columns = values_t_n.shape
    none = values_t_n.dtype.type(0)
    added_n = np.zeros(columns, values_t_n.dtype)
    for i in range(rows):
        low, most, weight = from_t[i], to_t[i] - from_t[i], weights_t[i]
        for j in range(columns):
            added_n[j] += weight * min(max(values_t_n[i, j] - low, none), most)
    for j in range(columns):
        sums_n[j] += added_n[j]


@compiled
def add_both(
    values_t_n: Array, from_t: Array, weights_t: Array, sums_n: Array, from_n: Array, weights_n: Array, sums_t: Array
) -> None:
    """Add what values have above levels of rows, and of columns."""
    rows, columns = values_t_n.shape
    none = values_t_n.dtype.type(0)
    added_n = np.zeros(columns, values_t_n.dtype)
    for i in range(rows):
        low, weight, added = from_t[i], weights_t[i], none
        for j in range(columns):
            value = values_t_n[i, j]
            added_n[j] += weight * max(value - low, none)
            added += weights_n[j] * max(value - from_n[j], none)
        sums_t[i] += added
    for j in range(columns):
        sums_n[j] += added_n[j]


def above(values_t_n: Array, above_t: Array, above_n: Array) -> tuple[Array, Array, Array]:
    """Values above a level of their row, or of their column."""
    size = values_t_n.size + 1
    places = _places.shaped(1, size, torch.int32).numpy()[0]
    values = _values.shaped(1, size, torch.float64 if values_t_n.dtype == np.float64 else torch.float32).numpy()[0]
    lengths_t = np.empty(len(values_t_n), np.int64)
    found = _collect(values_t_n, above_t, above_n, lengths_t, places, values)
    return lengths_t, places[:found].copy(), values[:found].copy()


@compiled
def _collect(values_t_n: Array, above_t: Array, above_n: Array, lengths_t: Array, places: Array, values: Array) -> int:
    """Write values above a level to the beginning of arrays. Eight are compared at once, and most of them are not."""
    rows, columns = values_t_n.shape
    both, found = len(above_n) > 0, 0
    flags = np.zeros(columns + 8, np.uint8)  # one byte per value, and eight of them in one number
    eights = flags[: (columns + 7) // 8 * 8].view(np.uint64)
    for i in range(rows):
        row_n, level, first = values_t_n[i], above_t[i], found
        if both:
            for j in range(columns):
                flags[j] = row_n[j] > min(level, above_n[j])
        else:
            for j in range(columns):
                flags[j] = row_n[j] > level
        for eight in range(len(eights)):
            left = eights[eight]
            while left != 0:
                # The bits below the lowest one that is set: eight for every value before it.
                below = (left - _ONE) & ~left
                places[found] = 8 * eight + np.int64(((below & _FIRST_BITS) * _FIRST_BITS) >> _LAST_BYTE)
                found += 1
                left &= left - _ONE
        for entry in range(first, found):
            values[entry] = row_n[places[entry]]
        lengths_t[i] = found - first
    return found


@compiled
def count(found: tuple[Array, Array, Array], above_t: Array, above_n: Array, counts_t: Array, counts_n: Array) -> None:
    """Count, for each row and each column, the values above its level."""
    lengths_t, places, values = found
    entry = 0
    for i in range(len(lengths_t)):
        level, own = above_t[i], 0
        for _ in range(lengths_t[i]):
            column, value = places[entry], values[entry]
            own += value > level
            counts_n[column] += value > above_n[column]
            entry += 1
        counts_t[i] += own


@compiled
def place(
    found: tuple[Array, Array, Array],
    rows: tuple[Array, Array, Array],
    columns: tuple[Array, Array, Array],
    lists: tuple[Array, Array],
) -> None:
    """Write values to the lists of their rows and of their columns, where they are above a level of these."""
    lengths_t, places, values = found
    (own_t, ends_t, above_t), (others_n, ends_n, above_n), (new_places, new_values) = rows, columns, lists
    both, entry = len(above_n) > 0, 0
    for i in range(len(lengths_t)):
        end, level = ends_t[i], above_t[i]
        for _ in range(lengths_t[i]):
            j, value = places[entry], values[entry]
            if value > level:
                new_places[end], new_values[end] = others_n[j], value
                end += 1
            if both and value > above_n[j]:
                new_places[ends_n[j]], new_values[ends_n[j]] = own_t[i], value
                ends_n[j] += 1
            entry += 1
        ends_t[i] = end


@compiled
def products(row_F: Array, rows_T_F: Array, places_n: Array, least: float) -> Array:
    """Products of one row with others, computed in double precision; 0 where they are below a number."""
    values_n = np.empty(len(places_n), rows_T_F.dtype)
    for n in range(len(places_n)):
        value = rows_T_F.dtype.type(_product(row_F, rows_T_F[places_n[n]]))
        values_n[n] = 0 if value < least else value
    return values_n


@compiled
def products_of_pairs(rows_N_F: Array, rows_T_F: Array, places_n: Array, targets_n: Array, least: float) -> Array:
    """The same of pairs of rows."""
    values_n = np.empty(len(places_n), rows_T_F.dtype)
    for n in range(len(places_n)):
        value = rows_T_F.dtype.type(_product(rows_N_F[places_n[n]], rows_T_F[targets_n[n]]))
        values_n[n] = 0 if value < least else value
    return values_n


@compiled
def _product(row_F: Array, other_F: Array) -> float:
    total = 0.0
    for f in range(len(row_F)):
        total += np.float64(row_F[f]) * np.float64(other_F[f])
    return total


@compiled_exactly
def improved(
    places_n: Array, values_n: Array, covered_T: Array, weights_T: Array, grid: float
) -> tuple[Array, Array, Array]:
    """The targets whose value is above what is covered, by how much times their weight, and the values."""
    targets_m, terms_m, new_m = np.empty(len(places_n), np.int64), np.empty(len(places_n)), np.empty_like(values_n)
    found = 0
    for n in range(len(places_n)):
        target = places_n[n]
        value, covered = values_n[n], covered_T[target]
        if value > covered:
            term = (np.float64(value) - np.float64(covered)) * np.float64(weights_T[target])
            targets_m[found], terms_m[found], new_m[found] = target, (term + grid) - grid, value
            found += 1
    return targets_m[:found], terms_m[:found], new_m[:found]


@compiled
def raise_levels(
    targets_n: Array, values_n: Array, noise: float, relative: float, covered_T: Array, high_T: Array, low_T: Array
) -> None:
    """Cover targets further, and set their levels."""
    for n in range(len(targets_n)):
        target, value = targets_n[n], np.float64(values_n[n])
        covered_T[target] = value
        high_T[target] = value * (1 + relative) + noise
        low_T[target] = max(value * (1 - relative) - noise, 2 * noise)


@compiled
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
    """Lower gains where targets are covered further, and drop pairs that improve nothing any more."""
    read = left = 0
    for target in targets_n:
        if not listed_T[target]:
            continue
        before, after = np.float64(known_T[target]), np.float64(high_T[target])
        low, weight = low_T[target], np.float64(weights_T[target])
        start = kept = starts[target]
        for entry in range(start, start + lengths[target]):
            value = values[entry]
            gains_N[places[entry]] -= weight * max(min(np.float64(value), after) - before, 0.0)
            if value > low:
                values[kept], places[kept] = value, places[entry]
                kept += 1
        read += lengths[target]
        left += kept - start
        lengths[target] = kept - start
        known_T[target] = high_T[target]
    return read, left


@compiled
def lower(values_T_N: Array, targets_n: Array, from_T: Array, to_T: Array, weights_T: Array, gains_N: Array) -> None:
    """Subtract from gains what values of some targets have between two levels."""
    for target in targets_n:
        row_N, before, after = values_T_N[target], np.float64(from_T[target]), np.float64(to_T[target])
        weight = np.float64(weights_T[target])
        for j in range(len(gains_N)):
            gains_N[j] -= weight * max(min(np.float64(row_N[j]), after) - before, 0.0)


@compiled
def mirror(values_t_n: Array, out_n_t: Array) -> None:
    """Write values with rows and columns swapped, in squares of which both sides stay in the fastest cache."""
    rows, columns = values_t_n.shape
    whole, across = rows - rows % _SQUARE, columns - columns % _SQUARE
    for i in range(0, whole, _SQUARE):
        for j in range(0, across, _SQUARE):
            for n in range(j, j + _SQUARE):
                for t in range(i, i + _SQUARE):
                    out_n_t[n, t] = values_t_n[t, n]
    for n in range(columns):
        for t in range(whole if n < across else 0, rows):
            out_n_t[n, t] = values_t_n[t, n]


@compiled
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
    """Add what listed values have above levels, and count the pairs."""
    for target in range(len(starts)):
        level, weight = np.float64(level_T[target]), np.float64(weights_T[target])
        for entry in range(starts[target], starts[target] + lengths[target]):
            gains_N[places[entry]] += weight * max(np.float64(values[entry]) - level, 0.0)
            counts_N[places[entry]] += 1


@compiled
def gather(
    places: Array, values: Array, starts_s: Array, lengths_s: Array, new_places: Array, new_values: Array
) -> None:
    """Copy lists, one after another, to the beginning of new arrays."""
    end = 0
    for s in range(len(starts_s)):
        start, length = starts_s[s], lengths_s[s]
        new_places[end : end + length] = places[start : start + length]
        new_values[end : end + length] = values[start : start + length]
        end += length


@compiled
def turn(
    places: Array, values: Array, starts: Array, lengths: Array, ends_N: Array, targets: Array, turned: Array
) -> None:
    """Write the lists of each candidate: the targets in whose lists it is, and the values."""
    for target in range(len(starts)):
        for entry in range(starts[target], starts[target] + lengths[target]):
            ends_N[places[entry] + 1] += 1
    total = 0
    for candidate in range(len(ends_N) - 1):
        # Each end is where the next target of the candidate is written, and ends up where its list does.
        ends_N[candidate + 1], total = total, total + ends_N[candidate + 1]
    for target in range(len(starts)):
        for entry in range(starts[target], starts[target] + lengths[target]):
            candidate = places[entry] + 1
            end = ends_N[candidate]
            targets[end], turned[end] = target, values[entry]
            ends_N[candidate] = end + 1


@compiled
def _still(numbers_n: Array, values_n: Array, low_T: Array) -> Array:
    """The targets that values from blocks may still improve."""
    near_n = np.empty(len(numbers_n), np.int64)
    found = 0
    for n in range(len(numbers_n)):
        near_n[found] = numbers_n[n]
        found += values_n[n] > low_T[numbers_n[n]]
    return near_n[:found]


@compiled
def _winner(gains_N: Array, slack: float, least: float) -> int:
    """The point with the largest gain; -1 if another is as good within the slack, or it is no more than the least."""
    best, close = np.argmax(gains_N), 0
    rival = gains_N[best] - slack
    for i in range(len(gains_N)):
        close += gains_N[i] >= rival
    return -1 if close > 1 or gains_N[best] <= least else int(best)


@compiled
def _near(row_F: Array, rows_T_F: Array, low_T: Array) -> Array:
    """The targets that a row may improve, by products in the precision of blocks."""
    near_n = np.empty(len(low_T), np.int64)
    found = 0
    for target in range(len(low_T)):
        other_F, total = rows_T_F[target], row_F.dtype.type(0)
        for f in range(len(row_F)):
            total += row_F[f] * other_F[f]
        near_n[found] = target
        found += total > low_T[target]
    return near_n[:found]


@compiled_exactly
def ahead(
    gains_N: Array,
    lists: tuple[Array, Array, Array, Array],
    index: tuple[Array, Array, Array],
    rows: tuple[Array, Array],
    targets: tuple[Array, Array, Array, Array, Array, Array],
    noise: tuple[float, float, float],
    grid: float,
    slack: float,
    least: float,
    most: tuple[int, int, int],
) -> tuple[Array, Array, Array, Array]:
    """Make picks as long as rounding decides none of them, and lists of all targets say what every pick changes.

    Args:
        gains_N: `[N]` gains; written to.
        lists: what `cover` takes: the candidates of all lists, their values, where lists begin, how long they are.
        index: what `turn` made; empty if there is no index of all lists.
        rows: `[N, F]` and `[T, F]` rows whose products are the similarities.
        targets: `[T]` of each target: how far it is covered, its weight, three levels, whether it has a list.
        noise: how far a value of a block may be off, the same as a share of it, and the least value that counts.
        grid: what `improved` takes.
        slack: a point whose gain is within this of the best may be the best.
        least: stop at a gain up to this.
        most: how many picks to make, how many pairs to compute for them, and how many to drop from lists.
    Returns:
        The picks, what each added, the squares of that summed over targets; and the numbers of pairs that were
        computed or looked at instead, that were in lists, and that are left of these.
    """
    (places, values, starts, lengths), (ends_N, numbers, turned), (rows_N_F, rows_T_F) = lists, index, rows
    covered_T, weights_T, known_T, high_T, low_T, listed_T = targets
    picks, added, squares, work = (
        np.empty(most[0], np.int64),
        np.empty(most[0]),
        np.empty(most[0]),
        np.zeros(3, np.int64),
    )
    made = 0
    while made < most[0] and work[0] < most[1] and work[1] - work[2] <= most[2]:
        best = _winner(gains_N, slack, least)
        if best < 0:
            break
        if len(ends_N):
            first, last = ends_N[best], ends_N[best + 1]
            near_n = _still(numbers[first:last], turned[first:last], low_T)
            looked = len(near_n) + (last - first) // _SCANNED
        else:
            near_n, looked = _near(rows_N_F[best], rows_T_F, low_T), len(low_T)
        values_n = products(rows_N_F[best], rows_T_F, near_n, noise[2])
        targets_n, terms_n, new_n = improved(near_n, values_n, covered_T, weights_T, grid)
        raise_levels(targets_n, new_n, noise[0], noise[1], covered_T, high_T, low_T)
        gains_N[best] = -np.inf
        read, left = cover(
            places, values, starts, lengths, targets_n, listed_T, known_T, high_T, low_T, weights_T, gains_N
        )
        picks[made], added[made], squares[made] = best, terms_n.sum(), (terms_n * terms_n).sum()
        work += np.array([looked, read, left])
        made += 1
    return picks[:made], added[:made], squares[:made], work


@compiled_exactly
def ahead_in_table(
    gains_N: Array,
    values_T_N: Array,
    rows: tuple[Array, Array],
    targets: tuple[Array, Array, Array, Array, Array, Array],
    noise: tuple[float, float, float],
    grid: float,
    slack: float,
    least: float,
    most: tuple[int, int, int],
) -> tuple[Array, Array, Array, Array]:
    """The same from a table of all values: what `ahead` does, which says what it takes and returns.

    Args:
        gains_N: `[N]` gains; written to.
        values_T_N: `[T, N]` the table.
        rows: `[N, F]` and `[T, F]` rows whose products are the similarities.
        targets: `[T]` of each target: how far it is covered, its weight, three levels, whether it has a list.
        noise: how far a value of a block may be off, the same as a share of it, and the least value that counts.
        grid: what `improved` takes.
        slack: a point whose gain is within this of the best may be the best.
        least: stop at a gain up to this.
        most: how many picks to make; the other limits are for lists.
    """
    rows_N_F, rows_T_F = rows
    covered_T, weights_T, known_T, high_T, low_T, _ = targets
    picks, added, squares, work = (
        np.empty(most[0], np.int64),
        np.empty(most[0]),
        np.empty(most[0]),
        np.zeros(3, np.int64),
    )
    made = 0
    while made < most[0]:
        best = _winner(gains_N, slack, least)
        if best < 0:
            break
        near_n = np.flatnonzero(values_T_N[:, best] > low_T)
        values_n = products(rows_N_F[best], rows_T_F, near_n, noise[2])
        targets_n, terms_n, new_n = improved(near_n, values_n, covered_T, weights_T, grid)
        raise_levels(targets_n, new_n, noise[0], noise[1], covered_T, high_T, low_T)
        gains_N[best] = -np.inf
        lower(values_T_N, targets_n, known_T, high_T, weights_T, gains_N)
        known_T[targets_n] = high_T[targets_n]
        picks[made], added[made], squares[made] = best, terms_n.sum(), (terms_n * terms_n).sum()
        work[1] += len(targets_n) * len(gains_N)
        made += 1
    return picks[:made], added[:made], squares[:made], work
