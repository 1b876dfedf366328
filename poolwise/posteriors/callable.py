"""Any function from inputs to `[n, K, C]` predictions as a posterior: JAX, scikit-learn, a service, ..."""

import inspect
from collections.abc import Callable
from typing import Any, Literal, Self

from poolwise.errors import ParameterError, StateError
from poolwise.posteriors.base import BasePosterior, arrays
from poolwise.progress import Report, silent

_UNFITTED = "nothing was fitted"


class CallablePosterior(BasePosterior):
    """What `from_callable` returns."""

    settings = ("outputs", "_predict", "_fit", "_embed")

    def __init__(
        self,
        predict: Callable[..., Any],
        fit: Callable[..., Any] | None,
        embed: Callable[..., Any] | None,
        outputs: Literal["probs", "log-probs", "logits"],
    ) -> None:
        for name, function in (("predict", predict), ("fit", fit), ("embed", embed)):
            if not callable(function) and (function is not None or name == "predict"):
                raise ParameterError(f"{name} must be a function, not {type(function).__name__}.")
        if outputs not in ("probs", "log-probs", "logits"):
            raise ParameterError(f'outputs must be "probs", "log-probs" or "logits", not {outputs!r}.')
        given = ("inputs",) if fit is None else ("model", "inputs")
        _check_arguments("predict", predict, given)
        _check_arguments("fit", fit, ("inputs", "labels", "seed"))
        _check_arguments("embed", embed, given)
        self.outputs = outputs
        self._predict, self._fit, self._embed = predict, fit, embed
        self._model: Any = _UNFITTED

    def __repr__(self) -> str:
        name = getattr(self._predict, "__name__", type(self._predict).__name__)
        trained = "" if self._fit is None else ", not fitted" if self._model is _UNFITTED else ", fitted"
        return f"from_callable({name}{trained})"

    def fit(self, data: Any, validation: Any = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Call `fit(inputs, labels, seed)` and keep the model that it returns."""
        if self._fit is not None:
            inputs, labels_n = arrays(data)
            self._model = self._fit(inputs, labels_n, seed)
        return self

    def untrained(self) -> Self:
        """An untrained copy, whose `fit` starts from the beginning."""
        return type(self)(self._predict, self._fit, self._embed, self.outputs)

    def sample(self, inputs: Any) -> Any:
        """Call `predict(inputs)`, or `predict(model, inputs)`."""
        return self._predict(*self._arguments(inputs))

    def features(self, inputs: Any) -> Any:
        """Call `embed(inputs)`, or `embed(model, inputs)`."""
        return super().features(inputs) if self._embed is None else self._embed(*self._arguments(inputs))

    def _arguments(self, inputs: Any) -> tuple[Any, ...]:
        if self._fit is None:
            return (inputs,)
        return self._model, inputs

    def _check_fitted(self) -> None:
        if self._fit is not None and isinstance(self._model, str) and self._model == _UNFITTED:
            raise StateError(f"{self!r} has no model yet. Call fit(data) first.")

    def _called(self, name: str) -> str:
        name, function = ("predict", self._predict) if name == "sample" else ("embed", self._embed)
        arguments = "inputs" if self._fit is None else "model, inputs"
        return f"the function {getattr(function, '__name__', name)}({arguments})"


def _check_arguments(name: str, function: Callable[..., Any] | None, given: tuple[str, ...]) -> None:
    """Raise if a function cannot be called with the arguments that it will be given."""
    if function is None:
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not say
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        called = f"{name}({', '.join(given)})"
        alone = " It is given no model, since there is no fit=." if given == ("inputs",) else ""
        raise ParameterError(f"{name} will be called as {called}, but it takes {signature}.{alone}") from error


def from_callable(
    predict: Callable[..., Any],
    *,
    fit: Callable[..., Any] | None = None,
    embed: Callable[..., Any] | None = None,
    outputs: Literal["probs", "log-probs", "logits"] = "probs",
) -> CallablePosterior:
    """Make a posterior of plain functions, for models of JAX, scikit-learn or any other package.

    Functions get a batch of inputs as a NumPy array (a list for texts, a dictionary of arrays for named inputs). Sample
    k must be the same model in every call.

    Args:
        predict: returns `[n, K, C]` for a batch. It is called as `predict(inputs)`, or as `predict(model, inputs)` if
            there is a `fit`.
        fit: called as `fit(inputs, labels, seed)`; what it returns is the model. Without it, nothing is trained.
        embed: returns `[n, D]` embeddings of a batch; called in the same way as `predict`.
        outputs: what `predict` returns: `"probs"`, `"log-probs"` or `"logits"`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> from sklearn.naive_bayes import GaussianNB
        >>> def fit(inputs, labels, seed):
        ...     halves = np.random.default_rng(seed).permutation(len(labels)).reshape(2, -1)
        ...     return [GaussianNB().fit(inputs[half], labels[half]) for half in halves]
        >>> def predict(model, inputs):
        ...     return np.stack([member.predict_proba(inputs) for member in model], 1)
        >>> inputs, labels = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
        >>> posterior = pw.posteriors.from_callable(predict, fit=fit)
        >>> posterior.fit((inputs, labels)).predict(inputs).shape
        (40, 2, 2)
    """
    return CallablePosterior(predict, fit, embed, outputs)
