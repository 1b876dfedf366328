"""Networks by name, for configurations and the command line."""

import difflib
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence

from torch import nn

from poolwise.errors import ParameterError
from poolwise.models.cnn import batchbald_cnn, cifar_cnn, emnist_cnn
from poolwise.models.head import linear, mlp
from poolwise.models.resnet import resnet_18
from poolwise.models.transformer import transformer
from poolwise.parameters import Parameter

_MODELS: dict[str, Callable[..., nn.Module]] = {
    "batchbald-cnn": batchbald_cnn,
    "cifar-cnn": cifar_cnn,
    "emnist-cnn": emnist_cnn,
    "linear": linear,
    "mlp": mlp,
    "resnet-18": resnet_18,
    "transformer": transformer,
}


def names() -> tuple[str, ...]:
    """The names of all networks."""
    return tuple(_MODELS)


def make(name: str, input_shape: Sequence[int], classes: int, **parameters: object) -> nn.Module:
    """A network by name.

    Args:
        name: one of `names()`.
        input_shape: shape of one input: (channels, height, width) for the convolutional networks.
        classes: number of classes.
        parameters: the network's own parameters, as its function in `poolwise.models` describes them.
    """
    factory = _find(name)
    return factory(input_shape, classes, **_check(name, factory, parameters))


def _find(name: str) -> Callable[..., nn.Module]:
    if name in _MODELS:
        return _MODELS[name]
    close = difflib.get_close_matches(str(name), _MODELS, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ParameterError(f"there is no model {name!r}.{hint} The models are: {', '.join(_MODELS)}.")


def _check(name: str, factory: Callable[..., nn.Module], given: Mapping[str, object]) -> dict[str, object]:
    """The given parameters, each known and of the right kind."""
    own = {p.name: p.default for p in inspect.signature(factory).parameters.values() if p.kind is p.KEYWORD_ONLY}
    listed = "Its parameters: " + (", ".join(f"{key}={default!r}" for key, default in own.items()) or "none") + "."
    for key in given:
        if key not in own:
            raise ParameterError(f"{name} has no parameter {key!r}. {listed}")
    hints = typing.get_type_hints(factory)
    return {key: Parameter(key, own[key], hints[key], listed).check(value, name) for key, value in given.items()}
