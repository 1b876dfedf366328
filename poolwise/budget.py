"""The memory budget: how much working space a call may take beside its input, and how much the machine has."""

import ctypes
import os
import re
import sys
from decimal import Decimal
from pathlib import Path

from poolwise.errors import NotEnoughMemoryError, ParameterError

DEFAULT = 1 << 30
_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}

# More bytes than this are no machine's memory: an exabyte.
_LARGEST = 10**18

# A block of work this large (bytes) stays in a cache while several operations pass over it. Smaller blocks cost more in
# calls, larger ones more in trips to memory. A budget can make blocks smaller, never larger.
_CACHE_BLOCK = 1 << 22

# Parameters of `mallopt` in the C library of Linux (malloc.h), and their values in bytes: how much freed memory it
# keeps, and from which size on it asks the system for memory. 32 MB is the largest size that it allows.
_KEPT_WHEN_FREED, _FROM_THE_SYSTEM = (-1, 512 << 20), (-3, 32 << 20)


def parse(memory: int | str) -> int:
    """Bytes from a number of bytes or a text such as `"500MB"` or `"1.5 GB"`."""
    if isinstance(memory, int) and not isinstance(memory, bool) and 0 < memory <= _LARGEST:
        return memory
    match = (
        re.fullmatch(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*)\s*", memory)
        if isinstance(memory, str)
        else None
    )
    if match is not None and match[2].upper() in _UNITS:
        size = int(Decimal(match[1]) * _UNITS[match[2].upper()])
        if 0 < size <= _LARGEST:
            return size
    raise ParameterError(
        'memory must be a number of bytes or a text like "500MB" or "1GB", from 1 byte to 1,000,000 TB, not '
        f"{shorten(memory)}."
    )


def shorten(value: object, length: int = 60) -> str:
    """A value as an error shows it, cut where it is long. Whole numbers too long for Python to print are described."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out whole numbers of more than 4,300 digits
        return "a whole number of thousands of digits"
    return text if len(text) <= length else f"{text[: length - 4]} ..."


def block_rows(bytes_per_row: int, memory: int, workspaces: int = 8) -> int:
    """How many rows to process at a time so that a few working copies of them fit the cache and the budget."""
    return max(1, min(_CACHE_BLOCK, memory // workspaces) // max(1, bytes_per_row))


def available() -> int | None:
    """Bytes of memory that this process could still take, or None where the system does not say."""
    limits = [_meminfo(), _cgroup()]
    known = [limit for limit in limits if limit is not None]
    if known:
        return min(known)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def need(size: int, what: str, advice: str) -> None:
    """Raise if an array of that size does not fit memory.

    Args:
        size: bytes of the array.
        what: what to call it in the error.
        advice: what to do instead.
    """
    free = available()
    if free is not None and size > free:
        raise NotEnoughMemoryError(f"{what} would take {gigabytes(size)}, and {gigabytes(free)} are free. {advice}")


def gigabytes(size: int) -> str:
    """A number of bytes in words."""
    return f"{size / 1e9:,.{1 if size >= 1e8 else 3}f} GB"


def _meminfo() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup() -> int | None:
    """What the limit of a container leaves; pages of files that it may drop count as free."""
    try:
        folder = Path("/sys/fs/cgroup")
        limit, used = int((folder / "memory.max").read_text()), int((folder / "memory.current").read_text())
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, limit - used + int(counts.get("inactive_file", 0)) + int(counts.get("active_file", 0)))
    except (OSError, ValueError):  # there is no limit ("max"), or no such group
        return None


def keep_freed_memory() -> None:
    """Let the C library keep what is freed. By default every step of training gets much of its memory page by page.

    This is for the whole process, so only programs call it, never the library. Elsewhere than on Linux nothing changes.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
        for parameter, value in (_KEPT_WHEN_FREED, _FROM_THE_SYSTEM):
            if mallopt is not None:
                mallopt(parameter, value)
