"""What every posterior promises, each as a function that raises `Broken` if it is not kept."""

import inspect
import io
from collections.abc import Callable, Collection, Mapping

import numpy as np
import torch

from poolwise.data.examples import Subset, needed_labels
from poolwise.errors import MissingInputError
from poolwise.predictions import Predictions
from poolwise.testing.posterior_case import (
    Case,
    Unlabelled,
    all_inputs,
    are_close,
    are_rearranged,
    are_same,
    how_far,
    log_probabilities,
    probabilities,
    unsafe_part,
)
from poolwise.testing.random_states import states, stir
from poolwise.testing.subject import Broken, expect
from poolwise.user_code import told

# How the methods of a posterior are called: by position, and by name.
_CALLS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "fit": (("data", "validation"), ("seed", "report")),
    "predict": (("data",), ("embeddings", "memory", "report")),
    "embed": (("data",), ("memory",)),
    "state": ((), ()),
    "load_state": (("state",), ()),
}


def _protocol(case: Case) -> None:
    posterior = case.fresh()
    missing = [name for name in _CALLS if not callable(getattr(posterior, name, None))]
    expect(
        not missing,
        f"{type(posterior).__name__} has no method {', '.join(missing)}. See poolwise.posteriors.Posterior.",
    )
    for name, (positional, named) in _CALLS.items():
        signature = inspect.signature(getattr(posterior, name))
        try:
            signature.bind(*positional, **dict.fromkeys(named))
        except TypeError as error:
            wanted = ", ".join([*positional, *(f"{argument}=..." for argument in named)])
            raise Broken(f"{name} must take ({wanted}), and it takes {signature}.") from error
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
    first, again = (probabilities(posterior.predict(case.data)) for _ in range(2))
    expect(
        are_close(again, first),
        f"the same examples are predicted differently the second time ({how_far(again, first)}). Draw "
        "samples in fit, not in predict, and keep nothing from one call to the next.",
    )


def _unlabelled(case: Case) -> None:
    posterior = case.fitted()
    try:
        found = probabilities(posterior.predict(Unlabelled(case.data, np.arange(len(case.data)))))
    except Exception as error:
        raise Broken(
            f"data without labels cannot be predicted: {told(error)}. A pool has no labels, so predict must do "
            "without: poolwise.posteriors.inputs(data) reads the inputs alone."
        ) from error
    expected = probabilities(posterior.predict(case.data))
    expect(
        are_close(found, expected),
        "the same examples are predicted differently without their labels ("
        f"{how_far(found, expected)}). predict must not look at labels.",
    )


def _normalised(case: Case) -> None:
    probs = np.exp(log_probabilities(case.fitted().predict(case.data)))
    expect(np.isfinite(probs).all(), "there are probabilities that are not finite.")
    sums = probs.sum(2)
    expect(
        np.abs(sums - 1).max() < 1e-2,
        f"probabilities sum to {sums.min():.4g} up to {sums.max():.4g} over the classes, not to 1. Normalise them, or "
        "give logits with Predictions.from_logits.",
    )


def _rows(case: Case) -> None:
    posterior, order = case.fitted(), np.random.default_rng(1).permutation(len(case.data))
    there, back = probabilities(posterior.predict(case.data)), probabilities(posterior.predict(case.part(order)))
    if are_close(back, there[order]):
        return
    if not are_rearranged(back, there):
        try:
            _consistency(case)
        except Broken:
            return  # the next check says more about it
    raise Broken(
        "the rows are not in the order of the examples: predictions of the same examples in another order differ "
        f"{how_far(back, there[order])}. Row i must belong to example i, and depend on nothing else."
    )


