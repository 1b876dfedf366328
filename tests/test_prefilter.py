"""Prefilters: what they keep, and that what they say of the rest is true."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import lbb_gain
from pools import features, messy, pool
from sklearn.linear_model import LogisticRegression

import poolwise as pw
from poolwise import errors
from poolwise.learning.query import Query
from poolwise.selection.batch import Diagnostics, Prefilter
from poolwise.selection.registry import find

BOUNDED = [name for name, method in pw.methods().items() if method.bound is not None]


def choose(x, b, method, candidates, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pw.select(x, b, method, candidates=candidates, **parameters)


def test_the_methods_with_bounds():
    assert {"lbb", "power-lbb", "batchbald", "bald", "margin", "entropy", "gp-variance"} <= set(BOUNDED)


@pytest.mark.parametrize("method", ["bald", "margin", "entropy", "least-confidence", "lbb", "gp-variance"])
@pytest.mark.parametrize("n", [20, 60, 150])
@pytest.mark.parametrize("seed", range(3))
def test_the_picks_said_to_be_those_of_the_whole_pool_are(method, n, seed):
    x = messy(200, 5, 4, seed)
    whole, part = choose(x, 15, method, None), choose(x, 15, method, f"top:{n}")
    report = part.diagnostics.prefilter
    assert report.left_out == 200 - n
    np.testing.assert_array_equal(part.indices[: report.same_until], whole.indices[: report.same_until])
    if report.lost == 0:
        np.testing.assert_allclose(part.scores, whole.scores, atol=1e-6)


@pytest.mark.parametrize("redundancy", ["normalised", "max", "mean", "sum"])
@pytest.mark.parametrize("way", ["top", "sample"])
def test_no_point_left_out_could_have_gained_more_than_is_said(redundancy, way):
    x = pool(60, 5, 3)
    part = choose(x, 8, "lbb", f"{way}:20", redundancy=redundancy)
    report, probs, missed = part.diagnostics.prefilter, np.exp(x.astype(np.float64)), 0.0
    for t, index in enumerate(part.indices):
        picks = part.indices[:t].tolist()
        gain = {i: lbb_gain(probs, picks, i, redundancy) for i in range(60) if i not in picks}
        assert max(gain.values()) <= max(report.largest, gain[index]) + 1e-5
        missed += max(0.0, max(gain.values()) - gain[index])
    assert missed <= report.lost + 1e-4


@pytest.mark.parametrize("method", BOUNDED)
def test_every_method_with_bounds_reports(method):
    x = pool(100, 5, 4)
    for candidates in ("top:40", "sample:40"):
        report = choose(x, 5, method, candidates).diagnostics.prefilter
        assert report.left_out == 60
        assert 0 <= report.share <= 1
        assert report.lost >= 0
        assert (report.same_until is None) == find(method).stochastic
    kept = choose(x, 5, method, "top:40").diagnostics.prefilter
    assert kept.share < report.share


def test_a_sample_is_the_one_that_a_number_draws():
    x = pool(100, 5, 4)
    np.testing.assert_array_equal(
        choose(x, 5, "lbb", "sample:30", seed=4).indices, choose(x, 5, "lbb", 30, seed=4).indices
    )


def test_methods_without_bounds_sample_and_say_that_the_cost_is_not_known():
    x, z = pool(100, 5, 4), features(100)
    with pytest.raises(errors.ParameterError, match="no bounds"):
        pw.select(x, 5, "coreset", embeddings=z, candidates="top:50")
    with pytest.warns(errors.PrefilterWarning, match="not known"):
        batch = pw.select(x, 5, "coreset", embeddings=z, candidates="sample:50")
    assert batch.diagnostics.prefilter == Prefilter("sample:50", 50)
    assert "not known" in str(batch.diagnostics)


def test_bounds_that_are_too_loose_are_called_so():
    x = pool(300, 5, 4)
    with pytest.warns(errors.PrefilterWarning) as caught:
        batch = pw.select(x, 20, "posterior-coverage", candidates="sample:40")
    report = batch.diagnostics.prefilter
    assert report.lost > report.gained == pytest.approx(batch.scores.sum())
    assert "too loose to be useful" in str(caught[0].message)
    assert "at most" not in str(report)
    tight = Prefilter("top:5", 5, largest=0.2, share=0.1, lost=0.1, same_until=2, gained=3.0)
    assert "at most 0.1 of gain lost in all, where the picks gained 3" in str(tight)


def test_it_is_never_silent_unless_nothing_was_lost():
    x = pool(100, 5, 4)
    with pytest.warns(errors.PrefilterWarning, match=r"sample:20 left out 80 points.*of gain lost"):
        pw.select(x, 5, "bald", candidates="sample:20")
    batch = pw.select(x, 5, "bald", candidates="top:20")  # a warning would be an error here
    assert batch.diagnostics.prefilter.lost == 0
    assert "no gain lost" in str(batch.diagnostics)
    assert batch.diagnostics.prefilter.same_until == 5
    whole = pw.select(x, 5, "bald", candidates="top:100")
    assert whole.diagnostics.prefilter.left_out == 0


def test_posterior_coverage_loses_nothing_while_its_filter_is_kept():
    x = pool(400, 5, 4)
    whole = pw.select(x, 5)
    for kept in (50, 60, 399):
        batch = pw.select(x, 5, candidates=f"top:{kept}")
        assert batch.indices.tolist() == whole.indices.tolist()
        assert batch.diagnostics.prefilter.lost == 0
        assert batch.diagnostics.prefilter.same_until == 5
    with pytest.warns(pw.PrefilterWarning):
        assert pw.select(x, 5, candidates="top:49").diagnostics.prefilter.lost > 0
    with pytest.warns(pw.PrefilterWarning):
        assert pw.select(x, 5, candidates="top:50", filter=11.0).diagnostics.prefilter.lost > 0


def test_names_are_read_and_never_keep_fewer_than_the_batch():
    x = pool(100, 5, 4)
    for text, kept in ((" top : 1_0 ", 10), ("top:3", 8), ("top:1,000", 100)):
        assert choose(x, 8, "bald", text).diagnostics.considered == kept
    for wrong in ("top", "top:", "best:10", "top:ten", "top:-5", "sample:1.5"):
        with pytest.raises(errors.ParameterError, match="candidates must be"):
            pw.select(x, 8, "bald", candidates=wrong)


def test_values_outside_the_part_are_checked_too():
    x = pool(100, 5, 4)
    x[77] += 1
    with pytest.raises(errors.NotNormalisedError, match=r"row 77\b"):
        pw.select(x, 5, "lbb", candidates="sample:10")


def test_the_report_survives_json_and_old_reports_are_read():
    batch = choose(pool(100, 5, 4), 5, "lbb", "top:20")
    query = Query(batch.indices, batch.scores, batch.diagnostics)
    again = Query.from_dict(json.loads(json.dumps(query.as_dict())))
    assert again.diagnostics.prefilter == batch.diagnostics.prefilter
    old = query.as_dict()
    del old["diagnostics"]["prefilter"]
    assert isinstance(Query.from_dict(old).diagnostics, Diagnostics)


def test_in_the_learner_and_on_the_command_line(tmp_path, run):
    np.save("x.npy", pool(100, 5, 4))
    assert "top:50 left out 50 points" in run("select", "x.npy", "-b", "5", "--candidates", "top:50").err
    posterior = pw.posteriors.Committee(LogisticRegression(), 5)
    directory = tmp_path / "mine"
    inputs, labels = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    learner = pw.ActiveLearner(posterior, pw.Pool(inputs, classes=3), "bald", 5, directory, candidates="top:20")
    learner.update(indices := learner.query().indices, labels[indices])
    report = learner.query().diagnostics.prefilter
    assert (report.name, report.left_out) == ("top:20", 35)
    assert pw.ActiveLearner.load(directory).query().diagnostics.prefilter == report


def two_groups():
    """Ten points of one group, the most undecided, and many of another that tells nothing about the first."""
    swing = np.array([0.2, -0.2, 0.2, -0.2])
    p = np.full((500, 4, 4), 1e-6)
    p[:10, :, 0], p[:10, :, 1] = 0.5 + swing, 0.5 - swing
    p[10:, :, 2], p[10:, :, 3] = 0.501 + swing, 0.499 - swing
    return np.log(p / p.sum(2, keepdims=True))


def test_posterior_coverage_says_what_is_lost_where_its_filter_is_filled_up_by_others():
    x = two_groups()
    whole, part = choose(x, 1, "posterior-coverage", None), choose(x, 1, "posterior-coverage", "sample:10")
    assert whole.indices[0] < 10
    assert part.indices[0] >= 10
    assert part.scores[0] > 8  # by covering what does not count in the whole pool: it covers nothing of that
    assert part.diagnostics.prefilter.lost >= whole.scores[0]


@pytest.mark.parametrize("method", [name for name in BOUNDED if not find(name).stochastic])
@given(seed=st.integers(0, 10_000), N=st.integers(12, 60), b=st.integers(1, 8), n=st.integers(8, 50))
@settings(max_examples=15, deadline=None)
def test_the_batch_of_the_whole_pool_gains_no_more_than_what_is_said_to_be_lost(method, seed, N, b, n):
    x = messy(N, 4, 3, seed)
    for way in ("top", "sample"):
        whole, part = choose(x, b, method, None, seed=seed), choose(x, b, method, f"{way}:{n}", seed=seed)
        report = part.diagnostics.prefilter
        assert whole.scores.sum() - part.scores.sum() <= report.lost + 1e-4
        np.testing.assert_array_equal(part.indices[: report.same_until], whole.indices[: report.same_until])
