"""The one implementation behind the posteriors made of networks."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from joblib import Parallel, delayed
from torch import nn

from poolwise import budget
from poolwise.arrays import Array
from poolwise.data.batches import Data
from poolwise.data.examples import Examples, as_examples, needed_labels
from poolwise.errors import ParameterError, StateError
from poolwise.models.checks import count
from poolwise.models.devices import choose_device
from poolwise.models.initialise import build
from poolwise.models.members import can_be_stacked
from poolwise.models.outputs import Outputs, check_choice
from poolwise.parallel import threads_an_operation
from poolwise.posteriors import networks as shared
from poolwise.posteriors.protocol import Posterior as Posterior
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.seeding import child_seed, stream
from poolwise.training import Outcome, Training, train

TrainMembers = Literal["auto", "sequential", "processes", "vectorised"]
"""How the members of an ensemble are trained, see `NetworkPosterior`."""

MakeModel = Callable[[], nn.Module]

_FORMER = {"together": "vectorised"}  # former spellings of TrainMembers
# Larger numbers are mistakes: no machine trains a million networks or has tens of thousands of cores.
_MOST = {"members": 10_000, "samples": 1_000_000, "threads": 1_024}


class NetworkPosterior:
    """Networks, with dropout masks or without: what MC dropout, deep ensembles and dropout ensembles have in common.

    Args:
        model: a function that makes a new network; or a network, which is copied and never changed.
        members: how many networks are trained.
        masks: how many dropout masks of each, or None for no dropout when predicting.
        training: how the networks are trained.
        train_members: `"sequential"`; `"processes"` (members at the same time, each in a separate process);
            `"vectorised"` (all as one stacked network; dense layers only); or `"auto"`. That is vectorised where the
            layers allow it, else in processes where each member gets one thread and PyTorch may use more, else
            sequential. On the same seed, the first two give the same members to the last bit, and the third the same up
            to rounding.
        threads: PyTorch threads that a member trains on, or None for what PyTorch is set to. Sums round differently on
            another number of threads.
        warm_start: whether a later `fit` continues from the weights of the one before.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
        seed: where the dropout masks for predictions come from.
        outputs: what the networks return: `"logits"`, `"probs"`, `"log-probs"`, or `"auto"` for logits, with an error
            if they are probabilities already.
        way: the former name of `train_members`.
    """

    def __init__(
        self,
        model: MakeModel | nn.Module,
        members: int,
        masks: int | None,
        *,
        training: Training | None = None,
        train_members: TrainMembers = "auto",
        threads: int | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        seed: int = 0,
        outputs: Outputs = "auto",
        way: str | None = None,
    ) -> None:
        for name, number in (("members", members), ("samples", masks), ("threads", threads)):
            if number is not None:
                count(number, name, most=_MOST[name])
        if not callable(model):
            raise ParameterError(f"model must be a network or a function that makes one, not {type(model).__name__}.")
        check_choice(outputs)
        stream(seed)  # raises if it is no seed
        self._model, self._members, self._masks = model, members, masks
        self._training, self._train_members, self._threads = training or Training(), _how(train_members, way), threads
        self._warm_start, self._device, self._seed = warm_start, choose_device(device), seed
        self._outputs: Outputs = outputs
        self.networks: list[nn.Module] = self._given()
        self.outcomes: list[Outcome] = []

    def __repr__(self) -> str:
        made = self._model if isinstance(self._model, nn.Module) else next(iter(self.networks), None)
        function = getattr(self._model, "__name__", "<lambda>").replace("<lambda>", "network")
        name = function if made is None else type(made).__name__
        parts = [name if self._members == 1 else f"{self._members} × {name}"]
        if self._masks is not None:
            parts.append(f"{self._masks} masks" if self._members == 1 else f"{self._masks} masks each")
        return f"{type(self).__name__}({', '.join(parts)}{'' if self.networks else ', not fitted'})"

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take up what was pickled, also by version 0.1."""
        former = state.get("_way", "auto")
        added = {"_outputs": "auto", "_train_members": _FORMER.get(former, former)}
        self.__dict__.update({**added, **{name: value for name, value in state.items() if name != "_way"}})

    def fit(self, data: Data, validation: Data | None = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Train on labelled data.

        Args:
            data: labelled examples, (inputs, labels), or a `Dataset` of (input, label). They are read once: random
                changes to inputs belong in `Training(augment=...)`.
            validation: labelled examples for early stopping.
            seed: where initial weights, the order of examples and dropout in training come from.
            report: told about progress.
        """
        examples = shared.read_once(as_examples(data))
        needed_labels(examples, "training")
        judge = None if validation is None else shared.read_once(as_examples(validation))
        seeds = [child_seed(seed, "member", member) for member in range(self._members)]
        networks = self._start(seeds)
        how = self._choose(networks, examples)
        workers = min(len(networks), torch.get_num_threads()) if how == "processes" else 1
        with threads_an_operation(self._threads):
            if how == "vectorised":
                outcomes = train(networks, examples, self._training, seeds, judge, report, self._outputs)
            else:
                networks, outcomes = self._one_by_one(workers, networks, examples, seeds, judge, report)
        self.networks, self.outcomes = networks, outcomes
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
        """`[N, K, C]` predictions; the arguments are those of `BasePosterior.predict`.

        Embeddings are what goes into the networks' last layer.
        """
        path = None if out is None else Path(out)
        with self._sampler() as sampler:
            return shared.predict(sampler, as_examples(data), budget.parse(memory), path, embeddings, report)

    def embed(self, data: Data, *, memory: int | str = budget.DEFAULT) -> Array:
        """`[N, D]` float32: what goes into the last layer of the networks, without dropout, side by side.

        Args:
            data: examples.
            memory: working memory, in bytes or as `"2GB"`.
        """
        with self._sampler() as sampler:
            return shared.embed(sampler, as_examples(data), budget.parse(memory))

    def state(self) -> dict[str, Any]:
        """The weights of all networks."""
        return {"networks": [{k: v.cpu() for k, v in network.state_dict().items()} for network in self.networks]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore saved weights."""
        networks: list[nn.Module] = []
        if len(state["networks"]) not in (0, self._members):
            raise ParameterError(
                f"the saved state has {len(state['networks'])} networks, and this {type(self).__name__} has "
                f"{self._members} members. Load it into one of the same size."
            )
        for weights in state["networks"]:
            network = self._make(0)
            try:
                network.load_state_dict(weights)
            except RuntimeError as error:
                raise ParameterError(f"the saved weights do not fit {type(network).__name__}: {error}") from error
            networks.append(self._placed(network).eval())
        self.networks = networks

    def untrained(self) -> Self:
        """An untrained copy, whose `fit` starts from the beginning, also with `warm_start`."""
        other = copy.copy(self)
        other.networks, other.outcomes = other._given(), []
        return other

    def on(self, device: str | torch.device) -> Self:
        """A copy for another device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ..."""
        other = copy.copy(self)
        other._device = choose_device(device)
        other.networks = [other._placed(copy.deepcopy(network)) for network in self.networks]
        return other

    def _sampler(self) -> shared.Sampler:
        if not self.networks:
            raise StateError(f"{type(self).__name__} has no networks yet. Call fit(data) first.")
        return shared.Sampler(self.networks, self._masks, self._seed, self._device, self._outputs)

    def _given(self) -> list[nn.Module]:
        """What can predict before anything is fitted: the network, where one was given."""
        return [self._model] if isinstance(self._model, nn.Module) and self._members == 1 else []

    def _make(self, seed: int) -> nn.Module:
        return copy.deepcopy(self._model) if isinstance(self._model, nn.Module) else build(self._model, seed)

    def _start(self, seeds: Sequence[int]) -> list[nn.Module]:
        if self._warm_start and len(self.networks) == self._members:
            fresh = [copy.deepcopy(network) for network in self.networks]
        else:
            fresh = [self._make(child_seed(seed, "initial weights")) for seed in seeds]
        return [self._placed(network) for network in fresh]

    def _placed(self, network: nn.Module) -> nn.Module:
        """The network on its device; convolutions in the memory layout that is fast, and rounds the same."""
        convolutional = any(isinstance(module, nn.Conv2d) for module in network.modules())
        network.to(self._device)
        return network.to(memory_format=torch.channels_last) if convolutional else network  # type: ignore[call-overload]

    def _choose(self, networks: Sequence[nn.Module], data: Examples) -> TrainMembers:
        if len(networks) == 1:
            return "sequential"
        if self._train_members in ("sequential", "processes"):
            return self._train_members
        if can_be_stacked(networks, data):
            return "vectorised"
        if self._train_members == "vectorised":
            raise ParameterError(
                f'{type(networks[0]).__name__} cannot be trained with train_members="vectorised", which is for dense '
                'layers. Use "sequential", "processes" or "auto".'
            )
        spare = self._threads == 1 and torch.get_num_threads() > 1 and self._device.type == "cpu"
        return "processes" if spare else "sequential"

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
            results = (
                _train_one(network, data, self._training, seed, validation, self._outputs) for network, seed in tasks
            )
        else:
            threads = torch.get_num_threads()  # in this context, what a member trains on
            results = Parallel(workers, return_as="generator")(
                delayed(_train_apart)(network, data, self._training, seed, validation, self._outputs, threads)
                for network, seed in tasks
            )
        for network, outcome in results:
            done.append(network)
            outcomes.append(outcome)
            report("training the networks", len(done), len(networks))
        return done, outcomes


def _how(train_members: TrainMembers, way: str | None) -> TrainMembers:
    """How members are trained, under its present name."""
    wanted: Any = train_members
    if way is not None:
        warnings.warn("way is now called train_members.", DeprecationWarning, stacklevel=4)
        wanted = way
    if wanted in _FORMER:
        if way is None:
            warnings.warn(f'"{wanted}" is now called "{_FORMER[wanted]}".', DeprecationWarning, stacklevel=4)
        wanted = _FORMER[wanted]
    if wanted not in get_args(TrainMembers):
        raise ParameterError(f"train_members must be one of {', '.join(get_args(TrainMembers))}, not {wanted!r}.")
    chosen: TrainMembers = wanted
    return chosen


def _train_one(
    network: nn.Module, data: Examples, training: Training, seed: int, validation: Examples | None, outputs: Outputs
) -> tuple[nn.Module, Outcome]:
    return network, train([network], data, training, [seed], validation, outputs=outputs)[0]


def _train_apart(*task: Any) -> tuple[nn.Module, Outcome]:
    """Train in a separate process."""
    *arguments, threads = task
    with threads_an_operation(threads):
        return _train_one(*arguments)
