"""A report on runs: what came out, as data, ready to be written as a page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from poolwise.errors import FileError, MissingInputError
from poolwise.experiments.records import RunRecord, Setting
from poolwise.experiments.search import by_setting, read_runs
from poolwise.reports.archive import SUFFIX, read_archive
from poolwise.reports.comparable import Comparable
from poolwise.reports.labels import (
    LabelsNeeded,
    LabelsSaved,
    labels_needed,
    labels_saved,
    round_accuracies,
)
from poolwise.reports.profiles import Profile, problems, profiles
from poolwise.reports.tables import Summary, summaries
from poolwise.reports.verdicts import Statement, headline, statements

if TYPE_CHECKING:
    from poolwise.reports.picks import Batches
    from poolwise.reports.pictures import Picture


@dataclass(frozen=True)
class Overview:
    """What the report says about all settings together."""

    profiles: list[Profile]
    problems: int
    settings: int
    picture: "Picture"


@dataclass(frozen=True)
class Section:
    """What the report says about one setting.

    Attributes:
        setting: the setting.
        group: its runs.
        headline: the most important result, or nothing.
        statements: what a reader must know before the figures.
        rows: a summary of each method, the best first.
        saved: labels saved against random, by method.
        needed: labels needed, by method and accuracy.
        accuracies: those accuracies.
        pictures: the figures.
        batches: samples of what was picked.
    """

    setting: Setting
    group: Comparable
    headline: str
    statements: list[Statement]
    rows: list[Summary]
    saved: dict[str, LabelsSaved]
    needed: dict[tuple[str, float], LabelsNeeded]
    accuracies: list[float]
    pictures: "list[Picture]"
    batches: "list[Batches]"

    @property
    def best(self) -> Summary | None:
        """The best method, if it is better than random."""
        compared = [row for row in self.rows if row.area_difference is not None]
        return next((row for row in compared if row.area_difference and row.area_difference.verdict == "better"), None)

    @property
    def random(self) -> Summary | None:
        """Random, if it was run."""
        return next((row for row in self.rows if row.label == self.group.baseline), None)


@dataclass(frozen=True)
class Report:
    """A report on the runs of one or more experiments.

    Attributes:
        source: where the runs are.
        runs: all of them.
        sections: one for each setting.
        overview: all settings together, or None.
        damaged: what could not be read and was left out, one message each.
        accuracies: the accuracies for which the report says how many labels they take.

    Example:
        >>> report = Report(Path("runs"), [], [], None, damaged=["runs/mine/rounds.jsonl is damaged"])
        >>> len(report.damaged), report.verdict_lines()
        (1, [])
    """

    source: Path
    runs: list[RunRecord]
    sections: list[Section]
    overview: Overview | None
    damaged: list[str]
    accuracies: tuple[float, ...] = ()

    def verdict_lines(self) -> list[str]:
        """The results, in a few lines of text."""
        lines = []
        for section in self.sections:
            if len(self.sections) > 1:
                lines.append(f"{setting_name(section.setting)}:")
            lines += [section.headline] if section.headline else []
            lines += [f"{said.lead} {said.text}" for said in section.statements if said.verdict]
        return lines

    def write(self, out: Path) -> Path:
        """Write the page, its figures (PNG) and tables (CSV) to a folder, in place of an older report.

        Args:
            out: the folder, made if it is missing.
        Returns:
            Where the page is.
        """
        from poolwise.reports.page import write_page

        return write_page(self, out)


def setting_name(setting: Setting) -> str:
    """A setting in one line."""
    return f"{setting.experiment}: {setting.data}, {setting.posterior}, batches of {setting.batch_size:,}"


def make_report(runs: Path, accuracies: Sequence[float] = ()) -> Report:
    """Read runs and compute everything that a report says. Needs the extra `poolwise[plot]`.

    A run that is damaged is left out and listed in `Report.damaged`. If none can be read, that is an error.

    Args:
        runs: folder with runs at any depth, as experiments write them, or an archive of runs (`.csv.gz`).
        accuracies: say how many labels each method needs for these accuracies; by default a few round ones.

    Example:
        >>> from poolwise.experiments import Config, execute_all
        >>> config = Config(
        ...     name="tiny",
        ...     seeds=[0],
        ...     data={"name": "digits", "pool": 60, "test": 50},
        ...     posterior={"kind": "committee", "members": 2},
        ...     acquisition={"methods": ["random"], "labels": 30},
        ... )
        >>> _ = execute_all(config, Path("runs"))
        >>> report = make_report(Path("runs"), [0.9])
        >>> len(report.runs), report.accuracies, report.write(Path("report")).as_posix()
        (1, (0.9,), 'report/index.html')
    """
    _check_extra()
    damaged: dict[str, None] = {}

    def on_damage(error: FileError) -> None:
        damaged[str(error)] = None

    found = by_setting(read_archive(runs)) if runs.name.endswith(SUFFIX) else read_runs(runs, on_damage)
    groups = {setting: Comparable(tuple(group)) for setting, group in found.items()}
    sections = [
        _section(number, setting, group, accuracies, on_damage)
        for number, (setting, group) in enumerate(groups.items(), start=1)
    ]
    every = [run for group in groups.values() for run in group.everything]
    return Report(runs, every, sections, _overview(groups, every), list(damaged), tuple(accuracies))


def write_report(runs: Path, out: Path, accuracies: Sequence[float] = ()) -> Path:
    """Write a report on all runs below a folder, in place of any older one. Needs the extra `poolwise[plot]`.

    Args:
        runs: folder with runs at any depth, as experiments write them, or an archive of runs (`.csv.gz`).
        out: folder for the page, `index.html`, and for its figures (PNG) and tables (CSV); made if it is missing.
        accuracies: say how many labels each method needs for these accuracies; by default a few round ones.
    Returns:
        Where the page is.

    Example:
        >>> write_report(Path("nowhere"), Path("report"))
        Traceback (most recent call last):
        ...
        poolwise.errors.FileError: nowhere: no such folder. ...
    """
    return make_report(runs, accuracies).write(out)


def _check_extra() -> None:
    """Check that what draws and writes the page is installed."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        missing = error.name or str(error)
        raise MissingInputError(
            f"a report needs Matplotlib and Jinja2, and {missing} cannot be imported. Install both: "
            "pip install 'poolwise[plot]'"
        ) from error


def _section(
    number: int, setting: Setting, group: Comparable, accuracies: Sequence[float], damaged: Callable[[FileError], None]
) -> Section:
    from poolwise.reports.picks import batches
    from poolwise.reports.pictures import pictures

    if not group.labelled:
        return Section(setting, group, "", statements(group, [], []), [], {}, {}, [], [], [])
    rows, saved = summaries(group), labels_saved(group)
    wanted = list(accuracies) or round_accuracies(group)
    needed = labels_needed(group, wanted)
    return Section(
        setting,
        group,
        headline(rows, saved),
        statements(group, rows, saved),
        rows,
        {found.label: found for found in saved},
        {(found.label, found.accuracy): found for found in needed},
        wanted,
        pictures(group, rows, number),
        batches(group, rows, damaged),
    )


def _overview(groups: dict[Setting, Comparable], every: list[RunRecord]) -> Overview | None:
    from poolwise.reports.pictures import profile_picture

    table = problems(groups.values())
    settings = len(set(table.setting_P.tolist()))
    found = profiles(table) if settings > 1 else []
    if not found:
        return None
    counts = len(table.setting_P), settings
    return Overview(found, *counts, profile_picture(found, {run.label: run.method for run in every}, *counts))
