"""The right to write to a learner's directory, which one learner at a time has.

Other processes are kept out by a lock. Within one process the newest learner takes over: a notebook cell that makes a
learner can be run again while the old object is still alive. The old one then refuses to change anything.
"""

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from poolwise.errors import StateError
from poolwise.storage import FolderLock, make_folder

_taking = threading.Lock()
# Both by the real path of the folder. A lock outlives its owner by the moment in which it is given back.
_owners: "weakref.WeakValueDictionary[str, Ownership]" = weakref.WeakValueDictionary()
_locks: "weakref.WeakValueDictionary[str, FolderLock]" = weakref.WeakValueDictionary()
_GIVEN_BACK = 5.0  # seconds; giving a lock back takes well under a millisecond, on a machine that does nothing else


class Ownership:
    """One learner's right to write to a folder, until it is closed, taken over or garbage-collected.

    Args:
        folder: the folder; made if it does not exist.
    Raises:
        LockedError: if another process has it.
    """

    _lock: FolderLock

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._folder, self._process = folder, os.getpid()
        self._refusal: str | None = None  # why nothing can be written any more
        self._closed = False
        self._key = key = os.path.realpath(folder)
        with _taking:
            before = _owners.get(key)
            if before is None:
                _wait_until_given_back(key)
            elif before.usable and before._lock.gone:
                before._end(f"{folder} was removed, and another learner of this process made it again. Use that one.")
                before._lock.release()
            if before is None or not before.usable:
                before = None
                self._lock, self._writing = FolderLock(folder), threading.RLock()
                self._lock.acquire()
                _locks[key] = self._lock
            else:
                self._lock, self._writing = before._lock, before._writing
                before._end(
                    f"another learner of this process took over {folder} at {datetime.now():%H:%M:%S}. Use that one, "
                    "or open the directory again."
                )
            self._before = None if before is None else weakref.ref(before)
            self._give_back = weakref.finalize(self, self._lock.release)
            _owners[key] = self

    @property
    def usable(self) -> bool:
        """Whether it has the right to write, in this process."""
        return self._refusal is None and self._process == os.getpid()

    def check(self) -> None:
        """Refuse if this learner may not write any more, before it does any work."""
        if self._refusal is not None:
            raise StateError(self._refusal)
        if self._process != os.getpid():
            raise StateError(
                f"this learner was opened in process {self._process} and is only a copy in process {os.getpid()}. "
                "Change it there, or close it there and open the directory here."
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A moment in which no other learner can take over."""
        with self._writing:
            self.check()
            yield

    def close(self) -> None:
        """Give the right back."""
        with _taking:
            self._closed = True
            if self._refusal is None:
                self._end(f"this learner is closed. To continue, open {self._folder} again.")
                self._lock.release()

    def undo(self) -> None:
        """Give the right back to the learner that had it before, since the new one could not be opened.

        If yet another learner has taken over meanwhile, the right stays there, and that one gives it back past this.
        """
        before = None if self._before is None else self._before()
        with _taking:
            if self._refusal is not None:
                newer = _owners.get(self._key)
                if newer is not None and newer._before is not None and newer._before() is self:
                    newer._before = self._before
                return
            if before is not None and not before._closed:
                self._end("this learner could not be opened.")
                before._refusal = None
                before._give_back = weakref.finalize(before, before._lock.release)
                _owners[self._key] = before
                return
        self.close()

    def _end(self, refusal: str) -> None:
        """Refuse from now on, once nothing is being written."""
        with self._writing:
            self._refusal = refusal
            self._give_back.detach()


def _wait_until_given_back(key: str) -> None:
    """Wait for another thread in which the last learner of a folder is being garbage-collected."""
    lock, until = _locks.get(key), time.monotonic() + _GIVEN_BACK
    while lock is not None and lock.held and time.monotonic() < until:
        time.sleep(0.001)
