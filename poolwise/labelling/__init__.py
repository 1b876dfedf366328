"""Labelling by people: projects, which keep data, labels, models and batches together, and how people get at them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolwise.labelling.project import Project
    from poolwise.labelling.store import Event, Store

__all__ = ["Event", "Project", "Store"]

_HOMES = {"Event": "store", "Project": "project", "Store": "store"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
