"""The model of a learner: a posterior, or a function that makes one for a number of classes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from poolwise.data.examples import Examples, Subset
from poolwise.data.pool import Pool
from poolwise.errors import LabelError, ParameterError, StateError, TrainingError
from poolwise.posteriors.posterior import Posterior
from poolwise.posteriors.protocol import untrained
from poolwise.progress import Report

PosteriorLike = Posterior | Callable[[int], Posterior]
"""A posterior, or a function from the number of classes to one."""

ADVICE = (
    "Give the learner a function of the number of classes, such as lambda classes: "
    "DeepEnsemble(lambda: pw.models.mlp((64,), classes)): posteriors of networks are then built anew."
)


class Model:
    """The posterior of a learner.

    Args:
        given: a posterior, or a function from the number of classes to one.
        classes: the number of classes.

    Attributes:
        given: what was given, which is what is saved.
        posterior: the posterior.
        classes: for how many classes it was made.
    """

    def __init__(self, given: PosteriorLike, classes: int) -> None:
        if isinstance(given, nn.Module):
            raise ParameterError(
                "posterior must be a posterior, not a network. Make one of it: pw.posteriors.DeepEnsemble(network)."
            )
        self.given, self.classes = given, classes
        self._function = None if isinstance(given, Posterior) or not callable(given) else given
        self.posterior: Posterior = given if self._function is None else self._made(classes)  # type: ignore[assignment]

    def _made(self, classes: int) -> Posterior:
        assert self._function is not None
        made: Any = self._function(classes)
        if not isinstance(made, Posterior):
            raise ParameterError(
                f"posterior is a function, which must return a posterior for {classes} classes, not "
                f"{type(made).__name__}."
            )
        return made

    def suit(self, classes: int) -> None:
        """Build a new posterior if this one was made for another number of classes."""
        if self._function is not None and classes != self.classes:
            self.posterior = self._made(classes)
        self.classes = classes

    def untrained(self) -> Posterior:
        """A posterior like this one that has not seen any label."""
        return untrained(self.posterior) if self._function is None else self._made(self.classes)

    def fit(self, pool: Pool, validation: Examples | None, *, seed: int, report: Report) -> None:
        """Train on what is labelled; if that fails, the model is the one of before.

        Args:
            pool: the pool.
            validation: examples for early stopping, or None.
            seed: of the training.
            report: told about progress.
        """
        before = self.posterior, self.classes
        try:
            self.suit(pool.classes)
            self.posterior.fit(pool.labelled_examples(), validation, seed=seed, report=report)
        except (TrainingError, LabelError) as error:
            self.posterior, self.classes = before
            if pool.added_classes and self._function is None:
                text = f"the posterior cannot be trained with the classes that were added: {error} {ADVICE}"
                raise StateError(text) from error
            raise
        except BaseException:
            self.posterior, self.classes = before
            raise

    def check(self, pool: Pool) -> None:
        """Refuse classes for which a trained network has no outputs, if it cannot be built again."""
        if self._function is not None or not getattr(self.posterior, "networks", None) or not len(pool):
            return
        outputs = self.posterior.predict(Subset(pool.data, np.arange(1))).shape[2]
        if outputs < pool.classes:
            raise StateError(f"the networks of this learner have {outputs} outputs, for {outputs} classes. {ADVICE}")
