"""Scikit-learn's handwritten digits, which come with the package: 1,797 images of 8 by 8."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from poolwise.arrays import Array
from poolwise.data.formats.official import Raw

_TEST = 500


@dataclass(frozen=True)
class Digits:
    """One part of a fixed split, 1,297 to train and 500 to test, with the classes in proportion."""

    test: bool
    files: tuple[str, ...] = ()
    md5: tuple[str, ...] = ()

    def read(self, paths: Mapping[str, Path]) -> Raw:
        """Take them from scikit-learn; grey levels from 0 to 16 become bytes."""
        images, labels, parts = _everything()
        return Raw(images[parts[self.test]], labels[parts[self.test]])


@cache
def _everything() -> tuple[Array, Array, list[Array]]:
    """Images, labels and the rows of both parts. Kept, since scikit-learn reads them from a text file each time."""
    from sklearn.datasets import load_digits  # here, since it takes a second to import
    from sklearn.model_selection import train_test_split

    levels, labels = map(np.asarray, load_digits(return_X_y=True))
    images = np.rint(levels * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    parts = train_test_split(np.arange(len(labels)), test_size=_TEST, stratify=labels, random_state=0)
    return images, labels, [np.sort(rows) for rows in parts]
