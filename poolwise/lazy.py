"""Public names that are loaded when they are first used: PyTorch takes a second to import, scikit-learn another."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from poolwise.former import renamed


def lazy_names(
    module: str, homes: Mapping[str, str], former: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a module whose names are loaded when they are first used.

    Args:
        module: the module's `__name__`. It has an `__all__`.
        homes: for each name, the module that defines it, as in `".specs"`; for a name that is a module, its path and a
            colon.
        former: former names and the present ones, see `poolwise.former`.
    """

    def load(name: str) -> Any:
        if name not in homes:
            return renamed(module, former or {}, name)
        home, is_module, _ = homes[name].partition(":")
        found = import_module(home, module) if is_module else getattr(import_module(home, module), name)
        setattr(sys.modules[module], name, found)
        return found

    def listed() -> list[str]:
        return sorted(sys.modules[module].__all__)

    return load, listed
