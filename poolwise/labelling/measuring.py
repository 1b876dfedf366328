"""How good models are, on labels that none of them learnt from: every model on all of them, also those that came later.

A model is measured when it is trained, on the held-out labels that there are. With few of these, its accuracy says
little, and cannot be compared with that of a later model, which is measured on others. So what each model said about
every item is kept, and the learning curve measures them all on the same labels.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np

from poolwise.arrays import Array
from poolwise.labelling.store import ModelRecord
from poolwise.labelling.store.events import Fold
from poolwise.storage import replacing

# Of a 95 % interval.
_QUANTILE = 1.959963984540054

# Models of a learning curve: reading what they said takes milliseconds each.
_SHOWN = 40


def wilson(correct: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927).

    Example:
        >>> low, high = wilson(9, 10)
        >>> round(low, 2), round(high, 2)
        (0.6, 0.98)
    """
    if not count:
        return 0.0, 1.0
    share, z2 = correct / count, _QUANTILE**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = _QUANTILE * sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def with_accuracy(record: ModelRecord, correct: int, count: int) -> ModelRecord:
    """A model with what was measured of it.

    Args:
        record: the model.
        correct: how many held-out labels it predicts.
        count: of how many.
    """
    low, high = wilson(correct, count) if count else (None, None)
    accuracy = correct / count if count else None
    return replace(record, checked=count, correct=correct, accuracy=accuracy, low=low, high=high)


def save_said(path: Path, ids: Sequence[str], probs_N_C: Array) -> None:
    """Keep which class a model gives each item, without pickle."""
    names = np.frombuffer(json.dumps(list(ids)).encode(), np.uint8)
    with replacing(path) as file:
        np.savez_compressed(file, ids=names, said=probs_N_C.argmax(1).astype(np.uint16))


def measured_again(
    models: Sequence[ModelRecord], folder: Path, fold: Fold, checks: Collection[str]
) -> list[ModelRecord]:
    """The models, each measured on all held-out labels that there are now; at most a few dozen, the newest among them.

    A model of which it is not known what it said, or whose classes have other names now, stays as it was measured.

    Args:
        models: oldest first.
        folder: of the files.
        fold: the current labels.
        checks: the items that models are measured on.
    """
    if not models:
        return []
    steps = np.unique(np.linspace(0, len(models) - 1, min(len(models), _SHOWN)).round().astype(int))
    truth = {name: fold.items[name].label for name in checks if name in fold.items and fold.items[name].label}
    measured, places, before = [], dict[str, int](), b""
    for record in (models[step] for step in steps):
        ids, said = _said(record, folder) if set(record.classes) <= set(fold.classes) else (b"", ())
        if ids and ids != before:  # most models said something about the same items
            places, before = _places(ids, truth), ids
        if ids and places and max(places.values()) < len(said):
            right = sum(record.classes[said[place]] == truth[name] for name, place in places.items())
            record = with_accuracy(record, right, len(places))
        measured.append(record)
    return measured


def _places(ids: bytes, wanted: Collection[str]) -> dict[str, int]:
    """Where some items are among those of a file."""
    try:
        return {name: place for place, name in enumerate(json.loads(ids)) if name in wanted}
    except ValueError:
        return {}


def _said(record: ModelRecord, folder: Path) -> tuple[bytes, Sequence[int]]:
    """The ids, as they are stored, and the class of each; none if they are not there or damaged."""
    name = record.details.get("said")
    if not isinstance(name, str) or Path(name).name != name:
        return b"", ()
    try:
        with np.load(folder / name, allow_pickle=False) as stored:
            ids, said = stored["ids"].tobytes(), stored["said"]
        numbers = said.ndim == 1 and said.dtype == np.uint16 and (said < len(record.classes)).all()
        return (ids, said.tolist()) if numbers else (b"", ())
    except Exception:  # a damaged archive raises many kinds
        return b"", ()
