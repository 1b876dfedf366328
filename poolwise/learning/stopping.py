"""When to stop asking for labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from poolwise.errors import MissingInputError, ParameterError
from poolwise.learning.rounds import Round


class Rule(Protocol):
    """Looks at the rounds so far and says why to stop, or None to go on."""

    def reason(self, rounds: Sequence[Round]) -> str | None:
        """Why to stop now."""


@dataclass(frozen=True)
class Budget:
    """Stop once so many examples are labelled in all, those from the start and of the last round included."""

    labels: int

    def reason(self, rounds: Sequence[Round]) -> str | None:
        """Why to stop now."""
        reached = bool(rounds) and rounds[-1].labelled + len(rounds[-1].indices) >= self.labels
        return f"the budget of {self.labels} labels is used" if reached else None


@dataclass(frozen=True)
class Target:
    """Stop once a metric on the validation set is good enough: accuracy at least, the others at most, the value."""

    value: float
    metric: str = "accuracy"

    def reason(self, rounds: Sequence[Round]) -> str | None:
        """Why to stop now."""
        if not rounds or not rounds[-1].labelled:
            return None
        if rounds[-1].validation is None:
            raise MissingInputError(
                "Target looks at a validation set, and there is none. Hold one out with pool.hold_out(count), or pass "
                "validation= to the learner."
            )
        if self.metric not in rounds[-1].validation:
            raise ParameterError(
                f"there is no metric {self.metric!r}: choose one of {', '.join(rounds[-1].validation)}."
            )
        value = rounds[-1].validation[self.metric]
        reached = value >= self.value if self.metric == "accuracy" else value <= self.value
        return f"{self.metric} on the validation set is {value:.4g}, the target {self.value:g}" if reached else None


@dataclass(frozen=True)
class Stable:
    """Stop once successive models agree on the pool (Bloodgood & Vijay-Shanker 2009).

    Attributes:
        agreement: Cohen's kappa between the labels that two successive models give to the unlabelled examples. It is
            1 for full agreement and 0 for what chance would give.
        rounds: for how many rounds in a row.
    """

    agreement: float = 0.99
    rounds: int = 3

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ParameterError(f"rounds must be at least 1, not {self.rounds!r}.")

    def reason(self, rounds: Sequence[Round]) -> str | None:
        """Why to stop now."""
        last = [entry.agreement for entry in rounds[-self.rounds :]]
        stable = len(last) == self.rounds and all(value is not None and value >= self.agreement for value in last)
        return f"successive models agree on the pool (kappa at least {self.agreement:g})" if stable else None
