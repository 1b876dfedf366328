"""What a model said about every item, kept in a file. Reading it needs no PyTorch, so that the server starts fast."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.labelling.store import ModelRecord
from poolwise.storage import replacing


@dataclass(frozen=True)
class Predicted:
    """What a model says about every item.

    Attributes:
        model: the number of the model.
        classes: the classes, in the order of the probabilities.
        ids: the items.
        probs: `[N, C]` the mean prediction.
        disagreement: `[N]` how much the members disagree (BALD), in nats.
    """

    model: int
    classes: Sequence[str]
    ids: Sequence[str]
    probs: Array
    disagreement: Array

    def save(self, path: Path) -> None:
        """Write them, without pickle."""
        with replacing(path) as file:
            np.savez(file, ids=_text_array(self.ids), probs=self.probs, disagreement=self.disagreement)


def load_predicted(record: ModelRecord, folder: Path) -> Predicted | None:
    """The predictions of a model; None if they are not there or damaged."""
    name = record.details.get("predictions")
    if not isinstance(name, str) or Path(name).name != name:
        return None
    try:
        with np.load(folder / name, allow_pickle=False) as stored:
            ids, probs, apart = _texts_of(stored["ids"]), stored["probs"], stored["disagreement"]
    except Exception:  # a damaged archive raises many kinds; predictions can be made again
        return None
    if probs.shape != (len(ids), len(record.classes)) or apart.shape != (len(ids),):
        return None
    return Predicted(record.number, record.classes, ids, probs, apart)


def _text_array(texts: Sequence[str]) -> Array:
    """Texts as bytes, to be kept in a file without pickle."""
    return np.frombuffer(json.dumps(list(texts)).encode(), np.uint8)


def _texts_of(values: Array) -> list[str]:
    """The texts in such an array."""
    found: Any = json.load(io.BytesIO(values.astype(np.uint8).tobytes()))
    return [str(text) for text in found]
