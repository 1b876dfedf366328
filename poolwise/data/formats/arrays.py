"""Arrays of a user's own: `.npy` (mapped, never read whole), `.npz` and `.pt`, never through pickle."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import FileError
from poolwise.storage import reading_arrays

INPUTS = ("inputs", "x")
LABELS = ("labels", "y")


def read_arrays(path: Path) -> tuple[Array, Array | None]:
    """The inputs and, where the file has them, the labels.

    They are found by name (`inputs` or `x`, `labels` or `y`); one array alone is the inputs.
    """
    with reading_arrays(path, "Write it again with numpy.save, numpy.savez or torch.save of tensors."):
        arrays = READERS[path.suffix.lower()](path)
    if len(arrays) == 1:
        return next(iter(arrays.values())), None
    inputs, labels = ([name for name in names if name in arrays] for names in (INPUTS, LABELS))
    if len(inputs) != 1 or len(labels) > 1:
        raise FileError(
            f"{path}: expected an array called {' or '.join(INPUTS)}, and one called {' or '.join(LABELS)} if there "
            f"are labels; found {', '.join(arrays) or 'nothing'}."
        )
    return arrays[inputs[0]], arrays[labels[0]] if labels else None


def _npy(path: Path) -> dict[str, Array]:
    return {"inputs": np.lib.format.open_memmap(path, mode="r")}


def _npz(path: Path) -> dict[str, Array]:
    with path.open("rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as archive:
        return {name: np.asarray(archive[name]) for name in archive.files}


def _pt(path: Path) -> dict[str, Array]:
    content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, tuple | list) and len(content) == 2:
        content = {"inputs": content[0], "labels": content[1]}
    tensors = content if isinstance(content, dict) else {"inputs": content}
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise FileError(
                f"{path}: expected a tensor, a pair (inputs, labels) or a dictionary of tensors, found a "
                f"{type(tensor).__name__} as {name}."
            )
    return {
        str(name): (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()
        for name, tensor in tensors.items()
    }


READERS: dict[str, Callable[[Path], dict[str, Array]]] = {".npy": _npy, ".npz": _npz, ".pt": _pt, ".pth": _pt}
"""The function that reads each kind of file, by the ending of its name."""
