"""`python -m paper`: the figures and tables of the paper, from configurations to files, and the study beside them."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paper import cost
from paper.experiments import Experiments, missing_data
from paper.run import Reproduction
from paper.targets import ALL, Scale, Target, find_targets
from poolwise.cli.app import run_app
from poolwise.cli.progress import clock, lines, resumable
from poolwise.errors import ParameterError


def reproduce(
    target: Annotated[
        str | None, typer.Argument(metavar="[FIGURE|TABLE|all]", help="As in figure-1, table-2; --list has all names.")
    ] = None,
    scale: Annotated[
        Scale, typer.Option(help="The paper's settings, for days on GPUs, or small twins, for minutes on a laptop.")
    ] = "quick",
    listing: Annotated[
        bool, typer.Option("--list", help="Show every figure and table, what it costs, and whether its data is here.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the runs and results.")] = Path("runs"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many runs at a time.")] = 1,
    seeds: Annotated[int | None, typer.Option(min=1, help="Fewer or more seeds than the configurations have.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting of every experiment, as in data.hub=true; repeatable."),
    ] = None,
    configs: Annotated[
        Path | None, typer.Option(help="Folder with the configurations, in folders quick and paper.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors and the files made.")] = False,
) -> None:
    """Make a figure or table of the paper again: run its experiments, then draw it with the same panels and axes.

    Each experiment is a file in paper/configs/quick or paper/configs/paper that says everything about its runs.
    Finished runs are kept, so the same command resumes. Data that is not on this machine is named, with how to get it;
    its panel stays empty, and the exit code is 2.

    Example: `python -m paper figure-1 -o runs --jobs 2`
    """
    if target is None and not listing:
        raise ParameterError("say what to reproduce, such as figure-1 or all; python -m paper --list has all names.")
    changes = [*(change or []), *([] if seeds is None else [f"seeds={seeds}"])]
    targets = find_targets(target or ALL)
    if listing:
        _list(targets, configs, changes)
        return

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    reproduction = Reproduction(Experiments(scale, configs, changes), output, jobs, say, partial(lines, quiet))
    with resumable():
        for each in targets:
            for path in reproduction.make(each):
                print(path, flush=True)
    for name, problem in reproduction.problems.items():
        print(f"poolwise: {name}: {problem}", file=sys.stderr)
    if reproduction.problems:
        raise typer.Exit(2)


def _list(targets: list[Target], folder: Path | None, changes: list[str]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("target", "what it is"):
        table.add_column(heading)
    for heading in ("experiments", "runs", "quick", "paper"):
        table.add_column(heading, justify="right")
    table.add_column("data")
    scales: tuple[Scale, Scale] = ("quick", "paper")
    for target in targets:
        if target.kind == "table":
            table.add_row(target.name, target.title, "-", "-", "minutes", "an hour", "-")
            continue
        costs, missing = [], set[str]()
        for scale in scales:
            found = Experiments(scale, folder, changes).read(target.experiments(scale)).values()
            costs.append((cost.runs(found), cost.hours(found, scale)))
            missing |= {status.spec.name for config in found if (status := missing_data(config)) is not None}
        (quick_runs, quick_hours), (paper_runs, paper_hours) = costs
        table.add_row(
            target.name,
            target.title,
            f"{len(target.panels)}",
            f"{quick_runs:,} / {paper_runs:,}",
            clock(3600 * quick_hours),
            f"{paper_hours:,.0f} GPU hours",
            f"missing: {', '.join(sorted(missing))}" if missing else "here",
        )
    console.print(table)
    console.print(
        f"\nRuns at quick and at paper scale; those that figures share are done once, and figure-10 has all. "
        f"{cost.ASSUMPTIONS}",
        soft_wrap=True,
    )
    console.print("Where data sets are looked for, and how to get them: poolwise datasets", soft_wrap=True)


def main() -> None:
    """Run the command line."""
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.command()(reproduce)
    run_app(app)
