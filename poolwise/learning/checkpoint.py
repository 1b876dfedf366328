"""The folder of a learner: one state, and the files that the state names, which at any moment belong together."""

import pickle
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle
import numpy as np

from poolwise.errors import FileError, ParameterError, PoolwiseError
from poolwise.learning.fingerprint import Fingerprint
from poolwise.learning.state import ADVICE, State, read_state, write_state
from poolwise.storage import replacing

STATE, WEIGHTS, CLASSES, ROWS = "learner.json", "weights-{:05}.pt", "classes-{:05}.npy", "rows-{:07}.npz"
_OBJECTS = "objects-{:05}.pkl"
_EVERY = ("weights-*.pt", "classes-*.npy", "rows-*.npz", "objects-*.pkl", "objects.pkl", "history-*.jsonl")

Writer = Callable[[BinaryIO], object]


def objects_name(number: int) -> str:
    """The file of posterior and data."""
    return _OBJECTS.format(number) if number else "objects.pkl"


class Checkpoint:
    """The files in the folder of a learner.

    A file is written once, under a name of its own, before the state that names it. Files that no state names any more
    are removed last.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written: dict[str, int] = {}  # the checksums of the files that are there

    def write(self, state: State, files: Mapping[str, Writer]) -> None:
        """Write a state and the files that it names, those that are not there yet."""
        for name, write in files.items():
            if name not in self._written:
                with replacing(self.folder / name) as file:
                    write(file)
                self._written[name] = checksum(self.folder / name)
        checksums = {name: self._written[name] for name in files}
        write_state(self.folder / STATE, replace(state, files=checksums))
        self._written = checksums

    def clean(self, kept: Collection[str | None]) -> None:
        """Remove the files that the state does not name any more.

        Args:
            kept: the names of those that it names.
        """
        for old in [path for pattern in _EVERY for path in self.folder.glob(pattern)]:
            if old.name not in kept:
                old.unlink(missing_ok=True)

    def read_state(self) -> State:
        """Read the state."""
        state = read_state(self.folder / STATE)
        self._written = {name: value for name, value in state.files.items() if (self.folder / name).exists()}
        return state

    def read(self, state: State, name: str, reader: Callable[[Path], Any], advice: str = ADVICE) -> Any:
        """Read a file that a state names."""
        found = read_file(self.folder / name, state.files.get(name), reader, advice)
        self._written[name] = state.files.get(name) or checksum(self.folder / name)
        return found


def read_file(path: Path, expected: int | None, reader: Callable[[Path], Any], advice: str = ADVICE) -> Any:
    """What a reader makes of a file, or an error that names the file and says what to do.

    Args:
        path: the file.
        expected: its checksum, or None if there is none.
        reader: what reads it.
        advice: what to do if it is damaged.
    """
    try:
        if expected is not None and checksum(path) != expected:
            raise ValueError("its contents do not fit its checksum")
        return reader(path)
    except PoolwiseError:
        raise
    except Exception as error:  # a damaged or missing file can make a reader fail in any way
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise FileError(f"{path} cannot be read, it may be missing or damaged ({reason}). {advice}") from error


def read_objects(folder: Path, state: State) -> dict[str, Any]:
    """What a learner was made of. This runs code that is in the file."""
    name = objects_name(state.saved)
    hint = "Pass posterior= and data=, and test= and validation= if there were any."
    found = read_file(folder / name, state.files.get(name), lambda path: cloudpickle.loads(path.read_bytes()), hint)
    if not isinstance(found, dict) or not {"posterior", "data", "test", "validation"} <= found.keys():
        raise FileError(f"{folder / name} is damaged: it does not contain a learner's posterior and data. {hint}")
    return found


def objects_writer(objects: Mapping[str, Any]) -> Writer:
    """What writes posterior and data."""

    def write(file: BinaryIO) -> None:
        try:
            cloudpickle.dump(dict(objects), file)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ParameterError(
                f"the posterior or the data cannot be saved ({error}). Pass self_contained=False, and give both to "
                "ActiveLearner.load to resume."
            ) from error

    return write


def rows_writer(prints: Mapping[str, Fingerprint]) -> Writer:
    """What writes the fingerprints of pool, test and validation data."""
    arrays = {f"{name}.{part}": array for name, found in prints.items() for part, array in found.arrays().items()}
    return lambda file: np.savez(file, **arrays)  # type: ignore[arg-type]


def read_rows(path: Path) -> dict[str, Fingerprint]:
    """Read such fingerprints."""
    with np.load(path, allow_pickle=False) as saved:
        names = {name.partition(".")[0] for name in saved.files}
        return {
            name: Fingerprint.from_arrays(
                {key.partition(".")[2]: saved[key] for key in saved.files if key.startswith(f"{name}.")}
            )
            for name in sorted(names)
        }


def checksum(path: Path) -> int:
    """CRC-32 of a file."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value
