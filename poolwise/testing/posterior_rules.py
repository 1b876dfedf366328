"""What every posterior promises, each as a function that raises `Broken` if it is not kept."""

import copy
import io
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data.examples import Examples, Subset, needed_labels
from poolwise.errors import MissingInputError
from poolwise.predictions import Predictions
from poolwise.testing.random_states import states, stir
from poolwise.testing.subject import Broken, expect
from poolwise.user_code import told

# Probabilities are the same if they differ by no more than this: float32 sums round differently in other batches.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Case:
    """What every check gets.

    Attributes:
        fresh: makes a posterior that was not fitted.
        data: labelled examples to fit it on.
        deterministic: whether fitting has no randomness.
        before: the inputs and the labels, copied before any check.
    """

    fresh: Callable[[], Any]
    data: Examples
    deterministic: bool
    before: tuple[Any, Array]

    @classmethod
    def of(cls, fresh: Callable[[], Any], data: Examples, deterministic: bool) -> Self:
        """A case with copies of the data as they are now."""
        labels = needed_labels(data, "check_posterior").copy()
        return cls(fresh, data, deterministic, (copy.deepcopy(_everything(data)), labels))

    def fitted(self, seed: int = 0) -> Any:
        """A posterior that was fitted on all examples."""
        posterior = self.fresh()
        posterior.fit(self.data, seed=seed)
        return posterior

    def part(self, indices: object) -> Examples:
        """Some of the examples."""
        return Subset(self.data, np.asarray(indices))


class _Unlabelled(Subset):
    """Examples whose labels are not known, as those of a pool are."""

    labels = None


def _protocol(case: Case) -> None:
    posterior = case.fresh()
    missing = [name for name in ("fit", "predict", "embed", "state", "load_state") if not hasattr(posterior, name)]
    expect(
        not missing,
        f"{type(posterior).__name__} has no method {', '.join(missing)}. See poolwise.posteriors.Posterior.",
    )
    returned = posterior.fit(case.data, None, seed=0)
    expect(returned is posterior, f"fit must return the posterior itself, not {type(returned).__name__}.")
    predicted = posterior.predict(case.data)
    expect(isinstance(predicted, Predictions), f"predict must return Predictions, not {type(predicted).__name__}.")


def _shapes(case: Case) -> None:
    posterior = case.fitted()
    N, K, C = posterior.predict(case.data).shape
    expect(len(case.data) == N, f"there are {N} rows of predictions for {len(case.data)} examples.")
    largest = int(needed_labels(case.data, "check_posterior").max())
    expect(largest < C, f"there are {C} classes in the predictions, and the largest label is {largest}.")
    one = posterior.predict(case.part([3])).shape
    expect(one == (1, K, C), f"one example alone has predictions {list(one)}, all together have [{N}, {K}, {C}].")


def _repeat(case: Case) -> None:
    posterior = case.fitted()
    first, again = (_probs(posterior.predict(case.data)) for _ in range(2))
    expect(
        _close(again, first),
        f"the same examples are predicted differently the second time (by up to {_gap(again, first):.2g}). Draw "
        "samples in fit, not in predict, and keep nothing from one call to the next.",
    )


def _unlabelled(case: Case) -> None:
    posterior = case.fitted()
    try:
        found = _probs(posterior.predict(_Unlabelled(case.data, np.arange(len(case.data)))))
    except Exception as error:
        raise Broken(
            f"data without labels cannot be predicted: {told(error)}. A pool has no labels, so predict must do "
            "without: poolwise.posteriors.inputs(data) reads the inputs alone."
        ) from error
    expected = _probs(posterior.predict(case.data))
    expect(
        _close(found, expected),
        "the same examples are predicted differently without their labels (by up to "
        f"{_gap(found, expected):.2g}). predict must not look at labels.",
    )


def _normalised(case: Case) -> None:
    probs = np.exp(_log_probs(case.fitted().predict(case.data)))
    expect(np.isfinite(probs).all(), "there are probabilities that are not finite.")
    sums = probs.sum(2)
    expect(
        np.abs(sums - 1).max() < 1e-2,
        f"probabilities sum to {sums.min():.4g} up to {sums.max():.4g} over the classes, not to 1. Normalise them, or "
        "give logits with Predictions.from_logits.",
    )


