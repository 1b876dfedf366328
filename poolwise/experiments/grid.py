"""All runs of an experiment, several at a time, each resumable on its own."""

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolwise import budget
from poolwise.errors import FileError, PoolwiseError, StateError, UserCodeError
from poolwise.experiments.build import forget
from poolwise.experiments.checks import build_parts
from poolwise.experiments.config import Config
from poolwise.experiments.records import read_rounds
from poolwise.experiments.run import Listener, Run, change, execute, finished
from poolwise.learning.rounds import Round
from poolwise.progress import Report, silent
from poolwise.user_code import culprit, describe, full_text

TRACEBACK = "traceback.log"
"""The file in a run's folder that says how somebody else's code failed in it."""

# Seconds between two checks for news from the runs.
_WAIT = 0.2


@dataclass
class Progress:
    """The progress of a run.

    Attributes:
        run: which run.
        started: when this process started it, or None.
        rounds: the rounds known so far.
        early: how many of them were done before this process started the run.
        error: what went wrong, or None.
        done: whether it is finished.
        stage: what it is doing now, in words.

    Example:
        >>> from pathlib import Path
        >>> from poolwise.experiments import Config, runs_of
        >>> run = runs_of(Config(name="mine", data={"name": "digits"}), Path("runs"))[0]
        >>> Progress(run).done, Progress(run).labelled
        (False, 0)
    """

    run: Run
    started: float | None = None
    rounds: list[Round] = field(default_factory=list)
    early: int = 0
    error: str | None = None
    done: bool = False
    stage: str = ""

    @property
    def labelled(self) -> int:
        """Labels that the last model was trained on."""
        return self.rounds[-1].labelled if self.rounds else 0

    @property
    def accuracy(self) -> float | None:
        """Accuracy of the last model on the test set."""
        metrics = self.rounds[-1].metrics if self.rounds else None
        return None if metrics is None else metrics["accuracy"]

    def seconds_left(self, now: float) -> float | None:
        """An estimate from the rounds done since it was started; None before the first.

        Args:
            now: the time, as in `started`.
        """
        fresh = len(self.rounds) - self.early
        if self.started is None or fresh < 1 or self.done:
            return None
        acquisition = self.run.config.acquisition
        left = max(0, acquisition.labels - self.labelled) / acquisition.batch_size
        return (now - self.started) / fresh * left


Show = Callable[[Sequence[Progress]], None]


def runs_of(config: Config, folder: Path) -> list[Run]:
    """The runs of an experiment: all methods with the first seed, then all with the second, and so on.

    Args:
        config: the experiment.
        folder: where runs are kept.

    Example:
        >>> from poolwise.experiments import Config
        >>> config = Config(name="mine", seeds=[0, 1], data={"name": "digits"})
        >>> [run.folder.as_posix() for run in runs_of(config, Path("runs"))]
        ['runs/mine/posterior-coverage/seed-0', 'runs/mine/posterior-coverage/seed-1']
    """
    return [
        Run(config, method, seed, folder / config.name / method.folder / f"seed-{seed}")
        for seed in config.seeds
        for method in config.acquisition.methods
    ]


def plan(config: Config, folder: Path) -> list[Progress]:
    """All runs of an experiment, with what is known from their folders; nothing is written.

    A run whose folder is damaged has its error already. If runs were made with other settings, that is an error of the
    whole experiment: their results would be taken for those of this configuration.
    """
    progress = [Progress(run) for run in runs_of(config, folder)]
    changed = []
    for entry in progress:
        try:
            different = change(entry.run)
            if different is not None:
                changed.append((entry.run, different))
            else:
                entry.done = finished(entry.run)
        except PoolwiseError as error:
            entry.error = str(error)
    if changed:
        run, different = changed[0]
        number = "1 run" if len(changed) == 1 else f"{len(changed)} runs"
        raise StateError(
            f"{folder / config.name} has {number} with other settings: {different} (in {run.folder}). Use another "
            "output folder (-o), another name in the configuration, or remove the old runs."
        )
    return progress


def execute_all(config: Config, folder: Path, jobs: int = 1, show: Show = lambda progress: None) -> list[Progress]:
    """Do all runs that are not finished; one that fails does not stop the others.

    Before anything is written, the data is read and the network is built once, so that mistakes show at once.

    Args:
        config: the experiment.
        folder: where runs are kept.
        jobs: how many at a time, each in a separate process; 1 runs in this process.
        show: called with the progress of all runs whenever there is news, and a few times per second.

    Example:
        >>> from poolwise.experiments import Config
        >>> config = Config(
        ...     name="tiny",
        ...     seeds=[0],
        ...     data={"name": "digits", "pool": 60, "test": 50},
        ...     posterior={"kind": "committee", "members": 2},
        ...     acquisition={"methods": ["random"], "labels": 30},
        ... )
        >>> [entry.labelled for entry in execute_all(config, Path("runs"))]
        [30]
    """
    progress = plan(config, folder)
    waiting = [entry for entry in progress if not entry.done and entry.error is None]
    show(progress)
    if waiting:
        build_parts(config, waiting[0].run.seed)
    if jobs == 1 or len(waiting) <= 1:
        for entry in waiting:
            _here(entry, lambda: show(progress))
    else:
        forget()
        _apart(waiting, min(jobs, len(waiting)), lambda: show(progress))
    return progress


