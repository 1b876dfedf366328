"""Ends the local Ray of a driver that was killed.

Ray ends its servers when their driver dies, but some processes that those had started live on for a minute. A watchdog
is a small process that waits for that. Once the driver is gone, it ends everything that inherited the driver's mark, an
environment variable that is set only while the driver starts Ray, and everything that those processes started. So it
never touches a cluster that somebody else runs. It reads `/proc`, so there is one on Linux only.

Run as a script, this file is the watchdog itself: it imports nothing but the standard library.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

_MARK = "POOLWISE_RAY_DRIVER"
_PROCESSES = Path("/proc")

# Seconds: between two checks of the driver, for Ray to end by itself, and after which the watchdog gives up.
_EVERY, _GRACE, _LAST = 0.5, 1.0, 30.0


class Watchdog:
    """The watchdog of this process, from its start to `stop`."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        if _PROCESSES.is_dir():
            nowhere = subprocess.DEVNULL
            # A session of its own: Ctrl-C is for the driver.
            self._process = subprocess.Popen(
                [sys.executable, "-I", __file__, str(os.getpid()), self._mark],
                stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True,
            )  # fmt: skip

    @contextlib.contextmanager
    def marking(self) -> Iterator[None]:
        """Mark all processes that are started meanwhile, and those that they start."""
        before = os.environ.get(_MARK)
        os.environ[_MARK] = self._mark
        try:
            yield
        finally:
            os.environ.pop(_MARK)
            if before is not None:  # this process is part of a session itself
                os.environ[_MARK] = before

    def stop(self) -> None:
        """End the watchdog, once Ray has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def watch(driver: int, mark: str) -> None:
    """Wait until the parent process is gone, then end what has its mark, and what those processes started.

    Some of Ray's processes write their title over their environment, and the mark with it. So the processes are noted
    while the driver is there, by the mark or by their parent.
    """
    noted: dict[int, str] = {}
    while os.getppid() == driver:
        note(mark, noted)
        time.sleep(_EVERY)
    time.sleep(_GRACE)
    last = time.monotonic() + _LAST
    while (found := note(mark, noted)) and time.monotonic() < last:
        for process in found:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_EVERY)


def note(mark: str, noted: dict[int, str]) -> list[int]:
    """Add the processes of a session to those noted before, by number and start time; those that are running now."""
    processes = {int(folder.name): _stat(folder) for folder in _PROCESSES.glob("[0-9]*")}
    running = {pid: stat for pid, stat in processes.items() if stat is not None and stat[0] not in "ZX"}
    for pid, (_, parent, started) in sorted(running.items()):
        of_noted = parent in noted and parent in running and running[parent][2] == noted[parent]
        if of_noted or _has_mark(pid, mark):
            noted[pid] = started
    return [pid for pid, started in noted.items() if pid in running and running[pid][2] == started]


def _stat(folder: Path) -> tuple[str, int, str] | None:
    """State, parent and start time of a process; None if it has just ended."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1]), fields[19]


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return f"{_MARK}={mark}".encode() in (_PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
