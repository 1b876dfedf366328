"""The one training loop: one network, or several of the same kind at once."""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poolwise.arrays import Array
from poolwise.data.augmentation import crop_and_flip
from poolwise.data.examples import Examples, needed_labels
from poolwise.errors import MissingInputError, ParameterError, TrainingError
from poolwise.models.inputs import Reading, each
from poolwise.models.members import Single, Stack
from poolwise.models.outputs import PROBED, Outputs, check_outputs
from poolwise.models.randomness import seeded
from poolwise.progress import Report, silent
from poolwise.seeding import child_seed, stream, torch_generator
from poolwise.training_settings import Training as Training

# Rows of a validation set that go through a network at a time.
_CHUNK = 256
_UNKNOWN = torch.empty(0)


@dataclass(frozen=True)
class Outcome:
    """The result of training one network.

    Attributes:
        steps: steps taken.
        best_step: the step whose weights were kept.
        loss: mean loss over the last epoch.
        validation: the monitored value at the best validation (the nll negated: larger is better), or None.
    """

    steps: int
    best_step: int
    loss: float
    validation: float | None


def train(
    networks: Sequence[nn.Module],
    data: Examples,
    training: Training,
    seeds: Sequence[int],
    validation: Examples | None = None,
    report: Report = silent,
    outputs: Outputs = "auto",
) -> list[Outcome]:
    """Train networks of one architecture, all at once if there are several; each is changed in place.

    A network's result depends on its own seed only. On the same seed, alone or among others, it sees the same examples
    in the same order with the same dropout masks, and differs by rounding at most. No random state is changed.

    Args:
        networks: the networks, initialised.
        data: labelled examples.
        training: how.
        seeds: a seed for each network: its order of examples, augmentation and dropout.
        validation: examples for early stopping.
        report: told about progress.
        outputs: what the networks return: `"logits"`, `"probs"`, `"log-probs"`, or `"auto"` for logits, with an error
            if they are probabilities already.
    """
    labels = torch.from_numpy(needed_labels(data, "training"))
    if not len(labels):
        raise MissingInputError("training needs at least one labelled example. Label a few first.")
    if validation is not None and not len(needed_labels(validation, "a validation set")):
        raise MissingInputError("the validation set is empty. Pass None for no validation.")
    members = Single(networks[0], outputs) if len(networks) == 1 else Stack(networks, outputs)
    # Dropout layers draw from generators of their own. Whatever else is random in a network draws from PyTorch's state.
    state = child_seed(seeds[0], "other randomness in training")
    with seeded(state, members.device):
        first = data.batch(np.arange(min(PROBED, len(labels))))
        reading = Reading.of(networks[0], first)
        if outputs == "auto":
            check_outputs(networks[0], reading(first))
    loop = _Loop(members, data, labels, training, seeds, reading)
    with seeded(state, members.device), members.prepared(), torch.enable_grad():
        try:
            return loop.run(validation, report)
        except ValueError as error:
            if "more than 1 value per channel" in str(error):
                raise TrainingError(
                    f"{type(networks[0]).__name__} has batch normalisation, which needs at least two examples per "
                    f"step, and there are {len(labels)} labelled, {training.batch_size} at most per step. Label one "
                    "more, raise batch_size, or use another normalisation, such as nn.LayerNorm."
                ) from error
            raise


