"""The command line, one file a family of commands."""

from poolwise.cli import experiments, predict, reproduce, select
from poolwise.cli.app import app, main

__all__ = ["app", "experiments", "main", "predict", "reproduce", "select"]
