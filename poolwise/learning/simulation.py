"""A learner against labels that are known."""

from collections.abc import Callable, Iterator, Sequence

from poolwise.arrays import Array
from poolwise.data.examples import as_labels
from poolwise.learning.learner import ActiveLearner
from poolwise.learning.rounds import Round
from poolwise.learning.stopping import Budget, Rule
from poolwise.selection.select import without_warnings

Oracle = Callable[[Array], object]


def simulate(
    learner: ActiveLearner, oracle: Oracle | object, budget: int | None = None, stop: Sequence[Rule] = ()
) -> Iterator[Round]:
    """Run a learner against known labels; a round is yielded as soon as its labels are taken.

    Args:
        learner: the learner; one that was interrupted goes on where it was, and one that had come to its end goes on
            if there is reason to, such as a larger budget.
        oracle: a function from positions in the data to labels, or all labels by position.
        budget: stop when so many examples are labelled in all, those from the start included. The last batch is cut
            to fit.
        stop: other rules for stopping, see `poolwise.learning.stopping`.
    Yields:
        The rounds that are not in the learner's history yet, the last one with the reason for stopping.
    """
    answer = oracle if callable(oracle) else _lookup(oracle, len(learner.pool))
    rules = [*stop, *([] if budget is None else [Budget(budget)])]
    while True:
        ended = bool(learner.rounds) and learner.rounds[-1].final is not None
        history = learner.rounds[:-1] if ended else learner.rounds
        left = len(learner.pool.unlabelled)
        room = left if budget is None else min(left, budget - len(learner.pool.labelled))
        reason = None
        if learner.pending is None:  # else the labels of the last round are still to come
            reason = next((why for rule in rules if (why := rule.reason(history))), None)
            if reason is None and room <= 0:
                reason = f"the budget of {budget} labels is used" if left else "everything is labelled"
        if reason is not None:
            if not ended:
                yield learner.finish(reason)
            return
        with without_warnings():  # the diagnostics of every round have it
            query = learner.query(max(1, min(learner.batch_size, room)))
        entry = learner.rounds[-1]
        learner.update(query.indices, answer(query.indices))
        yield entry


def _lookup(labels: object, count: int) -> Oracle:
    labels_N = as_labels(labels, count)
    return lambda indices_n: labels_N[indices_n]
