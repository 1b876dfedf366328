"""Consistent dropout: sample k drops the same units for every example (Gal & Ghahramani 2016; Kirsch et al. 2019).

Its prediction of an example then depends on nothing else: not on the batch the example is in, nor on its place there.
Joint informations of two examples have no meaning otherwise.

Everything before the first dropout layer is the same for all samples, and is computed once. A `TorchFunctionMode` sees
every operation of a forward pass. The first sample's pass notes the results up to the first dropout layer, and the
passes of the other samples get those results instead of computing them. This works for any module, whatever its
`forward` does, without tracing.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from poolwise.errors import ParameterError
from poolwise.models.dropout import Call, controlled, dropout_layers
from poolwise.models.inputs import NetworkInputs, call, cloned, rows
from poolwise.models.modes import evaluating
from poolwise.seeding import stream

# Masks kept between chunks of a pool (bytes); those that do not fit are drawn again, with the same result.
_MASKS = 1 << 26

_FUNCTIONAL: frozenset[Callable[..., Any]] = frozenset(
    {
        F.dropout,
        F.dropout1d,
        F.dropout2d,
        F.dropout3d,
        F.alpha_dropout,
        F.feature_alpha_dropout,
        torch.dropout,
        torch.alpha_dropout,
        torch.feature_dropout,
        torch.feature_alpha_dropout,
    }
)

_RANDOM: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.bernoulli,
        torch.multinomial,
        torch.normal,
        torch.rand,
        torch.rand_like,
        torch.randint,
        torch.randint_like,
        torch.randn,
        torch.randn_like,
        torch.randperm,
        Tensor.bernoulli,
        Tensor.bernoulli_,
        Tensor.exponential_,
        Tensor.multinomial,
        Tensor.normal_,
        Tensor.random_,
        Tensor.uniform_,
    }
)


class Masks:
    """What each sample drops: a function of the seed, the layer, the sample and the unit, and of nothing else.

    Along the first axis of a mask (positions of a sequence, say) a longer mask begins with the shorter one, so padding
    changes nothing.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._kept: dict[tuple[Call, int], Tensor] = {}
        self._bytes = 0

    def draw(self, call: Call, sample: int) -> Tensor:
        """`[1, ...]` ones where sample k keeps a unit, zeros where it drops it."""
        key = call, sample
        if key not in self._kept:
            generator = stream(self._seed, "consistent dropout", call.layer, call.number, sample)
            mask = torch.from_numpy(generator.random(call.shape, dtype="float32") >= call.rate).float()[None]
            if self._bytes + mask.nbytes > _MASKS:
                return mask
            self._kept[key] = mask
            self._bytes += mask.nbytes
        return self._kept[key]


class _Replay(TorchFunctionMode):
    """Notes the results of operations up to the first dropout layer, and returns them in later passes.

    Args:
        inputs: what the module is called with; a module may write over it.
    """

    def __init__(self, inputs: NetworkInputs) -> None:
        super().__init__()
        self._inputs, self._original = inputs, cloned(inputs)
        self._results: list[Any] = []
        self._versions: list[tuple[Tensor, int]] = []
        self._position = 0
        self._state: Literal["noting", "handing out", "computing"] = "noting"
        self.layer_depth = 0  # how many dropout layers are being called: 0 or 1
        self.dropped = False  # whether one was reached

    def start(self) -> NetworkInputs:
        """A new forward pass begins: what to call the module with."""
        if self._state == "noting":
            return self._inputs
        if self._versions and all(tensor._version == version for tensor, version in self._versions):
            self._position, self._state = 0, "handing out"
            return self._inputs
        # Something after the first dropout wrote over what came before: all passes are computed in full.
        self._results, self._versions, self._state = [], [], "computing"
        return cloned(self._original)

    def reached_dropout(self) -> None:
        """A dropout layer is called: from here on results differ by sample."""
        if self._state == "handing out" and self._position < len(self._results):
            raise _not_the_same()
        first, self._state, self.dropped = self._state == "noting", "computing", True
        if first:
            tensors = [leaf for leaf in tree_leaves([self._inputs, self._results]) if isinstance(leaf, Tensor)]
            self._versions = [(tensor, tensor._version) for tensor in tensors]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.layer_depth:  # a dropout layer of one's own may drop in any mode: what it drops comes from the masks
            return args[0] if args and func in _FUNCTIONAL else func(*args, **kwargs)
        _refuse_functional(func, args, kwargs)
        if self._state == "handing out":
            if self._position == len(self._results):
                raise _not_the_same()
            self._position += 1
            return self._results[self._position - 1]
        result = func(*args, **kwargs)
        if self._state == "noting":
            self._results.append(result)
        return result


