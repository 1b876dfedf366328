"""From data to predictions: MC dropout, ensembles, last-layer Laplace, committees, and posteriors of your own.

A posterior of your own is any object with the methods of `Posterior`. `BasePosterior` leaves two of them to write,
`from_callable` none. `register` gives one a name, and `poolwise.testing.check_posterior` tests it.
"""

from typing import TYPE_CHECKING, Any

from poolwise.posteriors.base import BasePosterior, arrays
from poolwise.posteriors.callable import from_callable
from poolwise.posteriors.ensembles import DeepEnsemble, DropoutEnsemble
from poolwise.posteriors.folder import write_predictions
from poolwise.posteriors.laplace import Laplace
from poolwise.posteriors.mc_dropout import MCDropout
from poolwise.posteriors.protocol import Posterior
from poolwise.posteriors.registry import Cost, kinds, register
from poolwise.posteriors.trained import ensemble, mc_dropout

if TYPE_CHECKING:
    from poolwise.posteriors.committee import Committee

__all__ = [
    "BasePosterior",
    "Committee",
    "Cost",
    "DeepEnsemble",
    "DropoutEnsemble",
    "Laplace",
    "MCDropout",
    "Posterior",
    "arrays",
    "ensemble",
    "from_callable",
    "kinds",
    "mc_dropout",
    "register",
    "write_predictions",
]


def __getattr__(name: str) -> Any:
    """Committees are imported when they are first used: scikit-learn doubles the time that an import takes."""
    if name == "Committee":
        from poolwise.posteriors.committee import Committee

        return Committee
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