def _consistency(case: Case) -> None:
    posterior = case.fitted()
    together = probabilities(posterior.predict(case.data))
    last = len(case.data) - 1
    alone = [("alone", [index]) for index in (*range(1, last, max(1, last // 8)), last)]
    for what, indices in (*alone, ("in a smaller batch", [1, last // 2, last - 1, last])):
        apart = probabilities(posterior.predict(case.part(indices)))
        expect(
            are_close(apart, together[indices]),
            f"an example is predicted differently {what} than together with all others ("
            f"{how_far(apart, together[indices])}). Sample k must be the same model for every example: no mask, noise "
            "or statistics by batch or by row.",
        )


def _seeds(case: Case) -> None:
    first, same, other = (probabilities(case.fitted(seed).predict(case.data)) for seed in (0, 0, 1))
    expect(
        are_close(first, same),
        f"fitted twice with seed=0, predictions differ {how_far(first, same)}. Draw from generators made "
        "from the seed only: np.random.default_rng(seed).",
    )
    expect(
        case.deterministic or not np.array_equal(first, other),
        "seed=0 and seed=1 give the same predictions: fit ignores its seed. If there is nothing random in it, pass "
        "deterministic=True.",
    )


def _refit(case: Case) -> None:
    posterior, half = case.fitted(), np.arange(0, len(case.data), 2)
    labels = needed_labels(case.data, "check_posterior")
    changed = Subset(case.data, half, ((labels + 1) % (labels.max() + 1))[half])
    expected = probabilities(posterior.predict(case.data))
    posterior.fit(changed, seed=3)
    posterior.fit(case.data, seed=0)
    found = probabilities(posterior.predict(case.data))
    expect(
        are_close(found, expected),
        "fitted on other data in between, the posterior predicts differently after it is fitted on the same data with "
        'the same seed. Start anew in fit, or skip=("refit",) if it continues from the weights before on purpose.',
    )


def _separate(case: Case) -> None:
    posterior = case.fitted()
    expected = probabilities(posterior.predict(case.data))
    case.fitted(seed=5)
    found = probabilities(posterior.predict(case.data))
    expect(
        are_close(found, expected),
        f"after another posterior was fitted, this one predicts differently ({how_far(found, expected)}). "
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
    except Exception as error:
        raise Broken(
            f"embed raised {told(error)}. If there are no embeddings, it must raise poolwise.errors.MissingInputError."
        ) from error
    fits = isinstance(apart, np.ndarray) and apart.ndim == 2 and len(apart) == len(case.data)
    shape = f" of shape {list(apart.shape)}" if hasattr(apart, "shape") else ""
    expect(
        fits,
        f"embed must return a NumPy array [{len(case.data)}, D], not an object of type {type(apart).__name__}{shape}.",
    )
    try:
        added = posterior.predict(case.data, embeddings=True).embeddings
    except MissingInputError as error:
        raise Broken(
            f"embed returns embeddings, and predict(..., embeddings=True) says that there are none ({told(error)}). "
            "With BasePosterior, write features(inputs), and leave embed unchanged."
        ) from error
    same = added is not None and added.shape == apart.shape and np.allclose(added, apart, atol=1e-4)
    expect(same, "predict(..., embeddings=True) must add the embeddings that embed returns.")


def _state(case: Case) -> None:
    posterior, file = case.fitted(), io.BytesIO()
    expected = probabilities(posterior.predict(case.data))
    state = posterior.state()
    expect(isinstance(state, Mapping), f"state() must return a dictionary, not {type(state).__name__}.")
    try:
        torch.save(state, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=True)
    except Exception as error:
        raise Broken(
            f"{unsafe_part(state, 'state()')} cannot be loaded without running code. A state must consist of "
            "tensors, numbers, texts, bytes, lists and dictionaries. Pickle other objects to bytes."
        ) from error
    case.fitted(seed=5)  # else what is kept in the class or the module would not be missed
    other = case.fresh()
    try:
        other.load_state(loaded)
        found = probabilities(other.predict(case.data))
    except Exception as error:
        raise Broken(
            f"a new posterior that has loaded the saved state cannot predict: {told(error)}. state() must contain "
            "everything that predict depends on."
        ) from error
    expect(
        are_close(found, expected),
        f"a new posterior with the saved state predicts differently ({how_far(found, expected)}). state() "
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
    expect(are_same(case.before[0], all_inputs(case.data)), "the inputs are changed. Copy them before writing.")
    same = np.array_equal(case.before[1], needed_labels(case.data, "check_posterior"))
    expect(same, "the labels are changed. Copy them before writing.")


def _memory(case: Case) -> None:
    posterior = case.fitted()
    expected = probabilities(posterior.predict(case.data))
    found = probabilities(posterior.predict(case.data, memory="10KB"))
    expect(
        are_close(found, expected),
        f"with memory='10KB' predictions differ {how_far(found, expected)}. No result may depend on it.",
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
_COMPARING = frozenset({"unlabelled", "rows", "consistency", "seeds", "refit", "separate", "state", "memory"})

# What each failed check explains: these need not be tried any more.
_EXPLAINS: dict[str, frozenset[str]] = {
    "protocol": frozenset(CHECKS),
    "inputs": _COMPARING,
    "repeat": _COMPARING,
    "shapes": _COMPARING | {"embeddings"},
    "unlabelled": frozenset({"seeds"}),
    "rows": frozenset({"consistency", "memory"}),
    "consistency": frozenset({"memory"}),
    "seeds": frozenset({"refit"}),
    "separate": frozenset({"state"}),
}


def explained(name: str, failed: Collection[str]) -> bool:
    """Whether a check would fail for the reason that others did, so that it has nothing to add."""
    return any(name in _EXPLAINS.get(other, ()) for other in failed)
