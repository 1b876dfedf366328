"""Initial weights that depend on a seed and on nothing else."""

import threading
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from poolwise.models.randomness import seeded
from poolwise.seeding import child_seed

Module = TypeVar("Module", bound=nn.Module)

_WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)

_global_state = threading.Lock()


def glorot_(module: Module, generator: torch.Generator) -> Module:
    """Redraw the weights of all linear layers and convolutions and set their biases to zero, in place.

    Weights are uniform between ±√(6 / (fan-in + fan-out)) (Glorot and Bengio 2010). Other layers, such as batch
    normalisation, are left unchanged. The numbers depend neither on the memory layout nor on the device.

    Args:
        module: the network.
        generator: where the numbers come from; the global random state is not touched.
    Returns:
        The module.

    Example:
        >>> import torch
        >>> from poolwise import models
        >>> network = models.glorot_(torch.nn.Linear(4, 3), torch.Generator().manual_seed(0))
        >>> bool(network.weight.abs().max() <= (6 / 7) ** 0.5), network.bias.tolist()
        (True, [0.0, 0.0, 0.0])
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
    """Make a network whose initial weights depend on the seed only.

    PyTorch's layers draw their weights from its global random state. During the call that state is set from the seed;
    then it is put back. Calls from several threads wait for each other. But if another thread draws from the global
    state meanwhile, the weights change.

    Args:
        make_model: a function without arguments that makes the network, on the CPU.
        seed: root seed, a whole number of at least 0.

    Example:
        >>> import torch
        >>> from poolwise import models
        >>> first, second = (models.build(lambda: torch.nn.Linear(4, 3), seed=1) for _ in range(2))
        >>> torch.equal(first.weight, second.weight)
        True
    """
    with _global_state, seeded(child_seed(seed, "initial weights")):
        return make_model()
