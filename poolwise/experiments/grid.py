"""All runs of an experiment, several at a time, each resumable on its own."""

import multiprocessing
import os
import queue
import re
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolwise.errors import PoolwiseError
from poolwise.experiments.config import Config
from poolwise.experiments.run import Run, execute, finished
from poolwise.learning.rounds import Round

# How often (seconds) the process that watches looks for news.
_LOOK = 0.2


@dataclass
class Progress:
    """How far a run is, for whoever shows it.

    Attributes:
        run: which run.
        started: when it was started in this session, or None.
        rounds: the rounds known so far.
        early: how many of them were there from an earlier start.
        error: what went wrong, or None.
        done: whether it has come to its end.
        stage: what it is doing now, in words.
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
        """An estimate from the rounds done in this session, None while there are none."""
        fresh = len(self.rounds) - self.early
        if self.started is None or fresh < 1 or self.done:
            return None
        acquisition = self.run.config.acquisition
        left = max(0, acquisition.labels - self.labelled) / acquisition.batch_size
        return (now - self.started) / fresh * left


Show = Callable[[Sequence[Progress]], None]


def runs_of(config: Config, folder: Path) -> list[Run]:
    """The runs of an experiment, seed by seed, so that what is finished first can be compared."""
    return [
        Run(config, method, seed, folder / config.name / _slug(method.label) / f"seed-{seed}")
        for seed in config.seeds
        for method in config.acquisition.methods
    ]


def execute_all(config: Config, folder: Path, jobs: int = 1, show: Show = lambda progress: None) -> list[Progress]:
    """Do all runs that are not finished; one that fails does not stop the others.

    Args:
        config: the experiment.
        folder: where runs are kept.
        jobs: how many at a time, each in a process of its own; 1 runs in this process.
        show: called with the progress of all runs whenever there is news, and a few times a second.
    """
    progress = [Progress(run) for run in runs_of(config, folder)]
    waiting = []
    for entry in progress:
        entry.done = finished(entry.run.folder)
        if not entry.done:
            waiting.append(entry)
    show(progress)
    if jobs == 1 or len(waiting) <= 1:
        for entry in waiting:
            _here(entry, lambda: show(progress))
    else:
        _apart(waiting, min(jobs, len(waiting)), lambda: show(progress))
    return progress


def _here(entry: Progress, news: Callable[[], None]) -> None:
    entry.started = time.monotonic()
    shown = 0.0

    def report(stage: str, done: int, total: int) -> None:
        nonlocal shown
        entry.stage = _stage(stage, done, total)
        if time.monotonic() - shown > _LOOK:
            shown = time.monotonic()
            news()

    def listener(record: Round) -> None:
        entry.rounds.append(record)
        news()

    try:
        entry.early = _early(entry.run)
        execute(entry.run, report, listener)
        entry.done = True
    except PoolwiseError as error:
        entry.error = str(error)
    news()


def _early(run: Run) -> int:
    path = run.folder / "rounds.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def _apart(waiting: list[Progress], jobs: int, news: Callable[[], None]) -> None:
    """Runs in processes; what those have to say comes through a queue."""
    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    pool = ProcessPoolExecutor(jobs, context, _begin, (messages, os.getpid()))
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
        # Everything that counts is on the disk: the processes need not be waited for.
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
        entry.error = "its process was killed, perhaps for lack of memory. Run the same command to go on."
    elif error is not None:
        raise error
    else:
        entry.done = True


def _listen(messages: Any, waiting: list[Progress]) -> None:
    try:
        while True:
            number, early, record = messages.get(timeout=_LOOK)
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
_parent = 0


def _begin(messages: Any, parent: int) -> None:
    """Set up a process: it listens to the one that started it, and to nobody else."""
    global _messages, _parent
    _messages, _parent = messages, parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends its processes


def _task(number: int, run: Run) -> None:
    shown = 0.0

    def report(stage: str, done: int, total: int) -> None:
        nonlocal shown
        if os.getppid() != _parent:  # the parent was killed: do not go on without it
            os._exit(1)
        if time.monotonic() - shown > _LOOK:
            shown = time.monotonic()
            _messages.put((number, early, _stage(stage, done, total)))

    early = _early(run)
    _messages.put((number, early, None))
    execute(run, report, lambda record: _messages.put((number, early, record)))


def _stage(stage: str, done: int, total: int) -> str:
    """What a run is doing now, in words."""
    return f"{stage} {done:,} of {total:,}"


def _slug(label: str) -> str:
    """A name for a folder."""
    return re.sub(r"[^A-Za-z0-9.=-]+", "_", label)
