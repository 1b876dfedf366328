"""One page that needs nothing else: figures inside it, no scripts, no network; beside it the figures and tables."""

import base64
import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined

from poolwise.errors import FileError, MissingInputError
from poolwise.reports import numbers
from poolwise.reports.archive import SUFFIX, read_archive
from poolwise.reports.comparable import Comparable
from poolwise.reports.export import profiles_as_rows, tables_as_rows
from poolwise.reports.paired import LEVEL
from poolwise.reports.profiles import Profile, problems, profiles
from poolwise.reports.records import Run, Setting, by_setting, read_runs
from poolwise.reports.tables import Summary, summaries
from poolwise.reports.verdicts import Statement, counted, statements
from poolwise.storage import replacing

if TYPE_CHECKING:
    from poolwise.reports.pictures import Picture

PAGE = "index.html"

# The names that this module gives to pictures: those of an older report are removed, other files are not touched.
_PICTURE_NAME = re.compile(r"\d+-(accuracy|difference|nll|times|first-batches|last-batches)\.png|profiles\.png")


@dataclass(frozen=True)
class Overview:
    """What the page says about all settings together."""

    profiles: list[Profile]
    problems: int
    settings: int
    picture: "Picture"


@dataclass(frozen=True)
class Section:
    """What the page says about one setting."""

    setting: Setting
    group: Comparable
    statements: list[Statement]
    rows: list[Summary]
    pictures: "list[Picture]"


def write_report(runs: Path, out: Path) -> Path:
    """Write a report on all runs below a folder, in place of any older one.

    Args:
        runs: folder with runs at any depth, as experiments write them, or an archive of runs (`.csv.gz`).
        out: folder for the page, `index.html`, and for its figures (PNG) and tables (CSV); made if it is missing.
    Returns:
        Where the page is.
    """
    try:
        from poolwise.reports.pictures import pictures, profile_picture
    except ImportError as error:
        raise MissingInputError(
            f"a report needs Matplotlib, which cannot be imported ({error}). Install it: pip install 'poolwise[plot]'"
        ) from error
    if out.exists() and not out.is_dir():
        raise FileError(f"{out}: is a file, but the report is a folder. Move the file away, or name another folder.")
    found_runs = by_setting(read_archive(runs)) if runs.name.endswith(SUFFIX) else read_runs(runs)
    groups = {setting: Comparable(tuple(found)) for setting, found in found_runs.items()}
    every = [run for group in groups.values() for run in group.everything]
    sections = []
    for setting, group in groups.items():
        rows = summaries(group) if group.labelled else []
        drawn = pictures(group, rows) if rows else []
        sections.append(Section(setting, group, statements(group, rows), rows, drawn))
    overview = None
    table = problems(groups.values())
    if len(set(table.setting_P.tolist())) > 1 and (found := profiles(table)):
        methods = {run.label: run.method for run in every}
        counts = len(table.setting_P), len(set(table.setting_P.tolist()))
        overview = Overview(found, *counts, profile_picture(found, methods, *counts))
    contents = {
        f"{number}-{picture.name}.png": picture.png
        for number, section in enumerate(sections, start=1)
        for picture in section.pictures
    }
    tables = tables_as_rows(groups)
    if overview is not None:
        contents["profiles.png"] = overview.picture.png
        tables["profiles"] = profiles_as_rows(overview.profiles)
    contents |= {f"{name}.csv": _as_csv(rows) for name, rows in tables.items()}
    contents[PAGE] = _render(runs, overview, sections, every, list(tables)).encode()
    _write(out, contents)
    return out / PAGE


def _render(runs: Path, overview: Overview | None, sections: list[Section], every: list[Run], tables: list[str]) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "percent": numbers.percent,
        "points": numbers.points,
        "seconds": numbers.seconds,
        "decimal": numbers.decimal,
        "base64": lambda png: base64.b64encode(png).decode(),
    }
    template = environment.from_string(files("poolwise.reports").joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        source=runs.resolve().name,
        overview=overview,
        sections=sections,
        runs=every,
        versions=_versions(every),
        tables=tables,
        counted=counted,
        level=LEVEL,
    )


def _versions(every: list[Run]) -> dict[str, list[str]]:
    """All versions of each package that runs were made with."""
    found: dict[str, set[str]] = {}
    for run in every:
        for package, version in run.versions.items():
            found.setdefault(package, set()).add(version)
    return {package: sorted(versions) for package, versions in sorted(found.items())}


def _as_csv(rows: Iterable[Mapping[str, object]]) -> bytes:
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write every file whole or not at all, the page last."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            with replacing(folder / name) as file:
                file.write(content)
        for path in folder.iterdir():
            if _PICTURE_NAME.fullmatch(path.name) and path.name not in contents:
                path.unlink()
    except OSError as error:
        raise FileError(f"{folder}: cannot write the report ({error.strerror}).") from error
