"""`poolwise run`, `poolwise report` and `poolwise datasets`: simulated experiments on labelled data.

What the commands work with takes seconds to import, so it is imported when a command is run.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from poolwise.cli.app import app
from poolwise.cli.engines import AddressOption, EngineOption, working
from poolwise.cli.example import EXAMPLE
from poolwise.cli.progress import lines, resumable
from poolwise.errors import ParameterError, PoolwiseError


@app.command()
def run(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG.toml", help="The experiment; --example prints one to start from.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the runs.")] = Path("runs"),
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="How many runs at a time; 1, or with --engine ray all that fit."),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Change a setting, as in acquisition.batch_size=20; repeatable."
        ),
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    example: Annotated[
        bool, typer.Option("--example", help="Print a complete CONFIG.toml, with a comment on each setting.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Run an experiment: compare methods on data with known labels.

    A file says which data, posterior, methods and seeds. There is one run per method and seed. After Ctrl-C or a crash,
    give the same command again: it resumes. Finished runs are left as they are, so you can add methods and seeds later.

    An example that needs no data of yours and takes a minute or two:

    \b
      poolwise run --example > digits.toml
      poolwise run digits.toml -o runs --jobs 2
      poolwise report runs -o report
    """
    if example:
        print(EXAMPLE, end="")
        return
    if config is None:
        raise ParameterError(
            "expected CONFIG.toml, the file of an experiment. To start from an example: "
            "poolwise run --example > digits.toml"
        )
    from poolwise import budget
    from poolwise.experiments import execute_all, failures, read_config

    budget.keep_freed_memory()
    experiment = read_config(config, change or [])
    with resumable(), working(engine, address), lines(quiet) as show:
        if engine == "ray":
            from poolwise import cluster

            progress = cluster.execute_all(experiment, output, jobs, show)
        else:
            progress = execute_all(experiment, output, jobs or 1, show)
    failed = failures(progress)
    if failed:
        raise PoolwiseError("\n".join(failed))
    if not quiet:
        print(
            f"{len(progress)} runs are in {output / experiment.name}. Next: poolwise report {output}", file=sys.stderr
        )


@app.command()
def report(
    runs: Annotated[
        Path,
        typer.Argument(
            metavar="RUNS", help="Folder with the runs of one or more experiments, or an archive of runs (.csv.gz)."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the report.")] = Path("report"),
    accuracy: Annotated[
        list[float] | None,
        typer.Option(
            "--accuracy",
            "-a",
            help="Report the labels needed for this accuracy, such as 0.9; repeatable. By default a few round ones.",
        ),
    ] = None,
) -> None:
    """Write an HTML page about runs.

    It shows learning curves, differences from random, labels saved, times and batches, and prints the verdict. A
    damaged run folder is left out, with a note here and on the page. Drawing needs `pip install 'poolwise[plot]'`.

    After `poolwise run digits.toml -o runs`, this writes the page report/index.html:

    
      poolwise report runs -o report
      poolwise report runs -o report --accuracy 0.9
    """
    targets = accuracy or []
    for target in targets:
        if not 0 < target <= 1:
            raise ParameterError(f"--accuracy takes a share above 0 and at most 1, such as 0.9, not {target:g}.")
    from poolwise.reports import make_report  # needs Matplotlib, which may be missing

    made = make_report(runs, targets)
    for note in made.damaged:
        print(f"poolwise: left out: {note}", file=sys.stderr)
    page = made.write(output)
    for line in made.verdict_lines():
        print(line)
    print(f"The report is {page}")


@app.command()
def datasets(
    root: Annotated[Path | None, typer.Option(help="A folder to search first.")] = None,
) -> None:
    """List the data sets and how to get them.

    Each is shown with where it was found. For those that were not found, it says where they were searched for.

    Examples:

    \b
      poolwise datasets
      poolwise datasets --root data
    """
    from rich.console import Console
    from rich.table import Table

    from poolwise.data import datasets_table

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    table = Table("data set", "classes", "train / test", "where", box=None, pad_edge=False, header_style="bold")
    missing = []
    for status in datasets_table(root):
        spec, (train, test) = status.spec, status.spec.count
        table.add_row(spec.name, str(spec.class_count), f"{train:,} / {test:,}", status.found or "not found")
        if status.found is None:
            missing.append(status)
    console.print(table)
    if missing:
        console.print("\nSearched in: " + ", ".join(str(path) for path in missing[0].looked), soft_wrap=True)
        for status in missing:
            console.print(f"{status.spec.name}: {status.how}", soft_wrap=True)


@app.command(hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def reproduce() -> None:
    """Moved out of the package, with the configurations that it needs."""
    raise ParameterError("reproduce has moved: in a clone of the repository, run python -m paper --list.")
