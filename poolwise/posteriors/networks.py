"""What all posteriors made of networks share: prediction in chunks, embeddings, and where the results are put."""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from poolwise.arrays import Array
from poolwise.data.examples import Examples, TensorExamples
from poolwise.errors import FileError, ParameterError, ShapeError
from poolwise.models.inputs import layout, network_inputs
from poolwise.models.modes import evaluating
from poolwise.parallel import one_thread_an_operation, ordered_map
from poolwise.posteriors.buffer import Sheet
from poolwise.posteriors.consistent import ConsistentDropout
from poolwise.posteriors.thinned import ThinnedDropout, can_be_thinned
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.seeding import child_seed

Result = TypeVar("Result")

# A chunk has at most so many rows, and its largest intermediate result takes at most this much (bytes). What is larger
# than the threshold of the C library (32 MB) is given back to the system and fetched again, page by page, at every
# operation: chunks of 1,024 rows take twice the time of chunks of 256. A memory budget can make chunks smaller.
_LARGEST = 1 << 24
_ROWS = 256

# Labelled examples that take less than this (bytes) are read once before training.
_READ_ONCE = 1 << 29


class Sampler:
    """From inputs to the outputs of K posterior samples: networks, or networks × dropout masks. Use as a context.

    Args:
        networks: trained networks.
        masks: how many dropout masks of each, or None for no dropout.
        seed: where the masks come from.
    """

    def __init__(self, networks: Sequence[nn.Module], masks: int | None = None, seed: int = 0) -> None:
        self._networks, self._masks = networks, masks
        self.count = len(networks) * (masks or 1)
        self._dropouts: list[ConsistentDropout] = []
        self._thinned: list[dict[int, ThinnedDropout]] = []  # by the number of axes of the inputs
        for member, network in enumerate(networks if masks else []):
            source = child_seed(seed, "masks", member)
            self._dropouts.append(ConsistentDropout(network, source))
            ranks = [rank for rank in (2, 4) if can_be_thinned(network, rank)]
            self._thinned.append({rank: ThinnedDropout(network, source) for rank in ranks})

    def __enter__(self) -> "Sampler":
        with ExitStack() as stack:
            for network in self._networks:
                stack.enter_context(evaluating(network))
            for dropout in self._dropouts:
                stack.enter_context(dropout)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def samples(self, inputs: Tensor) -> Generator[Tensor, None, None]:
        """K times `[n, C]` logits, network by network."""
        for dropout, thinned in zip(self._dropouts, self._thinned, strict=True):
            yield from thinned.get(inputs.ndim, dropout).samples(inputs.clone(), self._masks or 1)
        if not self._dropouts:
            with torch.no_grad():
                yield from (network(inputs.clone()) for network in self._networks)  # one may write over its inputs

    def features(self, inputs: Tensor) -> Tensor:
        """`[n, D]` embeddings: what goes into the last layer of each network without dropout, side by side."""
        return torch.cat([penultimate(network, inputs.clone())[1] for network in self._networks], 1)

    def both(self, inputs: Tensor) -> tuple[Iterable[Tensor], Tensor]:
        """Samples and features, without dropout in one pass."""
        if self._dropouts:
            return self.samples(inputs), self.features(inputs)
        outputs, features = zip(*(penultimate(network, inputs.clone()) for network in self._networks), strict=True)
        return outputs, torch.cat(features, 1)


