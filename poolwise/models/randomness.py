"""PyTorch's random state, set for a while and put back, on the devices that are used and on no other."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_CPU = torch.device("cpu")


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Set the random state of the CPU, and of `device` if it is another, from a seed; put both back at the end.

    No other device is seeded, read or initialised; `torch.manual_seed` would seed all of them.

    Untried on a GPU: the tests use a stand-in for one.

    Args:
        seed: what to seed with.
        device: the device that the work inside runs on.
    """
    module = _random_module(device)
    which = () if device.type == "mps" else (device,)  # there is one MPS device, and its functions take no number
    cpu_state = torch.default_generator.get_state()
    device_state = None if module is None else module.get_rng_state(*which)
    torch.default_generator.manual_seed(seed)
    if module is not None:
        _seed(module, device, seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(cpu_state)
        if module is not None:
            module.set_rng_state(device_state, *which)


def _random_module(device: torch.device) -> Any:
    """The module with the random state of a device (`torch.cuda`, `torch.mps`, ...), None for the CPU and `meta`."""
    module = getattr(torch, device.type, None)
    return None if device.type in ("cpu", "meta") or not hasattr(module, "get_rng_state") else module


def _seed(module: Any, device: torch.device, seed: int) -> None:
    if device.type == "mps":
        module.manual_seed(seed)
        return
    with module.device(device):  # `manual_seed` of these modules seeds the current device
        module.manual_seed(seed)
