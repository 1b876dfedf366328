"""Rules of the field against programs that are not ours, on real data: handwritten digits and a model of them.

Where both programs cluster by k-means, they are given the same clusters; test_clusters.py compares k-means itself, and
test_rules.py `falcun`.
"""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from pools import pool as random_pool
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import poolwise as pw
from poolwise.selection import clustering, round_robin
from poolwise.selection.feature_blocks import Rows
from poolwise.selection.purity import Purity

peer = pytest.importorskip("skactiveml.pool", reason="scikit-activeml is not installed")

B, L, MEMORY = 20, 30, 1 << 30


@pytest.fixture(scope="module")
def digits():
    """600 digits, the first 30 of them labelled, and a committee's predictions of the others."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.data))[:600]
    x, y = found.data[order] / 16, found.target[order]
    posterior = pw.posteriors.Committee(LogisticRegression(), 5, classes=10).fit((x[:L], y[:L]), seed=0)
    half = pw.posteriors.Committee(LogisticRegression(), 5, classes=10).fit((x[: L // 2], y[: L // 2]), seed=0)
    return SimpleNamespace(
        known=x[:L],
        rest=x[L:],
        both=np.concatenate([x[L:], x[:L]]),  # as our methods number them: the pool, then what is labelled
        labels=np.concatenate([np.full(len(x) - L, np.nan), y[:L]]),
        predictions=posterior.predict(x[L:]),
        held_out={"held_out_predictions": half.predict(x[L // 2 : L]), "held_out_labels": y[L // 2 : L]},
    )


def select(digits, method, **options):
    return pw.select(
        digits.predictions, B, method, embeddings=digits.rest, labelled_embeddings=digits.known, information=False,
        **options,
    )  # fmt: skip


def given_clusters(cluster_n, centres=None):
    """A clustering algorithm that knows its result."""

    class Given:
        def __init__(self, n_clusters):
            self.n_clusters = n_clusters

        def fit_predict(self, X):
            return cluster_n

        def fit_transform(self, X, y=None):
            return np.linalg.norm(
                X[:, None] - np.array([X[cluster_n == g].mean(0) for g in np.unique(cluster_n)]), axis=2
            )

    return Given


def expect_same_up_to_ties(picks, gains_of, gains):
    """Every pick had the largest gain when it was made, and that is what was said."""
    for t, index in enumerate(picks):
        now = gains_of(picks[:t])
        assert now[index] == pytest.approx(now.max(), rel=1e-6)
        assert gains[t] == pytest.approx(now.max(), rel=1e-4)


def test_max_herding(digits):
    batch = select(digits, "max-herding")
    rule = peer.MaxHerding(random_state=0, metric="rbf", metric_dict={"gamma": 1.0})
    theirs, utilities = rule.query(digits.both, digits.labels, batch_size=B, return_utilities=True)
    assert batch.indices.tolist() == theirs.tolist()
    np.testing.assert_allclose(batch.scores, np.nanmax(utilities, 1) * len(digits.rest), rtol=1e-4)


def test_uherding_is_the_paper(digits):
    """No release of scikit-activeml has it yet: the rule by its paper, with dense matrices."""
    batch = select(digits, "uherding", **digits.held_out)
    h, anchors = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (digits.rest, digits.known))
    held = np.exp(digits.held_out["held_out_predictions"].log_probs.astype(np.float64)).mean(1)
    best = (np.inf, 0.0, 0.0)
    for temperature in np.round(np.geomspace(0.1, 10.0, 41), 6):
        scaled = held ** (1 / temperature)
        scaled /= scaled.sum(1, keepdims=True)
        bins = np.ceil(scaled.max(1) * 15).astype(int)
        right = scaled.argmax(1) == digits.held_out["held_out_labels"]
        gaps = [abs((right - scaled.max(1))[bins == place].sum()) for place in np.unique(bins)]
        best = min(best, (round(sum(gaps) / len(right), 9), abs(np.log(temperature)), temperature))
    assert f"temperature {best[2]:.3g}" in batch.diagnostics.notes[0]
    width = min(np.linalg.norm(a - b) for i, a in enumerate(anchors) for b in anchors[:i])
    probs = np.exp(digits.predictions.log_probs.astype(np.float64)).mean(1) ** (1 / best[2])
    top = np.sort(probs / probs.sum(1, keepdims=True), 1)
    kernel = np.exp((2 * h @ h.T - 2) / width**2)
    covered = np.exp((2 * anchors @ h.T - 2) / width**2).max(0)

    def gains_of(picks):
        now = np.maximum(covered, kernel[picks].max(0)) if len(picks) else covered
        gains = ((1 - top[:, -1] + top[:, -2]) * np.maximum(kernel - now, 0)).sum(1)
        gains[picks] = -1
        return gains

    expect_same_up_to_ties(batch.indices, gains_of, batch.scores)


def test_typiclust(digits):
    task = pw.Task(digits.predictions.with_embeddings(digits.rest, digits.known), B)
    rows = Rows([digits.rest, digits.known], task.memory)
    cluster = clustering.k_means(rows, L + B, task.generator("k-means"), task.memory).cluster
    assert np.array_equal(cluster[: len(digits.rest)], round_robin.cluster_points(task, 500)[0].cluster)
    batch = select(digits, "typiclust")
    rule = peer.TypiClust(random_state=0, k=20, cluster_algo=given_clusters(cluster))
    theirs, utilities = rule.query(digits.both, digits.labels, batch_size=B, return_utilities=True)
    alone = np.bincount(cluster)[cluster[theirs]] == 1
    found = {*batch.indices.tolist()}
    # Clusters of one size come in any order, so that the last of them may differ.
    smallest = np.bincount(cluster)[cluster[batch.indices]].min()
    sure = np.bincount(cluster)[cluster[theirs]] > smallest
    assert {*theirs[sure].tolist()} <= found
    assert sure.sum() >= B // 2
    ours = dict(zip(batch.indices.tolist(), batch.scores.tolist(), strict=True))
    for t in np.flatnonzero(sure & ~alone):
        assert ours[theirs[t]] == pytest.approx(utilities[t, theirs[t]], rel=1e-5)


@pytest.mark.parametrize("purity", [0.8, 0.95])
def test_prob_cover(digits, purity):
    task = pw.Task(digits.predictions.with_embeddings(digits.rest, digits.known), B)
    rows = Rows([digits.rest, digits.known], task.memory // 2)
    cluster = clustering.k_means(rows, 10, task.generator("k-means"), task.memory).cluster
    radius = Purity(rows, cluster, purity).radius
    radii = np.unique([0.05, radius / 2, radius * (1 - 1e-6), radius * (1 + 1e-9), radius * (1 + 1e-5), 2 * radius])
    rule = peer.ProbCover(
        random_state=0, n_classes=10, deltas=radii, alpha=purity, cluster_algo=given_clusters(cluster)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, utilities = rule.query(digits.both, digits.labels, batch_size=B, return_utilities=True)
    assert rule.delta_max_ == radius * (1 + 1e-9)  # the largest of its radii that is pure enough
    near = rule.distances_[: len(digits.rest), : len(digits.rest)] <= rule.delta_max_
    covered = (rule.distances_[len(digits.rest) :, : len(digits.rest)] <= rule.delta_max_).any(0)
    batch = select(digits, "prob-cover", purity=purity)

    def gains_of(picks):
        gains = (near & ~(covered | near[picks].any(0))).sum(1).astype(float)
        gains[picks] = -1
        return gains

    expect_same_up_to_ties(batch.indices, gains_of, batch.scores)
    assert batch.scores[0] == np.nanmax(utilities[0])


def test_drop_query(digits):
    """Given the classes under each mask, the same points are clustered and the same picked."""
    log_probs = random_pool(len(digits.rest), 5, 10)
    classes, clean = log_probs.argmax(2), np.exp(log_probs.astype(np.float64)).mean(1).argmax(1)
    share = (classes != clean[:, None]).mean(1)
    points = np.flatnonzero(share > 0.5)
    task = pw.Task(pw.Predictions.from_log_probs(log_probs, embeddings=digits.rest), B)
    found = clustering.k_means(Rows([digits.rest], task.memory, points), B, task.generator("k-means"), task.memory)
    batch = pw.select(log_probs, B, "drop-query", embeddings=digits.rest, filter=1, information=False)

    from skactiveml.base import SkactivemlClassifier

    class Told(SkactivemlClassifier):
        """Says what it is told, call by call: the class without dropout, then that under each mask."""

        calls = 0

        def fit(self, X, y, sample_weight=None):
            return self

        def predict(self, X):
            Told.calls += 1
            return clean if Told.calls == 1 else classes[:, Told.calls - 2]

    order = np.argsort(share)[-len(points) :]
    rule = peer.DropQuery(random_state=0, cluster_algo=given_clusters(found.cluster[np.searchsorted(points, order)]))
    unlabelled = np.full(len(digits.rest), np.nan)
    theirs = rule.query(digits.rest, unlabelled, Told(classes=np.arange(10)), fit_clf=False, batch_size=B)
    assert {*theirs.tolist()} == {*batch.indices.tolist()}
    np.testing.assert_allclose(batch.scores, share[batch.indices])
