"""`python -m paper`: the figures and tables of the paper, from configurations to files, and the study beside them."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from paper import figure_1c, study
from paper.experiments import Experiments
from paper.listing import show_list
from paper.places import RECORDS, must_exist
from paper.run import Reproduction
from paper.study.archives import FOLDERS
from paper.targets import ALL, ALL_FIGURES, TARGETS, Scale, find_targets
from poolwise.cli.app import run_app
from poolwise.cli.progress import lines, resumable
from poolwise.errors import ParameterError
from poolwise.reports.archive import SUFFIX, read_archive

RunsArgument = Annotated[Path, typer.Argument(metavar="RUNS", help="Folder that poolwise run wrote to.")]


class _Commands(TyperGroup):
    """Says which figures and tables there are if one is asked for that does not exist."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is None:
            find_targets(cmd_name)
        return found


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
studying = typer.Typer(no_args_is_help=True, help="The study behind docs/results.md.")


@app.callback(invoke_without_command=True)
def _common(
    listing: Annotated[
        bool, typer.Option("--list", help="Show every figure and table, what it costs, and whether its data is here.")
    ] = False,
) -> None:
    """Make the figures and tables of the paper again, and the study that tests its claims.

    Example: `python -m paper figure-1 -o runs --jobs 2`. The file paper/README.md says more.
    """
    if listing:
        show_list(TARGETS, None, ())
        raise typer.Exit


def _command(name: str) -> Callable[..., None]:
    """The command that makes a figure or table, or several."""

    def make(
        scale: Annotated[
            Scale, typer.Option(help="The paper's settings, for days on GPUs, or small twins, for minutes on a laptop.")
        ] = "quick",
        output: Annotated[Path, typer.Option("--output", "-o", help="Folder for runs and results.")] = Path("runs"),
        jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many runs at a time.")] = 1,
        seeds: Annotated[
            int | None, typer.Option(min=1, help="Fewer or more seeds than the configurations have.")
        ] = None,
        change: Annotated[
            list[str] | None,
            typer.Option("--set", help="Change a setting of every experiment, as in data.hub=true; repeatable."),
        ] = None,
        configs: Annotated[
            Path | None, typer.Option(help="Folder with the configurations, in folders quick and paper.")
        ] = None,
        records: Annotated[
            bool, typer.Option("--records", help="Run nothing: draw figures from the records of the repository.")
        ] = False,
        listing: Annotated[bool, typer.Option("--list", help="Show what this costs, and whether its data is here.")] = (
            False
        ),
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and the files made.")] = False,
    ) -> None:
        changes = [*(change or []), *([] if seeds is None else [f"seeds={seeds}"])]
        if listing:
            show_list([target for target in TARGETS if name in (target.name, ALL, ALL_FIGURES)], configs, changes)
            return
        experiments = Experiments(scale, configs, changes)
        say: Callable[[str], None] = (lambda text: None) if quiet else partial(print, file=sys.stderr, flush=True)
        known = read_archive(must_exist(RECORDS) / f"{scale}{SUFFIX}") if records else None
        reproduction = Reproduction(experiments, output, jobs, say, partial(lines, quiet), known)
        with resumable():
            for target in find_targets(name):
                for path in reproduction.make(target):
                    print(path, flush=True)
        for experiment, problem in reproduction.problems.items():
            print(f"poolwise: {experiment}: {problem}", file=sys.stderr)
        if reproduction.problems:
            raise typer.Exit(2)

    return make


_HELP = """{title}.

Runs the experiments, or what is left of them, and draws the result with the panels and axes of the paper. The same
command resumes after an interruption. Data that is not on this machine is named, with how to get it; its panel stays
empty, and the exit code is 2."""


def _add_targets() -> None:
    everything = {ALL_FIGURES: "All figures", ALL: "All figures and tables"}
    for name, title in {**{target.name: target.title for target in TARGETS}, **everything}.items():
        short: dict[str, Any] = {"help": _HELP.format(title=title), "short_help": title}
        app.command(name, rich_help_panel="Figures and tables", **short)(_command(name))


_add_targets()


@app.command("collect", rich_help_panel="Records")
def _collect(runs: RunsArgument) -> None:
    """Put runs of Figure 1 (c) at the paper's scale into paper/records, and draw docs/figure-1c.md from all of them.

    Unfinished runs count as far as they have come. Repeat it whenever there is news: a run replaces an older record of
    itself, and records of other runs are kept.
    """
    for path in (figure_1c.collect(runs), *figure_1c.write_page()):
        print(path)


@studying.command("collect")
def _study_collect(
    runs: RunsArgument,
    name: Annotated[str, typer.Argument(help=f"Which records to replace: {', '.join(FOLDERS)}.")],
) -> None:
    """Replace records of the study in paper/records by the finished runs of a folder."""
    if name not in FOLDERS:
        raise ParameterError(f"records are {', '.join(FOLDERS)}, not {name!r}.")
    print(study.collect(runs, name))


@studying.command("oracle")
def _study_oracle(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 3,
    tries: Annotated[int, typer.Option(min=2, help="Random batches that are judged in each round.")] = 20,
) -> None:
    """Run the oracles on two small settings of judging: how much room is left above the methods."""
    from paper.oracle import add_runs

    print(add_runs(seeds, tries))


@studying.command("cold-start")
def _study_cold_start(
    names: Annotated[list[str] | None, typer.Argument(metavar="DATA", help="Which data sets; all by default.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 5,
) -> None:
    """Select first batches without labels in several ways, and train on each; the same command resumes."""
    from paper.cold_start import DATA, add_runs

    unknown = [name for name in names or () if name not in DATA]
    if unknown:
        raise ParameterError(f"data sets are {', '.join(DATA)}, not {unknown[0]!r}.")
    print(add_runs(seeds, names or (), partial(print, file=sys.stderr, flush=True)))


@studying.command("page")
def _study_page() -> None:
    """Make docs/results.md and its figures from the records."""
    print(study.make_page())


app.add_typer(studying, name="study", rich_help_panel="Records")


def main() -> None:
    """Run the command line."""
    run_app(app)
