"""Many runs in one small file, one row per round: what tables and figures need, without the picks themselves."""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from poolwise.errors import FileError
from poolwise.experiments.json_values import WRONG, reason_of, whole_value
from poolwise.experiments.records import RoundRecord, RunRecord, Setting, check_accuracy, check_order
from poolwise.storage import replacing

SUFFIX = ".csv.gz"

# What a damaged file makes gzip and csv stumble over.
_DAMAGE = (*WRONG, EOFError, zlib.error, csv.Error)

_METRIC, _SECONDS = "metric:", "seconds:"
_SETTING = ("experiment", "data", "posterior", "batch_size")


def write_archive(runs: Iterable[RunRecord], path: Path) -> None:
    """Write runs to a file; the same runs give the same bytes."""
    rows = [row for run in runs for row in _rows(run)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(path) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(text.getvalue().encode())


def read_archive(path: Path) -> list[RunRecord]:
    """The runs of a file, as they were written."""
    runs: dict[tuple[object, ...], RunRecord] = {}
    number = 1
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, strict=True):
                number += 1
                run = _run(path, row)
                key = (run.setting, run.label, run.seed)
                before = runs.get(key, run)
                rounds = (*before.rounds, _round(row))
                check_order(rounds)
                runs[key] = replace(before, rounds=rounds)
    except _DAMAGE as error:
        raise FileError(
            f"{path} is damaged, or not an archive of runs: {reason_of(error)} (row {number}). Get the file again, or "
            "give a folder of runs."
        ) from error
    if not runs:
        raise FileError(f"{path}: no runs are in this archive. Get the file again, or give a folder of runs.")
    return list(runs.values())


def _rows(run: RunRecord) -> Iterator[dict[str, object]]:
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


def _run(path: Path, row: Mapping[str, str]) -> RunRecord:
    versions = dict(part.split("=", 1) for part in row["versions"].split())
    setting = Setting(row["experiment"], row["data"], row["posterior"], _whole(row, "batch_size"))
    return RunRecord(path, setting, row["method"], row["label"], _whole(row, "seed"), versions, ())


def _round(row: Mapping[str, str]) -> RoundRecord:
    metrics = _named(row, _METRIC)
    check_accuracy(metrics)
    return RoundRecord(
        number=_whole(row, "round"),
        labelled=_whole(row, "labelled"),
        metrics=metrics,
        seconds=_named(row, _SECONDS),
        picks=_whole(row, "picks"),
        classes=_whole(row, "classes"),
        distinct=_whole(row, "distinct"),
        saturated_at=_whole(row, "saturated_at") if row["saturated_at"] else None,
        final=row["final"] == "1",
    )


def _whole(row: Mapping[str, str], name: str) -> int:
    return whole_value({name: int(row[name])}, name)


def _named(row: Mapping[str, str], kind: str) -> dict[str, float]:
    """The columns of a kind that have a value."""
    named = {name: value for name, value in row.items() if name is not None and name.startswith(kind)}
    return {name.removeprefix(kind): float(value) for name, value in named.items() if value}
