"""The cropped digits of SVHN: one MATLAB file with the images `X` and the labels `y`, where 10 stands for 0."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolwise.data.formats.files import open_bytes, package
from poolwise.data.formats.official import Raw
from poolwise.errors import FileError


@dataclass(frozen=True)
class Svhn:
    """Colour images `[32, 32, 3, N]` and labels `[N, 1]` in a `.mat` file."""

    file: str
    md5: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The one file."""
        return (self.file,)

    def read(self, paths: Mapping[str, Path]) -> Raw:
        """Read it."""
        path, reader = paths[self.file], package("scipy.io", "scipy", "reading SVHN")
        try:
            with open_bytes(path) as file:
                content = reader.loadmat(file, variable_names=["X", "y"])
        except Exception as error:  # a damaged file makes SciPy raise anything
            raise FileError(f"{path}: not a whole MATLAB file ({error}). Fetch it again.") from error
        images, labels = np.asarray(content.get("X")), np.asarray(content.get("y"))
        if not (
            images.dtype == np.uint8
            and images.ndim == 4
            and labels.dtype.kind == "u"
            and labels.size == images.shape[3]
        ):
            raise FileError(
                f"{path}: expected bytes X [32, 32, 3, N] and labels y [N, 1], found X {images.dtype} "
                f"{list(images.shape)} and y {labels.dtype} {list(labels.shape)}. It must be the cropped version "
                "(train_32x32.mat, test_32x32.mat); fetch it again."
            )
        labels = labels.reshape(-1)
        return Raw(np.ascontiguousarray(images.transpose(3, 2, 0, 1)), np.where(labels == 10, 0, labels))
