"""One run: a method and a seed of an experiment, in its own folder, resumable at any moment."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from poolwise.arrays import Array
from poolwise.data.examples import needed_labels
from poolwise.errors import FileError, PoolwiseError, StateError
from poolwise.experiments.build import Split, source
from poolwise.experiments.checks import Parts, build_parts
from poolwise.experiments.config import Config, MethodConfig, short_text
from poolwise.experiments.records import (
    DESCRIPTION,
    ROUNDS,
    read_description,
    read_rounds,
    write_description,
    write_rounds,
)
from poolwise.experiments.samples import write_samples
from poolwise.learning.checkpoint import STATE
from poolwise.learning.learner import ActiveLearner
from poolwise.learning.rounds import Round
from poolwise.learning.simulation import simulate
from poolwise.parallel import threads_an_operation
from poolwise.progress import Report, silent
from poolwise.storage import FolderLock, make_folder, read_json
from poolwise.user_code import culprit, told

CHECKPOINT = "checkpoint"

# Settings on which no result depends: a run may be resumed with another value.
_FREE = ("memory",)

Listener = Callable[[Round], None]


@dataclass(frozen=True)
class Run:
    """One run of an experiment: what to do, and where its records go.

    Attributes:
        config: the experiment.
        method: the method.
        seed: the seed.
        folder: where its records are kept.

    Example:
        >>> from poolwise.experiments import Config, runs_of
        >>> run = runs_of(Config(name="mine", data={"name": "digits"}), Path("runs"))[0]
        >>> run.method.name, run.seed
        ('posterior-coverage', 0)
    """

    config: Config
    method: MethodConfig
    seed: int
    folder: Path

    def description(self) -> dict[str, Any]:
        """Everything that the run's result depends on."""
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


class Change(NamedTuple):
    """A setting that has changed: its dotted name, its old value and its new one."""

    name: str
    before: object
    now: object

    def __str__(self) -> str:
        return f"{self.name} is {short_text(self.before)} there and {short_text(self.now)} here"


def execute(run: Run, report: Report = silent, listener: Listener = lambda entry: None) -> list[Round]:
    """Do a run, or the rest of it, and write its records. A run that is finished is left unchanged.

    Nothing is written before the data is read and the network is built, so a configuration that cannot work leaves
    nothing behind.

    Args:
        run: the run.
        report: told about progress inside a round.
        listener: called with every round, also with those from before an interruption.
    Returns:
        All rounds of the run.

    Example:
        >>> from poolwise.experiments import Config, runs_of
        >>> config = Config(
        ...     name="tiny",
        ...     data={"name": "digits", "pool": 60, "test": 50},
        ...     posterior={"kind": "committee", "members": 2},
        ...     acquisition={"methods": ["random"], "labels": 30},
        ... )
        >>> rounds = execute(runs_of(config, Path("runs"))[0])
        >>> [entry.labelled for entry in rounds]
        [20, 30]
    """
    with threads_an_operation(run.config.threads):
        parts = build_parts(run.config, run.seed, report)
        make_folder(run.folder)
        with FolderLock(run.folder):
            _describe(run)
            resumed = (run.folder / CHECKPOINT / STATE).exists()
            with _from_checkpoint(run, resumed, expected=StateError):
                learner = _learner(run, parts, report)
            for earlier in learner.rounds:
                listener(earlier)
            _write_records(run, learner.rounds, parts.split)
            rounds = simulate(learner, needed_labels(parts.split.pool, "an experiment"), run.config.acquisition.labels)
            while True:
                # A damaged checkpoint that could be loaded shows in the first round after it, if at all.
                with _from_checkpoint(run, resumed, expected=PoolwiseError):
                    entry = next(rounds, None)
                if entry is None:
                    return list(learner.rounds)
                resumed = False
                _write_records(run, learner.rounds, parts.split)
                listener(entry)


def finished(run: Run) -> bool:
    """Whether a run has come to its end, with the settings that it has now.

    A run whose rounds cannot be read is not finished: its checkpoint has them, and they are written again.
    """
    if change(run) is not None:
        return False
    try:
        rounds = read_rounds(run.folder)
    except FileError:
        return False
    return bool(rounds) and rounds[-1].final and (run.folder / DESCRIPTION).exists()


