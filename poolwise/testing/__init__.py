"""Checks for what you write yourself: does a method or a posterior keep the promises that Poolwise relies on?"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolwise.testing.methods import check_method
    from poolwise.testing.posteriors import check_posterior

__all__ = ["check_method", "check_posterior"]

_HOMES = {"check_method": "poolwise.testing.methods", "check_posterior": "poolwise.testing.posteriors"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
