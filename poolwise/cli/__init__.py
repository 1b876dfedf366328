"""The command line, one file per family of commands. Nothing heavy is imported before a command runs."""

from poolwise.cli import experiments, label, labelling, pilot, predict, select, sync
from poolwise.cli.app import app, main

__all__ = ["app", "experiments", "label", "labelling", "main", "pilot", "predict", "select", "sync"]
