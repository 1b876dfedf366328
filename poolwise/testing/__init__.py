"""Checks for what you write yourself: does a method or a posterior keep the promises that Poolwise relies on?"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolwise.testing.methods import check_method

__all__ = ["check_method"]

_HOMES = {"check_method": "poolwise.testing.methods"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