def _rows(case: Case) -> None:
    posterior, order = case.fitted(), np.random.default_rng(1).permutation(len(case.data))
    there, back = _probs(posterior.predict(case.data)), _probs(posterior.predict(case.part(order)))
    expect(
        _close(back, there[order]),
        "the rows are not in the order of the examples: predictions of the same examples in another order differ by up "
        f"to {_gap(back, there[order]):.2g}. Row i must belong to example i, and depend on nothing else.",
    )


def _consistency(case: Case) -> None:
    posterior = case.fitted()
    together = _probs(posterior.predict(case.data))
    last = len(case.data) - 1
    alone = [("alone", [index]) for index in (*range(1, last, max(1, last // 8)), last)]
    for what, indices in (*alone, ("in a smaller batch", [1, last // 2, last - 1, last])):
        apart = _probs(posterior.predict(case.part(indices)))
        expect(
            _close(apart, together[indices]),
            f"sample k of an example is another model {what} than together with all (by up to "
            f"{_gap(apart, together[indices]):.2g}). It must be the same model for every example: no mask, noise or "
            "statistics by batch or by row.",
        )


def _seeds(case: Case) -> None:
    first, same, other = (_probs(case.fitted(seed).predict(case.data)) for seed in (0, 0, 1))
    expect(_close(first, same), f"fitted twice with seed=0, predictions differ by up to {_gap(first, same):.2g}.")
    expect(
        case.deterministic or not np.array_equal(first, other),
        "seed=0 and seed=1 give the same predictions: fit ignores its seed. If there is nothing random in it, pass "
        "deterministic=True.",
    )


def _refit(case: Case) -> None:
    posterior, half = case.fitted(), np.arange(0, len(case.data), 2)
    labels = needed_labels(case.data, "check_posterior")
    changed = Subset(case.data, half, ((labels + 1) % (labels.max() + 1))[half])
    expected = _probs(posterior.predict(case.data))
    posterior.fit(changed, seed=3)
    posterior.fit(case.data, seed=0)
    found = _probs(posterior.predict(case.data))
    expect(
        _close(found, expected),
        "fitted on other data in between, the posterior predicts differently after it is fitted on the same data with "
        'the same seed. Start anew in fit, or skip=("refit",) if it continues from the weights before on purpose.',
    )


def _separate(case: Case) -> None:
    posterior = case.fitted()
    expected = _probs(posterior.predict(case.data))
    case.fitted(seed=5)
    found = _probs(posterior.predict(case.data))
    expect(
        _close(found, expected),
        f"after another posterior was fitted, this one predicts differently (by up to {_gap(found, expected):.2g}). "
        "Keep what was learned in attributes of the object, not of the class or the module.",
    )


def _embeddings(case: Case) -> None:
    posterior = case.fitted()
    try:
        apart = posterior.embed(case.data)
    except MissingInputError:
        try:
            added = posterior.predict(case.data, embeddings=True).embeddings
        except MissingInputError:
            return
        raise Broken(
            "embed says that there are no embeddings, and predict(..., embeddings=True) does not: it must raise "
            f"MissingInputError too{'' if added is None else ', or embed must return them'}."
        ) from None
    fits = isinstance(apart, np.ndarray) and apart.ndim == 2 and len(apart) == len(case.data)
    expect(
        fits,
        f"embed must return an array [{len(case.data)}, D], not {getattr(apart, 'shape', type(apart).__name__)}.",
    )
    try:
        added = posterior.predict(case.data, embeddings=True).embeddings
    except MissingInputError as error:
        raise Broken(
            f"embed returns embeddings, and predict(..., embeddings=True) says that there are none ({told(error)}). "
            "With BasePosterior, write features(inputs), and leave embed as it is."
        ) from error
    same = added is not None and np.allclose(added, apart, atol=1e-4)
    expect(same, "predict(..., embeddings=True) must add the embeddings that embed returns.")


def _state(case: Case) -> None:
    posterior, file = case.fitted(), io.BytesIO()
    expected = _probs(posterior.predict(case.data))
    state = posterior.state()
    torch.save(state, file)
    file.seek(0)
    try:
        loaded = torch.load(file, weights_only=True)
    except Exception as error:
        raise Broken(
            f"{_odd(state, 'state()')} cannot be loaded without running code. A state must consist of "
            "tensors, numbers, texts, bytes, lists and dictionaries. Pickle other objects to bytes."
        ) from error
    case.fitted(seed=5)  # else what is kept in the class or the module would not be missed
    other = case.fresh()
    other.load_state(loaded)
    found = _probs(other.predict(case.data))
    expect(
        _close(found, expected),
        f"a new posterior with the saved state predicts differently (by up to {_gap(found, expected):.2g}). state() "
        "must contain everything that predict depends on.",
    )


def _random_state(case: Case) -> None:
    for what in ("fit", "predict"):
        posterior = case.fitted() if what == "predict" else case.fresh()
        stir()  # else a state that the posterior has set before would not be seen to change
        before = states()
        if what == "fit":
            posterior.fit(case.data, seed=0)
        else:
            posterior.predict(case.data)
        changed = [name for name, state in states().items() if state != before[name]]
        expect(
            not changed,
            f"{what} changes the global random state of {', '.join(changed)}. Use a generator of your own: "
            "np.random.default_rng(seed), torch.Generator().manual_seed(seed).",
        )


def _inputs(case: Case) -> None:
    case.fitted().predict(case.data)
    expect(_same(case.before[0], _everything(case.data)), "the inputs are changed. Copy them before writing.")
    same = np.array_equal(case.before[1], needed_labels(case.data, "check_posterior"))
    expect(same, "the labels are changed. Copy them before writing.")


def _memory(case: Case) -> None:
    posterior = case.fitted()
    expected = _probs(posterior.predict(case.data))
    found = _probs(posterior.predict(case.data, memory="10KB"))
    expect(
        _close(found, expected),
        f"with memory='10KB' predictions differ by up to {_gap(found, expected):.2g}. No result may depend on it.",
    )


CHECKS: dict[str, Callable[[Case], None]] = {
    "protocol": _protocol,
    "inputs": _inputs,
    "shapes": _shapes,
    "repeat": _repeat,
    "unlabelled": _unlabelled,
    "normalised": _normalised,
    "rows": _rows,
    "consistency": _consistency,
    "seeds": _seeds,
    "refit": _refit,
    "separate": _separate,
    "embeddings": _embeddings,
    "state": _state,
    "random-state": _random_state,
    "memory": _memory,
}
"""The checks by name."""

# What fails as well if the data are changed, or if a posterior answers otherwise each time.
_COMPARING = ("unlabelled", "rows", "consistency", "seeds", "refit", "separate", "state", "memory")


def explained(name: str, failed: Collection[str]) -> bool:
    """Whether a check would fail for the reason that others did, so that it has nothing to add."""
    return "protocol" in failed or (bool({"inputs", "repeat"} & {*failed}) and name in _COMPARING)


def _everything(data: Examples) -> Any:
    return data.batch(np.arange(len(data)))


def _log_probs(predictions: Predictions) -> Array:
    values: Array = predictions.rows(np.arange(len(predictions))).log_probs.numpy()
    return values


def _probs(predictions: Predictions) -> Array:
    values: Array = np.exp(_log_probs(predictions).astype(np.float64))
    return values


def _gap(first: Array, second: Array) -> float:
    return float(np.abs(first - second).max()) if first.shape == second.shape else float("inf")


def _close(first: Array, second: Array) -> bool:
    return first.shape == second.shape and bool(np.allclose(first, second, rtol=0, atol=_ROUNDING))


def _odd(value: Any, where: str) -> str:
    """The first part of a state that cannot be loaded safely: where it is, and its type."""
    if isinstance(value, Mapping | list | tuple):
        parts = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, part in parts:
            if (found := _odd(part, f"{where}[{key!r}]")) != "":
                return found
        return "" if type(value) in (dict, list, tuple) else f"{where}, {type(value).__name__}"
    safe = value is None or isinstance(value, Tensor | bool | int | float | str | bytes)
    return "" if safe else f"{where} of type {type(value).__name__}"


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Mapping):
        return all(_same(first[name], second[name]) for name in first)
    if isinstance(first, tuple):
        return all(_same(*pair) for pair in zip(first, second, strict=True))
    return torch.equal(first, second) if isinstance(first, Tensor) else bool(first == second)
