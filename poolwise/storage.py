"""Files that are never half written: whatever happens, what is at a path is the old contents or the new."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from poolwise.errors import FileError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of the one at `path` once it is complete and on the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"cannot write {path} ({error.strerror}). What was there before is unchanged.") from error
    except RuntimeError as error:  # PyTorch's word for an error of the file that it writes to
        if not isinstance(error.__context__, OSError):
            raise
        reason = error.__context__.strerror
        raise FileError(f"cannot write {path} ({reason}). What was there before is unchanged.") from error
    finally:
        with suppress(OSError):
            part.unlink()


def make_folder(folder: Path) -> None:
    """Make a folder, and those that it is in, where they are not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make the folder {folder} ({error.strerror}). Name one in a place that can be written to."
        ) from error


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON."""
    with replacing(path) as file:
        file.write((json.dumps(value, indent=1, allow_nan=True) + "\n").encode())


def read_json(path: Path, advice: str = "Restore it from a copy, or remove it to start anew.") -> Any:
    """Read a value from JSON.

    Args:
        path: the file.
        advice: what to do if it is damaged.
    """
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is damaged: {error}. {advice}") from error


def sync_folder(folder: Path) -> None:
    """Make a rename durable; a file system that cannot is left alone."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


@contextmanager
def reading_arrays(path: Path, advice: str) -> Iterator[None]:
    """Whatever a damaged file makes NumPy or PyTorch stumble over, as an error that says what to do.

    Args:
        path: the file.
        advice: how to write it again.
    """
    try:
        yield
    except FileError:
        raise
    except Exception as error:
        reason = str(error).split("\n")[0]
        raise FileError(
            f"{path}: not a whole, plain array file ({reason}). It may be truncated, or hold pickled objects, which "
            f"are never loaded. {advice}"
        ) from error
