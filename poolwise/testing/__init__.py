"""Tests for what you add to Poolwise: run them on a posterior or a method of your own."""

from poolwise.testing.posteriors import check_posterior

__all__ = ["check_posterior"]


def __dir__() -> list[str]:
    return sorted(__all__)
