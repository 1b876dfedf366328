"""The page of a report: complete in itself, no scripts, no network. Beside it are the figures and tables as files."""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from poolwise.errors import FileError
from poolwise.experiments.records import RunRecord
from poolwise.reports import numbers
from poolwise.reports.export import profiles_as_rows, tables_as_rows
from poolwise.reports.labels import LabelsNeeded
from poolwise.reports.paired import LEVEL
from poolwise.reports.report import Report, setting_name
from poolwise.reports.svg import style_sheet
from poolwise.reports.verdicts import counted, saved_range
from poolwise.storage import replacing

PAGE = "index.html"

# The names that reports give to pictures: those of an older report are removed, other files are not touched.
_PICTURE_NAME = re.compile(r"\d+-(accuracy|difference|nll|times|first-batches|last-batches)\.png|profiles\.png")


def write_page(report: Report, out: Path) -> Path:
    """Write the page, its figures and its tables; see `Report.write`."""
    if out.exists() and not out.is_dir():
        raise FileError(f"{out}: is a file, but the report is a folder. Move the file away, or name another folder.")
    contents = {
        f"{number}-{picture.name}.png": picture.png
        for number, section in enumerate(report.sections, start=1)
        for picture in section.pictures
    }
    tables = tables_as_rows({section.setting: section.group for section in report.sections}, report.accuracies)
    if report.overview is not None:
        contents["profiles.png"] = report.overview.picture.png
        tables["profiles"] = profiles_as_rows(report.overview.profiles)
    contents |= {f"{name}.csv": _as_csv(rows) for name, rows in tables.items()}
    contents[PAGE] = _render(report, list(tables)).encode(errors="replace")
    _write(out, contents)
    return out / PAGE


def _render(report: Report, tables: list[str]) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "percent": numbers.percent,
        "points": numbers.points,
        "seconds": numbers.seconds,
        "decimal": numbers.decimal,
        "saved_range": saved_range,
        "labels": _labels,
        "labels_range": _labels_range,
    }
    template = environment.from_string(files("poolwise.reports").joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        report=report,
        source=report.source.resolve().name,
        versions=_versions(report.runs),
        tables=tables,
        counted=counted,
        setting_name=setting_name,
        level=LEVEL,
        svg=Markup,  # Matplotlib has escaped the names inside
        light=Markup(style_sheet(0)),
        dark=Markup(style_sheet(1)),
    )


def _labels(count: float, most: int) -> str:
    """A number of labels, or that it is more than there were."""
    return f"> {most:,}" if math.isinf(count) else f"{count:,.0f}"


def _labels_range(needed: LabelsNeeded, most: int) -> str:
    """The interval of a number of labels, nothing if it says no more than the number."""
    if math.isnan(needed.low) or math.isinf(needed.low):
        return ""
    return f"({_labels(needed.low, most)} to {_labels(needed.high, most)})"


def _versions(every: list[RunRecord]) -> dict[str, list[str]]:
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
    return text.getvalue().encode(errors="replace")


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
