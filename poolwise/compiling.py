"""Compiling inner loops by Numba, which is the only thing that imports it. There are slower ways without it."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., object])
# Sums may be reordered, so that eight numbers are added at a time. Infinite levels stay what they are.
_FAST = {"reassoc", "contract", "nsz"}


def compiled(loop: Loop) -> Loop:
    """Compile at the first call; keep the result on disk, where there is a place for it."""
    try:
        return cast(Loop, numba.njit(cache=True, nogil=True, fastmath=_FAST)(loop))
    except RuntimeError:  # no folder can be written to
        return cast(Loop, numba.njit(nogil=True, fastmath=_FAST)(loop))
