"""Mistakes seen in this field, each with a test that forbids it here."""

import math
import subprocess
import sys

import numpy as np
import oracles
import pytest
import torch
from pools import features, one_hot, pool

import poolwise as pw
from poolwise.predictions import Predictions
from poolwise.selection.badge import residuals


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
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


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
