"""Where a learner stands: its rounds, what it asks for, and which model it has."""

from dataclasses import dataclass, field, replace

import numpy as np

from poolwise.arrays import Array
from poolwise.learning.history import Event
from poolwise.learning.query import Query
from poolwise.learning.rounds import Round
from poolwise.metrics import kappa


@dataclass
class Current:
    """Where a learner stands, beside the labels in its pool.

    Attributes:
        rounds: the rounds so far.
        query: what is asked for and not yet labelled.
        trained: the round whose model the posterior has, if it is not among the rounds yet.
        model: the number of the model that the posterior has; 0 for none.
        classes: `[N]` the class that the last model predicted for each example, -1 where it was not asked; None where
            the agreement of models is not tracked.
        classes_round: the round of that model.
        outdated: whether labels were changed since the last model was trained.
        history: what people said, event by event.
    """

    rounds: list[Round] = field(default_factory=list)
    query: Query | None = None
    trained: Round | None = None
    model: int = 0
    classes: Array | None = None
    classes_round: int = 0
    outdated: bool = False
    history: list[Event] = field(default_factory=list)

    def copy(self) -> "Current":
        """A copy to return to."""
        return replace(self, rounds=list(self.rounds), history=list(self.history))

    def retrain(self) -> None:
        """Note that labels were changed: the next round needs a new model."""
        self.trained, self.outdated = None, True

    def answered(self, indices_n: Array) -> None:
        """Take examples out of what is asked for."""
        self.query = None if self.query is None else self.query.without(indices_n)

    def note_classes(self, classes_n: Array | None, unlabelled_n: Array, N: int, number: int) -> float | None:
        """Keep the classes that a model predicts, and return how far they agree with those of the model before.

        Args:
            classes_n: `[n]` the class predicted for each unlabelled example, or None if that is not tracked.
            unlabelled_n: `[n]` positions of those.
            N: how many examples there are.
            number: of the round.
        Returns:
            Cohen's kappa on the examples that both models predicted; None if there are none.
        """
        before_N, self.classes = self.classes, None
        if classes_n is None:
            return None
        self.classes, self.classes_round = np.full(N, -1, np.int64), number
        self.classes[unlabelled_n] = classes_n
        if before_N is None:
            return None
        both_n = before_N[unlabelled_n] >= 0  # not what was appended or put back since
        return kappa(before_N[unlabelled_n][both_n], classes_n[both_n]) if both_n.any() else None

    def grow(self, count: int) -> None:
        """Make room for examples that were appended.

        Args:
            count: how many.
        """
        if self.classes is not None:
            self.classes = np.concatenate([self.classes, np.full(count, -1, np.int64)])

    def reopen(self) -> None:
        """Go back to before the last round, if that is a final one, since the learner continues after all.

        Its model is used if no label was changed since.
        """
        if not self.rounds or self.rounds[-1].final is None:
            return
        last = self.rounds.pop()
        if self.trained is not None:
            self.trained = replace(self.trained, round=last.round)
        elif not self.outdated:
            self.trained = replace(last, final=None)
