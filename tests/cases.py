"""Many cases in one test: what they share is set up once, and an error says which case it is from."""

from contextlib import contextmanager

import pytest


@contextmanager
def case(*names):
    """Note on an error in which case it was raised."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {', '.join(map(str, names))}")
        raise


def thorough(*values):
    """Values of a parameter that `make check` tries, and `make test` does not."""
    return [pytest.param(value, marks=pytest.mark.thorough) for value in values]
