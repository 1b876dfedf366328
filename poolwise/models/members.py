"""Networks while they train: one of them, or several of one architecture as one."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from poolwise.data.examples import Examples
from poolwise.errors import ParameterError
from poolwise.models.dropout import Call, controlled
from poolwise.models.inputs import NetworkInputs, Reading, call, each, layout, rows
from poolwise.models.modes import evaluating
from poolwise.models.outputs import Outputs, as_logits, raw_tensor
from poolwise.models.sequence import plain_sequence, run
from poolwise.seeding import torch_generator


def can_be_stacked(networks: Sequence[nn.Module], data: Examples) -> bool:
    """Whether networks of one architecture train faster as one: dense layers only, whose steps are mostly overhead.

    Convolutions are as fast one after another, and normalisation by the batch cannot be stacked. A try on one example
    tells whether everything else that the network does can be.
    """
    plain = (nn.Linear, nn.Flatten, nn.Identity, nn.LayerNorm, nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU, nn.Dropout)
    leaves = [module for module in networks[0].modules() if next(module.children(), None) is None]
    buffers = next(networks[0].buffers(), None) is not None
    if not leaves or buffers or not all(isinstance(leaf, plain) for leaf in leaves) or not len(data):
        return False
    batch = data.batch(np.arange(1))
    inputs = Reading.of(networks[0], batch)(batch)
    if not isinstance(inputs, Tensor):
        return False
    for network in networks:
        network.train()
    stack = Stack(networks)
    stack.seed([torch_generator(0) for _ in networks])
    with torch.no_grad(), controlled(networks[0], stack.draw):
        try:
            stack.logits(inputs.expand(len(networks), *inputs.shape).clone())
        except Exception:  # whatever a network's own code raises: numbers that decide, randomness, ...
            return False
    return True


class Single:
    """One network as a stack of one.

    Args:
        network: the network.
        outputs: what it returns.
    """

    def __init__(self, network: nn.Module, outputs: Outputs = "auto") -> None:
        self.count, self._network, self._outputs = 1, network, outputs
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        first = next(network.parameters(), torch.empty(0))
        self.device = first.device
        self._generators: Sequence[torch.Generator] = ()

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Training mode inside, evaluation mode after; dropout masks from the networks' own generators."""
        self._network.train()
        try:
            with controlled(self._network, self._draw):
                yield
        finally:
            self._network.eval()

    def seed(self, generators: Sequence[torch.Generator]) -> None:
        """Where dropout masks come from."""
        self._generators = generators

    def _draw(self, call: Call, rows: int) -> Tensor | None:
        if not self._network.training:
            return None
        return keep(call, rows, self._generators[0]).to(self.device)

    def logits(self, inputs_M_B: NetworkInputs) -> Tensor:
        """`[1, B, C]` logits in training mode."""
        return self._logits(each(lambda value: value[0], inputs_M_B))

    def evaluate(self, inputs_B: NetworkInputs) -> Tensor:
        """`[1, B, C]` logits in evaluation mode."""
        with evaluating(self._network), torch.no_grad():
            return self._logits(inputs_B)

    def _logits(self, inputs_B: NetworkInputs) -> Tensor:
        return as_logits(call(self._network, layout(inputs_B)), rows(inputs_B), self._outputs)[None]

    def snapshot(self, member: int) -> dict[str, Tensor]:
        """A copy of the weights."""
        return {name: value.detach().clone() for name, value in self._network.state_dict().items()}

    def restore(self, snapshots: Sequence[dict[str, Tensor] | None]) -> None:
        """Put the weights back, where a copy is given."""
        if snapshots[0] is not None:
            self._network.load_state_dict(snapshots[0])


