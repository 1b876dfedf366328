"""What a person at a terminal sees while work takes long."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from poolwise.progress import Report, silent

if TYPE_CHECKING:
    from rich.table import Table

    from poolwise.experiments import Progress as RunProgress
    from poolwise.experiments.grid import Show

# Work that takes less than this (seconds) shows no progress bar.
_PATIENCE = 2.0


@contextmanager
def bar(quiet: bool) -> Iterator[Report]:
    """A progress bar with the time left, for a person at a terminal, once the work has taken a while."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    started = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        stages: dict[str, int] = {}

        def report(stage: str, done: int, total: int) -> None:
            if time.monotonic() - started < _PATIENCE:
                return
            if stage not in stages:
                stages[stage] = shown.add_task(stage, total=total)
            shown.update(stages[stage], completed=done, total=total)  # type: ignore[arg-type]

        yield report


@contextmanager
def lines(quiet: bool) -> Iterator["Show"]:
    """One line per run: at a terminal those under way, kept up to date; elsewhere each run as it ends."""
    if quiet:
        yield lambda progress: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield lambda progress: live.update(_table(progress))
    else:
        said: set[int] = set()
        yield lambda progress: _say(progress, said)


@contextmanager
def resumable() -> Iterator[None]:
    """Work that Ctrl-C may stop: it ends with a note on how to resume, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        print("\nstopped. All that was done is saved: the same command resumes it.", file=sys.stderr)
        raise typer.Exit(130) from None


def _table(progress: "Sequence[RunProgress]") -> "Table":
    from rich.table import Table

    now = time.monotonic()
    done = sum(entry.done for entry in progress)
    table = Table("run", "round", "labels", "accuracy", "time left", box=None, pad_edge=False, header_style="bold")
    for entry in progress:
        if entry.started is not None and not entry.done and entry.error is None:
            left = entry.seconds_left(now)
            table.add_row(
                _name(entry),
                str(len(entry.rounds)),
                f"{entry.labelled} of {entry.run.config.acquisition.labels}",
                "-" if entry.accuracy is None else f"{entry.accuracy:.3f}",
                "-" if left is None else clock(left),
            )
    left_in_all = _left_in_all(progress, now)
    table.add_row(f"{done} of {len(progress)} runs done", "", "", "", left_in_all, style="dim")
    return table


def _left_in_all(progress: "Sequence[RunProgress]", now: float) -> str:
    """The time left for all runs, from how fast labels were asked for since this command began."""
    started = [entry.started for entry in progress if entry.started is not None]
    labels = progress[0].run.config.acquisition.labels
    fresh = sum(
        entry.labelled - (entry.rounds[entry.early - 1].labelled if entry.early else 0)
        for entry in progress
        if len(entry.rounds) > entry.early
    )
    left = sum(labels - entry.labelled for entry in progress if not entry.done and entry.error is None)
    return clock((now - min(started)) / fresh * left) if started and fresh else "-"


def _say(progress: "Sequence[RunProgress]", said: set[int]) -> None:
    for number, entry in enumerate(progress):
        if number in said or not (entry.done or entry.error):
            continue
        said.add(number)
        if entry.error is not None:
            print(f"{_name(entry)}: {entry.error}", file=sys.stderr, flush=True)
        elif entry.started is None:
            print(f"{_name(entry)}: was finished before", file=sys.stderr, flush=True)
        else:
            accuracy = "" if entry.accuracy is None else f", accuracy {entry.accuracy:.3f}"
            spent = clock(time.monotonic() - entry.started)
            print(
                f"[{len(said)}/{len(progress)}] {_name(entry)}: {entry.labelled} labels{accuracy}, {spent}",
                file=sys.stderr,
                flush=True,
            )


def _name(entry: "RunProgress") -> str:
    return f"{entry.run.method.label}, seed {entry.run.seed}"


def clock(seconds: float) -> str:
    """A time as a person says it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02} s" if whole < 3600 else f"{whole // 3600} h {whole // 60 % 60:02} min"
