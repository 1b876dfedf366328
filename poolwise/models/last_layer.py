"""The last linear layer of a network, and what goes into it."""

import threading
from typing import Any

import torch
from torch import Tensor, nn

from poolwise.errors import ParameterError
from poolwise.models.inputs import NetworkInputs, call


def penultimate(network: nn.Module, inputs: NetworkInputs) -> tuple[Any, Tensor, nn.Linear]:
    """A network's output, `[n, D]` what goes into its last linear layer, and that layer.

    The last layer is the attribute `head` if it is linear, else the linear layer that is called last.

    Args:
        network: the network, in the mode it is to be called in.
        inputs: a batch as the network takes it.

    Example:
        >>> import torch
        >>> from poolwise import models
        >>> network = models.mlp((4,), 3, hidden=(5,)).eval()
        >>> output, features, layer = models.penultimate(network, torch.zeros(2, 4))
        >>> features.shape, layer is network.head
        (torch.Size([2, 5]), True)
    """
    head = getattr(network, "head", None)
    layers = [head] if isinstance(head, nn.Linear) else [m for m in network.modules() if isinstance(m, nn.Linear)]
    seen: list[tuple[nn.Linear, Tensor]] = []
    caller = threading.get_ident()

    def keep(layer: nn.Module, arguments: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        if threading.get_ident() == caller and isinstance(layer, nn.Linear):
            seen[:] = [(layer, arguments[0] if arguments else named["input"])]

    handles = [layer.register_forward_pre_hook(keep, with_kwargs=True) for layer in layers]
    try:
        with torch.no_grad():
            output = call(network, inputs)
    finally:
        for handle in handles:
            handle.remove()
    if not seen:
        raise ParameterError(
            f"{type(network).__name__} calls no linear layer, so it has no embeddings. Methods that need embeddings "
            "want a network that ends in nn.Linear."
        )
    layer, features = seen[0]
    return output, features.flatten(1), layer
