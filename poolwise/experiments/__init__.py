"""Experiments: a configuration, its runs, their records."""

from poolwise.experiments.config import Config, read_config
from poolwise.experiments.grid import Progress, execute_all, runs_of
from poolwise.experiments.run import Run, execute

__all__ = ["Config", "Progress", "Run", "execute", "execute_all", "read_config", "runs_of"]
