"""Whether the data of a learner is that of before."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from poolwise.arrays import Array
from poolwise.data.examples import Examples
from poolwise.data.pool import Pool
from poolwise.errors import DataMismatchError
from poolwise.learning.differences import difference
from poolwise.learning.fingerprint import Fingerprint, extended, fingerprint

_NONE = np.empty(0, np.int64)


class _Set(NamedTuple):
    """One set of examples: its ids, if there are any, and whether its labels count."""

    examples: Examples
    ids: Sequence[str] | None = None
    labels: bool = False


class Identity:
    """The fingerprints of a learner's pool, test set and validation set.

    Args:
        pool: the pool; the labels that its data carries do not count, since only those given to the pool are used.
        test: the test set, with its labels.
        validation: the validation set, with its labels.
    """

    def __init__(self, pool: Pool, test: Examples | None, validation: Examples | None) -> None:
        self._sets = {"pool": _Set(pool.data, pool.ids)}
        for name, examples in (("test", test), ("validation", validation)):
            if examples is not None:
                self._sets[name] = _Set(examples, labels=True)
        self._known: dict[str, Fingerprint] = {}

    def check(self, saved: Mapping[str, Fingerprint], folder: Path) -> None:
        """Compare with what was saved, and keep that.

        Args:
            saved: fingerprints by the name of the set.
            folder: the learner's directory, for the error.
        Raises:
            DataMismatchError: if the data differs; it says how.
        """
        for name, (examples, ids, labels) in self._sets.items():
            if name in saved:
                words = difference(saved[name], examples, ids=ids, labels=labels)
                if words is not None:
                    raise DataMismatchError(_message(name, words, folder, len(examples) == saved[name].examples))
                self._known[name] = saved[name]

    def prints(self, needed: Array) -> dict[str, Fingerprint]:
        """The fingerprints of all sets.

        Args:
            needed: positions of the rows of the pool that must be part of it.
        """
        for name, (examples, ids, labels) in self._sets.items():
            rows = needed if name == "pool" else _NONE
            if name not in self._known:
                self._known[name] = fingerprint(examples, rows, ids=ids, labels=labels)
            elif len(rows):
                self._known[name] = extended(self._known[name], examples, rows)
        return dict(self._known)


def _message(name: str, words: str, folder: Path, same_size: bool) -> str:
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
    return f"{what} is not that with which {folder} was made: {words}. {why}{way}"
