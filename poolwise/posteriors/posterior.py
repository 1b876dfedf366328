"""The protocol of every posterior, and the one implementation behind those made of networks."""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import torch
from joblib import Parallel, delayed
from torch import nn

from poolwise import budget
from poolwise.arrays import Array
from poolwise.data.examples import Examples, as_examples, needed_labels
from poolwise.errors import ParameterError, StateError
from poolwise.models.initialise import build
from poolwise.models.members import can_train_at_once
from poolwise.parallel import threads_an_operation
from poolwise.posteriors import networks as shared
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.seeding import child_seed
from poolwise.training import Outcome, Training, train

Way = Literal["auto", "sequential", "processes", "together"]
MakeModel = Callable[[], nn.Module]


class Posterior(Protocol):
    """From labelled data to a distribution over models, and from that to predictions."""

    def fit(self, data: object, validation: object = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Train on labelled data; on one seed, the result is the same."""

    def predict(
        self, data: object, *, embeddings: bool = False, memory: int | str = budget.DEFAULT, report: Report = silent
    ) -> Predictions:
        """`[N, K, C]` predictions; sample k is the same model for every example."""

    def embed(self, data: object, *, memory: int | str = budget.DEFAULT) -> Array:
        """`[N, D]` float32 embeddings, the same that `predict(..., embeddings=True)` adds."""

    def state(self) -> dict[str, Any]:
        """All that `predict` depends on, for saving."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take up a saved state."""


class NetworkPosterior:
    """Networks, with dropout masks or without: what MC dropout, deep ensembles and dropout ensembles have in common.

    Args:
        model: a function that makes a new network; or a network, which is copied and never changed.
        members: how many networks are trained.
        masks: how many dropout masks of each, or None for no dropout when predicting.
        training: how the networks are trained.
        way: `"sequential"`, `"processes"` (members at the same time in processes of their own), `"together"` (all as
            one stacked network; dense layers only), or `"auto"`: together where the layers allow it, else in processes
            where PyTorch may use more than one thread, else one after another. On one seed, the first two give the same
            members to the last bit, and the third the same up to rounding.
        threads: PyTorch threads that a member trains on, or None for what PyTorch is set to. Sums round differently on
            another number of threads.
        warm_start: whether a later `fit` goes on from the weights of the one before, or starts anew.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
        seed: where the dropout masks for predictions come from.
    """

    def __init__(
        self,
        model: MakeModel | nn.Module,
        members: int,
        masks: int | None,
        *,
        training: Training | None = None,
        way: Way = "auto",
        threads: int | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        seed: int = 0,
    ) -> None:
        for name, count in (("members", members), ("samples", masks), ("threads", threads)):
            if count is not None and (not isinstance(count, int) or count < 1):
                raise ParameterError(f"{name} must be a whole number of at least 1, not {count!r}.")
        if not callable(model):
            raise ParameterError(f"model must be a network or a function that makes one, not {type(model).__name__}.")
        if way not in ("auto", "sequential", "processes", "together"):
            raise ParameterError(f"way must be auto, sequential, processes or together, not {way!r}.")
        self._model, self._members, self._masks = model, members, masks
        self._training, self._way, self._threads = training or Training(), way, threads
        self._warm_start, self._device, self._seed = warm_start, shared.choose_device(device), seed
        self.networks: list[nn.Module] = [model] if isinstance(model, nn.Module) and members == 1 else []
        self.outcomes: list[Outcome] = []

    def fit(self, data: object, validation: object = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Train on labelled data.

        Args:
            data: labelled examples, (inputs, labels), or a `Dataset` of (input, label). They are read once: random
                changes to inputs belong in `Training(augment=...)`.
            validation: the same, for early stopping.
            seed: where initial weights, order of examples and dropout in training come from.
            report: told about progress.
        """
        examples = shared.read_once(as_examples(data))
        needed_labels(examples, "training")
        judge = None if validation is None else shared.read_once(as_examples(validation))
        seeds = [child_seed(seed, "member", member) for member in range(self._members)]
        networks = self._start(seeds)
        way = self._choose(networks, examples)
        workers = min(len(networks), torch.get_num_threads()) if way == "processes" else 1
        with threads_an_operation(self._threads):
            if way == "together":
                outcomes = train(networks, examples, self._training, seeds, judge, report)
            else:
                networks, outcomes = self._one_by_one(workers, networks, examples, seeds, judge, report)
        self.networks, self.outcomes = networks, outcomes
        return self

    def predict(
        self,
        data: object,
        *,
        embeddings: bool = False,
        out: str | Path | None = None,
        memory: int | str = budget.DEFAULT,
        report: Report = silent,
    ) -> Predictions:
        """`[N, K, C]` predictions.

        Args:
            data: examples.
            embeddings: whether to add `[N, D]` embeddings, what goes into the networks' last layer.
            out: a `.npy` file to write the predictions to.
            memory: bytes, or a text such as `"2GB"`: predictions that do not fit half of it go to a mapped file.
            report: told about progress.
        """
        path = None if out is None else Path(out)
        with self._sampler() as sampler:
            return shared.predict(
                sampler, as_examples(data), self._device, budget.parse(memory), path, embeddings, report
            )

    def embed(self, data: object, *, memory: int | str = budget.DEFAULT) -> Array:
        """`[N, D]` float32: what goes into the last layer of the networks, without dropout, side by side."""
        with self._sampler() as sampler:
            return shared.embed(sampler, as_examples(data), self._device, budget.parse(memory))

    def state(self) -> dict[str, Any]:
        """The weights of all networks."""
        return {"networks": [{k: v.cpu() for k, v in network.state_dict().items()} for network in self.networks]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take up saved weights."""
        networks: list[nn.Module] = []
        if len(state["networks"]) not in (0, self._members):
            raise ParameterError(
                f"the saved state has {len(state['networks'])} networks, and this {type(self).__name__} has "
                f"{self._members} members. Load it into one with as many."
            )
        for weights in state["networks"]:
            network = self._make(0)
            try:
                network.load_state_dict(weights)
            except RuntimeError as error:
                raise ParameterError(f"the saved weights do not fit {type(network).__name__}: {error}") from error
            networks.append(self._placed(network).eval())
        self.networks = networks

    def on(self, device: str | torch.device) -> Self:
        """A copy on another device, `"auto"` for a GPU if there is one: to send to another machine, or to use there."""
        other = copy.copy(self)
        other._device = shared.choose_device(device)
        other.networks = [other._placed(copy.deepcopy(network)) for network in self.networks]
        return other

    def _sampler(self) -> shared.Sampler:
        if not self.networks:
            raise StateError(f"{type(self).__name__} has no networks yet. Call fit(data) first.")
        for network in self.networks:
            network.to(self._device)
        return shared.Sampler(self.networks, self._masks, self._seed)

    def _make(self, seed: int) -> nn.Module:
        return copy.deepcopy(self._model) if isinstance(self._model, nn.Module) else build(self._model, seed)

    def _start(self, seeds: Sequence[int]) -> list[nn.Module]:
        if self._warm_start and len(self.networks) == self._members:
            fresh = [copy.deepcopy(network) for network in self.networks]
        else:
            fresh = [self._make(child_seed(seed, "initial weights")) for seed in seeds]
        return [self._placed(network) for network in fresh]

    def _placed(self, network: nn.Module) -> nn.Module:
        """The network on its device; convolutions in the order of memory that is fast, and rounds the same."""
        convolutional = any(isinstance(module, nn.Conv2d) for module in network.modules())
        network.to(self._device)
        return network.to(memory_format=torch.channels_last) if convolutional else network  # type: ignore[call-overload]

    def _choose(self, networks: Sequence[nn.Module], data: Examples) -> Way:
        if self._way in ("sequential", "processes") or len(networks) == 1:
            return "sequential" if len(networks) == 1 else self._way
        if can_train_at_once(networks, data):
            return "together"
        if self._way == "together":
            raise ParameterError(
                f'{type(networks[0]).__name__} cannot be trained with way="together", which is for dense layers. '
                'Use way="sequential" or "processes".'
            )
        return "processes" if torch.get_num_threads() > 1 and self._device.type == "cpu" else "sequential"

    def _one_by_one(
        self,
        workers: int,
        networks: list[nn.Module],
        data: Examples,
        seeds: Sequence[int],
        validation: Examples | None,
        report: Report,
    ) -> tuple[list[nn.Module], list[Outcome]]:
        """Train each network alone, in the calling process if there is one worker."""
        done: list[nn.Module] = []
        outcomes: list[Outcome] = []
        tasks = zip(networks, seeds, strict=True)
        if workers == 1:
            results = (_train_one(network, data, self._training, seed, validation) for network, seed in tasks)
        else:
            threads = torch.get_num_threads()
            results = Parallel(workers, return_as="generator")(
                delayed(_train_apart)(network, data, self._training, seed, validation, threads)
                for network, seed in tasks
            )
        for network, outcome in results:
            done.append(network)
            outcomes.append(outcome)
            report("training the networks", len(done), len(networks))
        return done, outcomes


def _train_one(
    network: nn.Module, data: Examples, training: Training, seed: int, validation: Examples | None
) -> tuple[nn.Module, Outcome]:
    return network, train([network], data, training, [seed], validation)[0]


def _train_apart(*task: Any) -> tuple[nn.Module, Outcome]:
    """Train in a process of its own."""
    *arguments, threads = task
    with threads_an_operation(threads):
        return _train_one(*arguments)
