"""Which device networks run on."""

import torch

from poolwise.errors import ParameterError


def choose_device(device: str | torch.device) -> torch.device:
    """A device that is there; `"auto"` is the GPU if there is one, else the CPU.

    Args:
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"`, ... or a `torch.device`.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ParameterError(
            f'device must be "auto", "cpu", "cuda" or "cuda:0", or a torch.device, not {device!r}.'
        ) from error
    if chosen.type in ("cpu", "meta"):
        return chosen
    module = getattr(torch, chosen.type, None)
    if module is None or not module.is_available():
        raise ParameterError(
            f'device="{chosen}" was asked for, but PyTorch finds no such device here. Use device="cpu" or "auto", or '
            f"install a PyTorch that was built for {chosen.type} and check the driver."
        )
    count = module.device_count()
    if chosen.index is not None and chosen.index >= count:
        raise ParameterError(f'device="{chosen}" was asked for, but there are {count}, counted from {chosen.type}:0.')
    return chosen
