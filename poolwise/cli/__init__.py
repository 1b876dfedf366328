"""The command line, one file a family of commands."""

from poolwise.cli import experiments, reproduce, select
from poolwise.cli.app import app, main

__all__ = ["app", "experiments", "main", "reproduce", "select"]
