"""A batch that runs out of information says at which pick, why, and what helps; a healthy one says nothing."""

import math
import sys
import warnings

import numpy as np
import pytest
from pools import pool

import poolwise as pw

GREEDY = ["bald", "lbb", "batchbald", "gp-variance", "posterior-coverage"]


def select(x, size, method, **options):
    """The batch, and the message of its warning or None."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batch = pw.select(x, size, method, **options)
    assert len(caught) <= 1
    assert all(warning.category is pw.SaturationWarning for warning in caught)
    return batch, str(caught[0].message) if caught else None


def test_batchbald_with_few_samples_warns_names_the_pick_and_what_helps(digits):
    batch, message = select(digits[:, :4], 30, "batchbald", configurations=2000)
    at = batch.diagnostics.saturated_at
    assert 2 <= at < 20
    assert f"after {at} of 30 picks" in message
    for remedy in ("more posterior samples", "smaller batch", "power-lbb", f"ln 4 = {math.log(4):.2f}"):
        assert remedy in message
    assert "redundancy" not in message  # which is a parameter of lbb
    assert batch.diagnostics.information[at] > 0.95 * math.log(4)
    assert f"saturated after {at} picks" in str(batch.diagnostics)


def test_the_warning_points_at_the_caller(digits):
    with pytest.warns(pw.SaturationWarning) as caught:
        pw.select(digits[:, :2], 20, "batchbald", configurations=100)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("pairs", ["unordered", "ordered"])
def test_the_printed_sum_collapses_and_says_so(digits, pairs):
    """After a handful of picks every informative point has a negative gain; what is left to take knows nothing."""
    batch, message = select(digits, 60, "lbb", redundancy="sum", pairs=pairs)
    at = batch.diagnostics.saturated_at
    assert 2 <= at < 40
    assert f"after {at} of 60 picks" in message
    own = pw.scores.bald(digits)[batch.indices]
    assert own[at:].mean() < 0.25 * own[:at].mean()


@pytest.mark.parametrize("redundancy", ["normalised", "max", "mean"])
def test_other_redundancies_stay_informative_and_silent(digits, redundancy):
    batch, message = select(digits, 60, "lbb", redundancy=redundancy)
    assert message is None
    assert batch.diagnostics.saturated_at is None
    assert (batch.scores > batch.diagnostics.tolerance).all()
    said = str(batch.diagnostics)
    assert "saturated after" not in said
    assert ("not saturated" in said) == (batch.diagnostics.information[-1] < 0.995 * math.log(10))


@pytest.mark.parametrize("method", pw.methods())
def test_a_healthy_batch_is_silent(digits, method):
    embeddings = digits.mean(1) + np.random.default_rng(0).normal(size=(len(digits), 10))
    batch, message = select(digits, 4, method, embeddings=embeddings)
    assert message is None
    assert batch.diagnostics.saturated_at is None


@pytest.mark.parametrize("method", GREEDY)
@pytest.mark.parametrize("K", [1, 2, 3, 6])
def test_picks_before_saturation_gained_and_picks_after_did_not(method, K):
    x = pool(80, K, 4, seed=K, scale=1.5)
    x[40:] = x[40:, :1]
    batch, message = select(x, 80, method)
    at, tolerance = batch.diagnostics.saturated_at, batch.diagnostics.tolerance
    assert at is not None
    assert (batch.scores[:at] > tolerance).all()
    assert batch.scores[at] <= tolerance
    assert f"after {at} of 80" in message


@pytest.mark.parametrize("method", ["power-bald", "softmax-bald", "softrank-bald", "power-lbb"])
@pytest.mark.parametrize("seed", range(3))
def test_draws_saturate_once_nothing_useful_is_left(method, seed):
    x = pool(40, 4, 3, seed=1)
    x[10:] = x[10:, :1]
    batch, message = select(x, 40, method, seed=seed)
    at, tolerance = batch.diagnostics.saturated_at, batch.diagnostics.tolerance
    assert message is not None
    assert (batch.scores[at:] <= tolerance).all()
    assert at == 0 or batch.scores[at - 1] > tolerance
    _, message = select(x, 2, "power-bald", seed=seed, alpha=5.0)
    assert message is None


def test_exhausted_information_is_flagged_even_if_the_method_does_not_care():
    """With two certain samples one label tells everything."""
    x = np.log(np.array([[[1.0, 0.0], [0.0, 1.0]]] * 5) + 1e-30).astype(np.float32)
    batch, message = select(x, 3, "lbb")
    assert batch.diagnostics.saturated_at == 1
    assert message is not None
    np.testing.assert_allclose(batch.diagnostics.information, math.log(2), atol=1e-6)


def test_information_is_skipped_above_its_cost_unless_asked_for(monkeypatch, digits):
    monkeypatch.setattr(sys.modules["poolwise.selection.select"], "_INFORMATION_COST", 10)
    assert pw.select(digits, 5, "bald").diagnostics.information is None
    assert pw.select(digits, 5, "bald", information=True).diagnostics.information.shape == (5,)
    assert "information" not in str(pw.select(digits, 5, "bald").diagnostics)


def test_a_sample_that_is_covered_is_named_as_the_reason():
    rng = np.random.default_rng(0)
    x, embeddings = pool(400, 4, 3), rng.normal(size=(400, 8))
    batch, message = select(
        x, 60, "mutual-herding", embeddings=embeddings, labelled_embeddings=embeddings[:5], sample=20
    )
    assert batch.diagnostics.saturated_at < 60
    assert "A random sample of the pool is to be covered" in message
    assert "a larger sample=" in message
    assert select(x, 60, "mutual-herding", embeddings=embeddings, labelled_embeddings=embeddings[:5])[1] is None
    copies = np.repeat(embeddings[:10], 40, 0)
    message = select(x, 60, "mutual-herding", embeddings=copies, labelled_embeddings=embeddings[:1])[1]
    assert "features that tell these points apart" in message
