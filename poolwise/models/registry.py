"""Networks by name, for configurations and the command line."""

import difflib
import inspect
import os
import typing
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from poolwise.errors import ParameterError, PoolwiseError
from poolwise.models.cnn import batchbald_cnn, cifar_cnn, emnist_cnn
from poolwise.models.head import linear, mlp
from poolwise.models.resnet import resnet_18
from poolwise.models.transformer import transformer
from poolwise.parameters import Parameter
from poolwise.user_code import load_function

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
    """The names of all networks.

    Example:
        >>> from poolwise import models
        >>> "mlp" in models.names()
        True
    """
    return tuple(_MODELS)


def make(name: str, input_shape: Sequence[int], classes: int, **parameters: object) -> nn.Module:
    """A network by name.

    Args:
        name: one of `names()`, or the address of a function of your own, `"package.module:function"`. It is called as
            `function(input_shape, classes, **parameters)`; its parameters are keyword-only and annotated.
        input_shape: shape of one input: (channels, height, width) for the convolutional networks.
        classes: number of classes.
        parameters: the network's own parameters, as its function in `poolwise.models` describes them.

    Example:
        >>> from poolwise import models
        >>> models.make("mlp", (4,), 3, hidden=(8,)).head
        Linear(in_features=8, out_features=3, bias=True)
    """
    factory = _find(name)
    checked = _check(name, factory, parameters)
    if factory is not transformer:  # whose size is that of its checkpoint
        _must_fit_memory(name, lambda: factory(input_shape, classes, **checked))
    return factory(input_shape, classes, **checked)


def _must_fit_memory(name: str, build: Callable[[], nn.Module]) -> None:
    """Raise if a network is larger than the memory of this machine; what it is made of is counted first, not made."""
    try:
        with torch.device("meta"):
            size = sum(weight.nbytes for weight in build().parameters())
    except (RuntimeError, OverflowError, TypeError) as error:
        if isinstance(error, PoolwiseError):
            raise
        raise ParameterError(
            f"{name} cannot be made so large ({str(error).splitlines()[0]}). Lower its sizes."
        ) from error
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else size
    if size > memory:
        raise ParameterError(
            f"{name} would take {size / 1e9:,.0f} GB with these parameters, and this machine has {memory / 1e9:,.0f} "
            "GB. Lower its sizes."
        )


def _find(name: str) -> Callable[..., nn.Module]:
    if name in _MODELS:
        return _MODELS[name]
    if isinstance(name, str) and ":" in name:
        return load_function(name, "model")
    close = difflib.get_close_matches(str(name), _MODELS, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ParameterError(
        f"there is no model {name!r}.{hint} The models are: {', '.join(_MODELS)}. One of your own is named by "
        'its address, "package.module:function".'
    )


def _check(name: str, factory: Callable[..., nn.Module], given: Mapping[str, object]) -> dict[str, object]:
    """The given parameters, each known and of the right kind."""
    own = {p.name: p.default for p in inspect.signature(factory).parameters.values() if p.kind is p.KEYWORD_ONLY}
    listed = "Its parameters: " + (", ".join(f"{key}={default!r}" for key, default in own.items()) or "none") + "."
    for key in given:
        if key not in own:
            raise ParameterError(f"{name} has no parameter {key!r}. {listed}")
    hints = typing.get_type_hints(factory)
    return {
        key: Parameter(key, own[key], hints.get(key, object), listed).check(value, name) for key, value in given.items()
    }
