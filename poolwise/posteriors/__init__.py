"""From data to predictions: MC dropout, deep ensembles, dropout ensembles, committees of scikit-learn classifiers."""

from typing import TYPE_CHECKING, Any

from poolwise.posteriors.ensembles import DeepEnsemble, DropoutEnsemble
from poolwise.posteriors.folder import write_predictions
from poolwise.posteriors.mc_dropout import MCDropout
from poolwise.posteriors.posterior import Posterior
from poolwise.posteriors.trained import ensemble, mc_dropout

if TYPE_CHECKING:
    from poolwise.posteriors.committee import Committee

__all__ = [
    "Committee",
    "DeepEnsemble",
    "DropoutEnsemble",
    "MCDropout",
    "Posterior",
    "ensemble",
    "mc_dropout",
    "write_predictions",
]


def __getattr__(name: str) -> Any:
    """Committees are imported when they are asked for: scikit-learn doubles the time that an import takes."""
    if name == "Committee":
        from poolwise.posteriors.committee import Committee

        return Committee
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
