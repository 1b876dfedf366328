"""Labels saved against random, compared with a slow program that walks along the curves."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_reports import record

from poolwise.reports.comparable import Comparable
from poolwise.reports.labels import labels_saved, monotone
from poolwise.reports.savings import saving, saving_in


def pooled(curve):
    """Neighbours that fall are replaced by their mean, again and again (pool adjacent violators)."""
    blocks = [[value] for value in curve]
    while True:
        for at, (one, two) in enumerate(pairwise(blocks)):
            if np.mean(one) > np.mean(two) + 1e-15:
                blocks[at : at + 2] = [one + two]
                break
        else:
            return [float(np.mean(block)) for block in blocks for _ in block]


def needed(curve, x, target):
    """Where straight lines between the points first come to the target."""
    if curve[0] >= target - 1e-12:
        return x[0]
    for (x0, y0), (x1, y1) in pairwise(zip(x, curve, strict=True)):
        if y1 >= target - 1e-12:
            return x0 + (target - y0) / (y1 - y0) * (x1 - x0)
    return math.inf


def slow(method, random, x):
    begun = method[0] if abs(method[0] - random[0]) < 1e-12 else -math.inf  # where both begin, if they begin alike
    method, random = pooled(method), pooled(random)
    target = min(method[-1], random[-1])
    if target <= begun + 1e-12:
        return 0 if random[-1] <= begun + 1e-12 else -(1 - x[0] / x[-1])
    m, r = needed(method, x, target), needed(random, x, target)
    return 1 - m / r if m <= r else -(1 - r / m)


curve = st.lists(st.integers(0, 60).map(lambda n: n / 60), min_size=5, max_size=5)


@given(curve, curve, st.booleans())
def test_the_share_is_that_of_a_slow_program(method, random, alike):
    x = [20, 30, 50, 90, 100]
    method = [random[0], *method[1:]] if alike else method
    found = saving(np.array(method), np.array(random), np.array(x, float))
    assert found.share == pytest.approx(slow(method, random, x), abs=1e-6)
    assert -1 < found.share < 1


@given(curve, curve)
def test_two_methods_change_places_by_the_sign(one, two):
    x = np.array([20.0, 30, 50, 90, 100])
    assume(min(pooled(one)[-1], pooled(two)[-1]) > min(one[0], two[0]) or one[0] != two[0])
    first, second = (saving(np.array(a), np.array(b), x).share for a, b in ((one, two), (two, one)))
    assert first == pytest.approx(-second, abs=1e-9)


def test_where_random_learns_nothing_there_is_nothing_to_save():
    """Random falls from 0.85 and comes back to a little less: noise would say when, and 500 labels are enough."""
    x, random = np.array([500.0, 1000, 1500]), np.array([0.85, 0.84, 0.845])
    for method in ([0.85, 0.9, 0.95], [0.85, 0.85, 0.85], [0.85, 0.8, 0.7]):
        found = saving(np.array(method), random, x)
        assert (found.share, found.labels, found.random_labels, found.reached) == (0, 500, 500, True)


def test_a_method_that_learns_nothing_needs_all_its_labels():
    x, random = np.array([500.0, 1000, 1500]), np.array([0.85, 0.88, 0.9])
    found = saving(np.array([0.85, 0.8, 0.84]), random, x)
    assert (found.labels, found.random_labels, found.reached) == (1500, 500, False)
    assert found.share == pytest.approx(-2 / 3)


def test_a_curve_is_at_itself_and_twice_as_fast_is_half():
    x = np.array([10.0, 20, 40, 80])
    slow_curve = np.array([0.2, 0.4, 0.6, 0.8])
    assert saving(slow_curve, slow_curve, x).share == 0
    fast = np.array([0.4, 0.6, 0.8, 0.9])
    found = saving(fast, slow_curve, x)
    assert (found.share, found.labels, found.random_labels, found.reached) == pytest.approx((0.5, 40, 80, True))


def test_a_method_that_never_gets_there_is_compared_where_it_ends():
    x = np.array([10.0, 20, 40, 80])
    found = saving(np.array([0.2, 0.3, 0.35, 0.4]), np.array([0.2, 0.4, 0.6, 0.8]), x)
    assert not found.reached
    assert (found.labels, found.random_labels, found.share) == (80, 20, -0.75)


def test_one_lucky_point_does_not_reach_an_accuracy():
    x = np.array([10.0, 20, 30, 40])
    lucky = np.array([0.5, 0.8, 0.6, 0.7])
    assert monotone(lucky[None])[0].tolist() == pytest.approx([0.5, 0.7, 0.7, 0.7])
    assert saving(lucky, np.array([0.5, 0.6, 0.7, 0.8]), x).accuracy == pytest.approx(0.7)


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=12), min_size=1, max_size=4))
def test_monotone_curves_against_pooled_neighbours(curves):
    length = min(map(len, curves))
    given_D_L = np.array([curve[:length] for curve in curves])
    np.testing.assert_allclose(monotone(given_D_L), [pooled(curve) for curve in given_D_L], atol=1e-12)


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.05, 0.005, -0.005]))
def test_a_report_saves_as_many_labels_as_the_study(seed, alike, slope):
    """Both say how many labels each mean curve needs for the accuracy that random ends with."""
    draw = np.random.default_rng(seed)
    noise_3_6 = np.stack([[0.05 * alike, *draw.random(5) / 10] for _ in range(3)])
    runs = [record(label, 0.5 + slope * np.arange(6) + noise_3_6[s] + 0.1 * draw.random(6) * (np.arange(6) > 0), s)
            for label in ("random", "margin") for s in range(3)]  # fmt: skip
    group = Comparable(tuple(runs))
    ((reported,), studied) = labels_saved(group), saving_in(group, "margin")
    assert reported.reached == studied.reached
    if reported.reached:
        assert (reported.labels, reported.random_labels) == pytest.approx((studied.labels, studied.random_labels))
        assert np.sign(round(reported.share, 9)) == np.sign(round(studied.share, 9))


def test_a_curve_that_is_not_known_saves_nothing_that_is_known():
    assert math.isnan(saving(np.array([0.5, np.nan]), np.array([0.5, 0.6]), np.array([1.0, 2])).share)