class _Loop:
    """Steps, validations, and the best weights of each network."""

    def __init__(
        self,
        members: "Single | Stack",
        data: Examples,
        labels: Tensor,
        training: Training,
        seeds: Sequence[int],
        reading: Reading,
    ) -> None:
        self._members, self._data, self._labels, self._training = members, data, labels, training
        self._reading = reading
        self._weights: Tensor | None = _UNKNOWN
        self._orders = [stream(seed, "order of examples") for seed in seeds]
        self._noise = [torch_generator(seed, "augmentation") for seed in seeds]
        members.seed([torch_generator(seed, "dropout in training") for seed in seeds])

    def run(self, validation: Examples | None, report: Report) -> list[Outcome]:
        training, members = self._training, self._members
        parts = batches(len(self._labels), training.batch_size)
        total = training.steps or max(training.epochs * len(parts), training.min_steps)
        validate_every = training.validate_every or max(20, len(parts))
        optimiser = _optimiser(members.parameters, training)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, list(training.milestones), training.gamma)
        best: list[_Best] = [_Best() for _ in range(members.count)]
        losses: list[Tensor] = []
        step = 0
        while step < total:
            orders = np.stack([order.permutation(len(self._labels)) for order in self._orders])
            losses.clear()
            for rows in parts[: total - step]:
                optimiser.zero_grad()
                loss_M = self._losses(orders[:, rows])
                loss_M.sum().backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                losses.append(loss_M.detach())
                step += 1
                if validation is not None and (step % validate_every == 0 or step == total):
                    self._validate(validation, best, step)
                    if all(member.waits(training.patience) for member in best):
                        total = step
                        break
                report("training", step, total)
            schedule.step()
            finite_M = torch.stack(losses).isfinite().all(0).tolist()
            if not all(finite or member.stopped for finite, member in zip(finite_M, best, strict=True)):
                raise _diverged("the loss", step, training)
        members.restore([member.weights for member in best])
        mean_M = torch.stack(losses).mean(0)
        return [
            Outcome(step, member.step or step, float(mean), member.value)
            for member, mean in zip(best, mean_M, strict=True)
        ]

    def _losses(self, indices_M_B: Array) -> Tensor:
        """`[M]` mean loss of each network on its own examples."""
        count, rows = indices_M_B.shape
        flat = indices_M_B.reshape(-1)
        batch = self._data.batch(flat)
        if self._training.augment is not None:
            batch = self._augmented(batch, count)
        inputs = each(lambda x: x.view(count, rows, *x.shape[1:]), self._reading(batch))
        labels = self._labels[torch.from_numpy(flat)].to(self._members.device)
        logits = self._members.logits(inputs).flatten(0, 1)
        weights = self._class_weights(logits)
        smoothing = self._training.label_smoothing
        losses = F.cross_entropy(logits, labels, weights, label_smoothing=smoothing, reduction="none").view(count, -1)
        if weights is None:
            return losses.mean(1)
        return losses.sum(1) / weights[labels].view(count, -1).sum(1).clamp_min(torch.finfo(losses.dtype).tiny)

    def _augmented(self, batch: object, count: int) -> Tensor:
        """The inputs of all networks with random changes, each network's from its own generator."""
        change = crop_and_flip if self._training.augment == "crop-flip" else self._training.augment
        if not isinstance(batch, Tensor) or not callable(change):
            raise ParameterError(f"augment is for inputs of one tensor, and these are a {type(batch).__name__}.")
        parts = batch.view(count, -1, *batch.shape[1:])
        return torch.cat([change(*pair) for pair in zip(parts, self._noise, strict=True)])

    def _class_weights(self, logits: Tensor) -> Tensor | None:
        """`[C]` weights of the classes; the first outputs tell how many classes there are."""
        if self._weights is _UNKNOWN:
            if logits.ndim != 2 or int(self._labels.max()) >= logits.shape[1]:
                raise TrainingError(
                    f"the network returns {list(logits.shape)} for {len(logits)} examples whose largest label is "
                    f"{int(self._labels.max())}. It must return one number per class, [examples, classes]."
                )
            self._weights = class_weights(self._training.class_weights, self._labels, logits.shape[1])
        return None if self._weights is None else self._weights.to(logits)

    def _validate(self, validation: Examples, best: "list[_Best]", step: int) -> None:
        """Compare every network with its best so far."""
        labels = torch.from_numpy(needed_labels(validation, "a validation set"))
        values_M = torch.zeros(self._members.count, dtype=torch.float64)
        for start in range(0, len(labels), _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, len(labels)))
            logits_M_n_C = self._members.evaluate(self._reading(validation.batch(rows))).double().cpu()
            truth_n = labels[start : start + len(rows)]
            if int(truth_n.max()) >= logits_M_n_C.shape[2]:
                raise TrainingError(
                    f"the network has {logits_M_n_C.shape[2]} outputs, and a label of the validation set is "
                    f"{int(truth_n.max())}. It must return one number per class."
                )
            if self._training.monitor == "accuracy":
                values_M += (logits_M_n_C.argmax(2) == truth_n).sum(1)
            else:
                picked = logits_M_n_C.log_softmax(2).gather(2, truth_n.expand(len(values_M), -1)[:, :, None])
                values_M += picked.sum((1, 2))
        for member, value in enumerate((values_M / len(labels)).tolist()):
            if math.isnan(value) and not best[member].stopped:
                raise _diverged("the loss on the validation set", step, self._training)
            best[member].offer(value, step, self._training, partial(self._members.snapshot, member))


