"""What all posteriors made of networks share: prediction in chunks, and embeddings."""

import copy
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from poolwise.arrays import Array
from poolwise.data.examples import Examples, TensorExamples
from poolwise.errors import ShapeError
from poolwise.models.inputs import NetworkInputs, Reading, call, cloned, network_inputs, rows
from poolwise.models.last_layer import LastLayer
from poolwise.models.modes import evaluating
from poolwise.models.outputs import PROBED, Outputs, Watch, as_logits, raw_tensor
from poolwise.parallel import one_thread_an_operation, ordered_map
from poolwise.posteriors.buffer import PredictionBuffer, check_path
from poolwise.posteriors.consistent import ConsistentDropout
from poolwise.posteriors.thinned import ThinnedDropout, can_be_thinned
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.seeding import child_seed

Result = TypeVar("Result")

# The most rows of a chunk, and the most that its largest intermediate result may take (bytes). The C library gives
# larger results (from 32 MB) back to the system and fetches them again, page by page, at every operation: chunks of
# 1,024 rows take twice the time of chunks of 256. A memory budget can make chunks smaller.
_LARGEST = 1 << 24
_ROWS = 256

# Labelled examples that take less than this (bytes) are read once before training.
_READ_ONCE = 1 << 29


class Sampler:
    """From inputs to the logits of K posterior samples: networks, or networks × dropout masks. Use as a context.

    A network that is on another device is copied; the caller's stays where it is, unchanged.

    Args:
        networks: trained networks.
        masks: how many dropout masks of each, or None for no dropout.
        seed: where the masks come from.
        device: where to run; None for where the networks are.
        outputs: what the networks return.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        masks: int | None = None,
        seed: int = 0,
        device: torch.device | None = None,
        outputs: Outputs = "auto",
    ) -> None:
        self.networks = [_on(network, device) for network in networks]
        self._masks, self.outputs = masks, outputs
        self.count = len(networks) * (masks or 1)
        self._dropouts: list[ConsistentDropout] = []
        self._thinned: list[dict[int, ThinnedDropout]] = []  # by the number of axes of the inputs
        for member, network in enumerate(self.networks if masks else []):
            source = child_seed(seed, "masks", member)
            self._dropouts.append(ConsistentDropout(network, source))
            ranks = [rank for rank in (2, 4) if can_be_thinned(network, rank)]
            self._thinned.append({rank: ThinnedDropout(network, source) for rank in ranks})

    def __enter__(self) -> "Sampler":
        with ExitStack() as stack:
            for network in self.networks:
                stack.enter_context(evaluating(network))
            for dropout in self._dropouts:
                stack.enter_context(dropout)
            self._last_layers = [stack.enter_context(LastLayer(network)) for network in self.networks]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def samples(self, inputs: NetworkInputs) -> Generator[Tensor, None, None]:
        """K times `[n, C]` logits, network by network."""
        for output in self._samples(inputs):
            yield as_logits(output, rows(inputs), self.outputs)

    def _samples(self, inputs: NetworkInputs) -> Generator[Any, None, None]:
        for dropout, thinned in zip(self._dropouts, self._thinned, strict=True):
            thin = thinned.get(inputs.ndim) if isinstance(inputs, Tensor) else None
            if thin is not None and isinstance(inputs, Tensor):
                yield from thin.samples(inputs.clone(), self._masks or 1)
            else:
                yield from dropout.samples(cloned(inputs), self._masks or 1)
        if not self._dropouts:
            with torch.no_grad():
                yield from (call(network, cloned(inputs)) for network in self.networks)

    def refuse_probabilities(self, inputs: NetworkInputs) -> None:
        """Raise if a network returns probabilities where logits are expected, judged by its first sample."""
        for member, network in enumerate(self.networks):
            with Watch() as watch, torch.no_grad():
                if self._dropouts:
                    with closing(self._dropouts[member].samples(cloned(inputs), 1)) as samples:
                        output = next(samples)
                else:
                    output = call(network, cloned(inputs))
            watch.refuse_probabilities(network, raw_tensor(output, rows(inputs)))

    def features(self, inputs: NetworkInputs) -> Tensor:
        """`[n, D]` embeddings: what goes into the last layer of each network without dropout, side by side."""
        return torch.cat([last(cloned(inputs))[1] for last in self._last_layers], 1)

    def both(self, inputs: NetworkInputs) -> tuple[Iterable[Tensor], Tensor]:
        """Samples and features; where there is no dropout, in one pass."""
        if self._dropouts:
            return self.samples(inputs), self.features(inputs)
        results = [last(cloned(inputs)) for last in self._last_layers]
        logits = [as_logits(output, rows(inputs), self.outputs) for output, _, _ in results]
        return logits, torch.cat([features for _, features, _ in results], 1)


def _on(network: nn.Module, device: torch.device | None) -> nn.Module:
    """The network if it is on that device, else a copy there."""
    tensors = [*network.parameters(), *network.buffers()]
    if device is None or all(tensor.device.type == device.type for tensor in tensors):
        indices = {tensor.device.index for tensor in tensors}
        if device is None or device.index is None or indices <= {device.index}:
            return network
    return copy.deepcopy(network).to(device)


def predict(
    sampler: Sampler, data: Examples, memory: int, out: Path | None, embeddings: bool, report: Report
) -> Predictions:
    """Predictions of all examples, in memory if they fit half of the budget, else in a mapped file.

    Chunks run at the same time on as many threads as PyTorch is allowed, each operation on one. That is faster than
    operations split over threads, on a busy machine by far, and no number depends on how many threads there are.

    Args:
        sampler: the posterior samples.
        data: examples.
        memory: bytes that this call may take.
        out: a `.npy` file for the predictions; without it, what does not fit goes to a temporary file.
        embeddings: whether to keep embeddings as well.
        report: told about progress.
    """
    check_path(out)

    def work(inputs: NetworkInputs) -> tuple[Tensor, Tensor | None]:
        samples, features_n_D = sampler.both(inputs) if embeddings else (sampler.samples(inputs), None)
        log_probs = torch.empty(0)
        for k, logits_n_C in enumerate(samples):
            if k == 0:
                log_probs = torch.empty(rows(inputs), sampler.count, logits_n_C.shape[1])
            log_probs[:, k] = logits_n_C.float().log_softmax(1)
        return log_probs, None if features_n_D is None else features_n_D.float().cpu()

    with one_thread_an_operation():
        plan = _Plan(sampler, data, memory)
        with PredictionBuffer("log-probs", (len(data), sampler.count, plan.classes), memory, out) as buffer:
            features_N_D: Array | None = None
            with closing(plan.results(work, report)) as chunks:
                for positions, (log_probs_n_K_C, features_n_D) in chunks:
                    buffer.values[positions] = log_probs_n_K_C.numpy()
                    if features_n_D is not None:
                        features_N_D = _put(features_N_D, positions, features_n_D.numpy(), len(data))
            return buffer.finish(features_N_D)


def embed(sampler: Sampler, data: Examples, memory: int) -> Array:
    """`[N, D]` float32 embeddings of all examples."""
    features_N_D: Array | None = None
    with one_thread_an_operation():
        plan = _Plan(sampler, data, memory)
        for positions, part_n_D in plan.results(lambda inputs: sampler.features(inputs).float().cpu().numpy(), silent):
            features_N_D = _put(features_N_D, positions, part_n_D, len(data))
    assert features_N_D is not None
    return features_N_D


def _put(whole_N: Array | None, rows: Array, part_n: Array, count: int) -> Array:
    """The whole with a part put in its place; made when the first part comes."""
    if whole_N is None:
        whole_N = np.empty((count, *part_n.shape[1:]), part_n.dtype)
    whole_N[rows] = part_n
    return whole_N


class _Plan:
    """Which examples go through the networks together, found out with a few of them.

    Inputs that differ in length are read longest first, so that those of a chunk need little padding.

    Args:
        sampler: the posterior samples.
        data: examples.
        memory: bytes that may be taken.
    """

    def __init__(self, sampler: Sampler, data: Examples, memory: int) -> None:
        if not len(data):
            raise ShapeError("there are no examples to predict.")
        lengths_N: Array | None = getattr(data, "lengths", None)
        order_N = np.arange(len(data)) if lengths_N is None else np.argsort(-lengths_N, kind="stable")
        few = data.batch(order_N[:4])
        self._data, self._reading = data, Reading.of(sampler.networks[0], few)
        probe = self._reading(few)
        with Watch() as watch, closing(sampler.samples(probe)) as samples:
            logits = next(samples)
        self.classes: int = logits.shape[1]
        per_row: int = max(1, watch.bytes // rows(probe), 4 * sampler.count * self.classes)
        step = max(1, min(_ROWS, min(_LARGEST, memory // 16) // per_row))
        self._chunks = [order_N[start : start + step] for start in range(0, len(data), step)]
        if sampler.outputs == "auto":
            sampler.refuse_probabilities(self._reading(data.batch(order_N[: min(step, PROBED)])))

    def results(
        self, work: Callable[[NetworkInputs], Result], report: Report
    ) -> Generator[tuple[Array, Result], None, None]:
        """A function's results on all inputs, chunk by chunk, each with the positions in the data that it is of."""
        inputs = _Inputs(self._data, self._chunks, self._reading)
        results = ordered_map(work, inputs) if self._reading.device.type == "cpu" else map(work, inputs)
        done = 0
        for positions, result in zip(self._chunks, results, strict=True):
            yield positions, result
            done += len(positions)
            report("predicting", done, len(self._data))


class _Inputs(Sequence[NetworkInputs]):
    """The inputs of each chunk, read when they are asked for: by the thread that asks, which a data set may rely on."""

    def __init__(self, data: Examples, chunks: Sequence[Array], reading: Reading) -> None:
        self._data, self._chunks, self._reading = data, chunks, reading

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, chunk: int) -> NetworkInputs:  # type: ignore[override]
        return self._reading(self._data.batch(self._chunks[chunk]))


def read_once(data: Examples) -> Examples:
    """The same examples with their inputs in one tensor, unless they are too large, named, or differ in length."""
    if not len(data) or isinstance(data, TensorExamples) or getattr(data, "lengths", None) is not None:
        return data
    first = network_inputs(data.batch(np.arange(1)))
    if not isinstance(first, Tensor) or first.nbytes * len(data) > _READ_ONCE:
        return data
    inputs = network_inputs(data.batch(np.arange(len(data))))
    return TensorExamples(inputs, data.labels, data.class_names) if isinstance(inputs, Tensor) else data
