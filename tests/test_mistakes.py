"""Mistakes seen in this field, each with a test that forbids it here."""

import math
import subprocess
import sys
import time
import warnings

import numpy as np
import oracles
import pytest
import torch
from cases import case, thorough
from pools import features, one_hot, pool
from sklearn.linear_model import LogisticRegression

import poolwise as pw
from poolwise.information.entropies import member_entropies
from poolwise.information.joint import Configurations
from poolwise.predictions import Predictions
from poolwise.selection.badge import residuals
from poolwise.testing.pools import degenerate


def test_importing_leaves_the_random_state_of_everything():
    code = """
import random, numpy, torch
random.seed(7); numpy.random.seed(7); torch.manual_seed(7)
before = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
import poolwise, poolwise.selection, poolwise.scores
after = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
assert before == after
assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=500)


@pytest.mark.parametrize("method", ["lbb", "lbb-released"])
def test_scores_do_not_depend_on_chunks_or_on_the_order_of_the_pool(method):
    x = pool(2500, 4, 5)
    options = {"reference": np.arange(0, 2500, 7)} if method == "lbb-released" else {}
    expected = pw.select(x, 40, method, **options)
    small = pw.select(x, 40, method, memory="50KB", **options)
    np.testing.assert_array_equal(small.indices, expected.indices)
    order = np.random.default_rng(0).permutation(2500)
    if options:
        options = {"reference": np.flatnonzero(np.isin(order, options["reference"]))}
    moved = pw.select(x[order], 40, method, **options)
    np.testing.assert_array_equal(order[moved.indices], expected.indices)


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("method", pw.methods())
def test_certain_predictions_in_finite_scores_out_and_never_a_nan_picked(method):
    x = pool(60, 5, 3)
    x[::2] = one_hot(np.random.default_rng(0).integers(0, 3, (30, 5)), 3)
    batch = pw.select(x, 60, method, embeddings=features(60))
    assert np.isfinite(batch.scores).all()
    assert sorted(batch.indices.tolist()) == list(range(60))


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_batchbald_of_two_hundred_is_finite_and_below_its_ceiling(dtype):
    x = pool(300, 8, 10).astype(dtype)
    batch = pw.select(x, 200, "batchbald", configurations=500)
    assert np.isfinite(batch.scores).all()
    assert (batch.scores >= 0).all()
    assert np.isfinite(batch.diagnostics.information).all()
    assert batch.diagnostics.information[-1] <= math.log(8)
    assert batch.scores[0] <= math.log(8)


def test_scores_never_exceed_the_ceiling_even_on_certain_disagreement():
    x = one_hot([np.arange(7)] * 4, 7)
    for dtype in (np.float16, np.float32, np.float64):
        scores = pw.scores.bald(x.astype(dtype))
        assert (scores <= math.log(7)).all()
        np.testing.assert_allclose(scores, math.log(7), atol=1e-6)


@pytest.mark.parametrize("score", ["bald", "entropy", "conditional_entropy", "least_confidence", "margin"])
def test_scoring_leaves_the_input_equal_to_its_clone(score):
    tensor = torch.from_numpy(one_hot([[0, 1], [1, 1]], 3))
    clone = tensor.clone()
    getattr(pw.scores, score)(tensor)
    assert torch.equal(tensor, clone)


def test_the_error_of_an_estimated_gain_is_reported():
    x = pool(50, 5, 4, scale=0.8)
    errors = pw.select(x, 8, "batchbald", configurations=200).diagnostics.standard_error
    assert errors.shape == (8,)
    np.testing.assert_array_equal(errors[:4], 0)
    assert (errors[4:] > 0).all()
    assert np.isfinite(errors).all()
    assert pw.select(x, 8, "lbb").diagnostics.standard_error is None


@pytest.mark.parametrize("members", ["mean", "all"])
def test_badge_uses_the_gradients_that_autograd_finds(members):
    """`p - onehot` and not `-p`; lengths and distances of the outer products come from their factors."""
    logits = np.random.default_rng(0).normal(size=(7, 3, 4)) * 2
    x, z = logits - np.log(np.exp(logits).sum(2, keepdims=True)), features(7, 5).astype(np.float64)
    shown = np.log(np.exp(x).mean(1, keepdims=True)) if members == "mean" else x
    expected = np.array([[oracles.gradient_embedding(p, h) for p in point] for point, h in zip(shown, z, strict=True)])
    factors = residuals(Predictions.from_log_probs(x).rows(np.arange(7)), members).numpy()
    made = factors.reshape(7, -1, 4)[:, :, :, None] * z[:, None, None, :]
    np.testing.assert_allclose(made.reshape(expected.shape), expected, atol=1e-6)


def test_ties_are_not_always_the_first_points_where_a_method_draws():
    x, found = np.repeat(pool(1, 4, 3), 30, 0), set()
    for seed in range(40):
        found |= set(pw.select(x, 3, "power-lbb", seed=seed, redundancy="max", information=False).indices.tolist())
    assert len(found) > 25


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("method", ["lbb", "power-lbb"])
@pytest.mark.parametrize("redundancy", ["normalised", "max", "mean", "sum"])
@pytest.mark.parametrize("evaluation", ["lazy", "full"])
def test_points_without_information_are_not_compared_with_each_other(method, redundancy, evaluation):
    """All pairs of 257 points were, of C × C numbers each: with many classes, a batch took minutes for nothing."""
    x = pool(257, 1, 20)
    options = {"redundancy": redundancy, "evaluation": evaluation, "information": False}
    batch = pw.select(x, 257, method, **options)
    assert sorted(batch.indices.tolist()) == list(range(257))
    assert batch.diagnostics.pairs <= 257  # each with itself
    assert batch.scores.tolist() == [0.0] * 257


GREEDY = [name for name, method in pw.methods().items() if "evaluation" in method.parameters]


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("method", [*GREEDY, *thorough(*sorted(pw.methods().keys() - GREEDY))])
def test_a_pool_that_tells_nothing_is_selected_whole_without_delay(method):
    pools = degenerate(200)
    options = {"configurations": 200} if method == "batchbald" else {}
    for kind in ("one sample", "identical samples", "certain predictions", "identical points"):
        with case(kind):
            started = time.process_time()
            batch = pw.select(pools[kind], 200, method, embeddings=features(200), information=False, **options)
            assert time.process_time() - started < 10
            assert sorted(batch.indices.tolist()) == list(range(200))


def test_configurations_that_leave_nothing_open_are_left_out():
    """They cost as much as the others, and can add nothing to any gain."""
    x = torch.from_numpy(pool(30, 6, 10, scale=6.0))
    configurations = Configurations(6, 2000, np.random.default_rng(0), torch.float32)
    for row in x[:8]:
        configurations.add(row)
    every, kept = configurations.posterior, configurations.undecided
    assert 0 < len(kept.weights) < len(every.weights) / 2
    entropies = member_entropies(x, x.exp())
    np.testing.assert_allclose(kept.gains(x.exp(), entropies), every.gains(x.exp(), entropies), atol=1e-7)
    certain = torch.from_numpy(one_hot([np.arange(6)] * 2, 10)).clamp_min(-110)
    for row in certain:
        configurations.add(row)
    assert len(configurations.undecided.weights) == 0
    assert configurations.undecided.gains(x.exp(), entropies).tolist() == [0.0] * 30


@pytest.mark.parametrize("method", pw.methods())
def test_warning_filters_are_never_changed_by_a_method(method, monkeypatch):
    """They belong to all threads: another one would lose its warnings, or the filters for good."""
    predictions = Predictions.from_log_probs(pool(60, 4, 3), embeddings=features(60))
    chosen = pw.methods()[method]
    chosen(pw.Task(predictions, 5))  # whatever is imported at the first call is imported now
    monkeypatch.setattr(warnings, "catch_warnings", None)
    assert len(chosen(pw.Task(predictions, 5)).indices) == 5


def test_warning_filters_are_never_changed_by_a_simulation():
    seen = []

    def rule(task):
        seen.append(list(warnings.filters))
        return pw.Picks(np.arange(task.batch_size), np.zeros(task.batch_size), saturated_at=0)

    before = list(warnings.filters)
    inputs = np.random.default_rng(0).normal(size=(40, 3))
    pool_ = pw.Pool(inputs, classes=2)
    pool_.label([0, 1], [0, 1])
    learner = pw.ActiveLearner(pw.posteriors.Committee(LogisticRegression(), 3), pool_, rule, 4)
    rounds = list(pw.simulate(learner, np.arange(40) % 2, 10))  # which does not warn of saturation either
    assert len(rounds) == 3
    assert seen == [before, before]
    with pytest.warns(pw.SaturationWarning, match="rule saturated"):
        pw.select(pool(20, 3, 2), 3, rule)


def test_the_winners_are_the_points_that_were_scored():
    """Indices are positions in what the caller passed, and the scores are those of just these points."""
    x = pool(500, 6, 4)
    scores = pw.scores.bald(x)
    batch = pw.select(x, 10, "bald")
    np.testing.assert_array_equal(scores[batch.indices], batch.scores)
    assert scores[np.setdiff1d(np.arange(500), batch.indices)].max() <= batch.scores.min()
    some = np.arange(100, 300)
    part = pw.select(x, 10, "bald", candidates=some)
    np.testing.assert_array_equal(scores[part.indices], part.scores)
    assert np.isin(part.indices, some).all()
