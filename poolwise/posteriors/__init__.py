"""From data to predictions: MC dropout, deep ensembles, dropout ensembles, committees of scikit-learn classifiers."""

from poolwise.posteriors.committee import Committee
from poolwise.posteriors.ensembles import DeepEnsemble, DropoutEnsemble
from poolwise.posteriors.mc_dropout import MCDropout
from poolwise.posteriors.posterior import Posterior
from poolwise.posteriors.trained import ensemble, mc_dropout

__all__ = ["Committee", "DeepEnsemble", "DropoutEnsemble", "MCDropout", "Posterior", "ensemble", "mc_dropout"]
