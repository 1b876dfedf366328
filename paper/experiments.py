"""The experiments behind a figure: where their configurations are, what they cost, and their runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paper.places import CONFIGS
from paper.targets import Panel, Scale, Target
from poolwise.data.catalogue import Status, datasets_table
from poolwise.data.specs import find_spec
from poolwise.errors import FileError, PoolwiseError
from poolwise.experiments import Config, execute_all, failures, read_config
from poolwise.experiments.grid import Show
from poolwise.experiments.records import DESCRIPTION, RunRecord
from poolwise.experiments.search import read_runs
from poolwise.reports.comparable import Comparable


@dataclass(frozen=True)
class Experiments:
    """Experiments at one scale.

    Attributes:
        scale: which scale.
        configs: folder with a folder of configurations for each scale; None for those of the repository.
        changes: settings that take precedence over the files, as in `seeds=1`.
    """

    scale: Scale
    configs: Path | None = None
    changes: Sequence[str] = ()

    def read(self, names: Iterable[str]) -> dict[str, Config]:
        """Configurations by the names of their files."""
        folder = config_folder(self.configs) / self.scale
        return {name: read_config(folder / f"{name}.toml", self.changes) for name in names}


def config_folder(given: Path | None) -> Path:
    """The folder that the configurations are in: the one given, or the one in the repository of this package."""
    folder = given or CONFIGS
    if not folder.is_dir():
        raise FileError(
            f"{folder}: no such folder. The configurations are in the folder paper/configs of the repository: run this "
            "from a clone of it, or name the folder with --configs."
        )
    return folder


def missing_data(config: Config) -> Status | None:
    """The data set of an experiment, where it is not on this machine and may not be fetched; else None."""
    data = config.data
    if data.name is None or data.hub:
        return None
    name = find_spec(data.name).name
    status = next(status for status in datasets_table(data.root) if status.spec.name == name)
    return status if status.found is None else None


def run_experiment(config: Config, output: Path, jobs: int, show: Show) -> str | None:
    """Do all runs of an experiment that are not finished; what went wrong, or None.

    Args:
        config: the experiment.
        output: folder for the runs.
        jobs: how many runs at a time.
        show: told about progress.
    """
    missing = missing_data(config)
    if missing is not None:
        fetch = " Or add --set data.hub=true to this command." if missing.spec.hub else ""
        return f"{missing.spec.name} is not on this machine. To get it: {missing.how}.{fetch}"
    try:
        failed = failures(execute_all(config, output, jobs, show))
    except PoolwiseError as error:  # the experiment cannot begin; others can
        return str(error)
    return "\n".join(failed) or None


def runs_below(folder: Path) -> list[RunRecord]:
    """All runs that were written to a folder; none if there is nothing in it."""
    if not any(folder.rglob(DESCRIPTION)):
        return []
    return [run for group in read_runs(folder).values() for run in group]


def recorded(config: Config, target: Target, runs: Iterable[RunRecord]) -> Comparable | None:
    """The runs of an experiment that a figure shows; None if no run has recorded anything.

    Args:
        config: the experiment.
        target: the figure.
        runs: runs of any experiments.
    """
    shown = tuple(
        run
        for run in runs
        if run.setting.experiment == config.name and run.label in target.methods and run.seed in config.seeds
    )
    found = Comparable(shown)
    return found if found.labelled else None


def panel_title(panel: Panel, config: Config) -> str:
    """The data and the batch size of a panel."""
    return f"{panel.title}, b = {config.acquisition.batch_size}"