class Stack:
    """Several networks of one architecture, their weights stacked, run as one: by `torch.func.vmap`, or layer by layer.

    Args:
        networks: the networks.
        outputs: what they return.
    """

    def __init__(self, networks: Sequence[nn.Module], outputs: Outputs = "auto") -> None:
        self.count, self._networks, self._network = len(networks), networks, networks[0]
        self._outputs = outputs
        if any(True for _ in self._network.buffers()):
            raise ParameterError("networks with buffers (such as batch normalisation) cannot be trained at once.")
        self._stacked: dict[str, Any] = stack_module_state(list(networks))[0]
        self.parameters = [p for p in self._stacked.values() if p.requires_grad]
        self.device = self.parameters[0].device
        self._layers = plain_sequence(self._network)
        self._generators: Sequence[torch.Generator] = ()
        self._calls: list[Call] | None = None
        self._masks: Iterator[Tensor] = iter(())
        self._mode: Literal["listing", "dropping", "off"] = "off"

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Training mode inside; after, every network has its own weights and is in evaluation mode."""
        for network in self._networks:
            network.train()
        try:
            with controlled(self._network, self.draw):
                yield
        finally:
            for member, network in enumerate(self._networks):
                network.load_state_dict(self.snapshot(member))
                network.eval()

    def seed(self, generators: Sequence[torch.Generator]) -> None:
        """Where dropout masks come from, one generator per network."""
        self._generators = generators

    def draw(self, call: Call, rows: int) -> Tensor | None:
        """The next mask of all networks."""
        if self._mode == "listing" and self._calls is not None:
            self._calls.append(call)
        return next(self._masks) if self._mode == "dropping" else None

    def _run(self, mode: Literal["listing", "dropping", "off"], function: Callable[[], Tensor]) -> Tensor:
        self._mode = mode
        try:
            return function()
        finally:
            self._mode = "off"

    def logits(self, inputs_M_B: NetworkInputs) -> Tensor:
        """`[M, B, C]` logits in training mode, each network on its own inputs."""
        if not isinstance(inputs_M_B, Tensor):
            raise ParameterError("networks that take several tensors cannot be trained at once.")
        if self._calls is None:  # a first pass tells which layers drop, and in which order
            self._calls = []
            with torch.no_grad():
                self._run("listing", lambda: raw_tensor(self._network(inputs_M_B[0, :1].clone()), 1))
        count = inputs_M_B.shape[1]
        masks = [
            torch.stack([keep(call, count, generator) for generator in self._generators]).to(self.device)
            for call in self._calls
        ]
        if self._layers is not None:
            return self._each(run(self._layers, self._stacked, inputs_M_B, masks))

        def forward(weights: dict[str, Tensor], inputs_B: Tensor, masks: list[Tensor]) -> Tensor:
            self._masks = iter(masks)
            return raw_tensor(functional_call(self._network, weights, (inputs_B,)), count)

        return self._each(self._run("dropping", lambda: vmap(forward)(self._stacked, inputs_M_B, masks)))

    def evaluate(self, inputs_B: NetworkInputs) -> Tensor:
        """`[M, B, C]` logits in evaluation mode, all networks on the same inputs."""

        def forward(weights: dict[str, Tensor]) -> Tensor:
            return raw_tensor(functional_call(self._network, weights, (inputs_B,)), rows(inputs_B))

        with evaluating(self._network), torch.no_grad():
            if self._layers is not None and isinstance(inputs_B, Tensor):
                return self._each(run(self._layers, self._stacked, inputs_B.expand(self.count, *inputs_B.shape), ()))
            return self._each(vmap(forward)(self._stacked))

    def _each(self, raw_M_B: Tensor) -> Tensor:
        logits = as_logits(raw_M_B.flatten(0, 1), raw_M_B.shape[0] * raw_M_B.shape[1], self._outputs)
        return logits.view(*raw_M_B.shape[:2], -1)

    def snapshot(self, member: int) -> dict[str, Tensor]:
        """A copy of one network's weights."""
        return {name: value[member].detach().clone() for name, value in self._stacked.items()}

    def restore(self, snapshots: Sequence[dict[str, Tensor] | None]) -> None:
        """Put weights back, where a copy is given."""
        with torch.no_grad():
            for member, snapshot in enumerate(snapshots):
                for name, value in (snapshot or {}).items():
                    self._stacked[name][member] = value


def keep(call: Call, rows: int, generator: torch.Generator) -> Tensor:
    """`[rows, ...]` zeros and ones, zeros with the layer's rate.

    Masks of images are channels-last in memory, as the activations are: another layout makes every product slow. They
    are random integers below a threshold, several from one 64-bit word, since random fractions take five times as long.
    The integers have 16 bits if the rate is a multiple of 2⁻¹⁶, and 32 otherwise.
    """
    height_first = (*call.shape[1:], call.shape[0]) if len(call.shape) == 3 else call.shape
    integers, bits = (torch.int16, 16) if (call.rate * 2**16).is_integer() else (torch.int32, 32)
    count = rows * math.prod(height_first)
    words = torch.empty(-(-count * bits // 64), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    lowest_kept = call.rate * 2**bits - 2 ** (bits - 1)
    kept = words.view(integers)[:count].float().ge_(lowest_kept).view(rows, *height_first)
    return kept.movedim(-1, 1) if len(call.shape) == 3 else kept
