"""The packages a user could choose instead, each called as it likes best.

Every input is put in the form that the peer takes (probabilities or their logarithms, its order of axes)
before the clock starts. Nothing of a peer is changed. Where a peer has a scoring function, that is called
rather than a query object, which would only add work.
"""

from typing import Any

import numpy as np

from benchmarks.contenders import (
    Array,
    Inputs,
    Outcome,
    Prepared,
    contender,
    gradients,
    potential,
    squared_distances,
    top,
)

REDUX, BAAL, SKACTIVEML, SMALL_TEXT = "batchbald_redux", "baal", "scikit-activeml", "small-text"


# BALD: one score per point


@contender("small-text bald", SMALL_TEXT)
def small_text_bald(inputs: Inputs) -> Prepared:
    from small_text.query_strategies.bayesian import _bald  # what its BALD.query calls; in bits, not nats

    probs = inputs.probs()
    return lambda: _bald(probs), lambda scores: top(scores * np.log(2), inputs.batch)


@contender("baal bald", BAAL)
def baal_bald(inputs: Inputs) -> Prepared:
    from baal.active.heuristics import BALD

    probs, heuristic = inputs.probs("NCK"), BALD()
    return lambda: heuristic.get_uncertainties(probs), lambda scores: top(scores, inputs.batch)


@contender("scikit-activeml bald", SKACTIVEML)
def skactiveml_bald(inputs: Inputs) -> Prepared:
    from skactiveml.pool import batch_bald

    probs = inputs.probs("KNC")  # clipped in place by the call, which changes nothing the second time
    return lambda: batch_bald(probs, batch_size=1, random_state=0)[0], lambda scores: top(scores, inputs.batch)


@contender("batchbald_redux bald", REDUX)
def redux_bald(inputs: Inputs) -> Prepared:
    import torch
    from batchbald_redux.batchbald import get_bald_batch

    log_probs = torch.from_numpy(inputs.log_probs())
    return lambda: get_bald_batch(log_probs, inputs.batch), _redux_batch


def _redux_batch(batch: Any) -> Outcome:
    return Outcome(list(batch.indices), np.asarray(batch.scores, np.float64))


# BatchBALD


@contender("batchbald_redux batchbald", REDUX)
def redux_batchbald(inputs: Inputs) -> Prepared:
    import torch
    from batchbald_redux.batchbald import get_batchbald_batch

    log_probs = torch.from_numpy(inputs.log_probs())
    samples = inputs.parameters["configurations"]

    def call() -> Any:
        torch.manual_seed(0)
        return get_batchbald_batch(log_probs, inputs.batch, samples, dtype=torch.float32)

    def read(batch: Any) -> Outcome:
        outcome = _redux_batch(batch)  # each score is the joint information of the batch up to that pick
        outcome.information = float(np.max(batch.scores))
        return outcome

    return call, read


@contender("scikit-activeml batchbald", SKACTIVEML)
def skactiveml_batchbald(inputs: Inputs) -> Prepared:
    from skactiveml.pool import batch_bald
    from skactiveml.utils import rand_argmax

    probs, samples = inputs.probs("KNC"), inputs.parameters["configurations"]

    def read(utilities: Array) -> Outcome:  # [batch, N]; points chosen before are NaN by design
        picks = rand_argmax(utilities, axis=1, random_state=0)  # as its BatchBALD.query reads them
        scores = utilities[np.arange(len(picks)), picks]
        return Outcome(picks.tolist(), scores, float(scores.max()))

    return lambda: batch_bald(probs, inputs.batch, n_MC_samples=samples, random_state=0), read


