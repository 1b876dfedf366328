"""Many runs in one small file, a line a round: what tables and figures need, without the picks themselves."""

import csv
import gzip
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from poolwise.errors import FileError
from poolwise.reports.records import Round, Run, Setting
from poolwise.storage import replacing

SUFFIX = ".csv.gz"

_METRIC, _SECONDS = "metric:", "seconds:"
_SETTING = ("experiment", "data", "posterior", "batch_size")


def write_archive(runs: Iterable[Run], path: Path) -> None:
    """Write runs to a file; the same runs give the same bytes."""
    rows = [row for run in runs for row in _rows(run)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(path) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(text.getvalue().encode())


def read_archive(path: Path) -> list[Run]:
    """The runs of a file, as they were written."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        runs: dict[tuple[object, ...], Run] = {}
        for row in rows:
            run = _run(path, row)
            key = (run.setting, run.label, run.seed)
            before = runs.get(key, run)
            runs[key] = replace(before, rounds=(*before.rounds, _round(row)))
    except (OSError, EOFError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not an archive of runs ({error}). Get it again, or give a folder of runs.") from error
    return list(runs.values())


def _rows(run: Run) -> Iterator[dict[str, object]]:
    for entry in run.rounds:
        yield {
            **run.setting._asdict(),
            "method": run.method,
            "label": run.label,
            "seed": run.seed,
            "versions": " ".join(f"{name}={version}" for name, version in run.versions.items()),
            "round": entry.number,
            "labelled": entry.labelled,
            "picks": entry.picks,
            "classes": entry.classes,
            "distinct": entry.distinct,
            "saturated_at": "" if entry.saturated_at is None else entry.saturated_at,
            "final": int(entry.final),
            **{_METRIC + name: _number(value) for name, value in entry.metrics.items()},
            **{_SECONDS + name: _number(value) for name, value in entry.seconds.items()},
        }


def _number(value: float) -> str:
    """Six digits are more than any metric is known to."""
    return "nan" if math.isnan(value) else f"{value:.6g}"


def _run(path: Path, row: Mapping[str, str]) -> Run:
    versions = dict(part.split("=", 1) for part in row["versions"].split())
    setting = Setting(row["experiment"], row["data"], row["posterior"], int(row["batch_size"]))
    return Run(path, setting, row["method"], row["label"], int(row["seed"]), versions, ())


def _round(row: Mapping[str, str]) -> Round:
    saturated_at = row["saturated_at"]
    return Round(
        number=int(row["round"]),
        labelled=int(row["labelled"]),
        metrics=_named(row, _METRIC),
        seconds=_named(row, _SECONDS),
        picks=int(row["picks"]),
        classes=int(row["classes"]),
        distinct=int(row["distinct"]),
        saturated_at=int(saturated_at) if saturated_at else None,
        final=row["final"] == "1",
    )


def _named(row: Mapping[str, str], kind: str) -> dict[str, float]:
    """The columns of a kind that have a value."""
    return {name.removeprefix(kind): float(value) for name, value in row.items() if name.startswith(kind) and value}
