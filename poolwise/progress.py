"""How long work reports its progress, without knowing who listens; and a bar for a person at a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str, int, int], None]
"""Called with the name of a stage, the steps done and the steps in all."""


# Work that takes less than this (seconds) shows no progress bar.
_PATIENCE = 2.0


def silent(stage: str, done: int, total: int) -> None:
    """Say nothing.

    Example:
        >>> silent("training", 1, 10)
    """


@contextmanager
def terminal_bar(wanted: bool = True) -> Iterator[Report]:
    """A progress bar with the time left, on a terminal or in a notebook, once the work has taken a while.

    Args:
        wanted: False shows nothing.
    """
    notebook = "ipykernel" in sys.modules
    if not wanted or not (notebook or sys.stderr.isatty()):
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    started = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=not notebook), transient=True) as shown:
        stages = {}

        def report(stage: str, done: int, total: int) -> None:
            if time.monotonic() - started < _PATIENCE:
                return
            if stage not in stages:
                stages[stage] = shown.add_task(stage, total=total)
            shown.update(stages[stage], completed=done, total=total)

        yield report
