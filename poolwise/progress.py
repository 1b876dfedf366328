"""How long work reports its progress, without knowing who listens."""

from collections.abc import Callable

Report = Callable[[str, int, int], None]
"""Called with the name of a stage, the steps done and the steps in all."""


def silent(stage: str, done: int, total: int) -> None:
    """Say nothing.

    Example:
        >>> silent("training", 1, 10)
    """
