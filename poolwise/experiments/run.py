"""One run: a method and a seed of an experiment, in a folder of its own, resumable at any moment."""

import importlib.metadata
import io
import json
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import StateError
from poolwise.experiments.build import Split, posterior, split, start
from poolwise.experiments.config import Config, MethodConfig
from poolwise.learning.learner import ActiveLearner
from poolwise.learning.rounds import Round
from poolwise.learning.simulation import simulate
from poolwise.parallel import threads_an_operation
from poolwise.progress import Report, silent
from poolwise.storage import FolderLock, make_folder, read_json, replacing, write_json

_PACKAGES = ("poolwise", "torch", "numpy", "scikit-learn")
_OPTIONAL = ("transformers",)  # where it was used

# Pictures of at most so many picks of a round are kept, for the report.
_THUMBNAILS = 20

Listener = Callable[[Round], None]


@dataclass(frozen=True)
class Run:
    """One run of an experiment.

    Attributes:
        config: the experiment.
        method: the method.
        seed: the seed.
        folder: where it is kept.
    """

    config: Config
    method: MethodConfig
    seed: int
    folder: Path

    def description(self) -> dict[str, Any]:
        """All that the run depends on, and the versions it is made with."""
        config = self.config.model_dump(mode="json")
        config["acquisition"]["methods"] = [self.method.model_dump(mode="json")]
        config["seeds"] = [self.seed]
        return {
            "experiment": self.config.name,
            "data": self.config.data.name or Path(self.config.data.path or "").name,
            "posterior": self.config.posterior.kind,
            "method": self.method.name,
            "label": self.method.label,
            "parameters": self.method.parameters,
            "batch_size": self.config.acquisition.batch_size,
            "seed": self.seed,
            "config": config,
        }


def execute(run: Run, report: Report = silent, listener: Listener = lambda entry: None) -> list[Round]:
    """Do a run, or what is left of it, and keep its records; a run that is finished is left as it is.

    Args:
        run: which one.
        report: told about progress inside a round.
        listener: told about every round, also those of an earlier start.
    """
    make_folder(run.folder)
    with FolderLock(run.folder), threads_an_operation(run.config.threads):
        parts = split(run.config.data, run.seed, run.config.model.tokens, report)
        _describe(run)
        learner = ActiveLearner(
            posterior(run.config, parts, run.seed),
            start(run.config, parts, run.seed),
            run.method.name,
            run.config.acquisition.batch_size,
            run.folder / "checkpoint",
            run.seed,
            test=parts.test,
            validation=parts.validation,
            memory=run.config.memory,
            self_contained=False,
            report=report,
            **run.method.parameters,
        )
        for entry in learner.rounds:
            listener(entry)
        _write_records(run, learner.rounds, parts)
        labels = parts.pool.labels
        for entry in simulate(learner, labels, run.config.acquisition.labels):
            _write_records(run, learner.rounds, parts)
            listener(entry)
        return list(learner.rounds)


def finished(folder: Path) -> bool:
    """Whether a run has come to its end."""
    path = folder / "rounds.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return bool(lines) and bool(json.loads(lines[-1])["final"])


def versions() -> dict[str, str]:
    """What the numbers of a run may depend on."""
    imported = [name for name in _OPTIONAL if name in sys.modules]
    packages = {name: importlib.metadata.version(name) for name in (*_PACKAGES, *imported)}
    return {"python": platform.python_version(), "machine": platform.machine(), **packages}


def _describe(run: Run) -> None:
    """Write what the run is, or make sure that it is the same as before."""
    path, wanted = run.folder / "run.json", run.description()
    if path.exists():
        before = read_json(path)
        name = _difference(before["config"], wanted["config"])
        if name is not None:
            raise StateError(
                f"{run.folder} holds a run with another {name}. Use another output folder (-o), another name in the "
                "configuration, or remove that folder."
            )
        return
    write_json(path, {**wanted, "versions": versions()})


def _difference(before: Any, now: Any, name: str = "") -> str | None:
    """The dotted name of the first setting that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = (_difference(before.get(key), now.get(key), f"{name}.{key}".strip(".")) for key in {**before, **now})
        return next((found for found in names if found is not None), None)
    return None if before == now else name


def _write_records(run: Run, rounds: tuple[Round, ...], parts: Split) -> None:
    """All rounds so far, a line each, and pictures of the first and the last picks."""
    lines = [json.dumps(_record(entry, parts)) for entry in rounds]
    with replacing(run.folder / "rounds.jsonl") as file:
        file.write("".join(line + "\n" for line in lines).encode())
    asked = [entry for entry in rounds if entry.indices]
    images = getattr(parts.pool, "images", None)
    if images is None or not asked:
        return
    pictures: dict[str, Array] = {}
    for entry in (asked[0], asked[-1]):
        picked = images(np.array(entry.indices[:_THUMBNAILS]))
        if picked is not None:
            pictures[f"round-{entry.round}"] = picked
    if pictures:
        with replacing(run.folder / "thumbnails.npz") as file:
            content = io.BytesIO()
            np.savez_compressed(content, **pictures)  # type: ignore[arg-type]
            file.write(content.getvalue())


def _record(entry: Round, parts: Split) -> dict[str, Any]:
    """A round as it is kept: positions in the training set, the labels that were given, one number of information."""
    picks = np.array(entry.indices, np.int64)
    labels = np.empty(0, np.int64) if parts.pool.labels is None else parts.pool.labels[picks]
    diagnostics = None
    if entry.diagnostics is not None:
        curve = entry.diagnostics["information"]
        kept = ("ceiling", "saturated_at", "pairs", "rows")
        diagnostics = {
            **{name: entry.diagnostics[name] for name in kept},
            "information": None if curve is None else curve[-1],
        }
    return {
        "round": entry.round,
        "labelled": entry.labelled,
        "metrics": entry.metrics,
        "validation": entry.validation,
        "agreement": entry.agreement,
        "seconds": entry.seconds,
        "indices": picks.tolist(),
        "scores": list(entry.scores),
        "labels": labels.tolist(),
        "classes": len(np.unique(labels)),
        "distinct": len(np.unique(parts.origins[picks])),
        "diagnostics": diagnostics,
        "final": entry.final is not None,
        "stopped": entry.final,
    }
