"""`local-herding` against its formula written out, and what its widths promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pools import pool

import poolwise as pw

NARROWEST = 0.1


def greedy(log_probs, features, labelled, size):
    """Every gain anew for every pick, from an `N × N` kernel."""
    x, known = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in map(np.float64, (features, labelled)))
    mean = np.exp(np.float64(log_probs)).mean(1)
    first, second = np.sort(mean, 1)[:, ::-1][:, :2].T
    squared = np.square(x[:, None] - known).sum(-1).min(1)
    widths = np.maximum(squared, NARROWEST**2)
    kernel = np.exp(-np.square(x[:, None] - x).sum(-1) / (2 * widths))
    covered = np.exp(-squared / (2 * widths))
    picks, gains = [], []
    for _ in range(size):
        gain = (np.maximum(kernel - covered, 0) * (1 - first + second)).sum(1)
        gain[picks] = -1
        picks.append(int(gain.argmax()))
        gains.append(gain[picks[-1]])
        covered = np.maximum(covered, kernel[picks[-1]])
    return picks, gains


def case(seed, N=60, L=6, D=5, scale=1.0):
    draw = np.random.default_rng(seed)
    return pool(N, 3, 4, seed=seed), draw.normal(size=(N, D)) * scale, draw.normal(size=(L, D)) * scale


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")  # one column has only two directions
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), L=st.integers(1, 30), D=st.integers(1, 12), copies=st.booleans())
def test_picks_and_gains_follow_the_formula(seed, L, D, copies):
    x, features, labelled = case(seed, L=L, D=D)
    if copies:  # of each other, and of what is labelled
        features[:20] = features[20:40]
        features[0] = labelled[0]
    batch = pw.select(x, 15, "local-herding", embeddings=features, labelled_embeddings=labelled, information=False)
    picks, gains = greedy(x, features, labelled, 15)
    np.testing.assert_allclose(batch.scores, gains, atol=1e-5)
    if not copies and D > 2:  # otherwise gains are tied
        np.testing.assert_array_equal(batch.indices, picks)


def test_nothing_depends_on_the_scale_of_the_features():
    x, features, labelled = case(1)
    once = pw.select(x, 20, "local-herding", embeddings=features, labelled_embeddings=labelled)
    twice = pw.select(x, 20, "local-herding", embeddings=8 * features, labelled_embeddings=8 * labelled)
    np.testing.assert_array_equal(once.indices, twice.indices)


def test_what_is_labelled_already_is_not_covered_again():
    x, features, _ = case(2)
    labelled = features[:30]
    batch = pw.select(x, 10, "local-herding", embeddings=features, labelled_embeddings=labelled)
    assert (batch.indices >= 30).all()


def test_a_pool_that_is_covered_saturates_and_says_why():
    x, features, _ = case(2)
    with pytest.warns(pw.SaturationWarning, match="features of a pick or of a labelled point"):
        batch = pw.select(x, 5, "local-herding", embeddings=features, labelled_embeddings=features)
    assert batch.diagnostics.saturated_at == 0


def test_near_points_have_the_narrowest_width():
    angles = np.array([0.0, 0.001, 0.002, 0.05, 1.0, 1.001])
    features = np.stack([np.cos(angles), np.sin(angles)], 1)
    x = np.log(np.full((6, 1, 2), 0.5))
    batch = pw.select(x, 4, "local-herding", embeddings=features, labelled_embeddings=features[:1])
    assert set(batch.indices[:1]) <= {4, 5}
    np.testing.assert_allclose(batch.scores, greedy(x, features, features[:1], 4)[1], atol=1e-6)


def test_without_labels_it_is_max_herding():
    x, features, _ = case(3)
    first = pw.select(x, 12, "local-herding", embeddings=features)
    np.testing.assert_array_equal(first.indices, pw.select(x, 12, "max-herding", embeddings=features).indices)


def test_lazy_is_full_also_with_little_memory():
    x, features, labelled = case(4, N=400, L=40, D=16)
    full = pw.select(x, 50, "local-herding", embeddings=features, labelled_embeddings=labelled, evaluation="full")
    for memory in ("1GB", "50kB"):
        lazy = pw.select(x, 50, "local-herding", embeddings=features, labelled_embeddings=labelled, memory=memory)
        np.testing.assert_array_equal(lazy.indices, full.indices)
        np.testing.assert_array_equal(lazy.scores, full.scores)


def test_a_sample_estimates_the_gains_and_says_how_well():
    x, features, labelled = case(5, N=500)
    part = pw.select(x, 5, "local-herding", embeddings=features, labelled_embeddings=labelled, sample=400)
    assert (part.diagnostics.standard_error > 0).all()
    whole = greedy(x, features, labelled, 1)[1][0]
    assert part.scores[0] == pytest.approx(whole, abs=6 * part.diagnostics.standard_error[0])
