"""The inner loops of coverage, compiled: the functions of `coverage_loops`, which says what they do."""

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.compiling import compiled
from poolwise.selection.coverage_kernels import Scratch

# Marks of one byte that are looked at together, as one word.
_TOGETHER = 8
_masks = Scratch()


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


def above(values_t_n: Array, above_t: Array) -> tuple[Array, Array, Array]:
    """Values above a level of their row."""
    rows, columns = values_t_n.shape
    mask_t_m = _masks.shaped(rows, columns + -columns % _TOGETHER, torch.bool).numpy()
    mask_t_m[:, columns:] = False
    np.greater(values_t_n, above_t[:, None], out=mask_t_m[:, :columns])
    return _marked(values_t_n, mask_t_m, mask_t_m.view(np.uint64), int(np.count_nonzero(mask_t_m)))


@compiled
def _marked(values_t_n: Array, mask_t_m: Array, words_t_w: Array, total: int) -> tuple[Array, Array, Array]:
    """Values that are marked, of which there are few: words of marks show where there are none."""
    lengths_t = np.zeros(len(values_t_n), np.int64)
    # One more than needed: the number after the last hit is written, and not counted.
    places, values = np.empty(total + 1, np.int32), np.empty(total + 1, values_t_n.dtype)
    found = 0
    for i in range(len(values_t_n)):
        first = found
        for w in range(words_t_w.shape[1]):
            if words_t_w[i, w]:
                for j in range(_TOGETHER * w, min(_TOGETHER * w + _TOGETHER, values_t_n.shape[1])):
                    places[found], values[found] = j, values_t_n[i, j]
                    found += mask_t_m[i, j]
        lengths_t[i] = found - first
    return lengths_t, places[:total], values[:total]


@compiled
def merged(lengths_p_t: Array, places: Array, values: Array) -> tuple[Array, Array]:
    """Lists of the same rows in several parts, row by row."""
    parts, rows = lengths_p_t.shape
    # Where the list of each part and row begins, and where it is to begin.
    source = 0
    target_t = np.zeros(rows, np.int64)
    for i in range(1, rows):
        target_t[i] = target_t[i - 1] + lengths_p_t[:, i - 1].sum()
    new_places, new_values = np.empty_like(places), np.empty_like(values)
    for p in range(parts):
        for i in range(rows):
            target = target_t[i]
            for _ in range(lengths_p_t[p, i]):
                new_places[target], new_values[target] = places[source], values[source]
                source += 1
                target += 1
            target_t[i] = target
    return new_places, new_values


@compiled
def backwards(lengths_t: Array, places: Array, values: Array, start: int, above_T: Array) -> tuple[Array, Array, Array]:
    """Of some lists, the pairs that are worth listing for the place as well."""
    counts_t = np.zeros(len(lengths_t), np.int64)
    new_places, new_values = np.empty(len(places) + 1, places.dtype), np.empty(len(places) + 1, values.dtype)
    entry = found = 0
    for i in range(len(lengths_t)):
        first = found
        for _ in range(lengths_t[i]):
            new_places[found], new_values[found] = places[entry], values[entry]
            found += places[entry] >= start and values[entry] > above_T[places[entry]]
            entry += 1
        counts_t[i] = found - first
    return counts_t, new_places[:found].copy(), new_values[:found].copy()


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
        for number in (target, target + len(known_T)):
            start = kept = starts[number]
            for entry in range(start, start + lengths[number]):
                value = values[entry]
                gains_N[places[entry]] -= weight * max(min(np.float64(value), after) - before, 0.0)
                if value > low:
                    values[kept], places[kept] = value, places[entry]
                    kept += 1
            read += lengths[number]
            left += kept - start
            lengths[number] = kept - start
        known_T[target] = high_T[target]
    return read, left


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
    for number in range(len(starts)):
        target = number % len(level_T)
        level, weight = np.float64(level_T[target]), np.float64(weights_T[target])
        for entry in range(starts[number], starts[number] + lengths[number]):
            gains_N[places[entry]] += weight * max(np.float64(values[entry]) - level, 0.0)
            counts_N[places[entry]] += 1


@compiled
def gather(
    places: Array, values: Array, starts_s: Array, lengths_s: Array, new_places: Array, new_values: Array
) -> None:
    """Copy lists, one after another, to the beginning of new arrays."""
    end = 0
    for s in range(len(starts_s)):
        start = starts_s[s]
        for entry in range(lengths_s[s]):
            new_places[end + entry], new_values[end + entry] = places[start + entry], values[start + entry]
        end += lengths_s[s]
