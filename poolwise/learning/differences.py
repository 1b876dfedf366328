"""How data differs from what it was: which rows were added, removed, edited or moved, in words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from poolwise.arrays import Array
from poolwise.data.examples import Examples
from poolwise.learning.fingerprint import Fingerprint, hash_rows, hash_texts, is_random

_SHOWN = 5  # positions that a message lists


class Changes(NamedTuple):
    """How a list differs from what it was.

    Attributes:
        edited: positions, the same in both lists, at which another row is now.
        removed: positions in the old list of what is no longer there.
        added: positions in the new list of what was not there.
        moved: `[n, 2]` old and new positions of what is in another order.
    """

    edited: Array
    removed: Array
    added: Array
    moved: Array


def difference(
    old: Fingerprint, data: Examples, *, ids: Sequence[str | int] | None = None, labels: bool = False
) -> str | None:
    """How some data differs from what a fingerprint remembers, in words, or None if it does not.

    Args:
        old: what is remembered.
        data: the data now.
        ids: the ids of its examples, if they have any.
        labels: whether the labels that the data carries are part of its rows.
    """
    if old.ids is not None and ids is not None:
        now = hash_texts(ids)
        if not np.array_equal(old.ids, now):
            return _describe(changes(old.ids, now), len(now), "id", ids)
    N, whole = len(data), len(old.positions) == old.examples
    compared = old.positions < N
    positions = np.arange(N) if whole else old.positions[compared]
    hashes = None if old.random else hash_rows(data, positions, labels=labels)
    if hashes is None:
        return None if old.examples == N else f"it has {N:,} rows now and had {old.examples:,}"
    if old.examples == N:
        differ = hashes != old.hashes
        if not differ.any() or is_random(data, positions[differ], hashes[differ], labels=labels):
            return None
    if whole:
        return _describe(changes(old.hashes, hashes), N, "row", ids)
    return _describe_sample(old.examples, N, positions, old.hashes[compared], hashes)


def changes(old_N: Array, new_M: Array) -> Changes:
    """How one list of hashes differs from another.

    Args:
        old_N: `[N]` hashes as they were.
        new_M: `[M]` hashes as they are.
    """
    N = len(old_N)
    _, codes = np.unique(np.concatenate([old_N, new_M]), return_inverse=True)
    # The third row of a kind is compared with the third of that kind.
    old_keys = codes[:N] * (len(codes) + 1) + _occurrence(codes[:N])
    new_keys = codes[N:] * (len(codes) + 1) + _occurrence(codes[N:])
    removed, added = np.flatnonzero(~np.isin(old_keys, new_keys)), np.flatnonzero(~np.isin(new_keys, old_keys))
    _, before, after = np.intersect1d(old_keys, new_keys, return_indices=True)
    order = np.argsort(before)
    stayed = np.stack([before[order], after[order]], 1)
    moved = stayed[stayed[:, 1] != np.sort(after)]
    edited = np.intersect1d(removed, added) if len(new_M) == N else removed[:0]
    return Changes(edited, np.setdiff1d(removed, edited), np.setdiff1d(added, edited), moved)


def _occurrence(codes_n: Array) -> Array:
    """`[n]` how many of the same code come before each."""
    order = np.argsort(codes_n, kind="stable")
    _, first, counts = np.unique(codes_n[order], return_index=True, return_counts=True)
    occurrence = np.empty(len(codes_n), np.int64)
    occurrence[order] = np.arange(len(codes_n)) - np.repeat(first, counts)
    return occurrence


def _describe(found: Changes, N: int, what: str, ids: Sequence[str | int] | None) -> str:
    words = []
    if len(found.edited) == N:
        words.append(f"every {what} is different")
    elif len(found.edited):
        change = "edited" if what == "row" else "changed"
        words.append(f"{_count(found.edited, what)} {change} ({_positions(found.edited, ids)})")
    if len(found.added):
        words.append(f"{_count(found.added, what)} added ({_positions(found.added, ids)})")
    if len(found.removed):
        words.append(f"{_count(found.removed, what)} removed (before: {_positions(found.removed)})")
    if len(found.moved):
        before, after = found.moved[0]
        which = "the same" if not words else "the other"
        words.append(f"{which} {what}s were reordered (what was at position {before} is at {after} now)")
    return "; ".join(words)


def _describe_sample(before: int, now: int, positions_m: Array, old_m: Array, new_m: Array) -> str:
    """The same where only some rows are known."""
    differ = positions_m[old_m != new_m]
    if now != before:
        change = f"{abs(now - before):,} rows were {'added' if now > before else 'removed'}"
        return (
            f"{change}, the first of them at position {differ[0]} or before" if len(differ) else f"{change} at the end"
        )
    moved = changes(old_m, new_m).moved
    if len(moved):
        then, after = positions_m[moved[0]]
        return f"the rows were reordered (what was at position {then} is at {after} now)"
    return f"{_count(differ, 'row')} edited or moved ({_positions(differ)}), of {len(positions_m):,} that were compared"


def _count(positions: Array, what: str) -> str:
    return f"1 {what} was" if len(positions) == 1 else f"{len(positions):,} {what}s were"


def _positions(positions: Array, ids: Sequence[str | int] | None = None) -> str:
    shown = positions[:_SHOWN].tolist()
    names = [str(position) if ids is None else f"{position}, {ids[position]!r}" for position in shown]
    more = f" and {len(positions) - _SHOWN:,} more" if len(positions) > _SHOWN else ""
    return f"position{'s' if len(positions) > 1 else ''} {('; ' if ids is not None else ', ').join(names)}{more}"
