"""The selection methods, one per file, and what a method of your own needs. Names are loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from poolwise.selection.catalogue import built_in

if TYPE_CHECKING:
    from poolwise.selection.objective import GreedyObjective
    from poolwise.selection.registry import Method, method, methods
    from poolwise.selection.task import Picks, Task

__all__ = ["GreedyObjective", "Method", "Picks", "Task", "method", "methods"]

_HOMES = {"GreedyObjective": "objective", "Method": "registry", "Picks": "task", "Task": "task"}
_HOMES |= {"method": "registry", "methods": "registry"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if f"{__name__}.{name}" in _files():
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _files() -> set[str]:
    return {entry.home for entry in built_in().values()}


def __dir__() -> list[str]:
    return sorted([*__all__, *(home.rpartition(".")[2] for home in _files())])
