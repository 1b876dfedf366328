"""The command line, one file per family of commands. Nothing heavy is imported before a command runs."""

from poolwise.cli import experiments, predict, select
from poolwise.cli.app import app, main

__all__ = ["app", "experiments", "main", "predict", "select"]
