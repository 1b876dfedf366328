"""Where a learner stands: its history, what it asks for, and which model it has."""

from dataclasses import dataclass, field, replace

from poolwise.arrays import Array
from poolwise.learning.query import Query
from poolwise.learning.rounds import Round


@dataclass
class Standing:
    """Where a learner stands, beside the labels in its pool.

    Attributes:
        rounds: the history.
        query: what is asked for and not yet labelled.
        trained: the round whose model the posterior has, if it is not in the history yet.
        model: the number of the model that the posterior has; 0 for none.
        classes: `[N]` the class that the last model predicted for each example, -1 where it was not asked; None where
            the agreement of models is not tracked.
        classes_round: the round of that model.
    """

    rounds: list[Round] = field(default_factory=list)
    query: Query | None = None
    trained: Round | None = None
    model: int = 0
    classes: Array | None = None
    classes_round: int = 0

    def copy(self) -> "Standing":
        """A copy to return to."""
        return replace(self, rounds=list(self.rounds))
