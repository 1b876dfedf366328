"""Lazy evaluation makes the picks of full evaluation: on messy pools, on ties, on real predictions."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pools import features, messy, normalise, one_hot, pool

import poolwise as pw
from poolwise.selection import engine
from poolwise.selection.batchbald import JointInformation
from poolwise.selection.coverage import Coverage
from poolwise.selection.coverage_kernels import Cosine, Rows
from poolwise.selection.engine import select_greedily
from poolwise.selection.power_sampling import sample_by_power
from poolwise.selection.task import Task

FORMS = [*((form, "unordered") for form in ("normalised", "max", "mean", "sum")), ("sum", "ordered")]
CASES = [
    *[("lbb", {"redundancy": form, "pairs": pairs}) for form, pairs in FORMS],
    *[("power-lbb", {"redundancy": form, "pairs": pairs}) for form, pairs in FORMS],
    *[("power-lbb", {"redundancy": form, "alpha": 5.0}) for form in ("normalised", "max", "sum")],
    *[("batchbald", {"configurations": count}) for count in (10, 300, 3000)],
    *[("gp-variance", {"noise": noise}) for noise in (1e-6, 0.01)],
    *[("posterior-coverage", {"filter": share, "weights": w}) for share in (1, 10) for w in ("margin", "uniform")],
    ("posterior-coverage", {"kernel": "product"}),
    ("max-herding", {}),
    ("prob-cover", {"radius": 0.3}),
    ("epig", {"sample": 20}),
    ("local-herding", {}),
    ("mutual-herding", {}),
    *[("uherding", {"bandwidth": width}) for width in ("adaptive", 0.1)],
]
# Other settings of the same rule.
ALSO = [
    *[("power-lbb", {"redundancy": form, "alpha": 5.0}) for form in ("normalised", "max", "sum")],
    *[("batchbald", {"configurations": count}) for count in (10, 3000)],
    ("gp-variance", {"noise": 0.01}),
    *[("posterior-coverage", {"filter": 10, "weights": w}) for w in ("margin", "uniform")],
]
every_case = pytest.mark.parametrize(
    ("method", "options"),
    [
        pytest.param(*each, id=f"{each[0]}-{each[1]}", marks=pytest.mark.thorough if each in ALSO else ())
        for each in CASES
    ],
)
pytestmark = pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")


def features_of(x):
    """`[N, K]` features that equal points share."""
    return np.exp(np.asarray(x, np.float64)[:, :, 0])


def both(x, size, method, **options):
    ways = ("lazy", "full")
    given = {"embeddings": features_of(x), "information": False, **options}
    return [pw.select(x, size, method, evaluation=way, **given) for way in ways]


def assert_same(first, second):
    np.testing.assert_array_equal(first.indices, second.indices)
    np.testing.assert_allclose(first.scores, second.scores, rtol=1e-5, atol=1e-6)
    assert first.diagnostics.saturated_at == second.diagnostics.saturated_at


def test_every_greedy_method_is_tested_here():
    greedy = {name for name, method in pw.methods().items() if "evaluation" in method.parameters}
    assert greedy == {method for method, _ in CASES}


@every_case
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    N=st.integers(3, 70),
    K=st.sampled_from([1, 2, 3, 5, 10, 17, 20]),
    C=st.sampled_from([2, 3, 5, 7, 10]),
    share=st.floats(0, 1),
    dtype=st.sampled_from([np.float32, np.float64]),
)
@example(seed=21, N=39, K=17, C=3, share=0.6, dtype=np.float64)
@example(seed=7, N=113, K=10, C=7, share=0.9, dtype=np.float64)
@example(seed=14, N=22, K=17, C=7, share=0.4, dtype=np.float32)
@pytest.mark.timeout(300)
def test_lazy_and_full_make_the_same_picks_on_messy_pools(method, options, seed, N, K, C, share, dtype):
    assert_same(*both(messy(N, K, C, seed, dtype), 1 + int(share * (N - 1)), method, seed=seed, **options))


@every_case
def test_lazy_and_full_make_the_same_picks_of_identical_points(method, options):
    for x in (np.repeat(pool(1, 7, 5), 60, 0), one_hot(np.tile([[0, 1, 2, 0, 1, 2, 1]], (60, 1)), 5)):
        assert_same(*both(x, 20, method, **options))


@every_case
def test_lazy_and_full_make_the_same_picks_of_many_copies(method, options):
    x = np.tile(pool(30, 7, 5), (20, 1, 1))
    assert_same(*both(x, 40, method, **options))


@pytest.mark.parametrize(("method", "options"), [case for case in CASES if case[0] != "power-lbb"], ids=str)
def test_ties_go_to_the_lowest_index(method, options):
    """Every point has four copies, 300 places apart: a copy may only be picked after the copies before it."""
    x = np.tile(pool(60, 7, 5), (5, 1, 1))
    for way in ("lazy", "full"):
        given = {"embeddings": features_of(x), "information": False, **options}
        picked = pw.select(x, 50, method, evaluation=way, **given).indices
        order = {int(i): t for t, i in enumerate(picked)}
        for i in order:
            earlier = list(range(i % 60, i, 60))
            assert all(j in order and order[j] < order[i] for j in earlier)


@pytest.mark.parametrize("evaluation", ["lazy", "full"])
@pytest.mark.parametrize("method", ["lbb", "batchbald", "gp-variance", "posterior-coverage"])
def test_points_without_any_information_are_taken_in_order(method, evaluation):
    x = np.repeat(pool(1, 1, 4), 5, 1).repeat(40, 0)
    assert pw.select(x, 10, method, evaluation=evaluation).indices.tolist() == list(range(10))


def work(batch):
    """Pairs compared, or for objectives that compare none, rows read after the first pass."""
    return batch.diagnostics.pairs or batch.diagnostics.rows


@every_case
def test_lazy_never_does_more_work_than_full(method, options):
    x = pool(800, 8, 5, scale=1.5)
    for size in (2, 40):
        first, second = both(x, size, method, **options)
        assert work(first) > 0
        assert work(first) <= work(second)


def test_lazy_compares_few_pairs_of_a_large_pool():
    first, second = both(pool(20_000, 5, 5), 50, "lbb")
    assert_same(first, second)
    assert first.diagnostics.pairs < 0.5 * second.diagnostics.pairs


# A toy objective that counts


class Discount(pw.GreedyObjective):
    """A gain that falls by a fixed factor for every pick of the same group; counts how often it is asked."""

    floor, rounding = 0.0, 0.0

    def __init__(self, values, groups, factor=0.5):
        self.values, self.groups, self.factor = np.asarray(values, float), np.asarray(groups), factor
        self.taken = np.zeros(self.groups.max() + 1, int)
        self.refined = 0

    def start(self):
        return self.values

    def gains(self, indices_n):
        self.refined += len(indices_n)
        return self.values[indices_n] * self.factor ** self.taken[self.groups[indices_n]]

    def add(self, index):
        self.taken[self.groups[index]] += 1


def test_the_engine_refines_only_what_could_win():
    values = np.linspace(1, 0, 5000)
    objective = Discount(values, np.arange(5000))
    picks = select_greedily(objective, 20)
    assert picks.indices.tolist() == list(range(20))
    assert objective.refined <= 20 * 256
    full = Discount(values, np.arange(5000))
    select_greedily(full, 20, evaluation="full")
    assert full.refined >= 20 * 4900


def test_points_judged_equally_far_are_refined_together():
    """One by one, as their bounds alternate with those of others, would take a hundred times as long."""
    objective = JointInformation(Task(pw.Predictions.from_log_probs(pool(200, 6, 5)), 10), 1000)
    bounds_N = objective.start()
    for index in range(5):  # 5^5 labels are more than 1,000: configurations are drawn, and merged for bounds
        bounds_N = objective.update(index, bounds_N)
    rest = np.arange(5, 200)
    odd = rest[1::2]
    done, coarse, exact = objective.refine(odd)
    assert done.tolist() == odd.tolist()
    assert not exact.any()
    done, _, _ = objective.refine(rest)
    assert done.tolist() == rest[::2].tolist()
    for _ in range(2):
        done, fine, exact = objective.refine(odd)
    assert exact.all()
    np.testing.assert_array_equal(fine, objective.gains(odd))
    assert (fine <= coarse + objective.slack).all()


@settings(max_examples=150)
@given(
    values=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), min_size=1, max_size=60),
    groups=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_both_evaluations_are_the_obvious_loop(values, groups, seed):
    """Values that tie exactly all the time: halves and quarters of each other."""
    group = np.random.default_rng(seed).integers(0, groups, len(values))
    left, taken, expected = list(range(len(values))), [0] * groups, []
    while left:
        best = max(left, key=lambda i: (values[i] * 0.5 ** taken[group[i]], -i))
        expected.append(best)
        taken[group[best]] += 1
        left.remove(best)
    for way in ("lazy", "full"):
        picks = select_greedily(Discount(values, group), len(values), evaluation=way)
        assert picks.indices.tolist() == expected


def test_more_ties_than_the_front_holds_go_to_the_lowest_index():
    for way in ("lazy", "full"):
        picks = select_greedily(Discount(np.ones(5000), np.zeros(5000, int)), 5, evaluation=way)
        assert picks.indices.tolist() == [0, 1, 2, 3, 4]


def test_the_engine_reports_progress_and_where_it_saturated():
    seen = []
    objective = Discount([1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0], factor=0.1)
    picks = select_greedily(objective, 4, tolerance=0.05, report=lambda *step: seen.append(step))
    assert picks.saturated_at == 2
    assert [step[1:] for step in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_lazy_and_full_draw_the_same_points_when_gains_collapse():
    """Proposals by the first bounds fail thousands of times: both evaluations must change over at the same one."""
    draw = np.random.default_rng(0)
    values, group = draw.random(30_000), np.zeros(30_000, int)
    for seed in (50, 223, 292, 313):
        found = []
        for way in ("lazy", "full"):
            objective = Discount(values, group, factor=1.5e-4)
            picks = sample_by_power(objective, 2, 1.0, np.random.default_rng(seed), evaluation=way)
            found.append(picks.indices.tolist())
        assert found[0] == found[1]


@pytest.mark.parametrize("method", ["batchbald", "gp-variance", "lbb"])
def test_equal_predictions_are_judged_once_whatever_their_embeddings(method):
    """These methods do not read embeddings: with them, as much is read and the same is picked."""
    x = np.tile(pool(3, 6, 4), (20, 1, 1))
    alone = pw.select(x, 20, method, information=False)
    embedded = pw.select(x, 20, method, embeddings=features(60), information=False)
    assert_same(embedded, alone)
    assert work(embedded) == work(alone)


# Real predictions


def three_thousand(digits):
    """3,000 real points: digits, some of them again, and the last with a little noise of their own."""
    draw = np.random.default_rng(0)
    repeated = digits[np.arange(3_000) % len(digits)].astype(np.float64)
    repeated[2_400:] += 0.1 * draw.normal(size=repeated[2_400:].shape)
    return normalise(repeated).astype(np.float32)


REAL = [case for case in CASES if case[1].get("alpha") != 5.0 and case[1].get("configurations") != 10]


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "options"), REAL, ids=str)
def test_same_picks_on_three_thousand_digits(method, options, digits):
    size = 6 if method == "batchbald" else 25
    first, second = both(three_thousand(digits), size, method, **options)
    assert_same(first, second)
    assert work(first) <= work(second)


FASHION = Path(__file__).parent / "data" / "fashion-ensemble.npy"


def test_the_fashion_predictions_are_real_and_small():
    """Five networks on 1,500 test images: made by benchmarks/make_predictions.py."""
    some = np.load(FASHION)
    assert (some.shape, some.dtype) == ((1500, 5, 10), np.float16)
    assert FASHION.stat().st_size < 300_000
    assert 0.2 < pw.scores.bald(some).max() < np.log(5)


@pytest.mark.parametrize(("method", "options"), REAL, ids=str)
def test_same_picks_on_fashion_images(method, options):
    some = np.load(FASHION, mmap_mode="r")
    size = 8 if method == "batchbald" else 60
    first, second = both(some, size, method, **options)
    assert_same(first, second)
    assert work(first) <= work(second)


def test_coverage_does_without_moments_where_features_are_more_than_points():
    """A matrix of all pairs of features would have four terabytes here."""
    z_T_F = torch.zeros(8, 1_000_000)
    z_T_F[torch.arange(8), torch.tensor([0, 0, 0, 1, 1, 2, 3, 4])] = 1
    task = Task(pw.Predictions.from_log_probs(pool(8, 2, 2)), 4)
    rows = Rows(8, 1_000_000, lambda places: z_T_F[torch.from_numpy(places)], 1 << 30)
    picks = Coverage(task, Cosine(rows), np.linspace(1, 0.9, 8)).pick()
    assert picks.indices.tolist()[:2] == [0, 3]
    assert set(picks.indices[2:].tolist()) == {5, 6}


@pytest.mark.parametrize(
    "kind", ["drawn", "rising", "falling", "two values", "all equal", "large ones not sampled", "taken"]
)
def test_a_sample_finds_about_the_largest_bounds(kind):
    draw, N, count = np.random.default_rng(0), 20_000, 2_000
    values_N = draw.random(N)
    if kind in ("rising", "falling"):
        values_N = np.sort(values_N)[:: 1 if kind == "rising" else -1]
    elif kind == "two values":
        values_N = (values_N > 0.5).astype(float)
    elif kind == "all equal":
        values_N = np.zeros(N)
    elif kind == "large ones not sampled":
        values_N[np.arange(N) % engine._SAMPLED != 0] += 1
    elif kind == "taken":
        values_N[draw.random(N) < 0.99] = -np.inf
    chosen, above = engine._about_largest(values_N, count)
    others = np.delete(values_N, chosen)
    assert len(np.unique(chosen)) == len(chosen)
    assert count // 2 <= len(chosen) <= 2 * count
    assert others.max() <= above <= values_N[chosen].min()


def test_picks_do_not_depend_on_how_points_wait(monkeypatch):
    x = pool(600, 4, 3, seed=5)
    expected = pw.select(x, 60, "lbb", evaluation="full", information=False).indices
    for name, value in {"_FRONT": 4, "_RESERVE": 8, "_SAMPLED": 2, "_FEW": 2}.items():
        monkeypatch.setattr(engine, name, value)
    sampled = []
    chosen_by = engine._about_largest
    monkeypatch.setattr(engine, "_about_largest", lambda *given: sampled.append(given) or chosen_by(*given))
    np.testing.assert_array_equal(pw.select(x, 60, "lbb", information=False).indices, expected)
    assert len(sampled) > 1