class _Pass(threading.local):
    """The forward pass under way on the calling thread: for which sample, of how many rows."""

    sample: int | None = None
    rows = 0
    replay: _Replay | None = None


class ConsistentDropout:
    """A module whose dropout layers drop by sample. Use as a context; at its end the module is as before.

    Inside, `samples` may be called from several threads.

    Args:
        module: any module with dropout layers; examples are the first axis of what those get.
        seed: where the masks come from.
    """

    def __init__(self, module: nn.Module, seed: int) -> None:
        _refuse_hidden(module)
        self._layers = dropout_layers(module)
        if not self._layers:
            raise ParameterError(
                f"{type(module).__name__} has no dropout layer with a rate above 0, so all its samples would be the "
                "same. Add nn.Dropout modules, or use a deep ensemble."
            )
        self._module, self._masks = module, Masks(seed)
        self._pass = _Pass()

    def __enter__(self) -> "ConsistentDropout":
        with ExitStack() as stack:
            stack.enter_context(evaluating(self._module))
            stack.enter_context(controlled(self._module, self._draw))
            for layer in self._layers.values():
                stack.callback(layer.register_forward_pre_hook(self._enter_layer).remove)
                # Before the hook that drops, so that the product with the mask counts as outside the layer.
                stack.callback(layer.register_forward_hook(self._leave_layer, prepend=True).remove)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def samples(self, inputs: NetworkInputs, count: int) -> Generator[Any, None, None]:
        """The module's output for the same inputs under the masks of sample 0, 1, ..., count - 1."""
        here, replay = self._pass, _Replay(inputs)
        here.rows, here.replay = rows(inputs), replay
        try:
            for sample in range(count):
                here.sample = sample
                given = replay.start()
                with torch.no_grad(), replay:
                    output = call(self._module, given)
                if not replay.dropped:
                    raise ParameterError(
                        f"the forward pass of {type(self._module).__name__} calls none of its dropout layers "
                        f"({', '.join(self._layers)}), so all samples would be the same."
                    )
                yield output
        finally:
            here.sample, here.replay = None, None

    def _enter_layer(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if self._pass.replay is not None:
            self._pass.replay.reached_dropout()
            self._pass.replay.layer_depth += 1

    def _leave_layer(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if self._pass.replay is not None:
            self._pass.replay.layer_depth -= 1

    def _draw(self, layer_call: Call, count: int) -> Tensor | None:
        if self._pass.sample is None:
            return None
        if count != self._pass.rows:
            raise ParameterError(
                f"the dropout layer {layer_call.layer!r} got {count} rows for {self._pass.rows} examples. Its first "
                "axis must count the examples (batch_first=True in sequence layers), or one mask for all cannot be "
                "drawn."
            )
        parameter = next(self._module.parameters(), None)
        mask = self._masks.draw(layer_call, self._pass.sample)
        return mask if parameter is None else mask.to(parameter)


def _refuse_functional(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Dropout outside a layer cannot be controlled: nothing tells one call from another, or that it exists."""
    if func in _FUNCTIONAL and (args[1] if len(args) > 1 else kwargs.get("p", 0.5)) > 0:
        raise ParameterError(
            f"the module calls {func.__name__} as a function. Consistent masks need dropout as a layer: make an "
            "nn.Dropout in __init__ and call that."
        )
    if func is F.scaled_dot_product_attention and (args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)) > 0:
        raise ParameterError(
            "the module's attention drops weights inside a function. Pass dropout_p=0 there when the module is in "
            "evaluation mode, and put an nn.Dropout layer after it."
        )
    if func in _RANDOM and kwargs.get("generator") is None:
        raise ParameterError(
            f"the module calls {func.__name__} in evaluation mode, so its predictions are not the same twice. "
            "Consistent masks are for nn.Dropout layers: remove the other randomness, or use an ensemble."
        )


def _not_the_same() -> ParameterError:
    return ParameterError(
        "the module does not compute the same for the same inputs before its first dropout layer. Remove the other "
        "randomness, or use an ensemble."
    )


def _refuse_hidden(module: nn.Module) -> None:
    """Dropout inside a layer that is no dropout layer would be left out in silence."""
    for name, layer in module.named_modules():
        if isinstance(layer, nn.MultiheadAttention | nn.RNNBase) and layer.dropout > 0:
            raise ParameterError(
                f"{name or type(module).__name__} is {type(layer).__name__} with dropout={layer.dropout:g}, which is "
                f"drawn inside the layer, where it cannot be controlled. Set its dropout to 0 (network.{name}.dropout "
                "= 0.0) and put an nn.Dropout layer after it."
            )
