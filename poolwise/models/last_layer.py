"""The last linear layer of a network, and what goes into it."""

import threading
from typing import Any

import torch
from torch import Tensor, nn

from poolwise.errors import ParameterError
from poolwise.models.inputs import NetworkInputs, call


def penultimate(network: nn.Module, inputs: NetworkInputs) -> tuple[Any, Tensor, nn.Linear]:
    """Call a network, and also return what goes into its last linear layer.

    The last layer is the attribute `head` if that is linear, else the linear layer that is called last.

    Args:
        network: the network, in training or evaluation mode as you need it.
        inputs: a batch as the network takes it.
    Returns:
        The output; `[n, D]` what goes into the last layer; and that layer.

    Example:
        >>> import torch
        >>> from poolwise import models
        >>> network = models.mlp((4,), 3, hidden=(5,)).eval()
        >>> output, features, layer = models.penultimate(network, torch.zeros(2, 4))
        >>> features.shape, layer is network.head
        (torch.Size([2, 5]), True)
    """
    with LastLayer(network) as last:
        return last(inputs)


class LastLayer:
    """Calls a network, from any number of threads, and sees what goes into its last linear layer.

    Hooks are put on the network once, for the length of a `with` block: to add or to remove one while another thread
    calls the network is not safe.

    Args:
        network: the network.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._here = threading.local()  # `seen`: the layer that was called last in this thread, and its input

    def __enter__(self) -> "LastLayer":
        head = getattr(self._network, "head", None)
        layers = (
            [head] if isinstance(head, nn.Linear) else [m for m in self._network.modules() if isinstance(m, nn.Linear)]
        )
        self._handles = [layer.register_forward_pre_hook(self._note, with_kwargs=True) for layer in layers]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()

    def __call__(self, inputs: NetworkInputs) -> tuple[Any, Tensor, nn.Linear]:
        """The output, `[n, D]` what goes into the last linear layer, and that layer."""
        self._here.seen = None
        with torch.no_grad():
            output = call(self._network, inputs)
        if self._here.seen is None:
            raise ParameterError(
                f"{type(self._network).__name__} calls no linear layer, so it has no embeddings. Methods that need "
                "embeddings want a network that ends in nn.Linear."
            )
        layer, features = self._here.seen
        self._here.seen = None
        return output, features.flatten(1), layer

    def _note(self, layer: nn.Module, arguments: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        self._here.seen = layer, arguments[0] if arguments else named["input"]
