"""Initial weights that depend on a seed and on nothing else."""

import threading
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from poolwise.seeding import child_seed

Module = TypeVar("Module", bound=nn.Module)

_WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)

_global_state = threading.Lock()


def glorot_(module: Module, generator: torch.Generator) -> Module:
    """Draw the weights of all linear layers and convolutions anew and set their biases to zero, in place.

    Weights are uniform between ±√(6 / (fan-in + fan-out)) (Glorot and Bengio 2010). Other layers, such as batch
    normalisation, are left as they are. What is drawn does not depend on the memory layout of the weights, nor on the
    device they are on.

    Args:
        module: the network.
        generator: where the numbers come from; the global random state is not touched.
    Returns:
        The module.
    """
    for layer in module.modules():
        if isinstance(layer, _WEIGHTED):
            drawn = torch.empty(layer.weight.shape, device=generator.device)
            nn.init.xavier_uniform_(drawn, generator=generator)
            with torch.no_grad():
                layer.weight.copy_(drawn)
                if layer.bias is not None:
                    layer.bias.zero_()
    return module


def build(make_model: Callable[[], Module], seed: int) -> Module:
    """A new network whose initial weights depend on the seed only.

    PyTorch's layers draw their weights from its global random state. For the time of the call that state is set from
    the seed; then it is put back. Calls wait for each other, so networks can be built from several threads; what other
    threads draw from the global state meanwhile cannot be kept out.

    Args:
        make_model: makes the network, on the CPU.
        seed: root seed, a whole number of at least 0.
    """
    state = child_seed(seed, "initial weights")
    with _global_state, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(state)
        return make_model()
