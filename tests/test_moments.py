"""Moments bound every pair, from below and from above, whatever the predictions and however they are rounded."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from poolwise.information import share_bounds
from poolwise.information.moments import Layout, Probes, features, upper_of_self
from poolwise.information.pairs import Deviations, crossed

DTYPES = (torch.float32, torch.float64)


def predictions(seed, n, K, C, spread):
    """`[n, K, C]` probabilities with every degenerate row: one-hot, identical members, a copy, certain members."""
    draw = np.random.default_rng(seed)
    logits = spread * draw.normal(size=(n, K, C)) + 3 * draw.normal(size=(n, 1, C))
    probs = torch.softmax(torch.from_numpy(logits), 2)
    kinds = draw.integers(6, size=n)
    certain = torch.nn.functional.one_hot(probs.argmax(2), C).double()
    probs[kinds == 0] = certain[kinds == 0]
    probs[kinds == 1] = probs[kinds == 1][:, :1].clone()
    probs[kinds == 2] = probs[:1].clone()
    probs[kinds == 3, 0] = certain[kinds == 3, 0]
    return probs


pools = st.builds(
    predictions,
    st.integers(0, 10**6),
    st.integers(2, 10),
    st.integers(2, 14),
    st.integers(2, 12),
    st.sampled_from([0.01, 0.1, 1.0, 5.0, 30.0]),
)


def assert_bounds(probs, dtype):
    points = Deviations.of(probs.to(dtype))
    exact = Deviations(points.ratios.double(), points.means.double())
    layout, found = Layout(*probs.shape[1:]), features(points)
    probes = Probes.of(found, layout)
    # What selection compares with is the computed pair, so the bounds must hold for that too. The slack is for pairs so
    # small that they are nothing but rounding.
    for pair in (crossed(exact, exact), crossed(points, points).double()):
        assert (probes.lower(found).double() <= pair + 1e-13).all()
        if layout.has_upper:
            assert (probes.upper(found) >= pair - 1e-13).all()
            assert (upper_of_self(found, layout) >= pair.diag() - 1e-13).all()


@given(pools, st.sampled_from(DTYPES))
def test_bounds_hold_for_every_pair(probs, dtype):
    assert_bounds(probs, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("K", "C"), [(5, 400), (10, 100), (2, 600), (20, 20), (40, 5)])
def test_bounds_hold_with_many_classes_or_samples(K, C, dtype):
    for seed, spread in enumerate((0.01, 1.0, 10.0)):
        assert_bounds(predictions(seed, 4, K, C, spread), dtype)


@pytest.mark.parametrize("K", [2, 3, 5, 6, 10, 11])
def test_products_of_moments_are_the_sums_they_stand_for(K):
    points = Deviations.of(predictions(0, 8, K, 6, 1.0))
    layout, found = Layout(K, 6), features(points)
    delta = torch.einsum("ika,jkb->ijab", points.ratios, points.ratios) / K
    weight = points.means[:, None, :, None] * points.means[None, :, None, :]
    assert len(layout.orders) == (4 if K <= 6 else 3)
    for order, columns in enumerate(layout.orders, 2):
        expected = (weight * delta**order).sum((2, 3))
        torch.testing.assert_close(found[:, columns] @ found[:, columns].T, expected, rtol=1e-9, atol=1e-12)


def test_bounds_are_tight_for_predictions_of_an_ensemble(digits):
    points = Deviations.of(torch.from_numpy(digits[::9, :5]).double().exp())
    pairs, found = crossed(points, points), features(points)
    probes = Probes.of(found, Layout(5, 10))
    informative = pairs > 1e-4
    assert (probes.lower(found)[informative] / pairs[informative]).median() > 0.9
    assert (probes.upper(found)[informative] / pairs[informative]).median() < 1.2


def test_many_samples_are_bounded_without_the_higher_orders():
    points = Deviations.of(predictions(1, 12, 40, 5, 1.0))
    found = Probes.of(features(points), Layout(40, 5)).lower(features(points))
    assert not Layout(40, 5).has_upper
    assert (found <= crossed(points, points) + 1e-12).all()
    assert (found > 0).any()


def share(t):
    """h(t), by its series where the formula loses its digits."""
    return share_bounds._share(t)[0] if abs(t) > 0.05 else sum((-t) ** n / ((n + 1) * (n + 2)) for n in range(14))


@pytest.mark.parametrize("K", [None, 2, 3, 5, 6])
def test_the_polynomials_are_on_their_side_of_h(K):
    delta = np.concatenate([np.linspace(-1, 1, 2001)[1:], np.linspace(1, 200 if K is None else K - 1, 1001)])
    h = np.array([share(t) for t in delta])
    assert len(share_bounds.above(K)) >= 5
    for q in share_bounds.above(K):
        assert (np.polynomial.Polynomial(q)(delta) >= h - 1e-13).all()
    for q in share_bounds.below():
        assert (np.polynomial.Polynomial(q)(delta) <= h + 1e-13).all()
