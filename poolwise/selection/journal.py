"""The picks of a selection under way, on the disk as they are made: a process that was killed goes on with the next.

A journal is a file of lines. The first says what was asked for, and the digest of the first bounds of all points, which
stand for the predictions. Each further line is one pick. A line counts once it is complete, with the digest of what it
says; what a killed process left unfinished at the end is dropped. On a restart the picks are added to the objective one
after another, which costs a row each and no search, and the random streams are brought to where they were.
"""

import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from poolwise.arrays import Array, as_bytes
from poolwise.errors import FileError, StateError
from poolwise.storage import sync_folder

NAME = "picks.jsonl"
# Lines are handed to the system at once, which keeps them if this process is killed. How long (seconds) they may wait
# for the disk: what a power cut takes is picked again, to the same points.
_SYNC = 0.1


@dataclass(frozen=True)
class Pick:
    """One pick.

    Attributes:
        index: which point.
        score: its gain.
        saturated: whether no gain was left at this pick.
        refills: how many times a sampler drew proposals for it.
        waiting: how many of those were left over.
        rebased: whether all gains were computed for it, and the pick drawn from them.
    """

    index: int
    score: float
    saturated: bool = False
    refills: int = 0
    waiting: int = 0
    rebased: bool = False


class Journal:
    """The picks made so far of one request. A context, for one process at a time.

    Args:
        folder: where the journal is kept; made if it is not there.
        request: what decides the picks beside the predictions: method, parameters, seed, ...
    """

    def __init__(self, folder: str | Path, request: Mapping[str, object]) -> None:
        self._path = Path(folder) / NAME
        self._request: dict[str, Any] = json.loads(json.dumps(request))
        self._file: BinaryIO | None = None
        self._synced = -math.inf

    def begin(self, bounds_N: Array) -> list[Pick]:
        """The picks of an earlier start; from now on `append` can be called.

        Args:
            bounds_N: `[N]` bounds of the gains before any pick.
        """
        wanted = {**self._request, "bounds": hashlib.sha256(as_bytes(bounds_N)).hexdigest()}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a+b")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateError(f"{self._path} is in use by another process. Wait, or use another folder.") from error
        except OSError as error:
            raise FileError(f"cannot write {self._path} ({error.strerror}).") from error
        self._file.seek(0)
        content = self._file.read()
        found, whole = _complete_lines(content)
        if not found and b"\n" in content:
            raise FileError(f"{self._path} is not a journal of picks, or is damaged. Move it, or use another folder.")
        self._file.truncate(whole)
        if not found:
            self._write(wanted)
            sync_folder(self._path.parent)
            return []
        different = sorted(name for name in {*found[0], *wanted} if found[0].get(name) != wanted.get(name))
        if different:
            what = "predictions (or the same, computed otherwise)" if different == ["bounds"] else different[0]
            raise StateError(
                f"{self._path} holds the picks of a selection with another {what} than now. Give the same request "
                "again, use another folder, or remove the file to start anew."
            )
        return [Pick(**entry) for entry in found[1:]]

    def append(self, pick: Pick) -> None:
        """Write down a pick; when this returns, it outlives this process."""
        self._write(vars(pick))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.fsync(self._file.fileno())
            with suppress(OSError):  # on a full disk, what could not be written is tried once more
                self._file.close()
            self._file = None

    def _write(self, entry: dict[str, Any]) -> None:
        if self._file is None:
            raise StateError("a journal is written to inside its context, after begin.")
        text = json.dumps(entry)
        try:
            self._file.write(f"{_digest(text)} {text}\n".encode())
            self._file.flush()
            if time.monotonic() - self._synced > _SYNC:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise FileError(
                f"cannot write {self._path} ({error.strerror}). The picks before this one are kept: make room and give "
                "the same request again."
            ) from error


def _complete_lines(content: bytes) -> tuple[list[dict[str, Any]], int]:
    """What the whole lines at the beginning say, and how many bytes they take."""
    found, whole = [], 0
    for line in content.splitlines(keepends=True):
        digest, _, text = line.decode(errors="replace").rstrip("\n").partition(" ")
        if not line.endswith(b"\n") or digest != _digest(text):
            break
        found.append(json.loads(text))
        whole += len(line)
    return found, whole


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
