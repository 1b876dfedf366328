"""Poolwise chooses which unlabelled examples to label next, in large batches, for deep Bayesian models."""

from poolwise import errors, scores, selection
from poolwise.errors import SaturationWarning
from poolwise.predictions import Predictions
from poolwise.registry import methods
from poolwise.selection.batch import Batch, Diagnostics
from poolwise.selection.select import select

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Diagnostics",
    "Predictions",
    "SaturationWarning",
    "errors",
    "methods",
    "scores",
    "select",
    "selection",
]
