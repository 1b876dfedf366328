"""Many cases in one test: what they share is set up once, and an error says which case it is from."""

from contextlib import contextmanager


@contextmanager
def case(*names):
    """Note on an error in which case it was raised."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {', '.join(map(str, names))}")
        raise
