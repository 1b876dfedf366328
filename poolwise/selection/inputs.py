"""What a method may need beside the predictions of the pool, and whether it is there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from poolwise.arrays import Array, ArrayOrTensor
from poolwise.errors import InputError, LabelError, MissingInputError, ParameterError
from poolwise.predictions import Predictions

FeatureKind = Literal["network", "fixed"]
"""The features that a method prefers where a learner provides them: what goes into the last layer of the trained
network, or features of the data that do not depend on the model, see `poolwise.data.features`."""

# What a method may need, beside the predictions of the pool: the argument of `select`, and what to pass there.
INPUTS = {
    "embeddings": "an [N, D] array of features such as the network's last hidden layer "
    "(on the command line: --embeddings FILE.npy)",
    "labelled_embeddings": "an [L, D] array, the same features of the labelled points "
    "(on the command line: --labelled-embeddings FILE.npy)",
    "labelled_predictions": "an [L, K, C] array, the log-probabilities of the labelled points "
    "(on the command line: --labelled-predictions FILE.npy)",
    "labels": "an [L] array, the classes of the labelled points as numbers from 0 (on the command line: --labels FILE)",
    "held_out_predictions": "an [H, K, C] array, the log-probabilities of some labelled points by a model that was "
    "trained without them (on the command line: --held-out-predictions FILE.npy)",
    "held_out_labels": "an [H] array, the classes of those points (on the command line: --held-out-labels FILE)",
}


def used(needs: Iterable[str], values: Mapping[str, object]) -> set[str]:
    """Which of a method's needs it has with some values of its parameters.

    Args:
        needs: each the name of an input, `"labels if calibrate"`, `"embeddings if kernel=product"`, or with both
            conditions, `"labelled_embeddings if labelled and kernel=product"`.
        values: the value of each parameter.

    Example:
        >>> sorted(used(["embeddings", "labels if calibrate"], {"calibrate": False}))
        ['embeddings']
    """
    return {
        name
        for name, conditions in map(_parse, needs)
        if all(_applies(parameter, value, values) for parameter, value in conditions)
    }


def check_needs(method: str, needs: Iterable[str], parameters: Iterable[str]) -> None:
    """Refuse needs that name no input, or depend on a parameter that the method does not have."""
    for name, conditions in map(_parse, needs):
        if name != "predictions" and name not in INPUTS:
            raise ParameterError(f"{method}: needs may name predictions, {', '.join(INPUTS)}; not {name!r}.")
        for parameter, _ in conditions:
            if parameter not in parameters:
                raise ParameterError(
                    f"{method}: needs says that {name} depends on {parameter!r}, which is no parameter."
                )


def only_features(needs: Iterable[str]) -> bool:
    """Whether features are all that these needs name, so that neither a model nor labels are called for.

    Example:
        >>> only_features(["embeddings", "labelled_embeddings"]), only_features(["predictions"])
        (True, False)
    """
    return {*needs} <= {"embeddings", "labelled_embeddings"}


def _parse(need: str) -> tuple[str, list[tuple[str, str]]]:
    """The input, and the parameters that it depends on, each with the value that it must have or an empty text."""
    name, _, conditions = need.partition(" if ")
    each = [condition.partition("=") for condition in conditions.split(" and ")] if conditions else []
    return name.strip(), [(parameter.strip(), value.strip()) for parameter, _, value in each]


def _applies(parameter: str, value: str, values: Mapping[str, object]) -> bool:
    return str(values[parameter]) == value if value else bool(values[parameter])


@dataclass(frozen=True)
class Labelled:
    """What is known of the L labelled points.

    Attributes:
        embeddings: `[L, D]` features, or None.
        predictions: `[L, K, C]` predictions, or None.
        labels: `[L]` classes, or None.
        held_out_predictions: `[H, K, C]` predictions of some of them by a model that was trained without them, or None.
        held_out_labels: `[H]` classes of those, or None; H is 0 if none could be held out.
    """

    embeddings: Array | None = None
    predictions: Predictions | None = None
    labels: Array | None = None
    held_out_predictions: Predictions | None = None
    held_out_labels: Array | None = None

    def given(self) -> dict[str, int]:
        """How many labelled points each input describes, by the name of the argument of `select`."""
        return _counts(labelled_embeddings=self.embeddings, labelled_predictions=self.predictions, labels=self.labels)

    def held_out(self) -> dict[str, int]:
        """The same of the points that were held out."""
        return _counts(held_out_predictions=self.held_out_predictions, held_out_labels=self.held_out_labels)


def read_labelled(
    pool: Predictions,
    predictions: ArrayOrTensor | Predictions | None,
    labels: ArrayOrTensor | None,
    held_out_predictions: ArrayOrTensor | Predictions | None = None,
    held_out_labels: ArrayOrTensor | None = None,
) -> Labelled:
    """What is known of the labelled points, checked against the pool and against each other."""
    known = Labelled(
        pool.labelled_embeddings,
        _read_predictions(predictions, pool, "labelled_predictions", "L"),
        None if labels is None else _read_labels(labels, pool.shape[2], "labels", "L"),
        _read_predictions(held_out_predictions, pool, "held_out_predictions", "H"),
        None if held_out_labels is None else _read_labels(held_out_labels, pool.shape[2], "held_out_labels", "H"),
    )
    for counts in (known.given(), known.held_out()):
        if len({*counts.values()}) > 1:
            said = ", ".join(f"{name} {count}" for name, count in counts.items())
            points = "labelled points" if counts.keys() & {"labels", "labelled_embeddings"} else "points held out"
            raise InputError(f"the {points} must be the same everywhere, but their numbers differ: {said}.")
    return known


def check_inputs(
    method: str, needs: set[str], pool: Predictions, known: Labelled, conditional: Iterable[str] = ()
) -> None:
    """Refuse to select without what a method needs.

    What it needs of labelled points may be missing only if nothing at all is said of them: then none is labelled.

    Args:
        method: its name.
        needs: what it uses.
        pool: the pool.
        known: what is known of the labelled points.
        conditional: its needs as it names them, with conditions: a condition may be given up instead.
    """
    if "embeddings" in needs and pool.embeddings is None:
        raise MissingInputError(f"{method} needs embeddings: pass embeddings=, {INPUTS['embeddings']}.")
    counts = {**known.given(), **known.held_out()}
    if known.held_out_labels is not None and not len(known.held_out_labels):
        counts["held_out_predictions"] = 0  # no point could be held out, so that there are no predictions
    if any(counts.values()):
        said = [name for name in counts if counts[name]]
        for name in INPUTS:
            if name in needs and name not in counts and name != "embeddings":
                raise MissingInputError(
                    f"{method} needs {name}, since {' and '.join(said)} {'are' if len(said) > 1 else 'is'} given: "
                    f"pass {name}=, {INPUTS[name]}.{_instead(name, conditional)}"
                )


def _instead(name: str, needs: Iterable[str]) -> str:
    """How to do without an input, if a method needs it only where a parameter is true."""
    for need, conditions in map(_parse, needs):
        if need == name and conditions and not conditions[0][1]:
            given = f"{conditions[0][0]}=False"
            return f" Or pass {given} (on the command line: --param {given}), which does without."
    return ""


def _counts(**given: Array | Predictions | None) -> dict[str, int]:
    return {name: len(value) for name, value in given.items() if value is not None}


def _read_predictions(
    given: ArrayOrTensor | Predictions | None, pool: Predictions, name: str, count: str
) -> Predictions | None:
    """Predictions of labelled points; None stands for predictions `[0, K, C]` of no points too."""
    _, K, C = pool.shape
    if given is None or tuple(getattr(given, "shape", ()))[:1] == (0,):
        return None
    read = given if isinstance(given, Predictions) else Predictions.from_log_probs(given)
    if read.shape[1:] != (K, C):
        raise InputError(
            f"{name} must be [{count}, {K}, {C}], as the pool is [N, {K}, {C}]; they are {list(read.shape)}."
        )
    return read


def _read_labels(given: ArrayOrTensor, classes: int, name: str, count: str) -> Array:
    labels_L = np.asarray(given)
    whole = labels_L.ndim == 1 and (labels_L.dtype.kind in "iu" or not labels_L.size)
    if not whole or (labels_L.size and not 0 <= labels_L.min() <= labels_L.max() < classes):
        raise LabelError(
            f"{name} must be [{count}] whole numbers from 0 to {classes - 1}, one for each labelled point; "
            f"they are {labels_L.dtype} {list(labels_L.shape)}"
            + (f" from {labels_L.min()} to {labels_L.max()}." if whole else ".")
        )
    return labels_L.astype(np.int64)
