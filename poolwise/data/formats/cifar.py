"""The binary version of CIFAR-10 and CIFAR-100: records of label bytes and 3,072 colour bytes, channel by channel."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolwise.arrays import Array
from poolwise.data.formats.files import open_bytes
from poolwise.data.formats.official import Raw
from poolwise.errors import FileError

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
# Official files have at most 50,000 records; a file with more than this is something else.
_MOST = 1 << 20


@dataclass(frozen=True)
class Cifar:
    """Colour images with their labels, in one file or several.

    Attributes:
        files: the files, in order.
        label_bytes: how many bytes come before the pixels; the last of them is the label (CIFAR-100 has the coarse
            label before the fine one).
    """

    files: tuple[str, ...]
    label_bytes: int = 1
    md5: tuple[str, ...] = ()

    def read(self, paths: Mapping[str, Path]) -> Raw:
        """Read the files, one after another."""
        parts = [self._records(paths[name]) for name in self.files]
        images = np.empty((sum(map(len, parts)), *_SHAPE), np.uint8)
        np.concatenate([part[:, self.label_bytes :] for part in parts], out=images.reshape(-1, _PIXELS))
        return Raw(images, np.concatenate([part[:, self.label_bytes - 1] for part in parts]))

    def _records(self, path: Path) -> Array:
        size = self.label_bytes + _PIXELS
        with open_bytes(path) as file:
            content = file.read(size * _MOST + 1)
        if not content or len(content) % size or len(content) > size * _MOST:
            raise FileError(
                f"{path}: expected whole records of {size:,} bytes, found {len(content):,} bytes. It is damaged or cut "
                "short, or not of the binary version (the Python version contains pickles, which are never loaded); "
                "fetch it again."
            )
        return np.frombuffer(content, np.uint8).reshape(-1, size)
