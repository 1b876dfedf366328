"""Poolwise chooses which unlabelled examples to label next, in large batches, for deep Bayesian models."""

from poolwise import data, errors, metrics, models, posteriors, predictions, scores, selection, stopping
from poolwise.data.pool import Pool
from poolwise.errors import PrefilterWarning, SaturationWarning
from poolwise.learner import ActiveLearner
from poolwise.posteriors.folder import write_predictions
from poolwise.posteriors.trained import ensemble, mc_dropout
from poolwise.predictions import Predictions
from poolwise.query import Query
from poolwise.registry import methods
from poolwise.rounds import Round
from poolwise.selection.batch import Batch, Diagnostics
from poolwise.selection.select import select
from poolwise.simulation import simulate
from poolwise.training import Training

__version__ = "0.1.0"

__all__ = [
    "ActiveLearner",
    "Batch",
    "Diagnostics",
    "Pool",
    "Predictions",
    "PrefilterWarning",
    "Query",
    "Round",
    "SaturationWarning",
    "Training",
    "data",
    "ensemble",
    "errors",
    "mc_dropout",
    "methods",
    "metrics",
    "models",
    "posteriors",
    "predictions",
    "scores",
    "select",
    "selection",
    "simulate",
    "stopping",
    "write_predictions",
]