def predict(
    sampler: Sampler,
    data: Examples,
    device: torch.device,
    memory: int,
    out: Path | None,
    embeddings: bool,
    report: Report,
) -> Predictions:
    """Predictions of all examples, in memory if they fit half of the budget, else in a mapped file.

    Chunks run at the same time on as many threads as PyTorch is allowed, each operation on one: faster than operations
    split over threads, on a busy machine by far, and no number depends on how many threads there are.

    Args:
        sampler: the posterior samples.
        data: examples.
        device: where the networks are.
        memory: bytes that this call may take.
        out: a `.npy` file for the predictions; without it, what does not fit goes to a temporary file.
        embeddings: whether to keep embeddings as well.
        report: told about progress.
    """
    if out is not None and (out.suffix != ".npy" or not out.parent.is_dir()):
        raise FileError(f"out must be a .npy file in a folder that exists, not {out}.")
    sheet: Sheet | None = None
    features_N_D: Array | None = None

    def work(inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        samples, features_n_D = sampler.both(inputs) if embeddings else (sampler.samples(inputs), None)
        log_probs = torch.empty(0)
        for k, logits_n_C in enumerate(samples):
            if k == 0:
                log_probs = torch.empty(len(inputs), sampler.count, logits_n_C.shape[1])
            log_probs[:, k] = logits_n_C.float().log_softmax(1)
        return log_probs, None if features_n_D is None else features_n_D.float().cpu()

    try:
        with closing(_chunks(sampler, data, device, memory, work, report)) as chunks:
            for rows, (log_probs_n_K_C, features_n_D) in chunks:
                if sheet is None:
                    _, K, C = log_probs_n_K_C.shape
                    sheet = Sheet("log-probs", (len(data), K, C), memory, out)
                sheet.values[rows] = log_probs_n_K_C.numpy()
                if features_n_D is not None:
                    features_N_D = _put(features_N_D, rows, features_n_D.numpy(), len(data))
        assert sheet is not None
        return sheet.finish(features_N_D)
    finally:
        if sheet is not None:
            sheet.clear()


def embed(sampler: Sampler, data: Examples, device: torch.device, memory: int) -> Array:
    """`[N, D]` float32 embeddings of all examples."""
    work = lambda inputs: sampler.features(inputs).float().cpu().numpy()  # noqa: E731
    features_N_D: Array | None = None
    for rows, part_n_D in _chunks(sampler, data, device, memory, work, silent):
        features_N_D = _put(features_N_D, rows, part_n_D, len(data))
    assert features_N_D is not None
    return features_N_D


def _put(whole_N: Array | None, rows: Array, part_n: Array, count: int) -> Array:
    """The whole with a part put in its place; made when the first part comes."""
    if whole_N is None:
        whole_N = np.empty((count, *part_n.shape[1:]), part_n.dtype)
    whole_N[rows] = part_n
    return whole_N


def _chunks(
    sampler: Sampler,
    data: Examples,
    device: torch.device,
    memory: int,
    work: Callable[[Tensor], Result],
    report: Report,
) -> Generator[tuple[Array, Result], None, None]:
    """A function's results on all inputs, chunk by chunk, with the positions in the data that they are of.

    Inputs that differ in length are read longest first, so that those of a chunk need little padding.
    """
    if not len(data):
        raise ShapeError("there are no examples to predict.")
    lengths_N: Array | None = getattr(data, "lengths", None)
    order_N = np.arange(len(data)) if lengths_N is None else np.argsort(-lengths_N, kind="stable")
    with one_thread_an_operation():
        step = _rows_a_chunk(sampler, data, order_N, device, memory)
        parts = [order_N[start : start + step] for start in range(0, len(data), step)]
        inputs = _Inputs(data, parts, device)
        results = ordered_map(work, inputs) if device.type == "cpu" else map(work, inputs)
        done = 0
        for rows, result in zip(parts, results, strict=True):
            yield rows, result
            done += len(rows)
            report("predicting", done, len(data))


def read(data: Examples, indices_n: Array, device: torch.device) -> Tensor:
    """Inputs as a network on that device takes them."""
    return layout(network_inputs(data.batch(indices_n)).to(device))


def read_once(data: Examples) -> Examples:
    """The same examples with their inputs in one tensor, unless that would be too large, or they are token ids."""
    if not len(data) or isinstance(data, TensorExamples):
        return data
    first = network_inputs(data.batch(np.arange(1)))
    if not first.is_floating_point() or first.nbytes * len(data) > _READ_ONCE:
        return data
    return TensorExamples(network_inputs(data.batch(np.arange(len(data)))), data.labels, data.class_names)


def choose_device(device: str | torch.device) -> torch.device:
    """A device; `"auto"` is the GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def penultimate(network: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """A network's output, and `[n, D]` what goes into its last layer.

    That is its attribute `head` if it is linear, else the linear layer that is called last.
    """
    head = getattr(network, "head", None)
    layers = [head] if isinstance(head, nn.Linear) else [m for m in network.modules() if isinstance(m, nn.Linear)]
    seen: list[Tensor] = []
    caller = threading.get_ident()

    def keep(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        if threading.get_ident() == caller:
            seen[:] = [arguments[0]]

    handles = [layer.register_forward_pre_hook(keep) for layer in layers]
    try:
        with torch.no_grad():
            output: Tensor = network(inputs)
    finally:
        for handle in handles:
            handle.remove()
    if not seen:
        raise ParameterError(
            f"{type(network).__name__} calls no linear layer, so it has no embeddings. Methods that need embeddings "
            "want a network that ends in nn.Linear."
        )
    return output, seen[0].flatten(1)


class _Inputs(Sequence[Tensor]):
    """The inputs of each chunk, read when they are asked for: by the thread that asks, which a data set may rely on."""

    def __init__(self, data: Examples, parts: Sequence[Array], device: torch.device) -> None:
        self._data, self._parts, self._device = data, parts, device

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, part: int) -> Tensor:  # type: ignore[override]
        return read(self._data, self._parts[part], self._device)


class _Meter(TorchFunctionMode):
    """Finds the size of the largest intermediate result."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **kwargs or {})
        self.bytes = max([self.bytes, *(leaf.nbytes for leaf in tree_leaves(result) if type(leaf) is Tensor)])
        return result


def _rows_a_chunk(sampler: Sampler, data: Examples, order_N: Array, device: torch.device, memory: int) -> int:
    """How many rows may go through the networks at a time, from the size of the results of the first."""
    probe = read(data, order_N[:4], device)
    with _Meter() as meter, closing(sampler.samples(probe)) as samples:
        logits = next(samples)
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(probe):
        kind = f"a tensor {list(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise ShapeError(f"a network must put out a tensor [examples, classes], here [{len(probe)}, C], not {kind}.")
    per_row: int = max(1, meter.bytes // len(probe), 4 * sampler.count * logits.shape[1])
    return max(1, min(_ROWS, min(_LARGEST, memory // 16) // per_row))
