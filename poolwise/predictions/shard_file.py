"""One shard of a folder being written: in this process, or on the machine that predicted it."""

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.arrays import Array, ArrayOrTensor, as_array, as_bytes
from poolwise.errors import FileError, ShapeError
from poolwise.predictions.manifest import EMBEDDINGS, PART, Shard, find_embeddings, rows_checksum
from poolwise.storage import replacing


@dataclass(frozen=True)
class ShardFile:
    """The file of a shard that is still to be written: all that another process needs to know to write it.

    Attributes:
        folder: the folder of shards.
        number: which shard.
        start: position of its first point.
        shape: `(n, K, C)`.
        dtype: the type to store.
        embeddings: `(N, D)` of the embeddings of all points, or None.
    """

    folder: Path
    number: int
    start: int
    shape: tuple[int, int, int]
    dtype: str
    embeddings: tuple[int, int] | None

    @property
    def rows(self) -> slice:
        """Positions of its points in the pool."""
        return slice(self.start, self.start + self.shape[0])

    def write(self, values_n_K_C: ArrayOrTensor, embeddings_n_D: ArrayOrTensor | None = None) -> Shard:
        """Write the file, which is on the disk when this returns. It counts once a `ShardWriter` has recorded it.

        Args:
            values_n_K_C: its predictions.
            embeddings_n_D: the embeddings of its points.
        """
        values = _exactly(values_n_K_C, self.shape, np.dtype(self.dtype), "predictions")
        shard = Shard(len(values))
        if self.embeddings is not None:
            shape = (len(values), self.embeddings[1])
            features = _exactly(embeddings_n_D, shape, np.dtype(np.float32), "embeddings")
            shard.embeddings_sha256 = self._write_embeddings(self.embeddings, features)
        start, content = header(values), as_bytes(values)
        digest = hashlib.sha256(start)
        digest.update(content)
        with replacing(self.folder / PART.format(self.number)) as file:
            file.write(start)
            file.write(content)
        shard.sha256 = digest.hexdigest()
        return shard

    def _write_embeddings(self, shape: tuple[int, int], features_n_D: Array) -> str:
        """Write embeddings to their rows of the shared file, and return their checksum."""
        path = self.folder / EMBEDDINGS
        begin = find_embeddings(self.folder, shape)
        try:
            with path.open("r+b") as file:
                file.seek(begin + self.start * features_n_D.shape[1] * 4)
                file.write(as_bytes(features_n_D))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileError(f"cannot write {path} ({error.strerror}).") from error
        return rows_checksum(features_n_D)


def header(array: Array) -> bytes:
    """The header of an `.npy` file with these numbers."""
    text = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(text, fields)
    return text.getvalue()


def _exactly(values: ArrayOrTensor | None, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> Array:
    """Numbers of that shape and type, contiguous in memory."""
    if values is None:
        raise ShapeError(f"{what} {list(shape)} are missing.")
    array = as_array(values, what)
    if array.shape != shape:
        raise ShapeError(f"{what} of this shard must have shape {list(shape)}, not {list(array.shape)}.")
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(array, dtype)
    except FloatingPointError as error:
        raise ShapeError(f"{what} have numbers that are too large for {dtype}. Write them as float32.") from error
