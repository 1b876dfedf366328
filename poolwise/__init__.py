"""Poolwise chooses which unlabelled examples to label next, in large batches, for deep Bayesian models."""

from typing import TYPE_CHECKING

from poolwise import former
from poolwise.lazy import lazy_names

if TYPE_CHECKING:
    from poolwise import data, errors, metrics, models, posteriors, predictions, scores, selection, testing
    from poolwise.data.pool import Pool
    from poolwise.errors import CostWarning, FeaturesWarning, LayoutWarning, PrefilterWarning, SaturationWarning
    from poolwise.labelling.project import Project
    from poolwise.learning import stopping
    from poolwise.learning.learner import ActiveLearner
    from poolwise.learning.query import Query
    from poolwise.learning.rounds import Round
    from poolwise.learning.simulation import simulate
    from poolwise.posteriors.folder import write_predictions
    from poolwise.posteriors.trained import ensemble, mc_dropout
    from poolwise.predictions import Predictions
    from poolwise.selection.batch import Batch, Diagnostics
    from poolwise.selection.objective import GreedyObjective
    from poolwise.selection.registry import Method, method, methods
    from poolwise.selection.select import select
    from poolwise.selection.task import Picks, Task
    from poolwise.training import Training

__version__ = "0.2.0"

__all__ = [
    "ActiveLearner",
    "Batch",
    "CostWarning",
    "Diagnostics",
    "FeaturesWarning",
    "GreedyObjective",
    "LayoutWarning",
    "Method",
    "Picks",
    "Pool",
    "Predictions",
    "PrefilterWarning",
    "Project",
    "Query",
    "Round",
    "SaturationWarning",
    "Task",
    "Training",
    "data",
    "ensemble",
    "errors",
    "mc_dropout",
    "method",
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
    "testing",
    "write_predictions",
]

# Where each public name lives. PyTorch takes a second to import, so a name is loaded when it is first used.
_HOMES = {
    "ActiveLearner": "poolwise.learning.learner",
    "Batch": "poolwise.selection.batch",
    "CostWarning": "poolwise.errors",
    "Diagnostics": "poolwise.selection.batch",
    "FeaturesWarning": "poolwise.errors",
    "GreedyObjective": "poolwise.selection.objective",
    "LayoutWarning": "poolwise.errors",
    "Method": "poolwise.selection.registry",
    "Picks": "poolwise.selection.task",
    "Pool": "poolwise.data.pool",
    "Predictions": "poolwise.predictions",
    "PrefilterWarning": "poolwise.errors",
    "Project": "poolwise.labelling.project",
    "Query": "poolwise.learning.query",
    "Round": "poolwise.learning.rounds",
    "SaturationWarning": "poolwise.errors",
    "Task": "poolwise.selection.task",
    "Training": "poolwise.training",
    "ensemble": "poolwise.posteriors.trained",
    "mc_dropout": "poolwise.posteriors.trained",
    "method": "poolwise.selection.registry",
    "methods": "poolwise.selection.registry",
    "select": "poolwise.selection.select",
    "simulate": "poolwise.learning.simulation",
    "write_predictions": "poolwise.posteriors.folder",
}
_MODULES = {name: f"{__name__}.{name}:" for name in __all__ if name not in _HOMES}
_MODULES["stopping"] = "poolwise.learning.stopping:"

__getattr__, _listed = lazy_names(__name__, {**_HOMES, **_MODULES})
former.install()


def __dir__() -> list[str]:
    return [*_listed(), "__version__"]
