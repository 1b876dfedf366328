"""What networks return: logits, probabilities or log-probabilities, in a tensor or in an object around one.

A network that ends in softmax must not go through softmax again. That would pass unseen: the order of the classes stays
the same, and all confidence is lost. So outputs that are probabilities already are found and refused, unless the caller
says what they are.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from poolwise.errors import NotNormalisedError, ParameterError, ShapeError
from poolwise.models.inputs import NetworkInputs, call, rows
from poolwise.models.modes import evaluating

# How many examples it takes to tell probabilities from logits.
PROBED = 32

Outputs = Literal["auto", "logits", "probs", "log-probs"]
"""What a network returns. `"auto"`: logits, and an error if they are probabilities already."""


def check_choice(outputs: str) -> None:
    """Raise if this is no kind of outputs."""
    if outputs not in get_args(Outputs):
        raise ParameterError(f"outputs must be one of {', '.join(map(repr, get_args(Outputs)))}, not {outputs!r}.")


def raw_tensor(output: Any, count: int) -> Tensor:
    """`[n, C]` or `[n]` numbers from what a network returned.

    Taken are a tensor; an object or dictionary with `logits`, as Hugging Face models return it; a dictionary with one
    tensor; and a tuple, whose first tensor counts.

    Args:
        output: what the network returned.
        count: n, how many examples it was called with.
    """
    found = output
    if not isinstance(found, Tensor):
        named = dict(found) if isinstance(found, Mapping) else {}
        if isinstance(getattr(found, "logits", named.get("logits")), Tensor):
            found = getattr(found, "logits", named.get("logits"))
        elif len(named) == 1:
            found = next(iter(named.values()))
        elif isinstance(found, tuple | list) and found:
            found = found[0]
    if not isinstance(found, Tensor) or found.ndim not in (1, 2) or len(found) != count:
        kind = f"a tensor {list(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        keys = f" with {', '.join(map(str, output))}" if isinstance(output, Mapping) else ""
        raise ShapeError(
            f"a network must return a tensor [examples, classes], here [{count}, C], not {kind}{keys}. A dictionary "
            "or an object may have it as `logits`, a tuple as its first part."
        )
    return found


def as_logits(output: Any, count: int, outputs: Outputs) -> Tensor:
    """`[n, C]` logits, or log-probabilities, which softmax does not change.

    One column is taken as the second of two classes: its logit, probability or log-probability.

    Args:
        output: what the network returned.
        count: n, how many examples it was called with.
        outputs: what the numbers are.
    """
    raw = raw_tensor(output, count)
    if raw.dtype in (torch.float16, torch.bfloat16):
        raw = raw.float()
    if raw.ndim == 1 or raw.shape[1] == 1:
        return _binary(raw.reshape(-1), outputs)
    if outputs in ("auto", "logits"):
        return raw
    if not _distributions(raw, outputs):
        raise _not_what_was_said(raw, outputs)
    if outputs == "log-probs":
        return raw
    # In training, the gradient of log 0 would be infinite.
    return raw.clamp_min(torch.finfo(raw.dtype).tiny).log() if raw.requires_grad else raw.log()


def _binary(raw_n: Tensor, outputs: Outputs) -> Tensor:
    if outputs in ("auto", "logits"):
        return torch.stack([torch.zeros_like(raw_n), raw_n], 1)
    probs_n = raw_n.exp() if outputs == "log-probs" else raw_n
    if not bool(((probs_n >= 0) & (probs_n <= 1)).all()):
        raise _not_what_was_said(raw_n[:, None], outputs)
    second_n = raw_n if outputs == "log-probs" else raw_n.log()
    return torch.stack([torch.log1p(-probs_n), second_n], 1)


def _not_what_was_said(raw: Tensor, outputs: Outputs) -> NotNormalisedError:
    return NotNormalisedError(
        f'outputs="{outputs}" was given, and the network returns rows that are not {_NAMES[outputs]} over its '
        f"{raw.shape[1]} classes, such as {[round(value, 4) for value in raw[0, :4].tolist()]}. If they are logits, "
        "leave outputs out. Softmax must be over the classes, dim=1. Sigmoids of several classes do not sum to 1."
    )


_NAMES = {"probs": "probabilities", "log-probs": "log-probabilities"}


def _distributions(raw_n_C: Tensor, outputs: Outputs) -> bool:
    """Whether all rows are distributions, up to the rounding of half precision."""
    probs_n_C = raw_n_C.exp() if outputs == "log-probs" else raw_n_C
    return bool((probs_n_C >= 0).all() and ((probs_n_C.sum(1) - 1).abs() <= 1e-2).all())


class Watch(TorchFunctionMode):
    """Watches a forward pass: the largest intermediate result, and whether the output comes from a sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self._sigmoids: set[tuple[int, bool]] = set()  # how many numbers each returned, and whether logarithms
        self._last: Any = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **kwargs or {})
        self.bytes = max([self.bytes, *(leaf.nbytes for leaf in tree_leaves(result) if type(leaf) is Tensor)])
        if isinstance(result, Tensor):
            self._last = result
            name = getattr(func, "__name__", "")
            if "sigmoid" in name or "expit" in name:
                self._sigmoids.add((result.numel(), "log" in name))
        return result

    def refuse_probabilities(self, network: nn.Module, raw: Tensor) -> None:
        """Raise if the output of the pass is normalised already, or sigmoids.

        Log-probabilities pass: softmax leaves them unchanged.

        Args:
            network: the network that was called.
            raw: `[n, C]` or `[n]` what it returned.
        """
        if not raw.numel():
            return
        values = raw.detach().double()
        between = bool(((values >= 0) & (values <= 1)).all())
        # A compiled network hides what it calls; its outputs are then judged by their values alone.
        hidden = self._last is not raw and isinstance(network, torch.jit.ScriptModule)
        sigmoid = between and ((raw.numel(), False) in self._sigmoids or hidden)
        sigmoid |= bool((values <= 0).all()) and (raw.numel(), True) in self._sigmoids
        name = type(network).__name__
        if raw.ndim == 1 or raw.shape[1] == 1:
            if sigmoid:
                raise ParameterError(
                    f"{name} ends in a sigmoid: its one column is the probability of the second class, and a logit was "
                    'expected. Pass outputs="probs" to take it as it is ("log-probs" for its logarithm). If it is a '
                    'logit, pass outputs="logits".'
                )
            return
        rounding = max(1e-5, 8 * torch.finfo(raw.dtype).eps if raw.is_floating_point() else 0)
        # Logits of 32 examples do not all sum to one by chance; those of a single one do in one case of 100,000.
        if between and bool(((values.sum(1) - 1).abs() <= rounding).all()):
            raise ParameterError(
                f"the outputs of {name} are probabilities already (each row sums to 1), and would go through softmax a "
                'second time. Pass outputs="probs" to take them as they are, or remove the softmax from the network. '
                'If they are logits all the same, pass outputs="logits"; outputs="log-probs" is for log-probabilities.'
            )
        if sigmoid:
            raise ParameterError(
                f"{name} ends in a sigmoid: it returns {raw.shape[1]} probabilities that do not sum to 1, so they are "
                "no distribution over classes. Poolwise needs one class per example: remove the sigmoid and train with "
                'cross-entropy. To take the numbers as logits all the same, pass outputs="logits".'
            )


def check_outputs(network: nn.Module, inputs: NetworkInputs) -> None:
    """Raise if a network returns probabilities, where logits are expected.

    Args:
        network: the network; it is called once, in evaluation mode.
        inputs: a batch as the network takes it, of enough examples that chance is excluded.
    """
    with evaluating(network), torch.no_grad(), Watch() as watch:
        output = call(network, inputs)
    watch.refuse_probabilities(network, raw_tensor(output, rows(inputs)))
