"""Coverage against dense matrices: every stage of the engine, the rules on it, and another implementation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pools import features, messy, pool

import poolwise as pw
from poolwise import errors
from poolwise.selection import (
    coverage,
    coverage_early,
    coverage_kept,
    coverage_kernels,
    coverage_loops,
    coverage_sweeps,
    coverage_tiles,
    posterior_coverage,
)
from poolwise.selection.coverage_bounds import Moments
from poolwise.selection.coverage_kernels import Gaussian, Rows, unit_rows

pytestmark = pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")

# What keeps the engine in one of its stages; names with a module are constants of that module.
STAGES = {
    "a table": {},
    "a table, settled at once": {"_JUDGED": 1 << 30},
    "no lists": {"_FEW": -1, "_SHORT": -1.0},
    "lists once they are short": {"_FEW": -1, "_PATIENCE": 0.0},
    "bounds for long": {"_FEW": -1, "_PATIENCE": 3.0},
    "open targets": {"_FEW": -1, "_SHORT": 0.05, "_WORTH": 1e9, "_CHEAP": -1},
    "never indexed": {"_FEW": -1, "_INDEXED": 1 << 30},
    "indexed at once": {"_FEW": -1, "_INDEXED": -(1 << 30)},
    "settled at once": {"_FEW": -1, "_JUDGED": 1 << 30},
    "no symmetry": {"_FEW": -1, "coverage_kernels._MANY": 7},
    "compiled loops": {"_FEW": -1, "coverage_loops._MANY": 0, "coverage_tiles._SHARE": -1},
    "compiled tiles": {
        "_FEW": -1,
        "coverage_loops._MANY": 0,
        "ROWS": 3,
        "coverage_sweeps.ROWS": 3,
        "coverage_sweeps._COLUMNS": 5,
    },
    "compiled tiles, lists at once": {"_FEW": -1, "coverage_loops._MANY": 0, "_SOON": 1.0},
    "compiled tiles, no lists": {"_FEW": -1, "coverage_loops._MANY": 0, "_SOON": -1.0, "_PASSES": 1 << 30},
    "compiled table": {"coverage_loops._MANY": 0},
    "kept": {"_FEW": -1, "coverage_kept._PAIRS": 1 << 20, "coverage_kept._WIDTH": 0},
    "kept in small blocks": {
        "_FEW": -1,
        "_SHORT": 0.05,
        "_WORTH": 1e9,
        "_CHEAP": -1,
        "coverage_kept._PAIRS": 1 << 20,
        "coverage_kept._WIDTH": 0,
        "coverage_kept._ROWS": 3,
        "coverage_kept._COLUMNS": 5,
    },
}


def in_stage(stage, monkeypatch):
    if stage.startswith("compiled"):
        pytest.importorskip("numba")
    else:  # other tests may have loaded the compiled loops
        monkeypatch.setattr(coverage_loops, "_COMPILED", "not there")
    monkeypatch.setattr(coverage_kept, "_PAIRS", 0)
    for name, value in STAGES[stage].items():
        place, _, name = name.rpartition(".")
        monkeypatch.setattr(
            {
                "": coverage,
                "coverage_kernels": coverage_kernels,
                "coverage_kept": coverage_kept,
                "coverage_loops": coverage_loops,
                "coverage_sweeps": coverage_sweeps,
                "coverage_tiles": coverage_tiles,
            }[place],
            name,
            value,
        )


def facility_location(kernel_N_T, weights_T, size, covered_T=0.0):
    """Greedy picks and gains by the formula, from the whole kernel."""
    covered_T, picks, gains = covered_T + np.zeros(len(weights_T)), [], []
    for _ in range(size):
        gains_N = (np.maximum(kernel_N_T - covered_T, 0) * weights_T).sum(1)
        gains_N[picks] = -1.0
        picks.append(int(np.argmax(gains_N)))
        gains.append(gains_N[picks[-1]])
        covered_T = np.maximum(covered_T, kernel_N_T[picks[-1]])
    return picks, gains


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def gaussian(a, b, width=1.0):
    """`exp(-|a_i - b_j|² / width²)` of rows scaled to length one."""
    a, b = unit(a.astype(np.float64)), unit(b.astype(np.float64))
    return np.exp(-np.square(a[:, None] - b[None]).sum(2) / width**2)


def correlations(x):
    """Positive parts of the cosines of centred predictions."""
    probs = np.exp(x.astype(np.float64))
    z = unit((probs - probs.mean(1, keepdims=True)).reshape(len(x), -1))
    return np.maximum(z @ z.T, 0)


def undecided(x):
    """One minus the margin of the mean prediction."""
    mean = np.sort(np.exp(x.astype(np.float64)).mean(1), 1)
    return 1 - (mean[:, -1] - mean[:, -2])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("seed", [0, 1])
def test_posterior_coverage_at_every_stage(stage, seed, monkeypatch):
    in_stage(stage, monkeypatch)
    x = pool(150, 4, 3, seed)
    picks, gains = facility_location(correlations(x), undecided(x), 60)
    batch = pw.select(x, 60, "posterior-coverage", information=False)
    assert batch.indices.tolist() == picks
    np.testing.assert_allclose(batch.scores, gains, atol=1e-4)
    full = pw.select(x, 60, "posterior-coverage", information=False, evaluation="full")
    assert full.indices.tolist() == picks


@pytest.mark.parametrize("stage", STAGES)
def test_herding_of_copies_at_every_stage(stage, monkeypatch):
    """Once each of the ten different points is picked nothing is left to gain, and the rest come in order."""
    in_stage(stage, monkeypatch)
    h = np.tile(features(10), (6, 1))
    batch = pw.select(pool(60, 2, 2), 20, "max-herding", embeddings=h, information=False)
    assert {i % 10 for i in batch.indices[:10].tolist()} == set(range(10))
    assert batch.diagnostics.saturated_at == 10
    np.testing.assert_array_equal(batch.scores[10:], 0)
    rest = [i for i in range(60) if i not in batch.indices[:10]]
    assert batch.indices[10:].tolist() == rest[:10]


@given(
    st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 5), st.integers(0, 6), st.sampled_from([0.3, 1.0, 4.0])
)
def test_uherding_is_the_dense_rule(seed, N, D, L, width):
    x, h, known = pool(N, 3, 3, seed), features(N, D, seed) + 0.1, features(L, D, seed + 1) + 0.1
    weights = undecided(x) if L else np.ones(N)
    covered = gaussian(known, h, width).max(0) if L else 0.0
    size = min(N, 8)
    _, gains = facility_location(gaussian(h, h, width), weights, size, covered)
    batch = pw.select(
        x, size, "uherding", embeddings=h, labelled_embeddings=known, calibrate=False, bandwidth=width, seed=0
    )
    np.testing.assert_allclose(batch.scores, gains, rtol=1e-3, atol=2e-5 * N)  # picks of equal gain may differ


def test_uherding_takes_the_smallest_distance_between_labelled_points():
    x, h, known = pool(50, 3, 3), features(50), features(6, seed=1)
    distances = np.linalg.norm(unit(known)[:, None] - unit(known)[None], axis=2) + 9 * np.eye(6)
    options = {"embeddings": h, "labelled_embeddings": known, "calibrate": False, "information": False}
    adaptive = pw.select(x, 10, "uherding", **options)
    fixed = pw.select(x, 10, "uherding", bandwidth=float(distances.min()), **options)
    assert adaptive.indices.tolist() == fixed.indices.tolist()
    copies = pw.select(x, 10, "uherding", **{**options, "labelled_embeddings": np.tile(known, (2, 1))})
    assert copies.indices.tolist() == adaptive.indices.tolist()  # a distance of 0 is not the smallest
    same = pw.select(x, 10, "uherding", **{**options, "labelled_embeddings": np.tile(known[:1], (3, 1))})
    assert same.diagnostics.notes[1] == "bandwidth 1"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_max_herding_picks_as_scikit_activeml_does(seed):
    peer = pytest.importorskip("skactiveml.pool").MaxHerding
    h, known = features(120, 5, seed), features(7, 5, seed + 9)
    everything = np.concatenate([h, known]).astype(np.float64)
    labels = np.concatenate([np.full(120, np.nan), np.zeros(7)])
    rule = peer(random_state=0, metric="rbf", metric_dict={"gamma": 1.0})
    expected = rule.query(everything, labels, batch_size=25)
    batch = pw.select(pool(120, 1, 2), 25, "max-herding", embeddings=h, labelled_embeddings=known, information=False)
    assert batch.indices.tolist() == expected.tolist()


@given(st.integers(0, 10_000), st.integers(1, 60), st.floats(0, 1))
def test_moments_bound_every_gain(seed, T, level):
    draw = np.random.default_rng(seed)
    z = unit(draw.normal(size=(T, 3))).astype(np.float32)
    rows = Rows(T, 3, lambda places: torch.from_numpy(z[places]), 1 << 30)
    weights, covered = draw.random(T).astype(np.float32), (level * draw.random(T)).astype(np.float32)
    gains = (np.maximum(z.astype(np.float64) @ z.T - covered, 0) * weights).sum(1)
    assert (Moments(rows, rows, weights).bounds(covered) >= gains).all()


def test_a_sample_of_targets_says_how_far_it_may_be_off():
    x = pool(400, 4, 3)
    exact = pw.select(x, 40, "posterior-coverage", information=False)
    part = pw.select(x, 40, "posterior-coverage", information=False, sample=200)
    assert exact.diagnostics.standard_error is None
    assert (part.diagnostics.standard_error > 0).all()
    assert abs(part.scores[0] - exact.scores[0]) <= 5 * part.diagnostics.standard_error[0]
    whole = pw.select(x, 40, "posterior-coverage", information=False, sample=400)
    assert whole.indices.tolist() == exact.indices.tolist()
    with pytest.raises(errors.ParameterError, match="at least 2"):
        pw.select(x, 40, "posterior-coverage", sample=1)


def test_wide_features_that_do_not_fit_are_read_a_few_rows_at_a_time() -> None:
    """However large a block is asked for: 10,000 columns times 4,096 rows would take 160 MB."""
    wide = np.random.default_rng(0).normal(size=(300, 50)).astype(np.float32)
    kept, memory = unit_rows(wide, 1 << 20), 60 * 50 * 4 * 2
    counts: list[int] = []

    def read(places_n: np.ndarray) -> torch.Tensor:
        counts.append(len(places_n))
        return kept.take(places_n)

    rows = Rows(300, 50, read, memory)
    for places, others in ((slice(0, 300), np.arange(299, 0, -2)), (np.arange(90), slice(100, 300))):
        found = Gaussian(rows).block(places, others)
        np.testing.assert_allclose(found, Gaussian(kept).block(places, others), rtol=1e-5)
    one, all_ = np.array([7]), np.arange(300)
    np.testing.assert_array_equal(Gaussian(rows).pairs(one, all_), Gaussian(kept).pairs(one, all_))
    assert max(counts) == rows.at_once == 60


def test_compiled_loops_make_most_picks_and_the_same(monkeypatch):
    pytest.importorskip("numba")
    x, made = pool(900, 5, 4), []
    options = {"information": False, "filter": 3.0}
    monkeypatch.setattr(coverage_loops, "_COMPILED", "not there")
    plain = pw.select(x, 300, "posterior-coverage", **options, evaluation="full")
    monkeypatch.undo()
    monkeypatch.setattr(coverage_loops, "_MANY", 0)
    ahead = coverage.Coverage.ahead
    monkeypatch.setattr(coverage.Coverage, "ahead", lambda self, n: made.append(ahead(self, n)) or made[-1])
    for few in (1 << 20, -1):
        monkeypatch.setattr(coverage, "_FEW", few)
        made.clear()
        batch = pw.select(x, 300, "posterior-coverage", **options)
        assert batch.indices.tolist() == plain.indices.tolist()
        np.testing.assert_array_equal(batch.scores, plain.scores)
        assert sum(len(picks) for picks, _ in made) > 150


@settings(max_examples=15)
@given(
    st.integers(0, 10_000),
    st.integers(2, 60),
    st.sampled_from(["posterior", "embeddings", "product"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 5]),
    st.data(),
)
def test_a_table_and_lists_give_the_same_batch(seed, N, kernel, copies, labelled, sample, data):
    """Picks and gains, to the last bit: with ties, labelled points, drawn targets, little memory, up to all points."""
    x, h = (messy if copies else pool)(N, 3, 3, seed), features(N, 4, seed)
    if copies:
        x, h = x[np.arange(N) // 2], h[np.arange(N) // 2]
    b, filter = data.draw(st.integers(1, N)), data.draw(st.sampled_from([1.0, 3.0, 100.0]))
    known = {"labelled_predictions": pool(4, 3, 3, seed + 1), "labelled_embeddings": features(4, 4, seed + 1)}
    options = {"kernel": kernel, "labelled": labelled, "filter": filter, "sample": sample, "information": False}
    ways = [(1 << 21, "1GB", "lazy"), (1 << 21, "1GB", "full"), (1 << 21, "2kB", "lazy"), (-1, "1GB", "lazy")]
    found = []
    for few, memory, evaluation in ways:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coverage, "_FEW", few)
            patch.setattr(coverage_loops, "_MANY", 0)
            if not data.draw(st.booleans(), "compiled"):
                patch.setattr(coverage_loops, "_COMPILED", "not there")
            found.append(
                pw.select(
                    x, b, "posterior-coverage", embeddings=h, memory=memory, evaluation=evaluation, **known, **options
                )
            )
    for batch in found[1:]:
        assert batch.indices.tolist() == found[0].indices.tolist()
        np.testing.assert_array_equal(batch.scores, found[0].scores)
        assert batch.diagnostics.saturated_at == found[0].diagnostics.saturated_at


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gains_fall_by_what_a_table_has_between_two_levels(dtype):
    compiled = pytest.importorskip("poolwise.selection.coverage_compiled")
    rng = np.random.default_rng(0)
    values, some = rng.random((90, 40)).astype(dtype), np.arange(0, 90, 1)[rng.random(90) < 0.8]
    low, weights = (rng.random(90).astype(dtype) for _ in range(2))
    high = np.where(rng.random(90) < 0.5, low + dtype(0.2), dtype(np.inf)).astype(dtype)
    expected = np.zeros(40)
    for t in some:
        parts = np.minimum(values[t], high[t]).astype(np.float64) - low[t]
        expected -= weights[t] * np.maximum(parts, 0)
    for loops in (coverage_loops, compiled):
        gains = np.zeros(40)
        loops.lower(values, some, low, high, weights, gains)
        np.testing.assert_allclose(gains, expected, rtol=1e-14)


@pytest.mark.parametrize("columns", [1, 7, 8, 61])
def test_blocks_are_searched_and_mirrored_by_compiled_loops_as_by_others(columns):
    """For rows, for columns, for both; levels may be infinite, and equal to a value, which is not above it."""
    compiled = pytest.importorskip("poolwise.selection.coverage_compiled")
    rng = np.random.default_rng(columns)
    values = rng.integers(-3, 9, (19, columns)).astype(np.float32) / 8
    above_t, some_n = (np.where(rng.random(n) < 0.2, np.inf, rng.integers(0, 9, n) / 8) for n in values.shape)
    for above_n in (some_n, np.full(columns, np.inf), some_n[:0]):
        levels = above_t.astype(np.float32), above_n.astype(np.float32)
        either = (values > above_t[:, None]) | (values > above_n if len(above_n) else False)
        for loops in (coverage_loops, compiled):
            lengths, places, found = loops.above(values, *levels)
            np.testing.assert_array_equal(lengths, either.sum(1))
            np.testing.assert_array_equal(places, np.nonzero(either)[1])
            np.testing.assert_array_equal(found, values[either])
            if len(above_n):
                counts_t, counts_n = np.zeros(19, np.int64), np.zeros(columns, np.int64)
                loops.count((lengths, places, found), *levels, counts_t, counts_n)
                np.testing.assert_array_equal(counts_t, (values > above_t[:, None]).sum(1))
                np.testing.assert_array_equal(counts_n, (values > above_n).sum(0))
    for loops in (coverage_loops, compiled):
        out = np.empty((columns, 19), np.float32)
        loops.mirror(values, out)
        np.testing.assert_array_equal(out, values.T)


def test_compiled_picks_look_at_the_pairs_of_full_evaluation(monkeypatch):
    """Lists are tidied after picks that loops have made, too: one pick later, more pairs were looked at."""
    pytest.importorskip("numba")
    monkeypatch.setattr(coverage_loops, "_MANY", 0)
    options = {"information": False, "filter": 10.0, "weights": "uniform"}
    lazy, full = (
        pw.select(pool(800, 8, 5, scale=1.5), 40, "posterior-coverage", evaluation=way, **options)
        for way in ("lazy", "full")
    )
    assert lazy.diagnostics.pairs == full.diagnostics.pairs


def test_products_of_rows_on_a_grid_are_exact_in_any_order():
    rows = coverage_kernels.on_grid(torch.from_numpy(unit(features(50, 37))).float()).double().numpy()
    order = np.random.default_rng(0).permutation(37)
    products = (rows[:, None] * rows[None]).sum(2)
    np.testing.assert_array_equal(products, rows @ rows.T)
    np.testing.assert_array_equal(products, (rows[:, None] * rows[None])[:, :, order].sum(2))


def test_a_large_batch_begins_with_a_sample_and_continues_exactly(monkeypatch):
    """The first picks are greedy among the drawn points, each later one for all targets, given those before it."""
    monkeypatch.setattr(posterior_coverage, "LARGE_BATCH", 20)
    monkeypatch.setattr(posterior_coverage, "MANY_TARGETS", 100)
    monkeypatch.setattr(posterior_coverage, "SAMPLE", 60)
    monkeypatch.setattr(coverage_early, "_PICKS", 7)
    x = pool(300, 4, 3)
    plain = {"information": False, "method": "posterior-coverage", "filter": 300.0}
    batch = pw.select(x, 40, **plain)
    assert "first 7 picks were chosen from a random sample of 60 of 300 points" in str(batch.diagnostics)
    order = np.argsort(-undecided(x), kind="stable")
    drawn = order[np.sort(pw.seeding.stream(0, "targets").choice(300, 60, replace=False))]
    kernel, weights = correlations(x), undecided(x)
    first, estimates = facility_location(kernel[np.ix_(drawn, drawn)], 5 * weights[drawn], 7)
    first = drawn[first].tolist()
    assert batch.indices[:7].tolist() == first
    covered, gains = np.zeros(300), []
    for pick in batch.indices:
        added = (np.maximum(kernel - covered, 0) * weights).sum(1)
        gains.append(added[pick])
        if len(gains) > 7:
            assert added[pick] >= added.max() - 1e-5
        covered = np.maximum(covered, kernel[pick])
    np.testing.assert_allclose(batch.scores, gains, rtol=1e-4, atol=1e-5)
    errors_B = batch.diagnostics.standard_error
    assert (errors_B[:7] > 0).all()
    assert (errors_B[7:] == 0).all()
    assert (np.abs(batch.scores[:7] - estimates) <= 5 * errors_B[:7]).all()
    assert batch.diagnostics.saturated_at is None

    again = pw.select(x, 40, **plain, evaluation="full", memory="1MB")
    assert again.indices.tolist() == batch.indices.tolist()
    assert pw.select(x, 40, **plain, seed=1).indices[:7].tolist() != first
    for every in ("all", None):
        exact = pw.select(x, 40, **plain, sample=every)
        assert exact.indices.tolist() == facility_location(kernel, weights, 40)[0]
        assert exact.diagnostics.standard_error is None
        assert not exact.diagnostics.notes
    small = pw.select(x, 20, **plain)
    assert small.indices.tolist() == exact.indices[:20].tolist()
    with pytest.raises(errors.ParameterError, match="'auto', 'all'"):
        pw.select(x, 20, **plain | {"sample": "some"})


@pytest.mark.parametrize("kernel", ["posterior", "embeddings", "product"])
@pytest.mark.parametrize("labelled", [False, True])
def test_a_large_batch_of_every_kind_and_a_pool_on_disk(monkeypatch, tmp_path, kernel, labelled):
    monkeypatch.setattr(posterior_coverage, "LARGE_BATCH", 20)
    monkeypatch.setattr(posterior_coverage, "MANY_TARGETS", 100)
    monkeypatch.setattr(posterior_coverage, "SAMPLE", 60)
    x, h = pool(250, 4, 3), features(250, 6)
    options = {"kernel": kernel, "labelled": labelled, "information": False}
    known = pw.Predictions.from_log_probs(x, embeddings=h, labelled_embeddings=features(5, 6) if labelled else None)
    options |= {"labelled_predictions": pool(5, 4, 3), "labels": np.arange(5) % 3} if labelled else {}
    batch = pw.select(known, 30, "posterior-coverage", **options)
    assert batch.diagnostics.notes
    assert pw.select(known, 30, "posterior-coverage", evaluation="full", **options).indices.tolist() == (
        batch.indices.tolist()
    )
    with pw.predictions.ShardWriter(tmp_path / "pool", x.shape, dtype=x.dtype.name, rows_per_shard=100) as writer:
        for number in writer.missing:
            writer.put(number, x[writer.rows(number)])
    shards = pw.Predictions.open(tmp_path / "pool").with_embeddings(h, features(5, 6) if labelled else None)
    assert pw.select(shards, 30, "posterior-coverage", memory="1MB", **options).indices.tolist() == (
        batch.indices.tolist()
    )


def test_a_sample_that_is_covered_ends_no_batch(monkeypatch):
    """Ten kinds of points, of which a sample of two knows two: later picks cover the others."""
    monkeypatch.setattr(posterior_coverage, "LARGE_BATCH", 5)
    monkeypatch.setattr(posterior_coverage, "MANY_TARGETS", 20)
    monkeypatch.setattr(posterior_coverage, "SAMPLE", 2)
    kinds = pool(10, 6, 4)
    x = np.repeat(kinds, 4, 0)
    batch = pw.select(x, 20, "posterior-coverage", information=False)
    exact = pw.select(x, 20, "posterior-coverage", information=False, sample="all")
    assert {*batch.indices[: batch.diagnostics.saturated_at] // 4} == set(range(10))
    assert batch.diagnostics.saturated_at <= exact.diagnostics.saturated_at + 1
    assert batch.scores.sum() == pytest.approx(exact.scores.sum(), rel=1e-5)
