"""The manifest of a folder of shards: it describes the files beside it, which are checked against it."""

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, get_args

import numpy as np

from poolwise.arrays import Array, as_bytes
from poolwise.errors import FileError
from poolwise.predictions.forms import PredictionKind, PredictionLayout
from poolwise.storage import read_json, write_json

NAME, PART, EMBEDDINGS = "manifest.json", "part-{:05}.npy", "embeddings.npy"
DTYPES = ("float16", "float32", "float64")
_FORMAT, _VERSION = "poolwise-predictions", 1

_AGAIN = (
    "Restore it from a copy; or, if Poolwise made the folder, remove the file and give the same command or call again, "
    "which makes what is missing."
)
_ANEW = "Restore it from a copy, or predict again into another folder."


@dataclass
class Shard:
    """One file of a folder.

    Attributes:
        rows: how many points are in it.
        sha256: the checksum of the file, None until it is written.
        embeddings_sha256: that of the points' embeddings, where there are any.
    """

    rows: int
    sha256: str | None = None
    embeddings_sha256: str | None = None


@dataclass
class Manifest:
    """What is in a folder of shards. Shard i is the file `part-{i:05}.npy`; the points are in the order of the shards.

    Attributes:
        kind: what the numbers are.
        layout: order of the axes in each file.
        dtype: their type.
        rows: N, in all shards.
        samples: K.
        classes: C.
        embeddings: D, if the folder also has `embeddings.npy`, `[N, D]` float32.
        shards: the files in order.
    """

    kind: PredictionKind
    layout: PredictionLayout
    dtype: str
    rows: int
    samples: int
    classes: int
    embeddings: int | None
    shards: list[Shard]

    @property
    def written(self) -> int:
        """How many shards are written."""
        return sum(shard.sha256 is not None for shard in self.shards)

    @property
    def starts(self) -> Array:
        """`[shards + 1]` position of the first point of each shard, and N."""
        return np.cumsum([0, *(shard.rows for shard in self.shards)])

    def shape(self, number: int) -> tuple[int, ...]:
        """The shape of a shard, with the axes in the order of the layout."""
        sizes = {"N": self.shards[number].rows, "K": self.samples, "C": self.classes}
        return tuple(sizes[axis] for axis in self.layout)

    def write(self, folder: Path) -> None:
        """Write it to a folder; the file there is replaced in one step."""
        write_json(folder / NAME, {"format": _FORMAT, "version": _VERSION, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a folder; its fields are checked."""
        path = folder / NAME
        found = read_json(path, _ANEW)
        if not isinstance(found, dict) or found.pop("format", None) != _FORMAT:
            raise FileError(f"{path} is not a manifest of predictions. Predict again, or use predictions.adopt.")
        if (version := found.pop("version", None)) != _VERSION:
            raise FileError(f"{path} has version {version!r}, and this Poolwise reads version {_VERSION}. Update it.")
        try:
            shards = [Shard(**shard) for shard in found.pop("shards")]
            manifest = cls(**found, shards=shards)
        except (TypeError, KeyError) as error:
            raise _damaged(path, f"its fields are not those of a manifest ({error})") from error
        counts = [manifest.rows, manifest.samples, manifest.classes, *(shard.rows for shard in shards)]
        if manifest.embeddings is not None:
            counts.append(manifest.embeddings)
        if not all(type(count) is int and count > 0 for count in counts):
            raise _damaged(path, "rows, samples, classes and embeddings must be whole numbers above 0")
        options = {"kind": get_args(PredictionKind), "layout": get_args(PredictionLayout), "dtype": DTYPES}
        for name, known in options.items():
            if getattr(manifest, name) not in known:
                raise _damaged(path, f"{name} must be one of {', '.join(known)}, not {getattr(manifest, name)!r}")
        if (total := sum(shard.rows for shard in shards)) != manifest.rows:
            raise _damaged(path, f"its shards have {total} rows, and it says {manifest.rows}")
        return manifest

    def find(self, folder: Path, number: int, advice: str = _AGAIN) -> int:
        """Offset of the numbers in the file of a shard, which must be complete and of the right type and shape.

        Args:
            folder: the folder of shards.
            number: which shard.
            advice: what to do if the file is not as it should be.
        """
        return _find_numbers(folder / PART.format(number), np.dtype(self.dtype), self.shape(number), advice)


def find_embeddings(folder: Path, shape: tuple[int, int]) -> int:
    """Offset of the numbers in the file of the embeddings, which must be complete and of that shape."""
    return _find_numbers(folder / EMBEDDINGS, np.dtype(np.float32), shape, _ANEW)


def _find_numbers(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], advice: str) -> int:
    try:
        with path.open("rb") as file:
            found_shape, in_order, found_dtype = read_header(file)
            begin, size = file.tell(), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}). {advice}") from error
    except ValueError as error:
        raise FileError(f"{path}: not a whole .npy file ({error}). {advice}") from error
    if found_dtype != dtype or found_shape != shape or not in_order:
        raise FileError(
            f"{path}: contains {found_dtype} {list(found_shape)}{'' if in_order else ' in Fortran order'}, where "
            f"{dtype} {list(shape)} was expected. {advice}"
        )
    if size != (whole := begin + dtype.itemsize * int(np.prod(shape))):
        raise FileError(f"{path}: has {size} bytes, not {whole}: it is cut short or damaged. {advice}")
    return begin


def read_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in C order, and type of an `.npy` file; the file is then at the first number."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"it is of version {version}")
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = reader(file)
    return shape, not fortran, dtype


def checksum(path: Path) -> str:
    """The SHA-256 of a file, as `sha256sum` prints it."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}).") from error


def rows_checksum(features_n_D: Array) -> str:
    """The SHA-256 of some embeddings."""
    return hashlib.sha256(as_bytes(features_n_D)).hexdigest()


def _damaged(path: Path, reason: str) -> FileError:
    return FileError(f"{path} is damaged: {reason}. {_ANEW}")
