"""Names of the points, such as file names, kept beside the shards of a folder of predictions."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import FileError, ShapeError
from poolwise.storage import read_json, write_json

FILE = "ids.json"
_FORMAT = "poolwise-ids"
_ADVICE = "Restore it from a copy, or remove it: without it, points are known by their positions."


def as_ids(ids: Sequence[str] | Array, N: int) -> Array:
    """`[N]` names as an array of texts.

    Args:
        ids: one name per point; anything but a text is written as one.
        N: how many points there are.
    """
    if isinstance(ids, str | bytes):
        raise ShapeError(f"ids must be a list of names, one per point, not the text {ids[:60]!r}.")
    names = [name if isinstance(name, str) else str(name) for name in ids]
    if len(names) != N:
        raise ShapeError(f"ids must be {N} names, one per point, not {len(names)}.")
    array = np.empty(N, object)
    array[:] = names
    return array


def write_ids(folder: Path, ids: Array) -> None:
    """Write the names of all points beside the shards, or check that those that are there are the same."""
    if (folder / FILE).exists():
        there = read_ids(folder, len(ids))
        if there is not None and not np.array_equal(there, ids):
            row = int(np.argmax(there != ids))
            raise FileError(
                f"{folder / FILE}: names point {row} {there[row]!r}, and now it is {ids[row]!r}. The data or their "
                "order are different: use another folder."
            )
        return
    names = ids.tolist()
    write_json(folder / FILE, {"format": _FORMAT, "sha256": _digest(names), "ids": names})


def read_ids(folder: Path, N: int) -> Array | None:
    """`[N]` names of the points of a folder, or None if it has none.

    Args:
        folder: the folder of shards.
        N: how many points it has.
    """
    path = folder / FILE
    if not path.exists():
        return None
    found = read_json(path, _ADVICE)
    names = found.get("ids") if isinstance(found, dict) and found.get("format") == _FORMAT else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileError(f"{path} is not a list of names that Poolwise wrote. {_ADVICE}")
    if found.get("sha256") != _digest(names):
        raise FileError(f"{path} is damaged: its names are not those that were written. {_ADVICE}")
    if len(names) != N:
        raise FileError(f"{path} has {len(names)} names for {N} points. {_ADVICE}")
    return as_ids(names, N)


def _digest(names: list[str]) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()
