"""Performance profiles: the definition, by hand and by loops."""

import csv

import numpy as np
import pytest
from cases import thorough
from hypothesis import given, settings
from hypothesis import strategies as st
from test_reports import write_run

from poolwise.reports import write_report
from poolwise.reports.profiles import Problems, areas, problems, profiles, ratios


def table(errors, setting=None):
    errors = np.array(errors, float)
    labels = tuple("abcdefgh"[: errors.shape[1]])
    return Problems(labels, errors, np.arange(len(errors)) if setting is None else np.array(setting))


def test_a_profile_by_hand():
    # On the first problem b is twice as bad as a, on the second a is 1.5 times as bad as b.
    found = {profile.label: profile for profile in profiles(table([[0.1, 0.2], [0.3, 0.2]]))}
    a, b = found["a"], found["b"]
    assert a.tau_T[0] == 1
    assert a.tau_T[-1] == pytest.approx(2)
    assert (a.share_T[0], b.share_T[0]) == (0.5, 0.5)
    assert a.share_T[a.tau_T < 1.49].max() == 0.5
    assert a.share_T[a.tau_T > 1.51].min() == 1
    assert b.share_T[b.tau_T < 1.99].max() == 0.5
    assert b.share_T[-1] == 1
    assert a.area > b.area
    assert a.area == pytest.approx((1 + 0.5) / 2)
    assert b.area == pytest.approx((0 + 1) / 2)
    np.testing.assert_allclose(areas(np.array([[0.1, 0.2], [0.3, 0.2]]), 3), [[1, 0.5], [0.75, 1]])


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), P=st.integers(2, 8), S=st.integers(2, 5))
def test_profiles_against_loops(seed, P, S):
    errors = np.random.default_rng(seed).uniform(0.05, 0.5, (P, S))
    for profile in profiles(table(errors)):
        s = "abcdefgh".index(profile.label)
        for tau, share in zip(profile.tau_T[::57], profile.share_T[::57], strict=True):
            count = sum(errors[p, s] / min(errors[p]) <= tau * (1 + 1e-12) for p in range(P))
            assert share == pytest.approx(count / P)
        assert profile.area == pytest.approx(profile.share_T.mean(), abs=2 / len(profile.tau_T))
        assert np.all(np.diff(profile.share_T) >= 0)
        assert np.all(profile.low_T <= profile.high_T)
        assert 0 <= profile.area_low <= profile.area_high <= 1


def test_no_error_at_all_is_the_best_and_nothing_else_comes_near():
    np.testing.assert_array_equal(ratios(np.array([[0.0, 0.1, 0.0]])), [[1, np.inf, 1]])
    found = {profile.label: profile for profile in profiles(table([[0.0, 0.1], [0.0, 0.2]]))}
    assert found["a"].area == 1
    assert found["b"].area == 0


def test_equal_methods_have_area_one():
    assert [profile.area for profile in profiles(table([[0.2, 0.2], [0.1, 0.1]]))] == [1, 1]


def test_the_band_narrows_with_more_settings_not_with_copies_of_one():
    errors = np.array([[0.1, 0.2], [0.3, 0.2]] * 10)
    many = profiles(table(errors))[0]
    few = profiles(table(errors, [0, 1] * 10))[0]
    assert many.area_high - many.area_low < 0.7 * (few.area_high - few.area_low)


def test_too_little_to_compare_gives_none():
    assert profiles(table([[0.1, 0.2]])) == []
    assert profiles(table([[0.1], [0.2]])) == []
    assert problems([]).labels == ()


@pytest.mark.parametrize("rendered", [False, *thorough(True)])
def test_a_report_on_several_settings_has_them(tmp_path, request, rendered):
    if not rendered:
        request.getfixturevalue("unrendered")
    for experiment, best in (("one", "bald"), ("two", "random")):
        for label in ("random", "bald", "only" + experiment):
            for seed in (0, 1):
                accuracy = 0.9 if label == best else 0.8
                write_run(tmp_path / "runs", label, [0.5, accuracy], seed, experiment=experiment)
    page = write_report(tmp_path / "runs", tmp_path / "report")
    assert "All groups together" in page.read_text()
    rows = list(csv.DictReader((tmp_path / "report" / "profiles.csv").read_text().splitlines()))
    assert {row["label"] for row in rows} == {"random", "bald"}
    assert {float(row["share"]) for row in rows if float(row["tau"]) == 1} == {0.5}
    assert (tmp_path / "report" / "profiles.png").stat().st_size > (5_000 if rendered else 0)
