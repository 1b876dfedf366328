"""The command line, one file per family of commands. Nothing heavy is imported before a command runs."""

from poolwise.cli import experiments, label, label_next, labelling, pilot, predict, select, sync
from poolwise.cli.app import app, main

__all__ = ["app", "experiments", "label", "label_next", "labelling", "main", "pilot", "predict", "select", "sync"]
