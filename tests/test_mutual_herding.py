"""`mutual-herding` against its formula written out, and what it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pools import pool

import poolwise as pw

NARROWEST = 0.1


def parts(log_probs, features, labelled):
    """How undecided each point is, and how much nearer a label at i comes to j than the nearest there is."""
    x, known = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in map(np.float64, (features, labelled)))
    mean = np.exp(np.float64(log_probs)).mean(1)
    first, second = np.sort(mean, 1)[:, ::-1][:, :2].T
    squared = np.square(x[:, None] - known).sum(-1).min(1)
    widths = np.maximum(squared, NARROWEST**2)
    gaussian = np.exp(-np.square(x[:, None] - x).sum(-1) / (2 * widths))
    return 1 - first + second, np.maximum(gaussian - np.exp(-squared / (2 * widths)), 0)


def greedy(log_probs, features, labelled, size):
    """Every gain anew for every pick, from an `N × N` matrix."""
    undecided, nearer = parts(log_probs, features, labelled)
    value = undecided[:, None] * nearer
    covered = np.zeros(len(value))
    picks, gains = [], []
    for _ in range(size):
        gain = (np.maximum(value - covered, 0) * undecided).sum(1)
        gain[picks] = -1
        picks.append(int(gain.argmax()))
        gains.append(gain[picks[-1]])
        covered = np.maximum(covered, value[picks[-1]])
    return picks, gains


def case(seed, N=60, L=6, D=5):
    draw = np.random.default_rng(seed)
    return pool(N, 3, 4, seed=seed), draw.normal(size=(N, D)), draw.normal(size=(L, D))


def select(x, size, features, labelled=None, **options):
    return pw.select(x, size, "mutual-herding", embeddings=features, labelled_embeddings=labelled, **options)


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")  # one column has only two directions
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), L=st.integers(1, 30), D=st.integers(1, 12), copies=st.booleans())
def test_picks_and_gains_follow_the_formula(seed, L, D, copies):
    x, features, labelled = case(seed, L=L, D=D)
    if copies:  # of each other, and of what is labelled
        features[:20] = features[20:40]
        features[0] = labelled[0]
    batch = select(x, 15, features, labelled, information=False)
    picks, gains = greedy(x, features, labelled, 15)
    np.testing.assert_allclose(batch.scores, gains, atol=1e-4)
    if not copies and D > 2:  # otherwise gains are tied
        np.testing.assert_array_equal(batch.indices, picks)


def test_a_point_that_the_model_is_sure_of_is_not_picked_for_its_neighbours():
    """The middle point is nearest to all others. `local-herding` takes it; its label is known before it is asked."""
    angles = np.array([0.5, 0.4, 0.6, 0.35, 0.65, 3.0])
    features = np.stack([np.cos(angles), np.sin(angles)], 1)
    x = np.log(np.array([[0.999, 0.001], *[[0.5, 0.5]] * 4, [0.999, 0.001]]))[:, None]
    labelled = features[5:]
    plain = pw.select(x, 1, "local-herding", embeddings=features, labelled_embeddings=labelled)
    assert plain.indices.tolist() == [0]
    assert select(x, 1, features, labelled).indices[0] in (1, 2)


def test_while_all_points_are_equally_undecided_it_is_local_herding():
    _, features, labelled = case(1)
    x = np.log(np.full((60, 2, 4), 0.25))
    plain = pw.select(x, 20, "local-herding", embeddings=features, labelled_embeddings=labelled)
    np.testing.assert_array_equal(select(x, 20, features, labelled).indices, plain.indices)


def test_nothing_depends_on_the_scale_of_the_features():
    x, features, labelled = case(1)
    once, twice = select(x, 20, features, labelled), select(x, 20, 8 * features, 8 * labelled)
    np.testing.assert_array_equal(once.indices, twice.indices)


def test_what_is_labelled_already_is_not_picked_again():
    x, features, _ = case(2)
    assert (select(x, 10, features, features[:30]).indices >= 30).all()


def test_a_pool_that_is_covered_saturates_and_says_why():
    x, features, _ = case(2)
    with pytest.warns(pw.SaturationWarning, match="features of a pick or of a labelled point"):
        batch = select(x, 5, features, features)
    assert batch.diagnostics.saturated_at == 0


def test_without_labels_it_is_max_herding():
    x, features, _ = case(3)
    expected = pw.select(x, 12, "max-herding", embeddings=features)
    np.testing.assert_array_equal(select(x, 12, features).indices, expected.indices)


def test_lazy_is_full_also_with_little_memory():
    x, features, labelled = case(4, N=400, L=40, D=16)
    full = select(x, 50, features, labelled, evaluation="full")
    for memory in ("1GB", "50kB"):
        lazy = select(x, 50, features, labelled, memory=memory)
        np.testing.assert_array_equal(lazy.indices, full.indices)
        np.testing.assert_array_equal(lazy.scores, full.scores)


def test_a_sample_estimates_the_gains_and_says_how_well():
    x, features, labelled = case(5, N=500)
    part = select(x, 5, features, labelled, sample=400)
    assert (part.diagnostics.standard_error > 0).all()
    whole = greedy(x, features, labelled, 1)[1][0]
    assert part.scores[0] == pytest.approx(whole, abs=6 * part.diagnostics.standard_error[0])
