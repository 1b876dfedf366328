"""Ends the local Ray of a driver that was killed.

Ray ends its servers when their driver dies, but some processes that those had started live on for a minute. A watchdog
is a small process that waits for that. Once the driver is gone, it ends everything that inherited the driver's mark, an
environment variable that is set only while the driver starts Ray. So it never touches a cluster that somebody else
runs. It reads `/proc`, so there is one on Linux only.

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
    """Wait until the parent process is gone, then end what has its mark."""
    while os.getppid() == driver:
        time.sleep(_EVERY)
    time.sleep(_GRACE)
    last = time.monotonic() + _LAST
    while (found := marked(mark)) and time.monotonic() < last:
        for process in found:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_EVERY)


def marked(mark: str) -> list[int]:
    """The processes with a mark in their environment. Dead ones, which nobody has waited for, have none."""
    found = []
    for folder in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
