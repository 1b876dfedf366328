"""Several networks that are the same plain sequence of layers, run at once without `torch.func.vmap`.

A step of such networks is mostly overhead, and most of the overhead is that of `vmap`.
"""

from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from poolwise.models.dropout import apply

_KNOWN = (nn.Linear, nn.Flatten, nn.Dropout, nn.Identity, nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU)


def plain_sequence(network: nn.Module) -> dict[str, nn.Module] | None:
    """The layers of a network that does nothing but call them in turn, by name; None for other networks.

    What might do more than it seems to is not taken: a subclass, a hook, a layer that writes over its input, or one
    that shares its weights.
    """
    if type(network) is not nn.Sequential:
        return None
    layers = dict(zip(network._modules, network, strict=True))  # named_children() leaves out what comes twice
    weights = [id(weight) for layer in layers.values() for weight in layer.parameters()]
    shared = len(set(weights)) < len(weights)
    known = all(type(layer) in _KNOWN for layer in layers.values())
    return layers if known and not shared and not any(map(_does_more, (network, *layers.values()))) else None


def _does_more(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module) or bool(getattr(module, "inplace", False))


def run(
    layers: Mapping[str, nn.Module], weights: Mapping[str, Tensor], x_M_B: Tensor, masks: Iterable[Tensor]
) -> Tensor:
    """`[M, B, ...]` outputs of M networks.

    Args:
        layers: what `plain_sequence` gave.
        weights: the weights of all networks by name, stacked.
        x_M_B: `[M, B, ...]` inputs.
        masks: what each dropout layer that drops anything keeps, in order; none to drop nothing.
    """
    left: Iterator[Tensor] = iter(masks)
    for name, layer in layers.items():
        if isinstance(layer, nn.Linear):
            x_M_B = _linear(weights[f"{name}.weight"], weights.get(f"{name}.bias"), x_M_B)
        elif isinstance(layer, nn.Flatten):
            start, end = (axis + 1 if axis >= 0 else axis for axis in (layer.start_dim, layer.end_dim))
            x_M_B = x_M_B.flatten(start, end)
        elif isinstance(layer, nn.Dropout):
            kept = next(left, None) if layer.p > 0 else None
            x_M_B = x_M_B if kept is None else apply(kept, x_M_B, layer)
        else:
            x_M_B = layer(x_M_B)
    return x_M_B


def _linear(weight_M_O_F: Tensor, bias_M_O: Tensor | None, x_M_B: Tensor) -> Tensor:
    rows_M_n_F = x_M_B.flatten(1, -2)
    if bias_M_O is None:
        sums_M_n_O = torch.bmm(rows_M_n_F, weight_M_O_F.mT)
    else:
        sums_M_n_O = torch.baddbmm(bias_M_O[:, None], rows_M_n_F, weight_M_O_F.mT)
    return sums_M_n_O.view(*x_M_B.shape[:-1], -1)
