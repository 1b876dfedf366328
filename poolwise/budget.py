"""The memory budget: how much working space a call may take beside its input."""

import re

from poolwise.errors import ParameterError

DEFAULT = 1 << 30
_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}

# A block of work this large (bytes) stays in a cache while several operations pass over it. Smaller blocks cost more in
# calls, larger ones more in trips to memory. A budget can make blocks smaller, never larger.
_CACHE_BLOCK = 1 << 22


def parse(memory: int | str) -> int:
    """Bytes from a number of bytes or a text such as `"500MB"` or `"1.5 GB"`."""
    if isinstance(memory, int) and not isinstance(memory, bool) and memory > 0:
        return memory
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", memory) if isinstance(memory, str) else None
    if match is None or match[2].upper() not in _UNITS or float(match[1]) <= 0:
        raise ParameterError(f'memory must be a number of bytes or a text like "500MB" or "1GB", not {memory!r}.')
    return int(float(match[1]) * _UNITS[match[2].upper()])


def block_rows(bytes_per_row: int, memory: int, workspaces: int = 8) -> int:
    """How many rows to process at a time so that a few working copies of them fit the cache and the budget."""
    return max(1, min(_CACHE_BLOCK, memory // workspaces) // max(1, bytes_per_row))
