"""The settings of the training loop, and the names that they had in version 0.1."""

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import torch
from torch import Tensor

from poolwise.errors import ParameterError
from poolwise.models.checks import shown

_COUNTS = ("batch_size", "epochs", "steps", "patience", "validate_every", "min_steps")
# Larger numbers are mistakes: a billion steps of the smallest network take days.
_MOST = 10**9


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Attributes:
        optimiser: `"adam"` or `"sgd"`.
        learning_rate: step size.
        momentum: momentum of SGD; Adam does not use it.
        weight_decay: L2 penalty: this times the weights is added to the gradient, with either optimiser.
        milestones: epochs after which the learning rate is multiplied by `gamma`.
        gamma: the factor for `milestones`.
        batch_size: examples per step; all of them if there are fewer.
        epochs: passes over the labelled examples.
        min_steps: train for at least this many steps, whatever `epochs` says. With 20 labels, an epoch is one step.
        steps: the exact number of steps, whatever `epochs` and `min_steps` say.
        patience: stop after this many validations without improvement; None never stops early. Where there is a
            validation set, the weights of the best validation are kept in any case.
        validate_every: steps between two validations; by default an epoch, or 20 steps if that is more.
        monitor: what is compared at each validation, `"nll"` or `"accuracy"`.
        label_smoothing: share of a label that is spread over all classes.
        class_weights: one weight per class in the loss. `"balanced"` gives rare classes as much weight in total as
            frequent ones.
        augment: `"crop-flip"` moves each image by up to an eighth of its size and mirrors half of them; or a function
            of a batch of inputs and a `torch.Generator`, applied to every batch.

    Example:
        >>> import poolwise as pw
        >>> training = pw.Training(steps=200, learning_rate=1e-3, validate_every=50, patience=2)
        >>> training.optimiser, training.steps
        ('adam', 200)
    """

    optimiser: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    milestones: tuple[int, ...] = ()
    gamma: float = 0.1
    batch_size: int = 64
    epochs: int = 50
    min_steps: int = 300
    steps: int | None = None
    patience: int | None = None
    validate_every: int | None = None
    monitor: Literal["nll", "accuracy"] = "nll"
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | Literal["balanced"] | None = None
    augment: Literal["crop-flip"] | Callable[[Tensor, torch.Generator], Tensor] | None = None

    def __post_init__(self) -> None:
        positive = ("learning_rate", "batch_size", "epochs", "steps", "patience", "validate_every", "gamma")
        for name in (*positive, "min_steps", "momentum", "weight_decay", "label_smoothing"):
            value = getattr(self, name)
            if value is not None and not (value > 0 if name in positive else value >= 0):
                least = "above" if name in positive else "at least"
                raise ParameterError(f"{name} must be {least} 0, not {shown(value)}.")
            if name in _COUNTS and value is not None:
                if not isinstance(value, Integral):
                    raise ParameterError(f"{name} must be a whole number, not {shown(value)}.")
                if int(value) > _MOST:
                    raise ParameterError(f"{name} must be at most {_MOST:,}, not {shown(value)}.")
        if self.label_smoothing > 1:
            raise ParameterError(f"label_smoothing must be at most 1, not {self.label_smoothing!r}.")
        choices = {"optimiser": ("adam", "sgd"), "monitor": ("nll", "accuracy"), "augment": (None, "crop-flip")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed and not callable(getattr(self, name)):
                raise ParameterError(f"{name} must be one of {allowed}, not {getattr(self, name)!r}.")

    @classmethod
    def resnet(cls) -> "Training":
        """The paper's ResNet-18 runs: SGD for 50 epochs, the best epoch on the validation set kept."""
        return cls(
            optimiser="sgd",
            learning_rate=0.05,
            weight_decay=5e-4,
            milestones=(25, 40),
            min_steps=0,
            monitor="accuracy",
            augment="crop-flip",
        )

    @property
    def look_every(self) -> int | None:
        """The former name of `validate_every`."""
        _renamed("look_every")
        return self.validate_every

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take up what was pickled, also by version 0.1."""
        self.__dict__.update(renamed_settings(state, warn=False))


def renamed_settings(settings: Mapping[str, Any], *, warn: bool = True) -> dict[str, Any]:
    """Settings of `Training` under their present names."""
    present = dict(settings)
    if "look_every" in present:
        if warn:
            _renamed("look_every")
        former = present.pop("look_every")
        if present.get("validate_every") is None:
            present["validate_every"] = former
    return present


def _renamed(name: str) -> None:
    warnings.warn(f"{name} is now called validate_every.", DeprecationWarning, stacklevel=4)


_init = Training.__init__


@functools.wraps(_init)
def _init_with_former_names(self: Training, *arguments: Any, **settings: Any) -> None:
    _init(self, *arguments, **renamed_settings(settings))


Training.__init__ = _init_with_former_names  # type: ignore[method-assign]
