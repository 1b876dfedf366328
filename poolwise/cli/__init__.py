"""The command line, one file a family of commands."""

from poolwise.cli import experiments, predict, select
from poolwise.cli.app import app, main

__all__ = ["app", "experiments", "main", "predict", "select"]
