"""Predictions of a project as a table."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from poolwise.labelling.predicted import Predicted
from poolwise.labelling.store import Current
from poolwise.labelling.tables import write_table

COLUMNS = ("id", "prediction", "probability", "uncertainty", "disagreement", "label")
"""The columns: what the model says, how probable it is, how uncertain the model is (the entropy of its prediction, 0 to
1), how much its members disagree (mutual information, in nats), and the label that people gave."""


def write_predictions(path: Path, predicted: Predicted, labels: Mapping[str, Current]) -> None:
    """Write what a model says about every item.

    Args:
        path: the file.
        predicted: what it says.
        labels: what people said.
    """
    probs = predicted.probs.astype(np.float64)
    best = probs.argmax(1)
    logs = np.log(probs, out=np.zeros_like(probs), where=probs > 0)
    entropy = np.abs((probs * logs).sum(1)) / np.log(max(2, probs.shape[1]))
    rows = zip(
        predicted.ids,
        (predicted.classes[place] for place in best.tolist()),
        np.round(probs.max(1), 4).tolist(),
        np.round(np.minimum(entropy, 1), 4).tolist(),
        np.round(predicted.disagreement.astype(np.float64), 4).tolist(),
        (labels[name].label if name in labels else None for name in predicted.ids),
        strict=True,
    )
    write_table(path, COLUMNS, rows)
