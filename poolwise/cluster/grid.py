"""All runs of an experiment as tasks of a cluster, each resumable on its own."""

import os
import time
from pathlib import Path
from typing import Any

import torch

from poolwise.cluster.session import RETRIES, gather, library, must_have
from poolwise.errors import FileError, PoolwiseError
from poolwise.experiments.config import Config
from poolwise.experiments.grid import Progress, Show, attempt, plan
from poolwise.experiments.records import DESCRIPTION, RoundRecord, read_rounds
from poolwise.experiments.run import Run
from poolwise.learning.rounds import Round
from poolwise.parallel import threads_an_operation

# Seconds between two checks of how far the runs are.
_EVERY = 0.5


def execute_all(
    config: Config, folder: Path, jobs: int | None = None, show: Show = lambda progress: None
) -> list[Progress]:
    """Do all runs that are not finished, on the cluster that `connect` joined. The records are the same as without it.

    If the process or machine of a run dies, the run starts again elsewhere and resumes from its checkpoint. A run that
    fails does not stop the others.

    Args:
        config: the experiment. Every machine needs its data.
        folder: where runs are kept; all machines must see it at the same path.
        jobs: how many at a time; None for as many as there are processors.
        show: called with the progress of all runs whenever there is news.

    Example:
        >>> from pathlib import Path
        >>> from poolwise import cluster
        >>> from poolwise.experiments import read_config
        >>> with cluster.connect():  # doctest: +SKIP
        ...     progress = cluster.execute_all(read_config(Path("mine.toml")), Path("runs"))
    """
    ray = library()
    progress = plan(config, folder.resolve())
    waiting = [entry for entry in progress if not entry.done and entry.error is None]
    # Sums round differently on another number of threads, so a worker uses as many as this process would.
    threads = config.threads or torch.get_num_threads()
    must_have(config.threads or 1, 0)
    task = ray.remote(max_retries=RETRIES, num_cpus=config.threads or 1)(execute_run)
    under_way: dict[Any, Progress] = {}
    show(progress)
    try:
        while waiting or under_way:
            while waiting and (jobs is None or len(under_way) < jobs):
                entry = waiting.pop(0)
                entry.early = len(_records(entry.run.folder))
                under_way[task.remote(entry.run, threads, os.getcwd())] = entry
            done, _ = ray.wait(list(under_way), num_returns=1, timeout=_EVERY)
            for reference in done:
                _settle(reference, under_way.pop(reference))
            for entry in under_way.values():
                _update(entry)
            show(progress)
    except BaseException:
        for reference in under_way:  # what they have done is on the disk
            ray.cancel(reference, force=True)
        raise
    return progress


def execute_run(run: Run, threads: int, folder: str) -> list[Round]:
    """On a worker: do a run, or what is left of it. Paths in its settings are relative to a folder."""
    if os.path.isdir(folder):
        os.chdir(folder)
    with threads_an_operation(threads):
        return attempt(run)


def _settle(reference: Any, entry: Progress) -> None:
    try:
        entry.rounds = gather([reference])[0]
        entry.started = entry.started or time.monotonic()
        entry.done = True
    except PoolwiseError as error:
        entry.error = str(error)


def _update(entry: Progress) -> None:
    """Read from its records how far a run is."""
    if entry.started is None and (entry.run.folder / DESCRIPTION).exists():
        entry.started = time.monotonic()
    entry.rounds = [Round(record.number, record.labelled, record.metrics) for record in _records(entry.run.folder)]


def _records(folder: Path) -> tuple[RoundRecord, ...]:
    try:
        return read_rounds(folder)
    except FileError:
        return ()