@dataclass
class _Best:
    """The best validation of one network so far; larger is better."""

    value: float | None = None
    step: int | None = None
    weights: dict[str, Tensor] | None = None
    failed_since: int = 0
    stopped: bool = False

    def offer(self, value: float, step: int, training: Training, weights: Callable[[], dict[str, Tensor]]) -> None:
        """Take a value and its weights if they are better, unless this network has stopped."""
        if self.stopped:
            return
        if self.value is None or value > self.value:
            self.value, self.step, self.weights, self.failed_since = value, step, weights(), 0
        else:
            self.failed_since += 1
        self.stopped = self.waits(training.patience)

    def waits(self, patience: int | None) -> bool:
        """Whether there was no improvement for too long."""
        return patience is not None and self.failed_since >= patience


def _diverged(what: str, step: int, training: Training) -> TrainingError:
    return TrainingError(
        f"training diverged: {what} is not finite at step {step}. Lower the learning rate "
        f"({training.learning_rate:g} now), and check the inputs for values that are not finite."
    )


def class_weights(weights: tuple[float, ...] | str | None, labels: Tensor, classes: int) -> Tensor | None:
    """`[C]` weights: as given, or in inverse proportion to the number of examples of a class."""
    if weights is None:
        return None
    if weights == "balanced":
        counts = torch.bincount(labels, minlength=classes).double()
        present = int((counts > 0).sum())
        return torch.where(counts > 0, len(labels) / (present * counts.clamp_min(1)), 0.0).float()
    if isinstance(weights, str) or len(weights) != classes or min(weights) < 0:
        raise ParameterError(
            f'class_weights must be "balanced" or {classes} numbers of at least 0, one per class, not {weights!r}.'
        )
    return torch.tensor(weights)


def batches(count: int, size: int) -> list[slice]:
    """Parts of a permutation; a single example left over joins the part before, since batch statistics need two."""
    starts = list(range(0, count, size))
    if len(starts) > 1 and count - starts[-1] == 1:
        starts.pop()
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], count], strict=True)]


def _without_compiler(kind: type[torch.optim.Optimizer]) -> type[Any]:
    """An optimiser whose methods are not prepared for `torch.compile`: importing that takes as long as PyTorch does."""
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in ("add_param_group", "zero_grad")}
    return type(kind.__name__, (kind,), {**plain, "step": torch.no_grad()(inspect.unwrap(kind.step))})


_ADAM, _SGD = _without_compiler(torch.optim.Adam), _without_compiler(torch.optim.SGD)


def _optimiser(parameters: Sequence[Tensor], training: Training) -> torch.optim.Optimizer:
    rate, decay = training.learning_rate, training.weight_decay
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in parameters)
    kind, more = (_ADAM, {}) if training.optimiser == "adam" else (_SGD, {"momentum": training.momentum})
    made: torch.optim.Optimizer = kind(parameters, rate, weight_decay=decay, fused=fused, **more)
    return made
