"""Data sets from the Hugging Face hub, through the package `datasets`; only when the caller asks for it."""

from typing import Any

import numpy as np

from poolwise.data.formats.files import package
from poolwise.data.formats.official import Raw
from poolwise.data.specs import Hub, Spec
from poolwise.errors import FileError


def read_hub(spec: Spec) -> tuple[Raw, Raw]:
    """The training and the test split; downloaded by `datasets`, or taken from its cache."""
    if spec.hub is None:
        raise FileError(f"{spec.name}: no copy on the hub is known to be the same. Get it from {spec.home}")
    datasets = package("datasets", "datasets", "the Hugging Face hub")
    try:
        splits = datasets.load_dataset(spec.hub.path, spec.hub.config)
        return _raw(spec, spec.hub, splits["train"]), _raw(spec, spec.hub, splits["test"])
    except FileError:
        raise
    except Exception as error:  # no network, a name that moved, a column that is gone: whatever `datasets` raises
        raise FileError(
            f"{spec.name}: the hub did not give {spec.hub.path} ({type(error).__name__}: {error}). Check the network, "
            f"or get the files from {spec.home}"
        ) from error


def _raw(spec: Spec, hub: Hub, split: Any) -> Raw:
    labels = list(split[hub.label])
    names = getattr(split.features[hub.label], "names", None)
    if spec.classes is None and names is not None:
        labels = [names[label] for label in labels]
    if spec.shape is None:
        return Raw(list(split[hub.inputs]), labels if spec.classes is None else np.array(labels))
    channels, height, width = spec.shape
    images = np.empty((len(labels), height, width, channels), np.uint8)
    for position, row in enumerate(split):
        image = np.asarray(row[hub.inputs].convert("L" if channels == 1 else "RGB"))
        if image.shape[:2] != (height, width):
            raise FileError(
                f"{spec.name}: expected images of {height} by {width} from {hub.path}, but number {position} has "
                f"{image.shape[0]} by {image.shape[1]}. Get the files from {spec.home}"
            )
        images[position] = image.reshape(height, width, channels)
    return Raw(np.ascontiguousarray(images.transpose(0, 3, 1, 2)), np.array(labels))