def change(run: Run) -> Change | None:
    """The first setting that differs from those of the records in the run's folder, or None.

    Records without a round are not worth keeping: they are replaced, whatever their settings.
    """
    return _changed(run) if _has_rounds(run.folder) else None


def _changed(run: Run) -> Change | None:
    before = read_description(run.folder).get("config")
    if not isinstance(before, dict):
        raise FileError(
            f"{run.folder / DESCRIPTION} is damaged: it has no configuration. Restore the file from a copy; or remove "
            f"the folder {run.folder}, and `poolwise run` does this run again."
        )
    # Fills in the defaults of settings that did not exist when the run was made.
    with suppress(ValidationError, RecursionError, PoolwiseError):
        before = Config.model_validate(before).model_dump(mode="json")
    now = run.description()["config"]
    return _difference({**before, **dict.fromkeys(_FREE)}, {**now, **dict.fromkeys(_FREE)})


def _difference(before: Any, now: Any, name: str = "") -> Change | None:
    if isinstance(before, dict) and isinstance(now, dict):
        names = (_difference(before.get(key), now.get(key), f"{name}.{key}".strip(".")) for key in {**before, **now})
        return next((found for found in names if found is not None), None)
    return None if before == now else Change(name, before, now)


def _has_rounds(folder: Path) -> bool:
    """Whether anything of value is in a folder: a round, or what cannot be read and may be one."""
    records, state = folder / ROUNDS, folder / CHECKPOINT / STATE
    if records.exists() and (not records.is_file() or records.stat().st_size):
        return True
    if not state.exists():
        return False
    try:
        content = read_json(state)
    except FileError:
        return True
    return not isinstance(content, dict) or content.get("rounds") != []


def _describe(run: Run) -> None:
    """Write what the run is, or make sure that it is the same as before."""
    kept = _has_rounds(run.folder)
    try:
        different = _changed(run)
    except FileError:
        if kept:
            raise
    else:
        if different is None:
            return
        if kept:
            raise StateError(
                f"{run.folder} has a run with other settings: {different}. Use another output folder (-o), another "
                "name in the configuration, or remove that folder."
            )
    shutil.rmtree(run.folder / CHECKPOINT, ignore_errors=True)
    write_description(run.folder, run.description())


def _learner(run: Run, parts: Parts, report: Report) -> ActiveLearner:
    return ActiveLearner(
        parts.posterior,
        parts.pool,
        run.method.name,
        run.config.acquisition.batch_size,
        run.folder / CHECKPOINT,
        run.seed,
        test=parts.split.test,
        test_samples=run.config.test_samples,
        validation=parts.split.validation,
        memory=run.config.memory,
        self_contained=False,
        features=run.method.features or run.config.acquisition.features,
        first=run.method.first or run.config.acquisition.first or "random",
        report=report,
        **run.method.parameters,
    )


@contextmanager
def _from_checkpoint(run: Run, resumed: bool, expected: type[PoolwiseError]) -> Iterator[None]:
    """Whatever a damaged checkpoint makes the learner stumble over, as an error that says the way out.

    What a user's own code raises in a round is not blamed on the checkpoint.

    Args:
        run: the run.
        resumed: whether there was a checkpoint.
        expected: errors that have another cause, and a message of their own.
    """
    try:
        yield
    except Exception as error:
        if not resumed or isinstance(error, expected) or (expected is PoolwiseError and culprit(error) is not None):
            raise
        reason = str(error).split("\n")[0].rstrip(".") if isinstance(error, PoolwiseError) else told(error)
        raise FileError(
            f"cannot resume from {run.folder / CHECKPOINT}: {reason}. Remove the folder {run.folder}, and "
            "`poolwise run` does this run again, with the same result."
        ) from error


def _write_records(run: Run, rounds: tuple[Round, ...], parts: Split) -> None:
    write_rounds(run.folder, rounds, parts.pool.labels, parts.origins)
    write_samples(run.folder, rounds, getattr(parts.pool, "images", None), _texts(run.config, parts))


def _texts(config: Config, parts: Split) -> Callable[[Array], list[str]] | None:
    """From positions in the pool to the texts as they were read, before any encoding; None where there are none."""
    train = source(config.data)[0]
    if not isinstance(train.batch(np.arange(1)), list):
        return None
    return lambda picks: [str(text) for text in train.batch(parts.origins[picks])]
