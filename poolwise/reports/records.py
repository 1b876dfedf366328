"""Runs as they lie on disk: folders with a `run.json`, a `rounds.jsonl` and perhaps a `thumbnails.npz`."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import FileError

DESCRIPTION, ROUNDS, THUMBNAILS = "run.json", "rounds.jsonl", "thumbnails.npz"


class Setting(NamedTuple):
    """What runs must share to be compared."""

    experiment: str
    data: str
    posterior: str
    batch_size: int


@dataclass(frozen=True)
class Round:
    """One round: what the model could do with the labels it had, and what was picked next.

    Attributes:
        number: counts from 0.
        labelled: how many labels the model was trained on.
        metrics: its quality on the test set; NaN where it could not be measured.
        seconds: wall time of `train`, `predict` and `select`.
        picks: how many points were picked; 0 in the last round.
        classes: how many classes were among the picks.
        distinct: how many different originals were among the picks.
        saturated_at: how many picks were made before the batch had nothing more to gain, or None.
        final: whether the run was complete after this round.
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


@dataclass(frozen=True)
class Run:
    """One method with one seed.

    Attributes:
        folder: where its records are.
        setting: what it shares with the runs that it can be compared with.
        method: the selection method.
        label: name of the method with its parameters, unique within the setting.
        seed: runs of one setting with the same seed began alike.
        versions: of the packages that made it.
        rounds: in order; none yet if the run has just begun.
    """

    folder: Path
    setting: Setting
    method: str
    label: str
    seed: int
    versions: dict[str, str]
    rounds: tuple[Round, ...]

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return bool(self.rounds) and self.rounds[-1].final

    @property
    def reached(self) -> int:
        """How many labels the last recorded round had."""
        return self.rounds[-1].labelled if self.rounds else 0


def read_runs(folder: Path) -> dict[Setting, list[Run]]:
    """All runs at or below a folder, by setting, each list in the order of label and seed."""
    if not folder.is_dir():
        raise FileError(f"{folder}: no such folder. Expected the folder that an experiment wrote its runs to.")
    runs = [_read_run(path.parent) for path in sorted(folder.rglob(DESCRIPTION))]
    if not runs:
        raise FileError(
            f"{folder}: no runs here. Looked in it and in all folders below for {DESCRIPTION}, beside which "
            f"{ROUNDS} holds the records of a run. Run an experiment first, or give the folder that it wrote to."
        )
    return by_setting(runs)


def by_setting(runs: Iterable[Run]) -> dict[Setting, list[Run]]:
    """Runs by setting, each list in the order of label and seed; none may be there twice."""
    groups: dict[Setting, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.setting, run.label, run.seed)):
        group = groups[run.setting]
        if group and (group[-1].label, group[-1].seed) == (run.label, run.seed):
            raise FileError(
                f"{group[-1].folder} and {run.folder} are both {run.label!r} with seed {run.seed} of the experiment "
                f"{run.setting.experiment!r}. One of them would count twice: move one away, or give it another label."
            )
        group.append(run)
    return dict(groups)


def read_thumbnails(run: Run) -> list[tuple[int, Array]]:
    """Numbers of rounds with the `[n, H, W, channels]` images picked in them, in order; nothing if none were kept."""
    path = run.folder / THUMBNAILS
    if not path.is_file():
        return []
    try:
        with np.load(path, allow_pickle=False) as archive:
            batches = [
                (number, archive[f"round-{number}"])
                for number in sorted(int(name.removeprefix("round-")) for name in archive.files)
            ]
    except Exception as error:  # whatever a damaged archive makes NumPy stumble over
        raise FileError(f"{path}: cannot be read ({error}). Delete it; the report does without the images.") from error
    for number, images in batches:
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] not in (1, 3):
            raise FileError(
                f"{path}: round-{number} must hold bytes [n, H, W, 1 or 3], not {images.dtype} {list(images.shape)}. "
                "Delete the file; the report does without the images."
            )
    return [(number, images) for number, images in batches if len(images)]


def _read_run(folder: Path) -> Run:
    path = folder / DESCRIPTION
    try:
        content = json.loads(path.read_bytes())
        return Run(
            folder=folder,
            setting=Setting(
                experiment=_text(content, "experiment"),
                data=_text(content, "data"),
                posterior=_text(content, "posterior"),
                batch_size=_whole(content, "batch_size"),
            ),
            method=_text(content, "method"),
            label=_text(content, "label"),
            seed=_whole(content, "seed"),
            versions={str(name): str(version) for name, version in dict(content.get("versions", {})).items()},
            rounds=_read_rounds(folder / ROUNDS),
        )
    except FileError:
        raise
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{path}: not the description of a run ({_reason(error)}). "
            "Expected a JSON object as Poolwise writes it; restore the file, or move this folder away."
        ) from error


def _read_rounds(path: Path) -> tuple[Round, ...]:
    """The rounds of a run, without a last line that was not written to its end."""
    if not path.is_file():
        return ()
    *lines, rest = path.read_bytes().split(b"\n")
    rounds: list[Round] = []
    for number, line in enumerate([*lines, rest] if _whole_json(rest) else lines, start=1):
        try:
            rounds.append(_read_round(json.loads(line)))
            if len(rounds) > 1 and rounds[-1].labelled <= rounds[-2].labelled:
                raise ValueError(f"{rounds[-1].labelled} labels after {rounds[-2].labelled}: they must grow")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FileError(
                f"{path}, line {number}: not the record of a round ({_reason(error)}). "
                "Only the last line may be incomplete. Restore the file, or run this seed again."
            ) from error
    return tuple(rounds)


def _whole_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _read_round(content: dict[str, Any]) -> Round:
    picks = len(content.get("indices", ()))
    saturated_at = (content.get("diagnostics") or {}).get("saturated_at")
    return Round(
        number=_whole(content, "round"),
        labelled=_whole(content, "labelled"),
        metrics=_numbers(content["metrics"]),
        seconds=_numbers(content.get("seconds", {})),
        picks=picks,
        classes=_whole(content, "classes") if picks else 0,
        distinct=_whole(content, "distinct") if picks else 0,
        saturated_at=None if saturated_at is None else int(saturated_at),
        final=bool(content.get("final", False)),
    )


def _text(content: dict[str, Any], name: str) -> str:
    if not isinstance(content[name], str):
        raise TypeError(f"{name} must be a text, not {content[name]!r}")
    return str(content[name])


def _whole(content: dict[str, Any], name: str) -> int:
    value = content[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    return value


def _numbers(content: dict[str, Any]) -> dict[str, float]:
    """Numbers by name; JSON's null stands for NaN."""
    return {str(name): math.nan if value is None else float(value) for name, value in content.items()}


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
