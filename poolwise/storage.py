"""Files that are never half written, and folders that only one process writes to."""

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import filelock

from poolwise.errors import FileError, LockedError

MOST_EMPTY = 10_000
"""How many folders are searched in vain before a search gives up."""

LOCK, HOLDER = ".lock", ".lock.holder"

# The host in the name of an unfinished file: a process id says nothing about another machine.
_HOST = re.sub(r"[^A-Za-z0-9]", "_", socket.gethostname())[:40]
_UNFINISHED = re.compile(r"\..+\.(?P<host>\w+)-(?P<process>\d+)-\d+\.part")
_visited: set[Path] = set()  # folders that this process has written to


@dataclass
class FolderSearch:
    """A search through folders that gives up, so that `/` given by mistake does not read the whole disk.

    Attributes:
        root: where it began.
        what: what is searched for, in a word.
        hint: what to do if it is not found.
        empty: how many folders had none so far.
    """

    root: Path
    what: str
    hint: str
    empty: int = 0

    def visited(self, found: bool) -> None:
        """Count a folder; raise after `MOST_EMPTY` of them in which nothing was found."""
        self.empty += not found
        if self.empty > MOST_EMPTY:
            raise FileError(
                f"{self.root}: stopped after {MOST_EMPTY:,} folders in which there is no {self.what}. {self.hint}"
            )


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to. It takes the place of the one at `path` once it is complete and on the disk.

    Whatever happens, `path` has the old contents or the new. A process that is killed while it writes leaves a `.part`
    file behind. The next process that writes to the folder, or locks it, removes it.
    """
    _remove_abandoned(path.parent)
    part = path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{threading.get_ident()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"cannot write {path} ({error.strerror}). What was there before is unchanged.") from error
    except RuntimeError as error:  # how PyTorch reports an error of the file that it writes to
        if not isinstance(error.__context__, OSError):
            raise
        reason = error.__context__.strerror
        raise FileError(f"cannot write {path} ({reason}). What was there before is unchanged.") from error
    finally:
        with suppress(OSError):
            part.unlink()


def remove_unfinished(folder: Path) -> None:
    """Remove the files that a killed process left unfinished. Call it only while nobody writes to the folder."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):
            part.unlink()


def _remove_abandoned(folder: Path) -> None:
    """Remove unfinished files of processes of this machine that have ended.

    Each process does it once per folder, since it takes listing the folder.
    """
    if folder in _visited:
        return
    _visited.add(folder)
    for part in folder.glob(".*.part"):
        found = _UNFINISHED.fullmatch(part.name)
        if found and found["host"] == _HOST and not _runs(int(found["process"])):
            with suppress(OSError):
                part.unlink()


def _runs(process: int) -> bool:
    """Whether a process of this machine is running; on Windows, where asking could end it, always true."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


class FolderLock:
    """Keeps everybody else out of a folder: other processes, and other locks of this process. Use as a context.

    The system gives the lock back when its process ends, also if it is killed. While the lock is held, a note beside it
    says by whom. Whoever gets the lock first removes what a killed process left unfinished.

    Args:
        folder: the folder, which must exist.
        wait: whether to wait while somebody else has the lock, or to raise a `LockedError`.
    """

    def __init__(self, folder: Path, *, wait: bool = False) -> None:
        self._folder, self._wait = folder, wait
        # The lock belongs to this object, not to a thread: the garbage collector may give it back from any thread.
        self._lock = filelock.FileLock(folder / LOCK, thread_local=False)
        self._process = 0

    def acquire(self) -> None:
        """Take the lock."""
        try:
            self._lock.acquire(timeout=-1 if self._wait else 0)
        except filelock.Timeout:
            raise LockedError(
                f"{self._folder} is being written by {_holder(self._folder)}. Wait for it, or stop it first."
            ) from None
        except OSError as error:
            raise FileError(f"cannot write to {self._folder} ({error.strerror}).") from error
        self._process = os.getpid()
        note = {"process": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
        with suppress(OSError):
            (self._folder / HOLDER).write_text(json.dumps(note))
        remove_unfinished(self._folder)

    def release(self) -> None:
        """Give the lock back. A forked process leaves the lock to its parent."""
        if self.held:
            with suppress(OSError):
                (self._folder / HOLDER).unlink()
            self._lock.release()
            self._process = 0

    @property
    def held(self) -> bool:
        """Whether this object has the lock, in this process."""
        return self._process == os.getpid()

    @property
    def gone(self) -> bool:
        """Whether the lock's file was removed, so that the lock keeps nobody out any more."""
        return not (self._folder / LOCK).exists()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _holder(folder: Path) -> str:
    """Who has the lock of a folder, as far as the note beside it says."""
    try:
        note = json.loads((folder / HOLDER).read_text())
        return f"another process (id {note['process']} on {note['host']}, since {note['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, where they do not exist yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make the folder {folder} ({error.strerror}). Name one in a place that can be written to."
        ) from error


def write_json(path: Path, value: Any, *, compact: bool = False) -> None:
    """Write a value as JSON.

    Args:
        path: the file.
        value: what to write.
        compact: in one line, which takes a tenth of the time; for files that people do not read.
    """
    with replacing(path) as file:
        file.write((json.dumps(value, indent=None if compact else 1) + "\n").encode())


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
    """Make a rename durable, where the file system can."""
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
    """Turn any error of reading a damaged array file into one that names the file and says what to do.

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
            f"{path}: not a whole, plain array file ({reason}). It may be truncated, or contain pickled objects, which "
            f"are never loaded. {advice}"
        ) from error
