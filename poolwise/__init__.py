"""Poolwise chooses which unlabelled examples to label next, in large batches, for deep Bayesian models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolwise import data, errors, metrics, models, posteriors, predictions, scores, selection, testing
    from poolwise.data.pool import Pool
    from poolwise.errors import LayoutWarning, PrefilterWarning, SaturationWarning
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
    "Diagnostics",
    "GreedyObjective",
    "LayoutWarning",
    "Method",
    "Picks",
    "Pool",
    "Predictions",
    "PrefilterWarning",
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
    "Diagnostics": "poolwise.selection.batch",
    "GreedyObjective": "poolwise.selection.objective",
    "LayoutWarning": "poolwise.errors",
    "Method": "poolwise.selection.registry",
    "Picks": "poolwise.selection.task",
    "Pool": "poolwise.data.pool",
    "Predictions": "poolwise.predictions",
    "PrefilterWarning": "poolwise.errors",
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
_MODULES = {"stopping": "poolwise.learning.stopping"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    elif name in __all__:
        found = import_module(_MODULES.get(name, f"{__name__}.{name}"))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
