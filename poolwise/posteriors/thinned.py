"""MC dropout by smaller networks: dropped units are left out of the layers, not computed and multiplied by zero.

With half of the channels dropped, a convolution between two dropout layers takes a quarter of the arithmetic. The
result is that of `ConsistentDropout` with the same masks, up to rounding. It needs a plain sequence of layers, and only
functions between a layer and its dropout that pass zeros and positive factors through, as ReLU and max-pooling do.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poolwise.models.dropout import Call
from poolwise.posteriors.consistent import Masks

_PASSING = (nn.ReLU, nn.MaxPool2d, nn.Identity)
_WEIGHTED = (nn.Conv2d, nn.Linear)
_DROPPING = (nn.Dropout, nn.Dropout2d)


def can_be_thinned(network: nn.Module, rank: int) -> bool:
    """Whether a network is a plain sequence of layers that this file knows, with dropout of whole channels or features.

    Args:
        network: the network.
        rank: how many axes its inputs have, examples included.
    """
    if type(network) is not nn.Sequential or rank not in (2, 4):
        return False
    if network._forward_hooks or network._forward_pre_hooks:
        return False
    flat = rank == 2  # whether what arrives at a layer is [n, features]
    for layer in network:
        if layer._forward_hooks or layer._forward_pre_hooks:
            return False
        match layer:
            case nn.Flatten():
                known = (layer.start_dim, layer.end_dim) == (1, -1)
                flat = True
            case nn.Conv2d():
                known = not flat and layer.groups == 1 and layer.padding_mode == "zeros"
            case nn.MaxPool2d() | nn.Dropout2d():
                known = not flat
            case nn.Linear() | nn.Dropout():
                known = flat
            case _:
                known = isinstance(layer, _PASSING)
        if not known or type(layer) not in (*_PASSING, *_WEIGHTED, *_DROPPING, nn.Flatten):
            return False
    dropping = [id(layer) for layer in network if isinstance(layer, _DROPPING) and layer.p > 0]
    return len(dropping) == len(set(dropping)) > 0  # a layer that stands there twice has masks by the call


class ThinnedDropout:
    """The samples of a network that `can_be_thinned`.

    Args:
        network: the network.
        seed: where the masks come from.
    """

    def __init__(self, network: nn.Module, seed: int) -> None:
        self._masks = Masks(seed)
        named = network.named_modules(remove_duplicate=False)  # the network itself comes first, and has no name
        layers = [(name, layer) for name, layer in named if name and getattr(layer, "p", 1) > 0]
        first = next(i for i, (_, layer) in enumerate(layers) if isinstance(layer, _DROPPING))
        self._shared = [layer for _, layer in layers[:first]]
        self._layers = layers[first:]

    def samples(self, inputs: Tensor, count: int) -> Iterator[Tensor]:
        """The network's output for the same inputs under the masks of sample 0, 1, ..., count - 1."""
        with torch.no_grad():
            shared = inputs
            for layer in self._shared:
                shared = layer(shared)
        for sample in range(count):
            with torch.no_grad():
                output = self._run(shared, sample)
            yield output

    def _run(self, x: Tensor, sample: int) -> Tensor:
        units = x.shape[1]  # of the whole network, at the layer that is reached
        kept = torch.arange(units)  # which of them are in x
        scale = 1.0  # what x is still to be multiplied by
        left_out: str | None = None  # the dropout layer whose units were left out before it is reached
        for position, (name, layer) in enumerate(self._layers):
            if isinstance(layer, _DROPPING):
                survivors = self._mask(name, layer, units, sample)[kept].nonzero().flatten()
                # Where a sample keeps nothing, one unit is kept and counts zero.
                scale *= 1 / (1 - layer.p) if len(survivors) and layer.p < 1 else 0.0
                if name != left_out:
                    survivors = survivors if len(survivors) else torch.zeros(1, dtype=torch.int64)
                    x, kept = x.index_select(1, survivors.to(x.device)), kept[survivors]
            elif isinstance(layer, _WEIGHTED):
                columns, units = kept, layer.weight.shape[0]
                kept, left_out = self._needed(position, units, sample)
                x, scale = _apply(layer, x, columns, kept, scale), 1.0
            elif isinstance(layer, nn.Flatten):
                area = x[0, 0].numel()
                units, kept = units * area, (kept[:, None] * area + torch.arange(area)).flatten()
                x = x.flatten(1)
            else:
                x = layer(x)
        if len(kept) == units and scale == 1:
            return x
        whole = x.new_zeros(len(x), units)
        whole[:, kept.to(x.device)] = x * scale
        return whole

    def _needed(self, position: int, units: int, sample: int) -> tuple[Tensor, str | None]:
        """Which outputs of a layer survive the dropout before they are mixed again, and the name of that dropout."""
        for name, layer in self._layers[position + 1 :]:
            if isinstance(layer, _DROPPING):
                kept = self._mask(name, layer, units, sample).nonzero().flatten()
                return kept if len(kept) else torch.zeros(1, dtype=torch.int64), name
            if not isinstance(layer, _PASSING):  # flattened, a channel becomes several features
                break
        return torch.arange(units), None

    def _mask(self, name: str, layer: nn.Dropout | nn.Dropout2d, units: int, sample: int) -> Tensor:
        shape = (units, 1, 1) if isinstance(layer, nn.Dropout2d) else (units,)
        return self._masks.draw(Call(name, 0, shape, layer.p), sample).flatten()


def _apply(layer: nn.Conv2d | nn.Linear, x: Tensor, columns: Tensor, rows: Tensor, factor: float) -> Tensor:
    """A layer with only some of its inputs and outputs; its inputs are still to be multiplied by the factor."""
    weight, bias = layer.weight, layer.bias
    if len(rows) < len(weight):
        rows = rows.to(weight.device)
        weight = weight.index_select(0, rows)
        bias = None if bias is None else bias.index_select(0, rows)
    if len(columns) < weight.shape[1]:
        weight = weight.index_select(1, columns.to(weight.device))
    if factor != 1:
        weight = weight * factor
    if isinstance(layer, nn.Linear):
        return F.linear(x, weight, bias)
    weight = weight.contiguous(memory_format=torch.channels_last)
    x = x.contiguous(memory_format=torch.channels_last)
    return F.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation)
