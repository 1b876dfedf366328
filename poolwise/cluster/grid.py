"""All runs of an experiment as tasks of a cluster, each resumable on its own."""

import os
import time
from pathlib import Path
from typing import Any

import torch

from poolwise.cluster.session import RETRIES, gather, library, must_have
from poolwise.errors import FileError, PoolwiseError
from poolwise.experiments.config import Config
from poolwise.experiments.grid import Progress, Show, plan
from poolwise.experiments.records import DESCRIPTION, RoundRecord, read_rounds
from poolwise.experiments.run import Run, execute
from poolwise.learning.rounds import Round
from poolwise.parallel import threads_an_operation

# How often (seconds) to look how far the runs are.
_LOOK = 0.5


def execute_all(
    config: Config, folder: Path, jobs: int | None = None, show: Show = lambda progress: None
) -> list[Progress]:
    """Do all runs that are not finished, on the cluster that `connect` joined; the records are those of one machine.

    A run whose process or machine dies is started again on another and goes on from its checkpoint. One that fails does
    not stop the others.

    Args:
        config: the experiment; data sets are looked for on every machine.
        folder: where runs are kept, seen by all machines at the same path.
        jobs: how many at a time; None for as many as there are processors.
        show: called with the progress of all runs whenever there is news.
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
            done, _ = ray.wait(list(under_way), num_returns=1, timeout=_LOOK)
            for reference in done:
                _settle(reference, under_way.pop(reference))
            for entry in under_way.values():
                _look(entry)
            show(progress)
    except BaseException:
        for reference in under_way:  # everything that counts is on the disk
            ray.cancel(reference, force=True)
        raise
    return progress


def execute_run(run: Run, threads: int, folder: str) -> list[Round]:
    """On a worker: do a run, or what is left of it; paths in its settings start from a folder."""
    if os.path.isdir(folder):
        os.chdir(folder)
    with threads_an_operation(threads):
        return execute(run)


def _settle(reference: Any, entry: Progress) -> None:
    try:
        entry.rounds = gather([reference])[0]
        entry.started = entry.started or time.monotonic()
        entry.done = True
    except PoolwiseError as error:
        entry.error = str(error)


def _look(entry: Progress) -> None:
    """How far a run is, by its records."""
    if entry.started is None and (entry.run.folder / DESCRIPTION).exists():
        entry.started = time.monotonic()
    entry.rounds = [Round(record.number, record.labelled, record.metrics) for record in _records(entry.run.folder)]


def _records(folder: Path) -> tuple[RoundRecord, ...]:
    try:
        return read_rounds(folder)
    except FileError:
        return ()
