"""What every posterior does: five methods, and nothing else is asked of one."""

import copy
from collections.abc import Mapping
from typing import Any, Protocol, Self, runtime_checkable

from poolwise import budget
from poolwise.arrays import Array
from poolwise.errors import StateError
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent


@runtime_checkable
class Posterior(Protocol):
    """From labelled data to a distribution over models, and from that to predictions.

    Any object with these five methods is a posterior. With `BasePosterior` you write two of them, and
    `poolwise.testing.check_posterior` tests the promises made here.

    Two methods are optional. `on(device)` returns a copy on another device; it is called before a posterior is sent to
    another machine. `untrained()` returns a copy that is not trained, if `copy.deepcopy` will not do; it is called for
    the methods that calibrate. One attribute is optional: `embeds_inputs = True` says that `embed` returns the inputs
    themselves.

    Example:
        >>> import poolwise as pw
        >>> isinstance(pw.posteriors.from_callable(lambda inputs: ...), pw.posteriors.Posterior)
        True
    """

    def fit(self, data: Any, validation: Any = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Train on labelled data and return the posterior itself. The same seed gives the same result.

        Args:
            data: labelled examples.
            validation: labelled examples for early stopping, or None.
            seed: root of all randomness.
            report: called with (stage, done, total) as the work proceeds.
        """

    def predict(
        self, data: Any, *, embeddings: bool = False, memory: int | str = budget.DEFAULT, report: Report = silent
    ) -> Predictions:
        """`[N, K, C]` predictions, in the order of the data. Sample k is the same model for every example.

        Args:
            data: examples, with or without labels.
            embeddings: whether to add `[N, D]` embeddings.
            memory: working memory, in bytes or as `"2GB"`.
            report: called with (stage, done, total) as the work proceeds.
        """

    def embed(self, data: Any, *, memory: int | str = budget.DEFAULT) -> Array:
        """`[N, D]` float32 embeddings, the same that `predict(..., embeddings=True)` adds.

        Args:
            data: examples, with or without labels.
            memory: working memory, in bytes or as `"2GB"`.
        """

    def state(self) -> dict[str, Any]:
        """Everything that `predict` depends on, to be saved."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""


def untrained(posterior: Posterior) -> Posterior:
    """An untrained copy of a posterior, whose `fit` starts from the beginning."""
    own = getattr(posterior, "untrained", None)
    try:
        made: Posterior = copy.deepcopy(posterior) if own is None else own()
    except Exception as error:  # whatever a model refuses to be copied by
        raise StateError(
            f"{type(posterior).__name__} cannot be copied ({type(error).__name__}: {error}), but this method needs a "
            "second model, trained on a part of the labels. Give the posterior a method untrained() that returns a new "
            "one. Or choose a method, or a parameter such as calibrate=False, that needs no second model."
        ) from error
    return made


def placed(posterior: Posterior, device: str) -> Posterior:
    """The posterior on a device, if it has a say in where it runs."""
    on = getattr(posterior, "on", None)
    moved: Posterior = posterior if on is None else on(device)
    return moved
