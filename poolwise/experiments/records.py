"""The records of a run: the only module that knows how `run.json` and `rounds.jsonl` are written and read.

A run is a folder. `run.json` says what it is, and names the version of this format. `rounds.jsonl` has one line per
round, replaced as a whole after each round. What was picked is beside them for people to look at, see `samples.py`.
"""

import importlib.metadata
import json
import math
import platform
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import FileError
from poolwise.experiments.config import INITIAL_PER_CLASS
from poolwise.experiments.json_values import WRONG, number_values, reason_of, short_json, text_value, whole_value
from poolwise.learning.rounds import Round
from poolwise.storage import replacing, write_json

DESCRIPTION, ROUNDS = "run.json", "rounds.jsonl"
FORMAT = 1
"""The version of the format, in `run.json`. Version 0.1 of Poolwise wrote the same without a number."""

CHECKSUM = "crc32"
"""Name of the checksum of a round, which version 0.1 did not write."""

_PACKAGES = ("poolwise", "torch", "numpy", "scikit-learn")
_OPTIONAL = ("transformers",)  # where it was used


class Setting(NamedTuple):
    """What runs must share to be compared."""

    experiment: str
    data: str
    posterior: str
    batch_size: int


@dataclass(frozen=True)
class RoundRecord:
    """One recorded round: how good the model was, and what was picked next.

    Attributes:
        number: its number, from 0.
        labelled: how many labels the model was trained on.
        metrics: how good the model is on the test set; NaN where that could not be measured.
        seconds: wall time of `train`, `predict` and `select`.
        picks: how many points were picked; 0 in the last round.
        classes: how many classes were among the picks.
        distinct: how many different originals were among the picks, in a pool of repeated examples.
        saturated_at: how many picks were made before the batch had nothing more to gain, or None.
        final: whether the run was complete after this round.
        at_random: whether the picks were drawn at random because there was no model yet.

    Example:
        >>> RoundRecord(0, 20, {"accuracy": 0.7}, {"train": 1.2}, 10, 6, 10, None, final=False).labelled
        20
    """

    number: int
    labelled: int
    metrics: dict[str, float]
    seconds: dict[str, float]
    picks: int
    classes: int
    distinct: int
    saturated_at: int | None
    final: bool
    at_random: bool = False


@dataclass(frozen=True)
class RunRecord:
    """The records of one run: one method with one seed.

    Attributes:
        folder: where the records are.
        setting: the experiment, data, posterior and batch size. Runs of one setting can be compared.
        method: the selection method.
        label: name of the method with its parameters, unique within the setting.
        seed: the seed. Runs of one setting with the same seed have the same start.
        versions: the versions of the packages that made it.
        rounds: its rounds in order; none if the run has just begun.
        start: how many labels there were at the start, in words; empty if that was not recorded.

    Example:
        >>> setting = Setting("mine", "digits", "committee", batch_size=10)
        >>> record = RunRecord(Path("runs/mine/random/seed-0"), setting, "random", "random", 0, {}, rounds=())
        >>> record.finished, record.reached
        (False, 0)
    """

    folder: Path
    setting: Setting
    method: str
    label: str
    seed: int
    versions: dict[str, str]
    rounds: tuple[RoundRecord, ...]
    start: str = ""

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return bool(self.rounds) and self.rounds[-1].final

    @property
    def reached(self) -> int:
        """How many labels the last recorded round had."""
        return self.rounds[-1].labelled if self.rounds else 0


# Writing


def versions() -> dict[str, str]:
    """The versions that the numbers of a run may depend on."""
    imported = [name for name in _OPTIONAL if name in sys.modules]
    packages = {name: importlib.metadata.version(name) for name in (*_PACKAGES, *imported)}
    return {"python": platform.python_version(), "machine": platform.machine(), **packages}


def write_description(folder: Path, description: Mapping[str, Any]) -> None:
    """Write what a run is, with the version of the format and those of the packages."""
    write_json(folder / DESCRIPTION, {"format": FORMAT, **description, "versions": versions()})


def write_rounds(folder: Path, rounds: Iterable[Round], labels_N: Array | None, origins_N: Array) -> None:
    """Write all rounds so far.

    Args:
        folder: of the run.
        rounds: the learner's rounds.
        labels_N: `[N]` true labels of the pool, or None.
        origins_N: `[N]` for each point of the pool, its position in the training set before it was repeated.
    """
    contents = [_content(entry, labels_N, origins_N) for entry in rounds]
    lines = [json.dumps({**content, CHECKSUM: _checksum(content)}) + "\n" for content in contents]
    with replacing(folder / ROUNDS) as file:
        file.write("".join(lines).encode())


def _checksum(content: Mapping[str, Any]) -> int:
    """Of all but the times, so that the same results have the same checksum."""
    kept = {name: value for name, value in content.items() if name not in ("seconds", CHECKSUM)}
    return zlib.crc32(json.dumps(kept).encode())


def _content(entry: Round, labels_N: Array | None, origins_N: Array) -> dict[str, Any]:
    picks = np.array(entry.indices, np.int64)
    labels = np.empty(0, np.int64) if labels_N is None else labels_N[picks]
    diagnostics = None
    if entry.diagnostics is not None:
        curve = entry.diagnostics["information"]
        diagnostics = {name: entry.diagnostics[name] for name in ("ceiling", "saturated_at", "pairs", "rows")}
        diagnostics["information"] = None if curve is None else curve[-1]
        if entry.diagnostics.get("features") is not None:
            diagnostics["features"] = entry.diagnostics["features"]
    return {
        "round": entry.round,
        "labelled": entry.labelled,
        "metrics": entry.metrics,
        "validation": entry.validation,
        "seconds": entry.seconds,
        "indices": picks.tolist(),
        "scores": list(entry.scores),
        "labels": labels.tolist(),
        "classes": len(np.unique(labels)),
        "distinct": len(np.unique(origins_N[picks])),
        "diagnostics": diagnostics,
        "origin": entry.origin,
        "final": entry.final is not None,
        "stopped": entry.final,
    }


