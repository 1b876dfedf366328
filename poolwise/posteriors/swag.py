"""SWAG: a Gaussian around the weights that SGD passes through after training (Maddox et al. 2019).

The network is trained as usual. Then SGD continues at a constant learning rate, and the weights are collected every few
steps. Their mean, their variances and the last of their deviations from the mean make a Gaussian whose covariance is
diagonal plus low rank. K weights are drawn from it once in `fit`, so sample k is the same model for every example.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from poolwise import budget
from poolwise.arrays import Array
from poolwise.data.batches import Data
from poolwise.data.examples import Examples, as_examples
from poolwise.errors import ParameterError
from poolwise.models.checks import count
from poolwise.models.inputs import Reading, call, cloned
from poolwise.models.modes import evaluating
from poolwise.models.outputs import Outputs
from poolwise.parallel import threads_an_operation
from poolwise.posteriors import networks as shared
from poolwise.posteriors.posterior import NetworkPosterior
from poolwise.posteriors.registry import Cost, register
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.seeding import child_seed, stream
from poolwise.training import Training, batches, train

# The fewest steps between two snapshots: with a handful of labels an epoch is a single step, which moves nothing.
_STEPS = 10
# Examples that go through a network at a time to measure the statistics of batch normalisation.
_CHUNK = 1024


class Moments:
    """Mean and covariance of a series of weights, diagonal plus low rank, updated with each set of weights.

    Args:
        rank: how many deviations from the mean are kept, the last ones.

    Attributes:
        mean: `[P]` float64 mean of all weights so far.
        squares: `[P]` float64 sum of their squared deviations from it.
        deviations: the last weights minus the mean at their time, each `[P]`.
        count: how many weights were collected.

    Example:
        >>> import torch
        >>> moments = Moments(rank=1)
        >>> for weights in ([0.0, 2.0], [4.0, 2.0]):
        ...     moments.add(torch.tensor(weights))
        >>> moments.mean.tolist(), moments.variances.tolist(), moments.deviations[-1].tolist()
        ([2.0, 2.0], [4.0, 0.0], [2.0, 0.0])
    """

    def __init__(self, rank: int) -> None:
        self.mean, self.squares = torch.zeros(0), torch.zeros(0)
        self.deviations: list[Tensor] = []
        self.count, self._rank = 0, rank

    @property
    def variances(self) -> Tensor:
        """`[P]` variance of each weight."""
        return self.squares / self.count

    def add(self, weights_P: Tensor) -> None:
        """Take up weights."""
        weights_P = weights_P.detach().double()
        if not self.count:
            self.mean, self.squares = torch.zeros_like(weights_P), torch.zeros_like(weights_P)
        self.count += 1
        before_P = weights_P - self.mean
        self.mean = self.mean + before_P / self.count
        after_P = weights_P - self.mean
        self.squares = self.squares + before_P * after_P
        self.deviations = [*self.deviations, after_P][-self._rank :]

    def draw(self, generator: np.random.Generator, scale: float = 1.0) -> Tensor:
        """`[P]` weights, with `scale · (diagonal + low rank) / 2` as covariance: equation 1 of the paper."""
        noise_P = torch.from_numpy(generator.standard_normal(len(self.mean))).to(self.mean)
        noise_R = torch.from_numpy(generator.standard_normal(len(self.deviations))).to(self.mean)
        low_rank_P = torch.stack(self.deviations, 1) @ noise_R / max(1, len(self.deviations) - 1) ** 0.5
        moved_P: Tensor = self.variances.sqrt() * noise_P + low_rank_P
        return self.mean + moved_P * math.sqrt(scale / 2)


@register(
    "swag",
    summary="Draws of all weights, around the path of SGD after one training.",
    paper="Maddox et al. 2019",
    parameters={
        "samples": "K, how many weights are drawn.",
        "snapshots": "How many times weights are collected.",
        "every": "Steps of SGD between two collections; left out, an epoch, or 10 steps if that is more.",
        "learning_rate": "The constant learning rate of SGD while weights are collected.",
        "rank": "How many of the last deviations from the mean make the low-rank part of the covariance.",
        "scale": "What the covariance is multiplied by; 0 is the mean of the weights alone.",
        "warm_start": "Whether a round's training continues from the weights of the round before.",
        "outputs": "What the network returns: logits, probs, log-probs, or auto for logits, with a check.",
        "device": "Where the network runs: auto, cpu, cuda:0, ...",
    },
    cost=lambda samples, **_: Cost(1, samples),
)
class SWAG(NetworkPosterior):
    """One network; sample k is draw k of all its weights, from a Gaussian fitted to the path of SGD.

    Statistics of batch normalisation are measured for each draw, on the labelled examples. Embeddings come from the
    network with the mean weights, `mean`. K networks are kept in memory.

    After `fit`: `networks`, the K samples; `mean`, the network with the mean weights; and `moments`, what was collected
    (not saved).

    Args:
        model: a function that makes a new network; or a network, which is copied for training and never changed.
        samples: K, how many sets of weights are drawn.
        snapshots: how many times weights are collected, at least 2.
        every: steps of SGD between two collections; None for an epoch, or 10 steps if that is more.
        learning_rate: the constant learning rate of SGD while weights are collected. The larger it is, the farther
            apart the samples are.
        rank: how many of the last deviations from the mean make the low-rank part of the covariance.
        scale: factor of the covariance; with 0, every sample has the mean weights.
        training: how the network is trained first. Its `momentum`, `weight_decay`, `batch_size` and `augment` are used
            while weights are collected, too.
        threads: PyTorch threads to train on; None for what PyTorch is set to.
        warm_start: whether a later `fit` continues from the trained weights of the one before.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
        outputs: what the network returns: `"logits"`, `"probs"`, `"log-probs"`, or `"auto"` for logits, with a check.

    Example:
        >>> import torch, poolwise as pw
        >>> data = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 3
        >>> make_model = lambda: pw.models.mlp((4,), 3, hidden=(8,))
        >>> posterior = pw.posteriors.SWAG(make_model, 10, snapshots=5, training=pw.Training(steps=5)).fit(data)
        >>> posterior.predict(data[0]).shape, posterior.moments.count
        ((30, 10, 3), 5)
    """

    def __init__(
        self,
        model: Callable[[], nn.Module] | nn.Module,
        samples: int = 20,
        *,
        snapshots: int = 20,
        every: int | None = None,
        learning_rate: float = 0.01,
        rank: int = 20,
        scale: float = 1.0,
        training: Training | None = None,
        threads: int | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        outputs: Outputs = "auto",
    ) -> None:
        super().__init__(model, samples, None, training=training, threads=threads, device=device, outputs=outputs)
        self._trained = NetworkPosterior(
            model, 1, None, training=training, threads=threads, warm_start=warm_start, device=device, outputs=outputs
        )
        self._snapshots, self._rank = count(snapshots, "snapshots", most=100_000), count(rank, "rank", most=100_000)
        self._every = None if every is None else count(every, "every", most=1_000_000)
        if self._snapshots < 2:
            raise ParameterError("snapshots must be at least 2: one set of weights has no variance.")
        if not 0 <= scale < float("inf"):
            raise ParameterError(f"scale must be a number of at least 0, not {scale!r}.")
        self._scale = float(scale)
        self._sgd = replace(self._training, optimiser="sgd", learning_rate=learning_rate, milestones=(), patience=None)
        self.networks = []  # also where `model` is a network: it is no draw
        self.mean: nn.Module | None = None
        self.moments: Moments | None = None

    def fit(self, data: Data, validation: Data | None = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Train the network, continue with SGD, collect its weights and draw from them.

        Args:
            data: labelled examples.
            validation: labelled examples for early stopping of the first training.
            seed: where initial weights, the order of examples, dropout in training, and the drawn weights come from.
            report: told about progress.
        """
        examples = shared.read_once(as_examples(data))
        self._trained.fit(examples, validation, seed=seed, report=report)
        network, moments = copy.deepcopy(self._trained.networks[0]), Moments(self._rank)
        every = self._every or max(_STEPS, len(batches(len(examples), self._sgd.batch_size)))

        def collect(stage: str, done: int, total: int) -> None:
            if done % every == 0:
                moments.add(parameters_to_vector(network.parameters()))
            report("collecting weights", done, total)

        sgd = replace(self._sgd, steps=every * self._snapshots)
        with threads_an_operation(self._threads):
            train([network], examples, sgd, [child_seed(seed, "SWAG")], None, collect, self._outputs)
            generator = stream(seed, "draws of SWAG")
            self.mean = _with_weights(network, moments.mean, examples)
            self.networks = [
                _with_weights(network, moments.draw(generator, self._scale), examples) for _ in range(self._members)
            ]
        self.moments, self.outcomes = moments, self._trained.outcomes
        return self

    def predict(
        self,
        data: Data,
        *,
        embeddings: bool = False,
        out: str | Path | None = None,
        memory: int | str = budget.DEFAULT,
        report: Report = silent,
    ) -> Predictions:
        """`[N, K, C]` predictions; the arguments are those of `BasePosterior.predict`."""
        examples = as_examples(data)
        found = super().predict(examples, out=out, memory=memory, report=report)
        return found.with_embeddings(self.embed(examples, memory=memory)) if embeddings else found

    def embed(self, data: Data, *, memory: int | str = budget.DEFAULT) -> Array:
        """`[N, D]` float32: what goes into the last layer of the network with the mean weights.

        Args:
            data: examples.
            memory: working memory, in bytes or as `"2GB"`.
        """
        with self._sampler():  # which raises before fit
            assert self.mean is not None
        with shared.Sampler([self.mean], None, 0, self._device, self._outputs) as sampler:
            return shared.embed(sampler, as_examples(data), budget.parse(memory))

    def state(self) -> dict[str, Any]:
        """The weights of all samples, their mean, and those of the first training."""
        mean = {} if self.mean is None else {name: value.cpu() for name, value in self.mean.state_dict().items()}
        return {**super().state(), "mean": mean, "trained": self._trained.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore saved weights.

        Args:
            state: what `state` returned.
        """
        super().load_state(state)
        self._trained.load_state(state["trained"])
        self.mean = copy.deepcopy(self.networks[0]) if state["mean"] else None
        if self.mean is not None:
            self.mean.load_state_dict(state["mean"])

    def untrained(self) -> Self:
        """An untrained copy, whose `fit` starts from the beginning."""
        other = super().untrained()
        other._trained, other.networks = self._trained.untrained(), []
        return other

    def on(self, device: str | torch.device) -> Self:
        """A copy on another device, `"auto"` for a GPU if there is one."""
        other = super().on(device)
        other._trained = self._trained.on(device)
        other.mean = None if self.mean is None else other._placed(copy.deepcopy(self.mean))
        return other


def _with_weights(network: nn.Module, weights_P: Tensor, examples: Examples) -> nn.Module:
    """A copy of a network with these weights, and with statistics of batch normalisation that belong to them."""
    made = copy.deepcopy(network).eval()
    like = next(made.parameters())
    with torch.no_grad():
        vector_to_parameters(weights_P.to(like), made.parameters())
        _measure_statistics(made, examples)
    return made


def _measure_statistics(network: nn.Module, examples: Examples) -> None:
    """Measure what batch normalisation subtracts and divides by, with dropout off."""
    layers = [layer for layer in network.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    with evaluating(network):
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # the average over all chunks
            layer.train()
        for rows in batches(len(examples), _CHUNK):
            batch = examples.batch(np.arange(len(examples))[rows])
            call(network, cloned(Reading.of(network, batch)(batch)))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
