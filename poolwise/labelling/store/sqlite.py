"""SQLite files that are safe to copy at any moment, whatever the copying program does and in whatever order.

A database in WAL mode is a file and a log of the pages that changed. A copy is whole if the file does not change and
the log only grows: what was copied of the log is then valid up to its last complete transaction. So nothing here ever
writes the log back into the file (a checkpoint). Once the log is large, and nobody else has the store open, all that is
in it goes to a new file, `labels.2.db` after `labels.db`. The old one stays until the next time, since somebody may be
copying it.
"""

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from poolwise.errors import FileError, StateError
from poolwise.storage import sync_folder

try:
    import fcntl
except ImportError:  # not on Windows, where files are never compacted
    fcntl = None  # type: ignore[assignment]

# Seconds to wait while another process writes. A transaction takes milliseconds.
_PATIENCE = 30.0

# Bytes of a page. The log gets whole pages, and an event needs little: small pages keep the log short.
_PAGE = 1_024

# Seconds after which an unfinished file is nobody's any more.
_ABANDONED = 3_600

LARGE_LOG = 32 << 20
"""Bytes of the log above which its contents go to a new file."""

_keepers: dict[tuple[int, int], sqlite3.Connection] = {}
_processes: set[int] = set()  # this one, once it has connected; a forked process inherits the number of its parent


class DatabaseFile:
    """The newest of the files `labels.db`, `labels.2.db`, ..., made if there is none.

    Args:
        path: the first of them.
        large: bytes of the log above which a new file is begun.
    """

    def __init__(self, path: Path, large: int = LARGE_LOG) -> None:
        self._first = path
        self._lock = _SharedLock(path.with_name(f"{path.name}.lock"))
        try:
            self.path = self._newest() or self._made(path, None)
            if self._log_size() > large:
                if self._lock.alone():
                    self.path = self._newest() or self.path
                    self._compact()
                # Changing a lock gives it up for a moment, in which somebody else may have begun a new file. From here
                # on nobody can.
                self._lock.share()
                self.path = self._newest() or self.path
        except BaseException:
            self._lock.close()
            raise

    def connect(self) -> sqlite3.Connection:
        """A new connection."""
        if _processes and os.getpid() not in _processes:
            raise StateError(
                "SQLite cannot be used in a process that was forked from one that used it: locks are not inherited. "
                "Start the process with subprocess, or with the method 'spawn' of multiprocessing."
            )
        _processes.add(os.getpid())
        self._keep_log()
        return _connect(self.path)

    def close(self) -> None:
        """Let others compact the files."""
        self._lock.close()

    def _number(self, path: Path) -> int:
        found = re.fullmatch(rf"{re.escape(self._first.stem)}\.(\d+){re.escape(self._first.suffix)}", path.name)
        return int(found[1]) if found else int(path.name == self._first.name)

    def _newest(self) -> Path | None:
        pattern = f"{self._first.stem}*{self._first.suffix}"
        found = [path for path in self._first.parent.glob(pattern) if self._number(path)]
        newest = max(found, key=self._number, default=None)
        if newest is not None and (newest.is_symlink() or not newest.is_file()):
            raise FileError(f"{newest}: expected a file with labels, not a link or a folder.")
        return newest

    def _log_size(self) -> int:
        with suppress(OSError):
            return self.path.with_name(f"{self.path.name}-wal").stat().st_size
        return 0

    def _made(self, path: Path, source: sqlite3.Connection | None) -> Path:
        """Make a file, empty or with the contents of another. It has its name only once it is complete."""
        part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
        for leftover in path.parent.glob(f".{self._first.stem}.*.part*"):
            with suppress(OSError):
                if leftover.stat().st_mtime < time.time() - _ABANDONED:
                    leftover.unlink()
        part.unlink(missing_ok=True)
        with closing(sqlite3.connect(part, isolation_level=None)) as made:
            made.execute(f"PRAGMA page_size = {_PAGE}")
            if source is not None:
                source.backup(made)
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("PRAGMA user_version = 0")
        handle = os.open(part, os.O_RDWR)
        os.fsync(handle)
        os.close(handle)
        with suppress(FileExistsError):  # another process was faster
            os.link(part, path)
        part.unlink()
        sync_folder(path.parent)
        return path

    def _compact(self) -> None:
        for old in self._first.parent.glob(f"{self._first.stem}*{self._first.suffix}"):
            if 0 < self._number(old) < self._number(self.path):
                for name in (old.name, f"{old.name}-wal", f"{old.name}-shm"):
                    with suppress(OSError):
                        old.with_name(name).unlink()
        number = self._number(self.path) + 1
        source = self.connect()
        with closing(source):
            self.path = self._made(self._first.with_name(f"{self._first.stem}.{number}{self._first.suffix}"), source)

    def _keep_log(self) -> None:
        """Make sure that closing the last connection of this process does not write the log back.

        Python can ask SQLite for that from version 3.12 on. Before, one connection per file stays open until the
        process ends, and is never closed.
        """
        if hasattr(sqlite3.Connection, "setconfig"):
            return
        status = self.path.stat()
        place = (status.st_dev, status.st_ino)
        if place not in _keepers:
            keeper = _connect(self.path)
            keeper.execute("SELECT count(*) FROM sqlite_master").fetchall()
            import ctypes

            ctypes.pythonapi.Py_IncRef(ctypes.py_object(keeper))
            _keepers[place] = keeper


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    setconfig: Callable[[int, bool], None] | None = getattr(connection, "setconfig", None)
    if setconfig is not None:
        setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)  # type: ignore[attr-defined]
    for pragma in (
        "trusted_schema = OFF",  # the file may come from somebody else
        "journal_mode = WAL",
        "synchronous = FULL",  # a commit returns once it is on the disk
        "wal_autocheckpoint = 0",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def write_single(source: Path, target: Path) -> None:
    """Write a database and its log to one file, which must not exist yet."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    with closing(_connect(source)) as connection, closing(sqlite3.connect(part)) as made:
        connection.backup(made)
        made.execute("PRAGMA journal_mode = DELETE")
    os.replace(part, target)
    sync_folder(target.absolute().parent)


class _SharedLock:
    """A lock that many processes have at once, and that shows whether one of them is alone."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = None
        if fcntl is None:
            return
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_SH)
        except OSError as error:
            raise FileError(f"cannot write to {path.parent} ({error.strerror}).") from error

    def alone(self) -> bool:
        """Whether nobody else has the lock; others then wait until it is closed. Share it again in any case."""
        if self._file is None or fcntl is None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def share(self) -> None:
        """Have the lock together with others again."""
        if self._file is not None and fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def close(self) -> None:
        """Give the lock back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
