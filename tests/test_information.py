"""The mathematics against brute force: float64 to 1e-9, float32 to 1e-5."""

import itertools
import math
import sys

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pools import one_hot, pool, small_pools, uniform

import poolwise as pw
from poolwise import budget
from poolwise.errors import InputError
from poolwise.information import entropies
from poolwise.information.joint import (
    Configurations,
    Weighted,
    batch_information,
    joint_entropy,
    total_correlation,
)
from poolwise.information.pairs import Deviations, aligned, crossed, with_itself
from poolwise.predictions import Predictions
from poolwise.scores import kernels

TOLERANCE = {np.float64: 1e-9, np.float32: 1e-5}
dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
SCORES = ["bald", "entropy", "conditional_entropy", "least_confidence", "margin"]
ORACLES = {
    "bald": oracles.bald,
    "entropy": oracles.predictive_entropy,
    "conditional_entropy": oracles.conditional_entropy,
    "least_confidence": oracles.least_confidence,
    "margin": oracles.margin,
}


def probs_of(x):
    """Float64 probabilities of what the library sees."""
    return np.exp(x.astype(np.float64))


def tensors(x):
    block = Predictions.from_log_probs(x).rows(np.arange(len(x)))
    return block.log_probs, block.probs


def rng():
    return np.random.default_rng(0)


# Scores of single points


@dtypes
@pytest.mark.parametrize("score", SCORES)
@given(x=small_pools())
def test_scores_match_loops(score, dtype, x):
    x = x.astype(dtype)
    expected = [ORACLES[score](point) for point in probs_of(x)]
    np.testing.assert_allclose(getattr(pw.scores, score)(x), expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("C", [100, 1000])
def test_float32_scores_keep_five_digits_with_many_classes(C):
    x = pool(4, 12, C)
    for score in SCORES:
        expected = [ORACLES[score](point) for point in probs_of(x)]
        np.testing.assert_allclose(getattr(pw.scores, score)(x), expected, rtol=0, atol=1e-5)


@given(x=small_pools())
def test_bald_is_between_zero_and_the_log_of_samples_and_classes(x):
    for given_ in (x, x.astype(np.float32)):
        scores = pw.scores.bald(given_)
        assert (scores >= 0).all()
        assert (scores <= math.log(min(x.shape[1:]))).all()


@pytest.fixture
def compiled_bald(monkeypatch):
    """BALD by the compiled pass, whatever the size of the pool."""
    monkeypatch.setattr(kernels, "MANY", 0)
    sums = pytest.importorskip("poolwise.information.compiled").member_sums
    passes = []
    monkeypatch.setattr(
        "poolwise.information.compiled.member_sums", lambda *given: passes.append(len(given[0])) or sums(*given)
    )
    yield pw.scores.bald
    assert passes


@pytest.mark.parametrize(("K", "C"), [(1, 2), (2, 1), (3, 7), (20, 100), (4, 1000)])
@pytest.mark.parametrize("zero", [-np.inf, -110.0, -95.0])
def test_the_compiled_pass_gives_the_scores_of_the_formula(K, C, zero, compiled_bald):
    x = pool(40, K, C, scale=4.0, dtype=np.float32)
    x[:20] = zero
    x[np.arange(20)[:, None], np.arange(K), rng().integers(C, size=(20, K))] = 0  # certain, of different labels
    expected = [max(0.0, oracles.bald(point)) for point in probs_of(x)]
    np.testing.assert_allclose(compiled_bald(x), expected, atol=2e-6)
    assert not np.signbit(compiled_bald(x)).any()


def test_the_compiled_exponential_is_right_to_the_last_digits():
    member_sums = pytest.importorskip("poolwise.information.compiled").member_sums
    logs = np.linspace(-86.9, 0, 100_001).astype(np.float32)
    sums, products, _ = member_sums(logs.reshape(-1, 1, 1), 1.0)
    exact = np.exp(logs.astype(np.float64))
    np.testing.assert_allclose(sums[:, 0], exact, rtol=3e-7)
    np.testing.assert_allclose(products, exact * logs, rtol=4e-7)


def test_the_compiled_score_of_a_row_depends_on_that_row_only(compiled_bald, monkeypatch):
    x = pool(50, 7, 13, dtype=np.float32)
    whole = compiled_bald(x)
    np.testing.assert_array_equal(compiled_bald(x[11:30].copy()), whole[11:30])
    monkeypatch.setattr(budget, "_CACHE_BLOCK", 3 * 4 * 7 * 13)
    np.testing.assert_array_equal(compiled_bald(x), whole)
    np.testing.assert_array_equal(pw.select(x, 50, "bald").indices, pw.select(x, 50, "bald", memory="1MB").indices)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.3, 90.0, 130.0, 1e30])
