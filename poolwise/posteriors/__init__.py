"""From data to predictions: MC dropout, ensembles, last-layer Laplace, SWAG, committees, and posteriors of your own.

A posterior of your own is any object with the methods of `Posterior`. With `BasePosterior` you write two of them; with
`from_callable`, plain functions will do. `register` gives a posterior a name for experiment files, and
`poolwise.testing.check_posterior` tests it.
"""

from typing import TYPE_CHECKING

from poolwise.lazy import lazy_names
from poolwise.posteriors.base import BasePosterior, arrays, inputs
from poolwise.posteriors.callable import from_callable
from poolwise.posteriors.ensembles import DeepEnsemble, DropoutEnsemble
from poolwise.posteriors.folder import write_predictions
from poolwise.posteriors.laplace import Laplace
from poolwise.posteriors.mc_dropout import MCDropout
from poolwise.posteriors.nearest_neighbour import NearestNeighbour, nearest_neighbour
from poolwise.posteriors.protocol import Posterior
from poolwise.posteriors.registry import Cost, kinds, register
from poolwise.posteriors.swag import SWAG
from poolwise.posteriors.trained import ensemble, mc_dropout

if TYPE_CHECKING:
    from poolwise.posteriors.committee import Committee

__all__ = [
    "SWAG",
    "BasePosterior",
    "Committee",
    "Cost",
    "DeepEnsemble",
    "DropoutEnsemble",
    "Laplace",
    "MCDropout",
    "NearestNeighbour",
    "Posterior",
    "arrays",
    "ensemble",
    "from_callable",
    "inputs",
    "kinds",
    "mc_dropout",
    "nearest_neighbour",
    "register",
    "write_predictions",
]

# Scikit-learn doubles the time that an import takes.
__getattr__, __dir__ = lazy_names(__name__, {"Committee": ".committee"})
