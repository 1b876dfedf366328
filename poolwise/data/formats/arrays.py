"""Arrays of a user's own: `.npy` (mapped, never read whole), `.npz` and `.pt`, never through pickle."""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.data.formats.files import check_memory, check_unpacked
from poolwise.errors import FileError
from poolwise.storage import reading_arrays

INPUTS = ("inputs", "x")
LABELS = ("labels", "y")
IDS = ("ids", "id")

Arrays = tuple[Array, Array | None, Array | None]
"""Inputs, labels and ids."""

_ADVICE = "Write it again with numpy.save, numpy.savez or torch.save of tensors."


def read_npy(path: Path) -> Arrays:
    """The inputs, mapped."""
    # A size that overflows is an error here, and not a warning of NumPy's.
    with reading_arrays(path, _ADVICE), np.errstate(over="raise"):
        return np.lib.format.open_memmap(path, mode="r"), None, None


def read_npz(path: Path) -> Arrays:
    """The inputs and, where the file has them, labels and ids, by their names."""
    with reading_arrays(path, _ADVICE), path.open("rb") as file:
        with zipfile.ZipFile(file) as packed:
            _check_zip(path, packed)
        archive = np.lib.npyio.NpzFile(file, allow_pickle=False)
        names = [name for name in archive.files if name in (*INPUTS, *LABELS, *IDS)] or archive.files
        arrays = {name: np.asarray(archive[name]) for name in (archive.files if len(archive.files) == 1 else names)}
    return _by_name(path, arrays)


def read_pt(path: Path) -> Arrays:
    """The inputs and, where the file has them, labels and ids: a tensor, a pair, or a dictionary by name."""
    with reading_arrays(path, _ADVICE):
        _check_torch(path)
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise FileError(f"{path}: contains objects that are not tensors: never loaded. {_ADVICE}") from error
        if isinstance(content, tuple | list) and len(content) == 2:
            content = {"inputs": content[0], "labels": content[1]}
        tensors = content if isinstance(content, dict) else {"inputs": content}
        return _by_name(path, {str(name): _as_array(path, name, tensor) for name, tensor in tensors.items()})


def _by_name(path: Path, arrays: Mapping[str, Array]) -> Arrays:
    """Arrays by what they are called; one array alone is the inputs."""
    if len(arrays) == 1:
        return next(iter(arrays.values())), None, None
    inputs, labels, ids = ([name for name in names if name in arrays] for names in (INPUTS, LABELS, IDS))
    if len(inputs) != 1 or len(labels) > 1 or len(ids) > 1:
        raise FileError(
            f"{path}: expected an array called {' or '.join(INPUTS)}, and one called {' or '.join(LABELS)} if there "
            f"are labels; found {', '.join(arrays) or 'nothing'}."
        )
    return arrays[inputs[0]], arrays[labels[0]] if labels else None, arrays[ids[0]] if ids else None


def _check_zip(path: Path, archive: zipfile.ZipFile) -> None:
    check_unpacked(path, sum(entry.file_size for entry in archive.infolist()), path.stat().st_size)


def _check_torch(path: Path) -> None:
    """Refuse, before PyTorch warns about it, what is no file of tensors: pickles, programs and archives."""
    if not zipfile.is_zipfile(path):
        raise FileError(
            f"{path}: not a file of tensors as torch.save writes it. It may be truncated, a pickle (which is never "
            f"loaded), or from a PyTorch older than 1.6. {_ADVICE}"
        )
    with zipfile.ZipFile(path) as archive:
        _check_zip(path, archive)
        names = {name.rpartition("/")[2] for name in archive.namelist()}
        if "constants.pkl" in names or "data.pkl" not in names:
            raise FileError(f"{path}: contains a program or something else, not tensors. {_ADVICE}")
        listed = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
        # Of other protocols of pickle, and of quantised tensors, PyTorch would warn.
        if not listed.startswith(b"\x80\x02") or b"_rebuild_qtensor" in listed:
            raise FileError(f"{path}: not a file of plain tensors as torch.save writes it. {_ADVICE}")


def _as_array(path: Path, name: object, tensor: object) -> Array:
    if not isinstance(tensor, torch.Tensor):
        raise FileError(
            f"{path}: expected a tensor, a pair (inputs, labels) or a dictionary of tensors, found a "
            f"{type(tensor).__name__} as {name}."
        )
    if tensor.layout != torch.strided or tensor.is_meta:
        raise FileError(f"{path}: expected plain tensors, found a sparse one or one without values as {name}.")
    check_memory(path, tensor.numel() * tensor.element_size())  # a view of one number can claim any size
    if tensor.dtype == torch.bfloat16 or (tensor.is_floating_point() and tensor.element_size() == 1):
        tensor = tensor.float()
    array: Array = tensor.detach().resolve_neg().resolve_conj().numpy()
    return array
