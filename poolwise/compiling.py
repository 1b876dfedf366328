"""Compiling inner loops by Numba, which is the only thing that imports it. There are slower ways without it."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., object])
# Sums may be reordered, so that eight numbers are added at a time. Infinite levels stay what they are.
_FAST = {"reassoc", "contract", "nsz"}


def compiled(loop: Loop) -> Loop:
    """Compile at the first call; keep the result on disk, where there is a place for it."""
    return _compiled(loop, _FAST)


def compiled_exactly(loop: Loop) -> Loop:
    """The same, but every operation is done as it is written, so that it rounds as NumPy does."""
    return _compiled(loop, set())


def in_memory(loop: Loop) -> Loop:
    """Compile at the first call of this process, without checks that could raise something."""
    return cast(Loop, numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")(loop))


def _compiled(loop: Loop, allowed: set[str]) -> Loop:
    try:
        return cast(Loop, numba.njit(cache=True, nogil=True, fastmath=allowed)(loop))
    except RuntimeError:  # no folder can be written to
        return cast(Loop, numba.njit(nogil=True, fastmath=allowed)(loop))
