"""EPIG: bounds of its scores, and the same batch from few of them."""

import subprocess
import sys
import warnings

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pools import messy, normalise, one_hot, pool, small_pools, uniform

import poolwise as pw
from poolwise.information.lookahead import expected_information
from poolwise.information.pairs import Deviations
from poolwise.information.target_bounds import _LOWEST, TargetSums, parabola
from poolwise.selection.references import warn_if_long


def h(delta):
    return ((1 + delta) * np.log1p(delta) - delta) / delta**2


@pytest.mark.parametrize("t", [_LOWEST, -0.5, -2e-3, 0.0, 2e-3, 0.7, 3.0, 100.0])
def test_the_parabola_is_nowhere_below_h(t):
    constant, slope, curve = (float(x[0]) for x in parabola(torch.tensor([t], dtype=torch.float64)))
    delta = np.concatenate([np.linspace(-1 + 1e-9, -1e-2, 500), np.geomspace(1e-2, 200, 500)])
    assert (constant + slope * delta + curve * delta**2 - h(delta) >= -1e-9).all()
    assert constant - slope + curve == pytest.approx(1.0)
    if t:
        assert constant + slope * t + curve * t**2 == pytest.approx(h(t))


@given(small_pools(points=(2, 8)), st.sampled_from([np.float32, np.float64]))
def test_bounds_are_above_the_scores(x, dtype):
    x = x.astype(dtype)
    points = Deviations.of(torch.from_numpy(np.exp(x)))
    targets = points[: max(1, len(x) // 2)]
    sums = TargetSums.of(targets)
    scores = expected_information(points, targets)
    assert (sums.loose(points) >= scores).all()
    assert (sums.tight(points) >= scores).all()
    assert (sums.tight(points) <= sums.loose(points)).all()
    oracle = [oracles.epig(np.exp(p.astype(np.float64)), np.exp(x[: len(targets)].astype(np.float64))) for p in x]
    assert (sums.tight(points).numpy() >= np.array(oracle) - 1e-12).all()


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0, 5.0, 60.0])
def test_bounds_are_close_and_allow_for_rounding(scale):
    points = Deviations.of(torch.from_numpy(pool(400, 6, 5, 3, scale)).exp())
    targets = points[:50]
    scores = expected_information(points, targets)
    bounds = TargetSums.of(targets).tight(points)
    assert (bounds >= scores).all()
    if scale >= 1e-2:  # below, float32 has no digits left for the scores
        some = scores > 1e-12
        assert float((bounds[some] / scores[some]).median()) < 1.6


@pytest.mark.parametrize("seed", range(6))
def test_lazy_and_full_evaluation_pick_the_same(seed):
    x = messy(300, 5, 4, seed)
    batches = [pw.select(x, 40, "epig", seed=seed, sample=60, evaluation=way) for way in ("lazy", "full")]
    np.testing.assert_array_equal(batches[0].indices, batches[1].indices)
    np.testing.assert_array_equal(batches[0].scores, batches[1].scores)
    expected = np.array(pw.scores.epig(x, x[np.sort(_drawn(x, seed))]))
    np.testing.assert_allclose(batches[0].scores, np.sort(expected)[::-1][:40], rtol=1e-4, atol=1e-7)


def _drawn(x, seed):
    task = pw.Task(pw.Predictions.from_log_probs(x), 1, seed)
    return task.generator("targets").choice(len(x), 60, replace=False)


def test_few_points_are_scored():
    """Where the samples agree about most points, as those of an ensemble do."""
    draw = np.random.default_rng(0)
    deviations = draw.gamma(0.5, 2.0, (5000, 1, 1)) * draw.normal(size=(5000, 8, 6))
    x = normalise(3 * draw.normal(size=(5000, 1, 6)) + deviations)
    batch = pw.select(x, 10, "epig", sample=50)
    assert batch.diagnostics.pairs <= 0.2 * 5000 * 50


@pytest.mark.filterwarnings("ignore::poolwise.errors.SaturationWarning")
@pytest.mark.parametrize("K", [1, 2, 31, 40])
def test_any_number_of_samples(K):
    """From 32 samples on there are too many products for the tighter bound."""
    x = pool(120, K, 3)
    batches = [pw.select(x, 10, "epig", evaluation=way, information=False) for way in ("lazy", "full")]
    np.testing.assert_array_equal(batches[0].indices, batches[1].indices)