def attempt(run: Run, report: Report = silent, listener: Listener = lambda entry: None) -> list[Round]:
    """Do a run as `execute` does. Whatever a user's own code raises becomes an error of ours.

    The traceback is written to the run's folder. It is removed when the run succeeds.

    Args:
        run: which one.
        report: told about progress inside a round.
        listener: told about every round, also those of an earlier start.
    """
    log = run.folder / TRACEBACK
    try:
        rounds = execute(run, report, listener)
    except Exception as error:
        if isinstance(error, PoolwiseError) or (isinstance(error, OSError | MemoryError) and culprit(error) is None):
            raise
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(full_text(error), encoding="utf-8")
        except OSError as full:
            raise UserCodeError(f"{describe(error)} Its traceback could not be written ({full}).") from error
        raise UserCodeError(f"{describe(error)} The traceback is in {log}") from error
    log.unlink(missing_ok=True)
    return rounds


def failures(progress: Sequence[Progress]) -> list[str]:
    """The errors of runs: each once, with the runs that it stopped.

    Args:
        progress: what `execute_all` returned.

    Example:
        >>> from poolwise.experiments import Config, Progress, runs_of
        >>> run = runs_of(Config(name="mine", data={"name": "digits"}), Path("runs"))[0]
        >>> failures([Progress(run, error="the disk is full")])
        ['posterior-coverage, seed 0: the disk is full']
    """
    stopped: dict[str, list[Progress]] = {}
    for entry in progress:
        if entry.error is not None:
            stopped.setdefault(entry.error.replace(str(entry.run.folder), ""), []).append(entry)
    return [f"{_named(entries, len(progress))}: {entries[0].error}" for entries in stopped.values()]


def _named(entries: Sequence[Progress], total: int) -> str:
    names = [f"{entry.run.method.label}, seed {entry.run.seed}" for entry in entries]
    if len(names) == 1:
        return names[0]
    return f"{len(names)} of {total} runs ({'; '.join(names[:3])}{'; ...' if len(names) > 3 else ''})"


def _here(entry: Progress, news: Callable[[], None]) -> None:
    entry.started = time.monotonic()
    shown = 0.0

    def report(stage: str, done: int, total: int) -> None:
        nonlocal shown
        entry.stage = _stage(stage, done, total)
        if time.monotonic() - shown > _WAIT:
            shown = time.monotonic()
            news()

    def listener(record: Round) -> None:
        entry.rounds.append(record)
        news()

    try:
        entry.early = _early(entry.run)
        attempt(entry.run, report, listener)
        entry.done = True
    except PoolwiseError as error:
        entry.error = str(error)
    news()


def _early(run: Run) -> int:
    """How many rounds an earlier start has recorded."""
    try:
        return len(read_rounds(run.folder))
    except FileError:
        return 0


def _apart(waiting: list[Progress], jobs: int, news: Callable[[], None]) -> None:
    """Do runs in processes of their own, which report through a queue."""
    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    pool = ProcessPoolExecutor(jobs, context, _begin, (messages,))
    try:
        futures = {pool.submit(_task, number, entry.run): entry for number, entry in enumerate(waiting)}
        left: set[Future[None]] = set(futures)
        while left:
            _listen(messages, waiting)
            news()
            for future in [future for future in left if future.done()]:
                left.remove(future)
                _settle(future, futures[future])
        _listen(messages, waiting)
        news()
    except BaseException:
        # All results are on the disk, so there is no need to wait for the processes.
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _settle(future: "Future[None]", entry: Progress) -> None:
    error = future.exception()
    if isinstance(error, PoolwiseError):
        entry.error = str(error)
    elif isinstance(error, BrokenProcessPool):
        entry.error = "its process was killed, perhaps for lack of memory. Run the same command to resume."
    elif error is not None:
        raise error
    else:
        entry.done = True


def _listen(messages: Any, waiting: list[Progress]) -> None:
    try:
        while True:
            number, early, record = messages.get(timeout=_WAIT)
            entry = waiting[number]
            if entry.started is None:
                entry.started, entry.early = time.monotonic(), early
            if isinstance(record, str):
                entry.stage = record
            elif record is not None:
                entry.rounds.append(record)
    except queue.Empty:
        return


_messages: Any = None


def _begin(messages: Any) -> None:
    """Set up a process."""
    global _messages
    _messages = messages
    budget.keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its processes
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the parent is gone, and end: if it was killed, nobody else would end this process."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _task(number: int, run: Run) -> None:
    shown = 0.0

    def report(stage: str, done: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() - shown > _WAIT:
            shown = time.monotonic()
            _messages.put((number, early, _stage(stage, done, total)))

    early = _early(run)
    _messages.put((number, early, None))
    attempt(run, report, lambda record: _messages.put((number, early, record)))


def _stage(stage: str, done: int, total: int) -> str:
    """What a run is doing now, in words."""
    return f"{stage} {done:,} of {total:,}"