# Reading


def read_run(folder: Path) -> RunRecord:
    """The records of one run."""
    path = folder / DESCRIPTION
    content = read_description(folder)
    try:
        return RunRecord(
            folder=folder,
            setting=Setting(
                experiment=text_value(content, "experiment"),
                data=text_value(content, "data"),
                posterior=text_value(content, "posterior"),
                batch_size=whole_value(content, "batch_size"),
            ),
            method=text_value(content, "method"),
            label=text_value(content, "label"),
            seed=whole_value(content, "seed"),
            versions={str(name): str(version) for name, version in dict(content.get("versions", {})).items()},
            rounds=read_rounds(folder),
            start=_start(content),
        )
    except FileError:
        raise
    except WRONG as error:
        raise _damaged(path, f"not the description of a run ({reason_of(error)})") from error


def read_description(folder: Path) -> dict[str, Any]:
    """The contents of `run.json`, checked to be an object of a version that is known."""
    path = folder / DESCRIPTION
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise TypeError(f"expected an object, found {short_json(content)}")
        version = whole_value(content, "format") if "format" in content else FORMAT
    except WRONG as error:
        raise _damaged(path, f"not the description of a run ({reason_of(error)})") from error
    if version > FORMAT:
        raise FileError(
            f"{path}: format {version} of a newer Poolwise; this one reads format {FORMAT}. Upgrade: "
            "pip install -U poolwise"
        )
    return content


def read_rounds(folder: Path) -> tuple[RoundRecord, ...]:
    """The recorded rounds of a run, without a last line that was not written to its end."""
    path = folder / ROUNDS
    if not path.exists():
        return ()
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise _damaged(path, reason_of(error)) from error
    rounds: list[RoundRecord] = []
    for number, line in enumerate([*lines, rest] if _whole_json(rest) else lines, start=1):
        try:
            rounds.append(_read_round(json.loads(line)))
            check_order(rounds)
        except WRONG as error:
            raise _damaged(path, f"line {number} is not the record of a round ({reason_of(error)})") from error
    return tuple(rounds)


def _whole_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def check_order(rounds: Sequence[RoundRecord]) -> None:
    """Check that the last round follows the one before."""
    if len(rounds) < 2:
        return
    before, last = rounds[-2:]
    if last.labelled <= before.labelled:
        raise ValueError(f"{last.labelled} labels after {before.labelled}: they must grow")
    if before.final:
        raise ValueError("it follows the last round of the run")


def check_accuracy(metrics: Mapping[str, float]) -> None:
    """Check that an accuracy is a share, unless it is no number at all."""
    accuracy = metrics.get("accuracy", math.nan)
    if math.isfinite(accuracy) and not 0 <= accuracy <= 1:
        raise ValueError(f"accuracy must be between 0 and 1, not {accuracy}")


def _read_round(content: Any) -> RoundRecord:
    if not isinstance(content, dict):
        raise TypeError(f"expected an object, found {short_json(content)}")
    if CHECKSUM in content and content[CHECKSUM] != _checksum(content):
        raise ValueError("its checksum does not match")
    indices, diagnostics = content.get("indices", []), content.get("diagnostics")
    if not isinstance(indices, list):
        raise TypeError(f"indices must be a list, not {short_json(indices)}")
    metrics = number_values(content["metrics"] or {})
    check_accuracy(metrics)
    saturated_at = None
    if diagnostics is not None and diagnostics.get("saturated_at") is not None:
        saturated_at = whole_value(diagnostics, "saturated_at")
    return RoundRecord(
        number=whole_value(content, "round"),
        labelled=whole_value(content, "labelled"),
        metrics=metrics,
        seconds=number_values(content.get("seconds", {})),
        picks=len(indices),
        classes=whole_value(content, "classes") if indices else 0,
        distinct=whole_value(content, "distinct") if indices else 0,
        saturated_at=saturated_at,
        final=bool(content.get("final", False)),
        at_random=bool(indices) and (diagnostics is None or content.get("origin") == "random"),
    )


def _start(content: Mapping[str, Any]) -> str:
    """How many labels there were at the start, from the configuration of the run."""
    config = content.get("config")
    acquisition = config.get("acquisition") if isinstance(config, dict) else None
    if not isinstance(acquisition, dict):
        return ""
    methods = acquisition.get("methods")
    own = methods[0].get("first") if isinstance(methods, list) and methods and isinstance(methods[0], dict) else None
    if isinstance(acquisition.get("first"), str):
        return f"no labels; {own or acquisition['first']} chooses the first batch"
    if isinstance(acquisition.get("initial"), int):
        return f"{acquisition['initial']:,} labels"
    return f"{acquisition.get('initial_per_class') or INITIAL_PER_CLASS} labels of each class"


def _damaged(path: Path, reason: str) -> FileError:
    return FileError(
        f"{path} is damaged: {reason}. Restore the file from a copy; or remove the folder {path.parent}, and "
        "`poolwise run` does this run again."
    )
