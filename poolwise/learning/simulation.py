"""A learner that gets its labels from a list or a function."""

from collections.abc import Callable, Iterator, Sequence

from poolwise.arrays import Array, Values
from poolwise.data.examples import as_labels
from poolwise.data.naming import text_labels
from poolwise.data.pool import Pool
from poolwise.learning.learner import ActiveLearner
from poolwise.learning.rounds import Round
from poolwise.learning.stopping import Budget, Rule
from poolwise.selection.select import without_warnings

Oracle = Callable[[Array], Values]


def simulate(
    learner: ActiveLearner, oracle: Oracle | Values, budget: int | None = None, stop: Sequence[Rule] = ()
) -> Iterator[Round]:
    """Run a learner against known labels, and yield each round once its labels are recorded.

    Args:
        learner: the learner. One that was interrupted resumes. One that has stopped continues if there is a reason to,
            such as a larger budget.
        oracle: a function from positions in the data to labels; or the labels of all examples, by position. Labels are
            class numbers, or class names if the pool has them. The index of a pandas Series is ignored.
        budget: stop when this many examples are labelled in all, including those from the start. The last batch is
            cut to fit.
        stop: other rules for stopping, see `poolwise.stopping`.
    Yields:
        The rounds that are not in the learner's history yet; the last one has the reason for stopping.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> from sklearn.linear_model import LogisticRegression
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> y = (x[:, 0] > 0).astype(int)
        >>> pool = pw.Pool((x, y))
        >>> _ = pool.start_balanced(2)
        >>> posterior = pw.posteriors.Committee(LogisticRegression(), 3)
        >>> learner = pw.ActiveLearner(posterior, pool, "margin", batch_size=4)
        >>> [entry.labelled for entry in pw.simulate(learner, y, budget=12)]
        [4, 8, 12]
        >>> learner.rounds[-1].final
        'the budget of 12 labels is used'
    """
    answer = oracle if callable(oracle) else _lookup(oracle, learner.pool)
    rules = [*stop, *([] if budget is None else [Budget(budget)])]
    if any(_needs_agreement(rule) for rule in rules):
        learner.agreement = True
    while True:
        ended = bool(learner.rounds) and learner.rounds[-1].final is not None
        history = learner.rounds[:-1] if ended else learner.rounds
        left = len(learner.choices)
        room = left if budget is None else min(left, budget - len(learner.pool.labelled))
        reason = None
        if learner.pending is None:  # else the labels of the last round are still to come
            reason = next((why for rule in rules if _ready(rule, history) and (why := rule.reason(history))), None)
            if reason is None and room <= 0:
                reason = f"the budget of {budget} labels is used" if left else "everything is labelled"
        if reason is not None:
            if not ended:
                yield learner.finish(reason)
            return
        with without_warnings():  # the diagnostics of every round have it
            query = learner.query(max(1, min(learner.batch_size, room)))
        entry = learner.rounds[-1]
        learner.update(positions=query.indices, labels=answer(query.indices))
        yield entry


def _needs_agreement(rule: Rule) -> bool:
    return bool(getattr(rule, "needs_agreement", False))


def _ready(rule: Rule, history: Sequence[Round]) -> bool:
    """Whether a rule has what it reads: a learner that did not track the agreement so far does so from now on."""
    tracked = not history or history[-1].tracked or history[-1].agreement is not None
    return tracked or not _needs_agreement(rule)


def _lookup(labels: Values, pool: Pool) -> Oracle:
    named = pool.class_names is not None and text_labels(labels) is not None
    labels_N = pool.numbers(labels, len(pool)) if named else as_labels(labels, len(pool))
    return lambda indices_n: labels_N[indices_n]
