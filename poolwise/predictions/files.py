"""Arrays from files: mapped where possible, and never through pickle."""

import mmap
from pathlib import Path

import numpy as np
import torch

from poolwise.arrays import Array, as_array
from poolwise.errors import FileError
from poolwise.predictions.tables import ENDINGS, is_tables, open_column
from poolwise.storage import reading_arrays


def open_array(path: str | Path, key: str | None = None) -> tuple[Array, mmap.mmap | None]:
    """Open an array file. Returns the array, and its mapping if the file is mapped.

    Args:
        path: a `.npy`, `.npz` or `.pt` file; or a `.parquet`, `.arrow` or `.feather` file or a folder of those.
        key: which array or column; not needed if there is only one.
    """
    path = Path(path)
    if is_tables(path):
        return open_column(path, key)
    if path.is_dir():
        raise FileError(
            f"{path}: a folder without a manifest.json, and not one of {', '.join(ENDINGS)} files alone. Shards that "
            "another program wrote (part-00000.npy, ...) are described once with poolwise.predictions.adopt."
        )
    if not path.is_file():
        raise FileError(
            f"{path}: no such file, nor a folder of shards. Expected predictions: a .npy, .npz, .pt, "
            f"{', '.join(ENDINGS)} file, or a folder."
        )
    readers = {".npy": _npy, ".npz": _npz, ".pt": _pt, ".pth": _pt}
    if path.suffix not in readers:
        raise FileError(f"{path}: cannot read '{path.suffix}' files. Use .npy (mapped), .npz, .pt or .parquet.")
    with reading_arrays(path, "Write it again with numpy.save or torch.save of one tensor."):
        array = readers[path.suffix](path, key)
    return array, getattr(array, "_mmap", None)


def _npy(path: Path, key: str | None) -> Array:
    array: Array = np.lib.format.open_memmap(path, mode="r")
    return array


def _npz(path: Path, key: str | None) -> Array:
    with path.open("rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as archive:
        return np.asarray(archive[_choose(path, list(archive.files), key)])


def _pt(path: Path, key: str | None) -> Array:
    content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, dict):
        content = {str(name): value for name, value in content.items()}
        content = content[_choose(path, list(content), key)]
    if not isinstance(content, torch.Tensor):
        raise FileError(f"{path}: contains a {type(content).__name__}, not a tensor.")
    return as_array(content, str(path))


def _choose(path: Path, keys: list[str], key: str | None) -> str:
    chosen = keys[0] if key is None and len(keys) == 1 else key
    if chosen not in keys:
        raise FileError(f"{path}: say which array to read with key=; it contains {', '.join(keys) or 'nothing'}.")
    return chosen