def test_the_compiled_pass_finds_what_is_wrong_with_predictions(bad, compiled_bald):
    x = pool(50, 3, 5, dtype=np.float32)
    x[31, 1, 4] = bad
    with pytest.raises(InputError, match="row 31, posterior sample 1"):
        compiled_bald(x)


def test_without_numba_a_large_pool_is_scored_without_the_compiled_pass(monkeypatch):
    x = pool(50, 3, 5, dtype=np.float32)
    expected = pw.scores.bald(x)
    monkeypatch.setattr(kernels, "MANY", 0)
    monkeypatch.setitem(sys.modules, "poolwise.information.compiled", None)
    np.testing.assert_array_equal(pw.scores.bald(x), expected)


def test_zero_times_log_zero_is_zero():
    certain = one_hot([[0, 0, 0], [0, 1, 2]], 3)
    assert entropies.plogp(torch.tensor([0.0, 1.0])).tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(pw.scores.conditional_entropy(certain), [0.0, 0.0])
    np.testing.assert_allclose(pw.scores.entropy(certain), [0.0, math.log(3)], atol=1e-7)
    np.testing.assert_allclose(pw.scores.bald(certain), [0.0, math.log(3)], atol=1e-7)
    deviations = Deviations.of(tensors(certain)[1])
    np.testing.assert_allclose(with_itself(deviations), [0.0, math.log(3)], atol=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_no_score_is_a_negative_zero(score):
    for x in (one_hot([[0, 0], [1, 1]], 2), uniform(2, 3, 4)):
        assert not np.signbit(getattr(pw.scores, score)(x)).any()


def test_scores_give_tensors_for_tensors_and_arrays_for_arrays():
    x = pool(5, 3, 4)
    tensor = pw.scores.bald(torch.from_numpy(x))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.float64
    array = pw.scores.bald(x)
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.float64
    np.testing.assert_array_equal(tensor.numpy(), array)
    np.testing.assert_array_equal(pw.scores.bald(Predictions.from_log_probs(x)), array)


# Pairs


@dtypes
@given(x=small_pools(points=(2, 5)))
def test_pair_information_matches_the_joint_table(dtype, x):
    x = x.astype(dtype)
    deviations, probs = Deviations.of(tensors(x)[1]), probs_of(x)
    expected = [[oracles.pair_information(a, b) for b in probs] for a in probs]
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(crossed(deviations, deviations), expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(with_itself(deviations), np.diag(expected), rtol=0, atol=tolerance)
    swapped = Deviations(deviations.ratios.flip(0).contiguous(), deviations.means.flip(0).contiguous())
    np.testing.assert_allclose(aligned(deviations, swapped), np.diag(expected[::-1]), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("K", "C"), [(20, 7), (10, 33), (10, 10), (100, 3), (5, 100), (3, 400)])
@dtypes
def test_a_pair_has_the_same_bits_whatever_it_is_computed_with(K: int, C: int, dtype: type) -> None:
    """Selection compares equal points by equal numbers, however pairs are grouped."""
    n = 80 if C <= 100 else 6
    deviations = Deviations.of(torch.from_numpy(np.exp(pool(n, K, C, seed=3, dtype=dtype))))
    others = deviations.take(torch.arange(n).roll(1))
    together = aligned(deviations, others)
    for first, last in ((0, 1), (1, 2), (0, 3), (2, 5), (n // 2, n)):
        assert torch.equal(aligned(deviations[first:last], others[first:last]), together[first:last])


@dtypes
def test_pairs_with_many_classes_some_of_them_impossible(dtype: type) -> None:
    probs = np.exp(pool(4, 3, 500, seed=1, dtype=np.float64))
    probs[0, :, :100], probs[1, :, 50:] = 0, 0
    probs /= probs.sum(2, keepdims=True)
    deviations = Deviations.of(torch.from_numpy(probs.astype(dtype)))
    expected = crossed(*[Deviations.of(torch.from_numpy(probs))] * 2)
    np.testing.assert_allclose(with_itself(deviations), expected.diagonal(), rtol=0, atol=TOLERANCE[dtype])
    turned = deviations.take(torch.tensor([1, 2, 3, 0]))
    np.testing.assert_allclose(
        aligned(deviations, turned), expected[[0, 1, 2, 3], [1, 2, 3, 0]], rtol=0, atol=TOLERANCE[dtype]
    )


@dtypes
@given(x=small_pools(points=(2, 5)))
def test_a_pair_shares_no_more_than_either_knows(dtype, x):
    x = x.astype(dtype)
    information = crossed(*2 * [Deviations.of(tensors(x)[1])]).numpy()
    own = pw.scores.bald(x)
    assert (information >= 0).all()
    assert (information <= np.minimum(own[:, None], own[None, :]) + TOLERANCE[dtype]).all()


@pytest.mark.parametrize(("scale", "tolerance"), [(3e-2, 1e-3), (1e-2, 1e-2), (5e-3, 5e-2)])
def test_nearly_independent_labels_keep_their_digits_in_float32(scale, tolerance):
    """Written as a difference of entropies, float32 would leave nothing of values far below its rounding error."""
    x = pool(12, 20, 5, seed=3, scale=1.0)
    x = np.log(0.2 + scale * (np.exp(x) - np.exp(x).mean(1, keepdims=True))).astype(np.float64)
    x = (x - np.log(np.exp(x).sum(2, keepdims=True))).astype(np.float32)
    information = crossed(*2 * [Deviations.of(tensors(x)[1])]).numpy().astype(np.float64)
    probs = probs_of(x)
    probs /= probs.sum(2, keepdims=True)
    expected = np.array([[oracles.pair_information(a, b) for b in probs] for a in probs])
    off = ~np.eye(12, dtype=bool)
    assert expected[off].max() < 1e-5
    typical = np.median(expected[off])
    np.testing.assert_allclose(information[off], expected[off], rtol=tolerance, atol=tolerance * typical)


def test_information_of_a_billionth_of_a_nat_is_precise_in_float64():
    draw = rng()
    probs = 0.25 + 3e-3 * draw.uniform(-1, 1, (6, 8, 4))
    probs /= probs.sum(2, keepdims=True)
    information = crossed(*2 * [Deviations.of(torch.from_numpy(probs))]).numpy()
    expected = np.array([[oracles.pair_information(a, b) for b in probs] for a in probs])
    off = ~np.eye(6, dtype=bool)
    assert 1e-12 < np.median(expected[off]) < 1e-8
    np.testing.assert_allclose(information[off], expected[off], rtol=1e-4, atol=1e-14)


# Batches


@given(x=small_pools(points=(1, 4), classes=(2, 3)))
def test_enumerated_joint_entropy_information_and_total_correlation_match_brute_force(x):
    log_probs, probs = tensors(x)[0], probs_of(x)
    assert joint_entropy(log_probs, 10_000, rng()) == pytest.approx(oracles.joint_entropy(probs), abs=1e-9)
    assert total_correlation(log_probs, 10_000, rng()) == pytest.approx(oracles.total_correlation(probs), abs=1e-9)
    curve = batch_information(log_probs, 10_000, rng())
    expected = [oracles.batch_information(probs[: t + 1]) for t in range(len(x))]
    np.testing.assert_allclose(curve, expected, rtol=0, atol=1e-9)


@given(x=small_pools(points=(1, 4), classes=(2, 3), dtype=np.float32))
def test_joint_information_of_float32_predictions_matches_to_five_digits(x):
    expected = oracles.batch_information(probs_of(x))
    assert batch_information(tensors(x)[0], 10_000, rng())[-1] == pytest.approx(expected, abs=1e-5)


@given(x=small_pools(points=(2, 4), classes=(2, 3)))
def test_sum_of_bald_less_batchbald_less_total_correlation_is_zero(x):
    """Equation 7 of the paper."""
    log_probs = tensors(x)[0]
    information = batch_information(log_probs, 10_000, rng())[-1]
    correlation = total_correlation(log_probs, 10_000, rng())
    assert pw.scores.bald(x).sum() - information - correlation == pytest.approx(0, abs=1e-9)
    probs = probs_of(x)
    brute = oracles.batch_information(probs) + oracles.total_correlation(probs)
    assert math.fsum(map(oracles.bald, probs)) == pytest.approx(brute, abs=1e-9)


@given(x=small_pools(points=(2, 2)))
def test_unordered_lbb_is_batchbald_for_two_points(x):
    probs, (log_probs, tensor) = probs_of(x), tensors(x)
    deviations = Deviations.of(tensor)
    ours = pw.scores.bald(x).sum() - float(aligned(deviations[:1], deviations[1:])[0])
    assert ours == pytest.approx(oracles.batch_information(probs), abs=1e-9)
    assert ours == pytest.approx(batch_information(log_probs, 10_000, rng())[-1], abs=1e-9)
    assert ours == pytest.approx(oracles.lbb_objective(probs), abs=1e-9)
    printed = oracles.lbb_objective(probs, "ordered")
    assert printed == pytest.approx(ours - oracles.pair_information(*probs), abs=1e-9)


@given(x=small_pools(points=(1, 12), samples=(1, 8)), limit=st.sampled_from([1, 7, 50, 500]))
def test_information_never_falls_and_never_exceeds_the_ceiling(x, limit):
    curve = batch_information(tensors(x)[0], limit, rng())
    assert (np.diff(curve) >= 0).all()
    assert curve[0] >= 0
    assert curve[-1] <= math.log(x.shape[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_batch_of_five_hundred_neither_underflows_nor_exceeds_the_ceiling(dtype):
    x = pool(500, 20, 10, dtype=dtype)
    curve = batch_information(tensors(x)[0], 1000, rng())
    assert np.isfinite(curve).all()
    assert curve[-1] <= math.log(20)
    assert curve[-1] == pytest.approx(math.log(20), abs=1e-3)
    weak = pool(500, 20, 10, scale=0.01, dtype=dtype)
    curve = batch_information(tensors(weak)[0], 1000, rng())
    assert np.isfinite(curve).all()
    assert 0 < curve[-1] < math.log(20)


@pytest.mark.parametrize("certain", [True, False])
def test_certain_and_impossible_labels_leave_joint_information_finite(certain):
    labels = np.random.default_rng(1).integers(0, 3, (60, 4))
    x = one_hot(labels, 3) if certain else one_hot(np.repeat(labels[:, :1], 4, 1), 3)
    curve = batch_information(tensors(x)[0], 30, rng())
    assert np.isfinite(curve).all()
    assert curve[-1] == pytest.approx(math.log(4) if certain else 0.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_sampled_information_agrees_with_the_exact_one(seed):
    x = pool(7, 8, 3, seed=seed, scale=1.0, dtype=np.float64)
    log_probs, exact = tensors(x)[0], oracles.batch_information(probs_of(x))
    draws = [batch_information(log_probs, 400, np.random.default_rng([seed, s]))[-1] for s in range(40)]
    error = np.std(draws, ddof=1) / math.sqrt(len(draws))
    assert 0 < error < 0.02
    assert abs(np.mean(draws) - exact) < 4 * error + 1e-3


@given(x=small_pools(points=(2, 5)), seed=st.integers(0, 1000), groups=st.integers(1, 12), rows=st.integers(1, 40))
def test_merging_configurations_never_lowers_a_gain(x, seed, groups, rows):
    draw = np.random.default_rng(seed)
    K = x.shape[1]
    weights = torch.from_numpy(draw.dirichlet(np.full(K, 0.3), rows))
    probabilities = torch.from_numpy(draw.dirichlet(np.ones(rows)))
    log_probs, probs = tensors(x)
    members = entropies.member_entropies(log_probs, probs)
    fine = Weighted(weights, probabilities)
    coarse = fine.merged(min(groups, rows), draw)
    assert len(coarse.weights) <= min(groups, rows)
    assert float(coarse.probabilities.sum()) == pytest.approx(1)
    assert (coarse.gains(probs, members) >= fine.gains(probs, members) - 1e-12).all()


@given(x=small_pools(points=(2, 4), classes=(2, 3)))
def test_weights_give_the_gain_of_one_more_point(x):
    log_probs, probs = tensors(x)
    configurations = Configurations(x.shape[1], 10_000, rng(), torch.float64)
    for point in log_probs[:-1]:
        configurations.add(point)
    members = entropies.member_entropies(log_probs, probs)
    gain = float(configurations.posterior.gains(probs[-1:], members[-1:]))
    exact = probs_of(x)
    assert gain == pytest.approx(oracles.batch_information(exact) - oracles.batch_information(exact[:-1]), abs=1e-9)
    assert configurations.standard_error(probs[-1], log_probs[-1]) == 0


# Looking ahead, the released score


@dtypes
@given(x=small_pools(points=(2, 6)))
def test_epig_is_the_mean_pair_information(dtype, x):
    x = x.astype(dtype)
    probs = probs_of(x)
    expected = [oracles.epig(point, probs[:3]) for point in probs]
    np.testing.assert_allclose(pw.scores.epig(x, x[:3]), expected, rtol=0, atol=TOLERANCE[dtype])


@dtypes
@pytest.mark.parametrize("softness", [0.5, 10.0, 200.0])
@given(x=small_pools(points=(2, 5)))
def test_smocu_is_the_expected_fall_of_the_whole_cost(softness, dtype, x):
    x = x.astype(dtype)
    probs = probs_of(x)
    probs /= probs.sum(2, keepdims=True)
    expected = [oracles.smocu(point, probs[:3], softness) for point in probs]
    got = pw.scores.smocu(x, x[:3], softness=softness)
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE[dtype])
    assert (got >= 0).all()


def test_scores_against_targets_say_what_is_wrong_with_the_targets():
    x = pool(6, 4, 3)
    for score in (pw.scores.epig, pw.scores.smocu):
        with pytest.raises(pw.errors.ShapeError):
            score(x, x[:, :2])
        with pytest.raises(pw.errors.ShapeError):
            score(x, pool(6, 4, 2))
        expected = score(x.astype(np.float64), x.astype(np.float64))
        np.testing.assert_allclose(score(x, x.astype(np.float64)), expected, atol=1e-5)
        np.testing.assert_allclose(score(x.astype(np.float64), x), expected, atol=1e-5)
    with pytest.raises(pw.errors.ParameterError):
        pw.scores.smocu(x, x, softness=-1.0)


@dtypes
@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
def test_the_released_score_is_the_double_loop(dtype):
    x = pool(23, 4, 3, dtype=dtype)
    probs = probs_of(x)
    for rows in (1024, 10):
        expected = np.array(
            [
                oracles.released_score(probs, i, range(i // rows * rows, min(i // rows * rows + rows, 23)))
                for i in range(23)
            ]
        )
        batch = pw.select(x, 23, "lbb-released", reference=rows)
        np.testing.assert_allclose(batch.scores, expected[batch.indices], atol=10 * TOLERANCE[dtype])
        np.testing.assert_array_equal(batch.indices, np.argsort(-expected, kind="stable"))
    some = [3, 17, 5]
    expected = np.array([oracles.released_score(probs, i, some) for i in range(23)])
    batch = pw.select(x, 23, "lbb-released", reference=some)
    np.testing.assert_allclose(batch.scores, expected[batch.indices], atol=10 * TOLERANCE[dtype])


# Whole selections


@dtypes
@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize(
    ("redundancy", "pairs"),
    [(form, "unordered") for form in ("normalised", "max", "mean", "sum")] + [("sum", "ordered")],
)
@pytest.mark.parametrize("seed", range(3))
def test_lbb_is_brute_force_greedy(redundancy, pairs, dtype, seed):
    x = pool(14, 5, 3, seed, dtype=dtype)
    batch = pw.select(x, 6, "lbb", redundancy=redundancy, pairs=pairs)
    picks, gains = oracles.lbb_greedy(probs_of(x), 6, redundancy, pairs)
    assert batch.indices.tolist() == picks
    np.testing.assert_allclose(batch.scores, gains, rtol=0, atol=20 * TOLERANCE[dtype])


@dtypes
@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("seed", range(3))
def test_batchbald_is_brute_force_greedy_while_exact(dtype, seed):
    x = pool(10, 6, 3, seed, scale=1.0, dtype=dtype)
    batch = pw.select(x, 4, "batchbald")
    picks, gains = oracles.batchbald_greedy(probs_of(x), 4)
    assert batch.indices.tolist() == picks
    np.testing.assert_allclose(batch.scores, gains, rtol=0, atol=TOLERANCE[dtype])
    np.testing.assert_array_equal(batch.diagnostics.standard_error, 0)


@dtypes
@pytest.mark.parametrize("noise", [0.01, 1.0, 1e-4])
def test_gp_variance_conditions_the_explicit_covariance(dtype, noise):
    x = pool(16, 12, 3, dtype=dtype)
    batch = pw.select(x, 6, "gp-variance", noise=noise)
    picks, gains = oracles.gp_variance_greedy(probs_of(x), 6, noise)
    assert batch.indices.tolist() == picks
    np.testing.assert_allclose(batch.scores, gains, rtol=0, atol=1e-7 if dtype == np.float64 else 1e-5)


def assert_greedy_coverage(batch, probs, *options):
    """Every pick is as good as the best; two points that cover only each other tie."""
    for t, (index, score) in enumerate(zip(batch.indices, batch.scores, strict=True)):
        gains = oracles.coverage_gains(probs, batch.indices[:t].tolist(), len(batch), *options)
        assert gains[index] == pytest.approx(max(gains.values()), abs=1e-5)
        assert score == pytest.approx(gains[index], abs=1e-5)


@dtypes
@pytest.mark.parametrize(("share", "weights"), [(10.0, "margin"), (1.5, "margin"), (2, "uniform")])
def test_posterior_coverage_is_greedy_on_the_undecided_points(dtype, share, weights):
    x = pool(30, 6, 3, dtype=dtype)
    batch = pw.select(x, 6, "posterior-coverage", filter=share, weights=weights)
    assert_greedy_coverage(batch, probs_of(x), share, weights)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_informant_explains_no_more_than_the_batch_together(seed):
    """Squared cosines of single informants are below the share of variance that the batch explains jointly."""
    generator = np.random.default_rng(seed)
    probs_N_K_C = generator.dirichlet(np.ones(4), (12, 9))
    z_N_K_C = probs_N_K_C - probs_N_K_C.mean(1, keepdims=True)
    batch = generator.choice(12, 3, replace=False)
    seen_K_F = np.concatenate([z_N_K_C[i] for i in batch], 1)  # every class at every point of the batch is observed
    basis_K_R = np.linalg.svd(seen_K_F, full_matrices=False)[0][:, : np.linalg.matrix_rank(seen_K_F)]
    flat_N_F = z_N_K_C.reshape(12, -1)
    unit_N_F = flat_N_F / np.linalg.norm(flat_N_F, axis=1, keepdims=True)
    for j in range(12):
        explained = np.square(basis_K_R.T @ z_N_K_C[j]).sum() / np.square(z_N_K_C[j]).sum()
        single = np.square(unit_N_F[batch] @ unit_N_F[j]).max()
        assert single <= explained + 1e-12
        assert explained <= 1 + 1e-12


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e6])
def test_posterior_coverage_of_embeddings_covers_their_cosines_whatever_their_scale(scale):
    x, z = pool(30, 6, 3), np.random.default_rng(5).normal(size=(30, 4)) + 2
    batch = pw.select(x, 6, "posterior-coverage", kernel="embeddings", embeddings=z * scale)
    assert_greedy_coverage(batch, probs_of(x), 10.0, "margin", z - z.mean(0))


@pytest.mark.parametrize("labelled", [0, 5])
def test_coreset_is_greedy_k_centre(labelled):
    draw = np.random.default_rng(2)
    z, known = draw.normal(size=(40, 5)) + 100, draw.normal(size=(labelled, 5)) + 100
    batch = pw.select(pool(40, 3, 3), 12, "coreset", embeddings=z, labelled_embeddings=known)
    picks, gains = oracles.k_centre_greedy(z, 12, known)
    assert batch.indices.tolist() == picks
    np.testing.assert_allclose(batch.scores, gains, rtol=1e-4)


@dtypes
@pytest.mark.parametrize("method", ["epig", "smocu"])
def test_methods_with_targets_take_the_top_of_their_score(method, dtype):
    x, targets = pool(25, 5, 3, dtype=dtype), pool(6, 5, 3, seed=9, dtype=dtype)
    batch = pw.select(x, 10, method, targets=targets)
    oracle = {"epig": oracles.epig, "smocu": lambda p, t: oracles.smocu(p, t, 10.0)}[method]
    expected = np.array([oracle(point, probs_of(targets)) for point in probs_of(x)])
    np.testing.assert_array_equal(batch.indices, np.argsort(-expected)[:10])
    np.testing.assert_allclose(batch.scores, np.sort(expected)[::-1][:10], atol=TOLERANCE[dtype])


def test_redundant_copies_have_correlation_one_and_gain_nothing():
    x = pool(6, 5, 3)
    x[4] = x[1]
    with pytest.warns(pw.SaturationWarning):
        batch = pw.select(x[[1, 4]], 2, "lbb")
    assert batch.scores[1] == pytest.approx(0, abs=1e-6)
    for i, j in itertools.combinations(range(4), 2):
        assert oracles.lbb_gain(probs_of(x), [i], j) > 1e-3
