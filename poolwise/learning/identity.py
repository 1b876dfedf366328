"""Whether the data of a learner is that of before."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from poolwise.arrays import Array
from poolwise.data.examples import Examples, Subset
from poolwise.data.pool import Pool
from poolwise.errors import DataMismatchError
from poolwise.learning.differences import difference
from poolwise.learning.fingerprint import Fingerprint, extended, fingerprint, grown

_NONE = np.empty(0, np.int64)


class _Set(NamedTuple):
    """One set of examples: its ids, if there are any, and whether its labels count."""

    examples: Examples
    ids: Sequence[str | int] | None = None
    labels: bool = False

    def first(self, count: int) -> "_Set":
        """The first examples of the set."""
        ids = None if self.ids is None else self.ids[:count]
        return _Set(Subset(self.examples, np.arange(count)), ids, self.labels)


class Identity:
    """The fingerprints of a learner's pool, test set and validation set.

    Args:
        pool: the pool; the labels that its data carries do not count, since only those given to the pool are used.
        test: the test set, with its labels.
        validation: the validation set, with its labels.

    Attributes:
        known: the fingerprints so far, by the name of the set.
    """

    def __init__(self, pool: Pool, test: Examples | None, validation: Examples | None) -> None:
        self._pool, self._others = pool, {"test": test, "validation": validation}
        self.known: dict[str, Fingerprint] = {}

    def _sets(self) -> dict[str, _Set]:
        others = {name: _Set(found, labels=True) for name, found in self._others.items() if found is not None}
        return {"pool": _Set(self._pool.data, self._pool.ids), **others}

    def check(self, saved: Mapping[str, Fingerprint], folder: Path, *, grow: bool = False) -> None:
        """Compare with what was saved, and keep that.

        Args:
            saved: fingerprints by the name of the set.
            folder: the learner's directory, for the error.
            grow: whether the pool may have more rows at its end; the rows of before are compared.
        Raises:
            DataMismatchError: if the data differs; it says how.
        """
        for name, now in self._sets().items():
            if name not in saved:
                continue
            old = saved[name]
            appended = name == "pool" and len(now.examples) > old.examples
            same = appended and _difference(old, now.first(old.examples)) is None
            if not (grow and same):
                words = _difference(old, now)
                if words is not None:
                    raise DataMismatchError(_message(name, words, folder, len(now.examples) == old.examples, same))
            self.known[name] = old

    def prints(self, needed: Array) -> dict[str, Fingerprint]:
        """The fingerprints of all sets.

        Args:
            needed: positions of the rows of the pool that must be part of it.
        """
        for name, (examples, ids, labels) in self._sets().items():
            rows = needed if name == "pool" else _NONE
            if name not in self.known:
                self.known[name] = fingerprint(examples, rows, ids=ids, labels=labels)
                continue
            if len(examples) > self.known[name].examples:
                self.known[name] = grown(self.known[name], examples, ids=ids)
            if len(rows):
                self.known[name] = extended(self.known[name], examples, rows)
        return dict(self.known)


def _difference(old: Fingerprint, now: _Set) -> str | None:
    return difference(old, now.examples, ids=now.ids, labels=now.labels)


def _message(name: str, words: str, folder: Path, same_size: bool, appended: bool) -> str:
    if name == "pool":
        what, why = "the pool's data", "Labels belong to positions and would be those of other examples. "
    else:
        what, why = f"the {name} set", "Rounds could not be compared. "
    way = "Open it with the same rows in the same order."
    if same_size or name != "pool":
        way = (
            f"{way[:-1]}, or pass check_data=False if the change is intended, or if the data is computed anew or "
            "random each time it is read."
        )
    if appended:
        why, way = "The rows of before are unchanged. ", "Pass grow=True to add the new rows to the pool."
    return f"{what} is not that with which {folder} was made: {words}. {why}{way}"
