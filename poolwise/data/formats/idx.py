"""The idx format of MNIST and its relatives: a header with the sizes, then the bytes.

The header is two zero bytes, the type of the elements (8 is unsigned bytes), the number of axes, and the size of each
axis as a big-endian 32-bit number.
"""

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolwise.arrays import Array
from poolwise.data.formats.files import open_bytes, read_exactly
from poolwise.data.formats.official import Raw
from poolwise.errors import FileError

# No official set comes near this; a header that asks for more is damaged, or meant to fill the memory.
_LARGEST = 1 << 32


def read_idx(path: Path, axes: int) -> tuple[Array, str]:
    """The array of unsigned bytes in an idx file, read-only, and the MD5 of the uncompressed file.

    Args:
        path: the file, or its `.gz`.
        axes: how many axes the array must have: 3 for images, 1 for labels.
    """
    with open_bytes(path) as file:
        header = file.read(4 + 4 * axes)
        if len(header) < 4 + 4 * axes or header[:4] != bytes([0, 0, 8, axes]):
            raise FileError(
                f"{path}: expected an idx file of bytes with {axes} axes, which begins with 00 00 08 {axes:02x}, but "
                f"it begins with {header[:4].hex(' ') or 'nothing'}. Is it another file? Fetch it again."
            )
        shape = struct.unpack(f">{axes}I", header[4:])
        count = math.prod(shape)
        if count > _LARGEST:
            raise FileError(
                f"{path}: its header asks for {count:,} bytes {list(shape)}. It is damaged; fetch it again."
            )
        content = read_exactly(file, count, path, f"data {list(shape)}")
    digest = hashlib.md5(header, usedforsecurity=False)
    digest.update(content)
    return np.frombuffer(content, np.uint8).reshape(shape), digest.hexdigest()


@dataclass(frozen=True)
class Idx:
    """Grey images and labels in a pair of idx files.

    Attributes:
        images: the file of images.
        labels: the file of labels.
        transposed: whether rows and columns are swapped in the file, as in EMNIST.
        md5: the known digests of the two files, uncompressed.
    """

    images: str
    labels: str
    transposed: bool = False
    md5: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The two files."""
        return self.images, self.labels

    def read(self, paths: Mapping[str, Path]) -> Raw:
        """Read both."""
        (images, images_md5), (labels, labels_md5) = read_idx(paths[self.images], 3), read_idx(paths[self.labels], 1)
        if len(images) != len(labels):
            raise FileError(
                f"{paths[self.images]} has {len(images):,} images, but {paths[self.labels]} has {len(labels):,} labels."
                " They are not of the same split; fetch both again."
            )
        if self.transposed:
            images = np.ascontiguousarray(images.swapaxes(1, 2))
        return Raw(images[:, None], labels, (images_md5, labels_md5))
