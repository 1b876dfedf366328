"""Dropout under control: the masks of any module's dropout layers come from outside; the module itself is unchanged.

Hooks on the layers do it. Nothing of the user's module is replaced, and all is as before when the context ends.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_ELEMENTS = (nn.Dropout, nn.AlphaDropout)
_CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_ALPHA = (nn.AlphaDropout, nn.FeatureAlphaDropout)

# The value that alpha dropout puts in place of a dropped unit: the limit of SELU at minus infinity.
_ALPHA_DROPPED = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


@dataclass(frozen=True)
class Call:
    """One call of a dropout layer in a forward pass.

    Attributes:
        layer: the layer's name in the module.
        number: how many calls this layer had before, in the same pass.
        shape: shape of a mask for one example: the layer's input without its first axis, or `[channels, 1, ...]` for
            the layers that drop whole channels.
        rate: probability of being dropped.
    """

    layer: str
    number: int
    shape: tuple[int, ...]
    rate: float


Draw = Callable[[Call, int], Tensor | None]
"""From a call and the number of examples to `[n or 1, *shape]`, 1 where a unit is kept, 0 where it is dropped.

None drops nothing.
"""


Layer = nn.Dropout | nn.AlphaDropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d | nn.FeatureAlphaDropout


def dropout_layers(module: nn.Module) -> dict[str, Layer]:
    """The dropout layers of a module that drop anything, by name."""
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, _ELEMENTS + _CHANNELS)}
    return {name: layer for name, layer in layers.items() if layer.p > 0}


@contextmanager
def controlled(module: nn.Module, draw: Draw) -> Iterator[None]:
    """Let `draw` say what the dropout layers drop, whatever mode they are in; at the end all is as before.

    A forward pass must begin with a call of the module itself.
    """
    layers = dropout_layers(module)
    modes = {layer: layer.training for layer in layers.values()}
    here = threading.local()  # .calls: how often each layer was called in this pass; passes may run on several threads

    def begin(*_: object) -> None:
        here.calls = {}

    handles = [module.register_forward_pre_hook(begin)]

    def attach(name: str, layer: Layer) -> None:
        def drop(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            x = inputs[0] if inputs else output  # called by keyword, only the output is known, which is the same
            shape = tuple(x.shape[1:]) if isinstance(layer, _ELEMENTS) else (x.shape[1], *[1] * (x.ndim - 2))
            call = Call(name, here.calls.get(name, 0), shape, layer.p)
            here.calls[name] = call.number + 1
            kept = draw(call, len(x))
            return x if kept is None else apply(kept, x, layer)

        handles.append(layer.register_forward_hook(drop))
        layer.eval()  # the layer itself passes its input through

    try:
        for name, layer in layers.items():
            attach(name, layer)
        yield
    finally:
        for handle in handles:
            handle.remove()
        for layer, mode in modes.items():
            layer.training = mode


def apply(kept: Tensor, x: Tensor, layer: Layer) -> Tensor:
    """Drop, and rescale so that the mean (for alpha dropout mean and variance) stays what it was."""
    rate = layer.p
    if isinstance(layer, _ALPHA):
        if rate == 1:
            return torch.zeros_like(x)
        scale = 1 / math.sqrt((1 - rate) * (1 + rate * _ALPHA_DROPPED**2))
        return (x * kept + _ALPHA_DROPPED * (1 - kept)) * scale - scale * rate * _ALPHA_DROPPED
    return x * (kept / (1 - rate)) if rate < 1 else torch.zeros_like(x)
