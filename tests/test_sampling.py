"""Stochastic methods draw from the distributions they name: chi-square tests against direct sampling.

Seeds are fixed, so a test that passes always passes; each threshold is a probability of a thousandth or less.
"""

import numpy as np
import oracles
import pytest
from cases import thorough
from pools import features, pool
from scipy import stats

import poolwise as pw
from poolwise.predictions import Predictions
from poolwise.selection.power_sampling import sample_by_power
from poolwise.selection.ranking import draw
from poolwise.selection.redundancy import PairwiseRedundancy
from poolwise.selection.task import Task

pytestmark = pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")


def assert_distributed(counts, probabilities, least=5.0):
    """Outcomes occur as often as they should; those expected fewer than `least` times are put together."""
    total = sum(counts.values())
    assert set(counts) <= set(probabilities), "something happened that cannot happen"
    assert sum(probabilities.values()) == pytest.approx(1)
    common = [key for key, p in probabilities.items() if p * total >= least]
    assert len(common) > 1
    observed = [counts.get(key, 0) for key in common]
    expected = [probabilities[key] * total for key in common]
    if total - sum(expected) > 1e-6 * total:
        observed.append(total - sum(observed))
        expected.append(total - sum(expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def count(sequences):
    result = {}
    for sequence in sequences:
        key = tuple(int(i) for i in sequence)
        result[key] = result.get(key, 0) + 1
    return result


class Gains(pw.GreedyObjective):
    """Gains from a table of pairwise losses: cheap enough for tens of thousands of draws."""

    floor, rounding = 0.0, 0.0

    def __init__(self, own, loss, mean=False):
        self.own, self.loss, self.mean, self.shrinking = own, loss, mean, not mean
        self.picks = []

    def of(self, indices_n, picks):
        lost = self.loss[np.ix_(indices_n, picks)]
        if not picks:
            return self.own[indices_n].copy()
        return self.own[indices_n] - (lost.mean(1) if self.mean else lost.max(1))

    def start(self):
        return self.own

    def gains(self, indices_n):
        return self.of(indices_n, self.picks)

    def add(self, index):
        self.picks.append(index)

    def update(self, index, bounds_N):
        self.add(index)
        return self.own.copy() if self.mean else bounds_N


def table(N, seed, share=1.0):
    draw_ = np.random.default_rng(seed)
    own = draw_.random(N) + 0.1
    loss = draw_.random((N, N)) * share
    return own, (loss + loss.T) / 2 * np.minimum(own[:, None], own[None, :])


@pytest.mark.parametrize("alpha", [1.0, *thorough(5.0)])
@pytest.mark.parametrize("mean", [True, *thorough(False)], ids=["mean", "max"])
def test_power_sampling_draws_sequences_by_the_power_of_their_gains(alpha, mean):
    """Full evaluation makes the same draws, so its distribution is the same."""
    own, loss = table(6, 0)
    everything = np.arange(6)
    expected = oracles.sequence_probabilities(
        lambda picks: oracles.power_weights(Gains(own, loss, mean).of(everything, picks), alpha), 6, 3
    )

    def draws(evaluation, runs):
        generator = np.random.default_rng(1)
        for _ in range(runs):
            yield sample_by_power(Gains(own, loss, mean), 3, alpha, generator, evaluation=evaluation).indices

    found = list(draws("lazy", 4_000))
    assert_distributed(count(found), expected)
    np.testing.assert_array_equal(list(draws("full", 300)), found[:300])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mean", [False, True], ids=["max", "mean"])
def test_power_sampling_stays_exact_when_almost_every_proposal_fails(mean):
    """After one pick the others keep a thousandth of their gain; all gains are then computed and become the weights."""
    own = np.array([5.0, 1.0, 2.0, 3.0])
    loss = np.repeat(own[:, None] * (1 - 1e-3), 4, 1)
    everything = np.arange(4)
    expected = oracles.sequence_probabilities(
        lambda picks: oracles.power_weights(Gains(own, loss, mean).of(everything, picks), 2.0), 4, 2
    )
    generator = np.random.default_rng(2)
    found = [sample_by_power(Gains(own, loss, mean), 2, 2.0, generator).indices for _ in range(300)]
    assert_distributed(count(found), expected)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mean", [False, True], ids=["max", "mean"])
@pytest.mark.parametrize("left", [1e-9, 1e-15])
def test_power_sampling_ends_when_gains_are_nearly_nothing(mean, left):
    own = np.array([1.0, 2.0, 3.0, 2.0])
    loss = np.repeat(own[:, None] * (1 - left), 4, 1)
    picks = sample_by_power(Gains(own, loss, mean), 4, 5.0, np.random.default_rng(0))
    assert sorted(picks.indices.tolist()) == [0, 1, 2, 3]


def test_power_sampling_draws_uniformly_once_nothing_can_be_gained():
    own = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    loss = np.minimum(own[:, None], own[None, :])
    everything = np.arange(5)
    expected = oracles.sequence_probabilities(
        lambda picks: oracles.power_weights(Gains(own, loss).of(everything, picks), 1.0), 5, 2
    )
    generator = np.random.default_rng(0)
    assert_distributed(
        count(sample_by_power(Gains(own, loss), 2, 1.0, generator).indices for _ in range(600)), expected
    )


@pytest.mark.parametrize(
    ("redundancy", "alpha"),
    [
        ("normalised", 1.0),
        ("max", 5.0),
        pytest.param("mean", 5.0, marks=pytest.mark.thorough),
        pytest.param("sum", 1.0, marks=pytest.mark.thorough),
    ],
)
def test_power_lbb_draws_sequences_by_its_gains(redundancy, alpha):
    """Three picks of five real points, against probabilities from brute-force gains. Powers are tested above."""
    x = pool(5, 4, 3, seed=2, scale=1.5, dtype=np.float64)
    probs = np.exp(x)
    expected = oracles.sequence_probabilities(
        lambda picks: oracles.power_weights([oracles.lbb_gain(probs, picks, i, redundancy) for i in range(5)], alpha),
        5,
        3,
    )
    predictions = Predictions.from_log_probs(x)
    found = []
    for seed in range(500):
        task = Task(predictions, 3, seed)
        objective = PairwiseRedundancy(task, redundancy, "unordered")
        found.append(sample_by_power(objective, 3, alpha, task.generator("race")).indices)
    assert_distributed(count(found), expected)


def test_power_lbb_draws_pairs_by_its_gains_through_the_front_door():
    x = pool(4, 4, 3, seed=2, scale=1.5, dtype=np.float64)
    probs = np.exp(x)
    expected = oracles.sequence_probabilities(
        lambda picks: oracles.power_weights([oracles.lbb_gain(probs, picks, i) for i in range(4)], 1.0), 4, 2
    )
    found = [pw.select(x, 2, "power-lbb", seed=seed, information=False).indices for seed in range(500)]
    assert_distributed(count(found), expected)


WEIGHTS = {
    "power-bald": ({"alpha": 2.0}, lambda scores: oracles.power_weights(scores, 2.0)),
    "softmax-bald": ({"beta": 4.0}, lambda scores: oracles.softmax_weights(scores, 4.0)),
    "softrank-bald": ({"alpha": 1.5}, lambda scores: oracles.softrank_weights(scores, 1.5)),
}


@pytest.mark.parametrize("method", ["power-bald", *thorough("softmax-bald", "softrank-bald")])
def test_bald_is_drawn_by_its_weights_without_replacement(method):
    x = pool(5, 4, 3, seed=1, dtype=np.float64)
    options, weights = WEIGHTS[method]
    scores = [oracles.bald(point) for point in np.exp(x)]
    expected = oracles.sequence_probabilities(lambda picks: weights(scores), 5, 2)
    found = [pw.select(x, 2, method, seed=seed, information=False, **options).indices for seed in range(1000)]
    assert_distributed(count(found), expected)
    first = count(sequence[:1] for sequence in found)
    total = sum(weights(scores))
    assert_distributed(first, {(i,): weight / total for i, weight in enumerate(weights(scores))})


def test_softrank_gives_equal_scores_equal_chances():
    x = pool(6, 4, 3, dtype=np.float64)[[0, 1, 2, 2, 2, 3]]
    scores = [oracles.bald(point) for point in np.exp(x)]
    weights = oracles.softrank_weights(scores, 1.0)
    found = count(pw.select(x, 1, "softrank-bald", seed=s, information=False).indices for s in range(600))
    assert_distributed(found, {(i,): weight / sum(weights) for i, weight in enumerate(weights)})


def test_power_lbb_released_draws_by_the_power_of_its_score():
    x = pool(5, 4, 3, seed=1, dtype=np.float64)
    scores = [oracles.released_score(np.exp(x), i, range(5)) for i in range(5)]
    weights = oracles.power_weights(scores, 2.0)
    expected = oracles.sequence_probabilities(lambda picks: weights, 5, 2)
    found = [pw.select(x, 2, "power-lbb-released", alpha=2.0, seed=s, information=False).indices for s in range(800)]
    assert_distributed(count(found), expected)


def test_random_is_uniform_over_ordered_pairs():
    x = pool(5, 2, 2)
    expected = oracles.sequence_probabilities(lambda picks: [1.0] * 5, 5, 2)
    found = count(pw.select(x, 2, "random", seed=seed, information=False).indices for seed in range(1000))
    assert_distributed(found, expected)


@pytest.mark.parametrize("members", ["mean", *thorough("all")])
def test_badge_draws_by_squared_distance_of_gradients(members):
    """The first pick is the largest gradient; the next two are drawn as k-means++ does."""
    logits, z = np.random.default_rng(0).normal(size=(6, 2, 3)) * 2, features(6, 4)
    x = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    shown = np.log(np.exp(x).mean(1, keepdims=True)) if members == "mean" else x
    gradients = np.array(
        [np.concatenate([oracles.gradient_embedding(p, h) for p in point]) for point, h in zip(shown, z, strict=True)]
    )
    first = int(np.argmax((gradients**2).sum(1)))

    def weights(picks):
        if not picks:
            return [float(i == first) for i in range(6)]
        return [min(((gradients[i] - gradients[j]) ** 2).sum() for j in picks) for i in range(6)]

    found = [pw.select(x, 3, "badge", embeddings=z, members=members, seed=s, information=False) for s in range(800)]
    assert {int(batch.indices[0]) for batch in found} == {first}
    assert_distributed(count(batch.indices for batch in found), oracles.sequence_probabilities(weights, 6, 3))
    for batch in found[:50]:
        for t in range(1, 3):
            distance = weights(batch.indices[:t].tolist())[batch.indices[t]]
            assert batch.scores[t] == pytest.approx(distance, rel=1e-4)


@pytest.mark.parametrize("method", ["power-lbb", "random", *thorough("power-bald", "softmax-bald", "softrank-bald")])
def test_points_that_tie_are_drawn_equally_often(method):
    x = np.repeat(pool(1, 4, 3), 8, 0)
    found = count(pw.select(x, 1, method, seed=seed, information=False).indices for seed in range(400))
    assert_distributed(found, {(i,): 1 / 8 for i in range(8)})


@pytest.mark.parametrize("method", ["power-bald", "badge", *thorough("softmax-bald", "softrank-bald", "power-lbb")])
def test_points_that_tie_at_nothing_are_drawn_equally_often(method):
    """With certain predictions no point has any weight; then every order is as likely (the first of BADGE is fixed)."""
    x = np.zeros((6, 3, 1), np.float32)
    found = count(
        pw.select(x, 2, method, embeddings=np.ones((6, 2)), seed=seed, information=False).indices[1:]
        for seed in range(400)
    )
    possible = range(1, 6) if method == "badge" else range(6)
    assert_distributed(found, {(i,): 1 / len(possible) for i in possible})


def test_weights_of_zero_come_last():
    weights = np.array([0.0, 1.0, 0.0, 2.0, 0.0])
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    for seed in range(50):
        task = Task(Predictions.from_log_probs(pool(5, 2, 2)), 4, seed)
        assert set(draw(task, logs, weights).indices[:2].tolist()) == {1, 3}


# Honest errors


def test_reported_standard_errors_match_the_spread_over_seeds():
    """The gain of the fourth pick, drawn over and over, against what one run says about itself."""
    x = pool(4, 6, 4, seed=5, scale=1.2, dtype=np.float64)
    batches = [pw.select(x, 4, "batchbald", configurations=60, seed=s, information=False) for s in range(200)]
    assert len({tuple(batch.indices.tolist()) for batch in batches}) == 1, "the first picks are exact"
    gains = np.array([batch.scores[3] for batch in batches])
    errors = np.array([batch.diagnostics.standard_error for batch in batches])
    np.testing.assert_array_equal(errors[:, :3], 0)
    assert (errors[:, 3] > 0).all()
    spread, reported = gains.std(ddof=1), np.sqrt((errors[:, 3] ** 2).mean())
    assert 0.8 < reported / spread < 1.25
    exact = np.exp(x[batches[0].indices])
    truth = oracles.batch_information(exact) - oracles.batch_information(exact[:3])
    assert abs(gains.mean() - truth) < 4 * spread / np.sqrt(len(gains))


def test_standard_errors_fall_with_the_number_of_configurations():
    x = pool(30, 6, 4, dtype=np.float64, scale=0.7)
    errors = [
        pw.select(x, 6, "batchbald", configurations=count_, information=False).diagnostics.standard_error[-1]
        for count_ in (60, 960)
    ]
    assert 0 < errors[1] < errors[0] / 2
