"""Which model learns from the labels: chosen for the data and named in words, or a function of the user's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from poolwise.data.examples import Examples, TensorExamples, TextExamples
from poolwise.data.formats.images import read_images
from poolwise.errors import ParameterError, PoolwiseError
from poolwise.labelling.features import Features
from poolwise.labelling.items import Items
from poolwise.models.head import mlp
from poolwise.posteriors.ensembles import DeepEnsemble
from poolwise.posteriors.protocol import Posterior
from poolwise.user_code import load_function, told

_MEMBERS, _HIDDEN = 5, 128

# Pixels that images are resized to, each way, for a model of the user's own.
_SIDE = 64


@dataclass(frozen=True)
class Model:
    """A posterior that is not trained yet, and what it is trained on.

    Attributes:
        posterior: the posterior.
        examples: the items as it takes them, in the order of the data.
        name: what it is, in words.
    """

    posterior: Posterior
    examples: Examples
    name: str


def default_model(features: Features, classes: Sequence[str]) -> Model:
    """An ensemble of small networks on fixed features, which trains in seconds and learns from few labels."""
    width = features.values.shape[1]
    posterior = DeepEnsemble(lambda: mlp((width,), len(classes), hidden=(_HIDDEN,)), members=_MEMBERS, device="cpu")
    examples = TensorExamples(torch.from_numpy(features.values))
    return Model(posterior, examples, f"an ensemble of {_MEMBERS} small networks on {features.name}")


def own_model(place: str, items: Items, classes: Sequence[str]) -> Model:
    """The model that a function of the user's own makes.

    Args:
        place: `"package.module:function"`. It is called with the examples and the names of the classes, and returns a
            posterior, such as a `Committee`.
        items: the items.
        classes: the names of the classes.
    """
    examples = raw_examples(items)
    make: Any = load_function(place, "model")
    try:
        posterior = make(examples, list(classes))
    except PoolwiseError:
        raise
    except Exception as error:  # of somebody else's function, which may raise anything
        raise ParameterError(f"the model {place!r} failed ({told(error)}).") from error
    if not isinstance(posterior, Posterior):
        raise ParameterError(
            f"the model {place!r} returned an object of type {type(posterior).__name__}, not a posterior: see "
            "poolwise.posteriors.Posterior."
        )
    return Model(posterior, examples, f"the model {place}")


def raw_examples(items: Items) -> Examples:
    """The items as examples: features if there are some, else texts, or `[N, 3, 64, 64]` images."""
    if items.features is not None:
        return TensorExamples(torch.tensor(items.features, dtype=torch.float32))
    if items.texts is not None:
        return TextExamples(list(items.texts))
    assert items.files is not None
    return TensorExamples(read_images(items.files, _SIDE, 3))
