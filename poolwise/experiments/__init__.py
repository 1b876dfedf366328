"""Experiments: a configuration, its runs, their records."""

from poolwise.experiments.config import Config
from poolwise.experiments.config_file import read_config
from poolwise.experiments.grid import Progress, execute_all, failures, runs_of
from poolwise.experiments.records import RoundRecord, RunRecord
from poolwise.experiments.run import Run, execute
from poolwise.experiments.search import read_runs

__all__ = [
    "Config",
    "Progress",
    "RoundRecord",
    "Run",
    "RunRecord",
    "execute",
    "execute_all",
    "failures",
    "read_config",
    "read_runs",
    "runs_of",
]
