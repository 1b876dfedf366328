"""When to stop asking for labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from poolwise.errors import MissingInputError, ParameterError
from poolwise.learning.rounds import Round


class Rule(Protocol):
    """Reads the rounds so far and says why to stop, or None to continue.

    A rule that reads `Round.agreement` says so with a class attribute `needs_agreement = True`. `simulate` then makes
    the learner track it.

    Example:
        >>> class AfterThreeRounds:
        ...     def reason(self, rounds):
        ...         return "three rounds are enough" if len(rounds) >= 3 else None
        >>> AfterThreeRounds().reason([])
    """

    def reason(self, rounds: Sequence[Round]) -> str | None:
        """Why to stop now, in words; None to continue.

        Args:
            rounds: the rounds so far, such as `learner.rounds`.
        """


@dataclass(frozen=True)
class Budget:
    """Stop once this many examples are labelled in all, including the first labels and those of the last round.

    Attributes:
        labels: how many.

    Example:
        >>> Budget(20).reason([Round(0, labelled=10, indices=(1, 2))])
        >>> Budget(12).reason([Round(0, labelled=10, indices=(1, 2))])
        'the budget of 12 labels is used'
    """

    labels: int

    def reason(self, rounds: Sequence[Round]) -> str | None:
        """Why to stop now, in words; None to continue.

        Args:
            rounds: the rounds so far, such as `learner.rounds`.
        """
        reached = bool(rounds) and rounds[-1].labelled + len(rounds[-1].indices) >= self.labels
        return f"the budget of {self.labels} labels is used" if reached else None


@dataclass(frozen=True)
class Target:
    """Stop once a metric on the validation set is good enough: accuracy at least the value, any other at most.

    Attributes:
        value: the accuracy to reach, or the largest value of another metric.
        metric: `"accuracy"`, `"nll"`, `"brier"` or `"ece"`.

    Example:
        >>> Target(0.9).reason([Round(0, labelled=10, validation={"accuracy": 0.92})])
        'accuracy on the validation set is 0.92, the target 0.9'
    """

    value: float
    metric: str = "accuracy"

    def reason(self, rounds: Sequence[Round]) -> str | None:
        """Why to stop now, in words; None to continue.

        Args:
            rounds: the rounds so far, such as `learner.rounds`.
        """
        if not rounds or not rounds[-1].labelled:
            return None
        if rounds[-1].validation is None:
            raise MissingInputError(
                "Target needs a validation set, and there is none. Hold one out with pool.hold_out(count), or pass "
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

    The agreement must be tracked, which takes one more pass over the pool per round. `simulate` sees to it; in a loop
    of your own, make the learner with `agreement=True`.

    Attributes:
        agreement: Cohen's kappa between the labels that two successive models give to the unlabelled examples. It is
            1 for full agreement and 0 for what chance would give.
        rounds: for how many rounds in a row.

    Example:
        >>> Stable(0.9, rounds=1).reason([Round(4, labelled=50, agreement=0.95, tracked=True)])
        'successive models agree on the pool (kappa at least 0.9)'
    """

    agreement: float = 0.99
    rounds: int = 3
    needs_agreement: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ParameterError(f"rounds must be at least 1, not {self.rounds!r}.")

    def reason(self, rounds: Sequence[Round]) -> str | None:
        """Why to stop now, in words; None to continue.

        Args:
            rounds: the rounds so far, such as `learner.rounds`.
        """
        trained = [entry for entry in rounds if entry.labelled]
        if trained and not trained[-1].tracked and trained[-1].agreement is None:
            raise MissingInputError(
                "Stable needs the agreement of successive models, which was not tracked in the last round. Make the "
                "learner with agreement=True, or pass the rule to simulate(..., stop=[Stable()])."
            )
        last = [entry.agreement for entry in rounds[-self.rounds :]]
        stable = len(last) == self.rounds and all(value is not None and value >= self.agreement for value in last)
        return f"successive models agree on the pool (kappa at least {self.agreement:g})" if stable else None
