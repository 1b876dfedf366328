"""What networks are called with: a tensor, named tensors (as Hugging Face models take them), or several tensors."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from poolwise.errors import ParameterError
from poolwise.models.modes import evaluating

NetworkInputs = Tensor | dict[str, Tensor] | tuple[Tensor, ...]
"""A batch as a network is called with it: `network(x)`, `network(**named)` or `network(*several)`."""


def network_inputs(batch: object) -> NetworkInputs:
    """A batch that a network can take, or an error for texts and other objects."""
    if isinstance(batch, Tensor):
        return batch
    if isinstance(batch, Mapping) and batch and all(isinstance(value, Tensor) for value in batch.values()):
        return dict(batch)
    if isinstance(batch, tuple | list) and batch and all(isinstance(value, Tensor) for value in batch):
        return tuple(batch)
    if isinstance(batch, list) and all(isinstance(item, str) for item in batch):
        raise ParameterError(
            "a network needs numbers, and these examples are texts. Encode them first (poolwise.data.encoding.encode) "
            "and pass the [N, D] embeddings; or make tokens of them (poolwise.data.tokens.tokenise) for the model "
            "transformer; or use a Committee of scikit-learn pipelines that begin with a vectoriser."
        )
    raise ParameterError(
        f"a network needs tensors, and a batch of these examples is a {type(batch).__name__}. Let the data set return "
        "a tensor or a dictionary of tensors for each example, or a pair of that and the label."
    )


def rows(inputs: NetworkInputs) -> int:
    """How many examples are in a batch."""
    if isinstance(inputs, Tensor):
        return len(inputs)
    return len(next(iter(inputs.values() if isinstance(inputs, dict) else inputs)))


def each(change: Callable[[Tensor], Tensor], inputs: NetworkInputs) -> NetworkInputs:
    """The same inputs with every tensor changed."""
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, dict):
        return {name: change(value) for name, value in inputs.items()}
    return tuple(change(value) for value in inputs)


def cloned(inputs: NetworkInputs) -> NetworkInputs:
    """A copy, for a network that may write over its inputs."""
    return each(Tensor.clone, inputs)


def layout(inputs: NetworkInputs) -> NetworkInputs:
    """Images in channels-last order in memory, where convolutions and pooling are several times faster on a CPU."""
    if isinstance(inputs, Tensor) and inputs.ndim == 4:
        return inputs.contiguous(memory_format=torch.channels_last)
    return inputs


def call(network: nn.Module, inputs: NetworkInputs) -> Any:
    """What a network returns, whatever that is."""
    if isinstance(inputs, Tensor):
        return network(inputs)
    if isinstance(inputs, tuple):
        return network(*inputs)
    taken = _taken(network, inputs)
    return network(taken) if isinstance(taken, Tensor) else network(**taken)


def _taken(network: nn.Module, named: dict[str, Tensor]) -> dict[str, Tensor] | Tensor:
    """Of named inputs, those that the network has parameters for; an only one may have any name."""
    try:
        signature = inspect.signature(network.forward)
    except (TypeError, ValueError):  # a compiled network may not say what it takes
        return named
    parameters = signature.parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return named
    known = {name: value for name, value in named.items() if name in signature.parameters}
    if not known and len(named) == 1:
        return next(iter(named.values()))
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if not known or not set(needed) <= set(known):
        raise ParameterError(
            f"{type(network).__name__} takes {', '.join(signature.parameters)}, and the examples have "
            f"{', '.join(named)}. The names must be the same."
        )
    return known


@dataclass(frozen=True)
class Reading:
    """How batches become the inputs of a network.

    Attributes:
        device: where the network is.
        dtype: the type of its weights; floating-point inputs are converted to it.
        ids: whether whole numbers are ids (of tokens, say), which stay whole, or quantities.
    """

    device: torch.device
    dtype: torch.dtype
    ids: bool

    @classmethod
    def of(cls, network: nn.Module, batch: object) -> "Reading":
        """How a network takes batches like this one.

        Whole numbers in one tensor are ids if the network has an embedding layer. Otherwise they are tried as
        floating-point numbers, and are ids if the network does not take those. Named tensors keep their types.
        """
        weight = next((p for p in network.parameters() if p.is_floating_point()), torch.empty(0))
        device = next((p.device for p in network.parameters()), weight.device)
        quantities, inputs = cls(device, weight.dtype, False), network_inputs(batch)
        if not isinstance(inputs, Tensor) or inputs.is_floating_point() or inputs.dtype == torch.bool:
            return quantities
        ids = any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in network.modules())
        return cls(device, weight.dtype, True) if ids or not _takes(network, quantities(inputs)) else quantities

    def __call__(self, batch: object) -> NetworkInputs:
        """The batch as the network takes it."""
        inputs = network_inputs(batch)
        whole = self.ids or not isinstance(inputs, Tensor)

        def convert(value: Tensor) -> Tensor:
            if value.is_floating_point() or not whole:
                return value.to(self.device, self.dtype)
            return value.to(self.device, torch.int64 if self.ids else value.dtype)

        return layout(each(convert, inputs))


def _takes(network: nn.Module, inputs: NetworkInputs) -> bool:
    with evaluating(network), torch.no_grad():
        try:
            call(network, inputs)
        except Exception:  # whatever a network's own code raises for numbers of a type that it does not take
            return False
    return True
