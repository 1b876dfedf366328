"""Networks from files, whichever way PyTorch saved them."""

import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from poolwise.errors import FileError, ParameterError


def read_network(path: str | Path) -> nn.Module:
    """A network saved whole by `torch.save`, by `torch.jit.save`, or by `torch.export.save` (`.pt2`).

    Loading runs code that is in the file: only load what you trust.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file. Expected a network.")
    if path.suffix == ".pt2" and not zipfile.is_zipfile(path):
        raise FileError(f"{path}: not a file that torch.export.save wrote. It may be truncated; save it again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's advice on formats does not help whoever was given the file
            if path.suffix == ".pt2":
                found: object = ExportedNetwork(torch.export.load(path))
            else:
                found = torch.load(path, map_location="cpu", weights_only=False)
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
    except Exception as error:  # a damaged or foreign file makes PyTorch raise anything
        reason = str(error).split("\n")[0]
        raise FileError(
            f"{path}: cannot be loaded as a network ({type(error).__name__}: {reason}). Its classes must be importable "
            "here; torch.export.save and torch.jit.save need none."
        ) from error
    if not isinstance(found, nn.Module):
        raise FileError(
            f"{path}: this is a {type(found).__name__}, not a network. Save the whole network, with "
            "torch.save(network, path), not its weights alone."
        )
    return found


class ExportedNetwork(nn.Module):
    """An exported program, which has one mode only."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        for node in program.graph.nodes:
            if "dropout" in str(node.target) and True in node.args:
                raise FileError("it was exported in training mode. Call network.eval() before torch.export.export.")
        self.program = program.module()

    def forward(self, inputs: torch.Tensor) -> Any:
        """The outputs of the program."""
        try:
            return self.program(inputs)
        except AssertionError as error:  # it was exported for inputs of one shape
            raise ParameterError(
                f"the exported network does not take inputs {list(inputs.shape)} ({error}). Export it for any number "
                "of examples, with dynamic_shapes."
            ) from error

    def train(self, mode: bool = True) -> "ExportedNetwork":
        """Only note the mode: the program has one."""
        self.training = mode
        return self