@pytest.mark.filterwarnings("ignore::poolwise.errors.SaturationWarning")
@pytest.mark.parametrize("x", [uniform(30, 4, 3), one_hot(np.zeros((30, 4), int), 3)], ids=["uniform", "certain"])
def test_points_without_information_come_in_order(x):
    batch = pw.select(x, 30, "epig")
    assert batch.indices.tolist() == list(range(30))
    assert batch.scores.tolist() == [0.0] * 30
    assert batch.diagnostics.saturated_at == 0


def test_a_prefilter_knows_the_bound():
    x = pool(500, 5, 4)
    batch = pw.select(x, 5, "epig", candidates="top:200", targets=x[:40])
    assert batch.indices.tolist() == pw.select(x, 5, "epig", targets=x[:40]).indices.tolist()
    assert batch.diagnostics.prefilter.lost == 0


def plain_epig(point_K_C, targets_R_K_C):
    """By entropies in float64, without a loop over classes."""
    total = 0.0
    for target_K_C in targets_R_K_C:
        joint = np.einsum("ka,kb->ab", point_K_C, target_K_C) / len(point_K_C)
        apart = np.outer(point_K_C.mean(0), target_K_C.mean(0))
        total += (joint * np.log(joint / apart)).sum()
    return total / len(targets_R_K_C)


def plain_smocu(point_K_C, targets_R_K_C, softness=10.0):
    total, weights_K_C = 0.0, point_K_C / point_K_C.sum(0)
    for target_K_C in targets_R_K_C:
        after_C_C = target_K_C.T @ weights_K_C
        soft = np.log(np.exp(softness * after_C_C).sum(0)) @ point_K_C.mean(0)
        total += (soft - np.log(np.exp(softness * target_K_C.mean(0)).sum())) / softness
    return total / len(targets_R_K_C)


@pytest.mark.parametrize(("C", "dtype"), [(300, np.float64), (400, np.float32), (1100, np.float64)])
def test_many_classes(C, dtype):
    """One pair is computed in parts then, and so are the labels of a point."""
    x = pool(5, 3, C).astype(dtype)
    probs = np.exp(x.astype(np.float64))
    for score, plain in ((pw.scores.epig, plain_epig), (pw.scores.smocu, plain_smocu)):
        expected = [plain(point, probs[:3]) for point in probs]
        np.testing.assert_allclose(score(x, x[:3]), expected, rtol=1e-4 if dtype == np.float32 else 1e-6, atol=1e-10)


@pytest.mark.parametrize("method", ["epig", "smocu"])
def test_memory_does_not_grow_with_targets_times_classes_squared(method):
    """64 targets at a time with 1,500 classes would be 0.6 GB."""
    program = f"""
import re
from pathlib import Path
import numpy as np, torch
import poolwise as pw
torch.set_num_threads(1)
def peak():  # ru_maxrss would begin at the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
x = np.random.default_rng(0).normal(size=(70, 2, 1500)).astype(np.float32)
predictions = pw.Predictions.from_logits(x)
pw.select(predictions.take(np.arange(2)), 1, "{method}")
before = peak()
pw.select(predictions, 1, "{method}", targets=predictions, candidates=[3, 5])
print(peak() - before)
"""
    grown = int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    assert grown < 100_000  # kilobytes


def test_a_selection_that_would_take_long_says_so():
    few = torch.zeros(500, 1, 5000)
    with pytest.warns(pw.CostWarning, match=r"20 points with 500 targets, and 5,000² .* 21 minutes .*sample="):
        assert warn_if_long(20, few) is few
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_long(1, few)


@pytest.mark.parametrize("scale", [1e-2, 1.0, 40.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_hold_with_many_classes(scale, dtype):
    x = pool(10, 4, 400, 3, scale).astype(dtype)
    points = Deviations.of(torch.from_numpy(np.exp(x)))
    sums, scores = TargetSums.of(points[:5]), expected_information(points, points[:5])
    assert (sums.loose(points) >= scores).all()
    assert (sums.tight(points) >= scores).all()
    batches = [pw.select(x, 4, "epig", targets=x[:5], evaluation=way).indices for way in ("lazy", "full")]
    assert np.array_equal(*batches)
