"""The folder of a learner: what is in it, written so that at any moment all of it belongs together."""

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle

from poolwise.errors import FileError, ParameterError
from poolwise.storage import make_folder, read_json, replacing, write_json

STATE, OBJECTS, WEIGHTS, CLASSES = "learner.json", "objects.pkl", "weights-{:0>5}.pt", "classes-{:0>5}.npy"


class Checkpoint:
    """A folder with one state, and the files that the state names.

    A file is written once, under a name of its own, before the state that names it; what no state names any more is
    removed last.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written: set[str] = set()

    def make(self) -> None:
        """Make the folder."""
        make_folder(self.folder)

    def write(self, state: Mapping[str, Any], files: Mapping[str, Callable[[BinaryIO], None]]) -> None:
        """Write a state and the files that it names, those that are not there yet."""
        for name, write in files.items():
            if name not in self._written:
                with replacing(self.folder / name) as file:
                    write(file)
                self._written.add(name)
        write_json(self.folder / STATE, state)
        self._written = set(files)
        for old in [*self.folder.glob(WEIGHTS.format("*")), *self.folder.glob(CLASSES.format("*"))]:
            if old.name not in files:
                old.unlink(missing_ok=True)

    def read(self, name: str, reader: Callable[[Path], Any]) -> Any:
        """Read a file that the state names."""
        self._written.add(name)
        return read(self.folder / name, reader)

    def write_objects(self, objects: Mapping[str, Any]) -> None:
        """Pickle what the learner was made of."""
        try:
            with replacing(self.folder / OBJECTS) as file:
                cloudpickle.dump(dict(objects), file)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ParameterError(
                f"the posterior or the data cannot be saved ({error}). Pass self_contained=False, and give both to "
                "ActiveLearner.load when you go on."
            ) from error

    def remove_torn(self) -> None:
        """Remove what was being written when the learner was killed."""
        for part in self.folder.glob(".*.part"):
            part.unlink(missing_ok=True)


def read_state(path: Path) -> dict[str, Any]:
    """The state of a learner, or an error if it is not one."""
    state = read_json(path)
    expected = {"settings", "objects", "pool", "rounds", "query", "trained", "model", "classes"}
    if not isinstance(state, dict) or not expected <= state.keys():
        raise FileError(f"{path} is damaged: it is not the state of a learner. Restore it from a copy.")
    return state


def read_objects(path: Path) -> dict[str, Any]:
    """What a learner was made of. This runs code that is in the file."""
    hint = "Pass posterior= and data=, and test= and validation= if there were any."
    objects: dict[str, Any] = read(path, lambda path: cloudpickle.loads(path.read_bytes()), hint)
    return objects


def read(path: Path, reader: Callable[[Path], Any], hint: str = "Restore it from a copy.") -> Any:
    """What a reader makes of a file, or an error that names the file and says what to do."""
    try:
        return reader(path)
    except Exception as error:  # whatever a damaged or missing file makes a reader stumble over
        reason = str(error).split("\n")[0]
        raise FileError(f"{path} cannot be read, it may be damaged ({reason}). {hint}") from error