@contender("baal batchbald", BAAL)
def baal_batchbald(inputs: Inputs) -> Prepared:
    import torch
    from baal.active.heuristics import BatchBALD

    probs = inputs.probs("NCK")
    draws = max(1, inputs.parameters["configurations"] // probs.shape[2])  # it draws this many for every member
    heuristic = BatchBALD(num_samples=inputs.batch, num_draw=draws)

    def call() -> Any:
        torch.manual_seed(0)
        return heuristic.get_ranks(probs)

    def read(ranks_and_scores: tuple[Array, Array]) -> Outcome:
        # What its user labels are the first of the ranks. It scores batch + 1 points, each by a value that
        # grows from pick to pick: the ranks are the reverse of the picking and leave out the first pick.
        ranks, scores = ranks_and_scores
        return Outcome(ranks[: inputs.batch].tolist(), scores[ranks[: inputs.batch]])

    return call, read


# BADGE and core-set


def _badge_query(inputs: Inputs) -> Any:
    """A function of the seed that runs scikit-activeml's Badge on given predictions and embeddings."""
    from skactiveml.base import SkactivemlClassifier
    from skactiveml.pool import Badge

    probs = np.exp(inputs.log_probs().mean(1))
    embeddings, _ = inputs.embeddings()

    class Fitted(SkactivemlClassifier):  # type: ignore[misc]
        """A classifier that was fitted elsewhere: its predictions are given."""

        def fit(self, X: Array, y: Array) -> "Fitted":
            return self

        def predict_proba(self, X: Array) -> Array:
            given: Array = probs
            return given

    unlabelled = np.full(len(probs), np.nan)
    model = Fitted(classes=list(range(probs.shape[1])))

    def query(seed: int) -> list[int]:
        strategy = Badge(random_state=seed)
        picks = strategy.query(embeddings, unlabelled, model, fit_clf=False, batch_size=inputs.batch)
        return [int(pick) for pick in picks]

    return query


@contender("scikit-activeml badge", SKACTIVEML)
def skactiveml_badge(inputs: Inputs) -> Prepared:
    query = _badge_query(inputs)
    return lambda: query(0), Outcome


@contender("scikit-activeml badge potential", SKACTIVEML)
def skactiveml_badge_potential(inputs: Inputs) -> Prepared:
    query = _badge_query(inputs)
    return lambda: [query(seed) for seed in range(inputs.parameters["seeds"])], lambda batches: potentials(
        inputs, batches
    )


@contender("numpy badge potential", "numpy")
def plain_badge_potential(inputs: Inputs) -> Prepared:
    """The definition itself: the longest gradient first, then each point by its squared distance to the picks."""
    points = gradients(inputs.log_probs(), inputs.embeddings()[0])

    def query(seed: int) -> list[int]:
        generator = np.random.default_rng(seed)
        picks = [int(np.argmax((points**2).sum(1)))]
        nearest = squared_distances(points, picks[0])
        while len(picks) < inputs.batch:
            picks.append(int(generator.choice(len(points), p=nearest / nearest.sum())))
            nearest = np.minimum(nearest, squared_distances(points, picks[-1]))
        return picks

    return lambda: [query(seed) for seed in range(inputs.parameters["seeds"])], lambda batches: potentials(
        inputs, batches
    )


def potentials(inputs: Inputs, batches: list[list[int]]) -> Outcome:
    """The k-means potential of one batch per seed."""
    log_probs, (embeddings, _) = inputs.log_probs(), inputs.embeddings()
    values = [potential(log_probs, embeddings, picks) for picks in batches]
    return Outcome(batches[0], extra={"potentials": values})


@contender("scikit-activeml coreset", SKACTIVEML)
def skactiveml_coreset(inputs: Inputs) -> Prepared:
    from skactiveml.pool import CoreSet

    pool, labelled = inputs.embeddings()
    points = np.concatenate([pool, labelled])
    labels = np.concatenate([np.full(len(pool), np.nan), np.zeros(len(labelled))])

    def call() -> Array:
        picks: Array = CoreSet(random_state=0).query(points, labels, batch_size=inputs.batch)
        return picks

    return call, lambda picks: Outcome(picks.tolist())


@contender("small-text coreset", SMALL_TEXT)
def small_text_coreset(inputs: Inputs) -> Prepared:
    from small_text.query_strategies.coresets import greedy_coreset

    # The pool comes first: the function adds positions among the unlabelled to positions among all points.
    pool, labelled = inputs.embeddings()
    points = np.concatenate([pool, labelled])
    free, known = np.arange(len(pool)), np.arange(len(pool), len(points))

    def call() -> Array:
        picks: Array = greedy_coreset(points, free, known, inputs.batch, distance_metric="euclidean", batch_size=2_000)
        return picks

    return call, lambda picks: Outcome(picks.tolist())
