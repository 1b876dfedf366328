"""Checks for your own methods and posteriors: do they keep the rules that Poolwise relies on?"""

from typing import TYPE_CHECKING

from poolwise.lazy import lazy_names

if TYPE_CHECKING:
    from poolwise.testing.methods import check_method
    from poolwise.testing.posteriors import check_posterior

__all__ = ["check_method", "check_posterior"]

__getattr__, __dir__ = lazy_names(__name__, {"check_method": ".methods", "check_posterior": ".posteriors"})
