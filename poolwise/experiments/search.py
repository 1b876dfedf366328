"""Runs on the disk: found at or below a folder, and put together by what they share."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from poolwise.errors import FileError
from poolwise.experiments.records import DESCRIPTION, ROUNDS, RunRecord, Setting, read_run
from poolwise.storage import FolderSearch


def read_runs(folder: Path, on_damage: Callable[[FileError], None] | None = None) -> dict[Setting, list[RunRecord]]:
    """All runs at or below a folder, by setting, each list in the order of label and seed.

    Args:
        folder: where an experiment wrote its runs.
        on_damage: called with the error of each run that cannot be read; that run is left out. By default, and if no
            run can be read, the first error is raised.

    Example:
        >>> read_runs(Path("nowhere"))
        Traceback (most recent call last):
        ...
        poolwise.errors.FileError: nowhere: no such folder. ...
    """
    if not folder.is_dir():
        raise FileError(f"{folder}: no such folder. Expected the folder that an experiment wrote its runs to.")
    folders = _run_folders(folder)
    if not folders:
        raise FileError(
            f"{folder}: no runs here. Looked in it and in all folders below for {DESCRIPTION} and {ROUNDS}. "
            "Run an experiment first, or give the folder that it wrote to."
        )
    runs, damaged = [], []
    for found in folders:
        try:
            runs.append(read_run(found))
        except FileError as error:
            damaged.append(error)
            if on_damage is None:
                raise
    if not runs:
        raise damaged[0]
    if on_damage is not None:
        for damage in damaged:
            on_damage(damage)
    return by_setting(runs)


def by_setting(runs: Iterable[RunRecord]) -> dict[Setting, list[RunRecord]]:
    """Runs by setting, each list in the order of label and seed; none may be there twice."""
    groups: dict[Setting, list[RunRecord]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.setting, run.label, run.seed)):
        group = groups[run.setting]
        if group and (group[-1].label, group[-1].seed) == (run.label, run.seed):
            raise FileError(
                f"{group[-1].folder} and {run.folder} are both {run.label!r} with seed {run.seed} of the experiment "
                f"{run.setting.experiment!r}. One of them would count twice: move one away, or give it another label."
            )
        group.append(run)
    return dict(groups)


def _run_folders(folder: Path) -> list[Path]:
    """The folders of runs at or below a folder, in order; links to folders are not followed."""
    search = FolderSearch(folder, "run", "Give the folder that an experiment wrote its runs to.")
    found = []
    for place, folders, files in os.walk(folder):
        is_run = DESCRIPTION in files or ROUNDS in files
        search.visited(is_run)
        if is_run:
            found.append(Path(place))
            folders.clear()  # a checkpoint, and nothing else, is below a run
    return sorted(found)
