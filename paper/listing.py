"""`python -m paper --list`: what there is, and what it costs."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paper import cost
from paper.experiments import Experiments, missing_data
from paper.targets import Scale, Target
from poolwise.cli.progress import clock


def show_list(targets: Iterable[Target], folder: Path | None, changes: Sequence[str]) -> None:
    """Print a table of figures and tables.

    Args:
        targets: what to list.
        folder: the configurations; None for those of the repository.
        changes: settings that take precedence over the files.
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("target", "what it is"):
        table.add_column(heading)
    for heading in ("experiments", "runs", "quick", "paper"):
        table.add_column(heading, justify="right")
    table.add_column("data")
    for target in targets:
        table.add_row(target.name, target.title, *_costs(target, folder, changes))
    console.print(table)
    console.print(
        f"\nRuns are counted at quick and at paper scale. Figures share experiments, which are run once; figure-10 has "
        f"all but those on exact copies. {cost.ASSUMPTIONS}",
        soft_wrap=True,
    )
    console.print("Where data sets are searched for, and how to get them: poolwise datasets", soft_wrap=True)


def _costs(target: Target, folder: Path | None, changes: Sequence[str]) -> tuple[str, ...]:
    """Experiments, runs, times at both scales, and which data is missing."""
    if target.kind == "table":
        return "-", "-", "minutes", "an hour", "-"
    scales: tuple[Scale, Scale] = ("quick", "paper")
    runs, times, missing = [], [], set[str]()
    for scale in scales:
        found = Experiments(scale, folder, changes).read(target.experiments(scale)).values()
        hours = cost.hours(found, scale)
        runs.append(f"{cost.runs(found):,}")
        times.append(clock(3600 * hours) if scale == "quick" else f"{hours:,.0f} GPU hours")
        missing |= {status.spec.name for config in found if (status := missing_data(config)) is not None}
    data = f"missing: {', '.join(sorted(missing))}" if missing else "here"
    return f"{len(target.panels)}", " / ".join(runs), *times, data
