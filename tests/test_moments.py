"""Moments bound every pair, from below and from above, whatever the predictions and however they are rounded."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from poolwise.information import moments, share_bounds
from poolwise.information.moments import Layout, features, lower, upper, upper_of_self
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


def assert_bounds(probs, dtype, orders=(2, 3, 4, 5)):
    points = Deviations.of(probs.to(dtype))
    exact = Deviations(points.ratios.double(), points.means.double())
    # What selection compares with is the computed pair, so the bounds must hold for that too. The slack is for pairs so
    # small that they are nothing but rounding.
    pairs = (crossed(exact, exact), crossed(points, points).double())
    for order in orders:
        layout = Layout(*probs.shape[1:], order)
        found = features(points, layout)
        for pair in pairs:
            assert (lower(found, found, layout).double() <= pair + 1e-13).all()
            assert (upper(found, found, layout) >= pair - 1e-13).all()
            assert (upper_of_self(found, layout) >= pair.diag() - 1e-13).all()


@given(pools, st.sampled_from(DTYPES))
def test_bounds_hold_for_every_pair(probs, dtype):
    assert_bounds(probs, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("K", "C", "orders"), [(5, 400, (2, 5)), (10, 100, (2, 3, 4)), (2, 600, (5,)), (20, 20, (2, 3)), (40, 5, (2,))]
)
def test_bounds_hold_with_many_classes_or_samples(K, C, orders, dtype):
    for seed, spread in enumerate((0.01, 1.0, 10.0)):
        assert_bounds(predictions(seed, 4, K, C, spread), dtype, orders)


@pytest.mark.parametrize("K", [2, 3, 5, 6, 10])
def test_products_of_moments_are_the_sums_they_stand_for(K):
    points = Deviations.of(predictions(0, 8, K, 6, 1.0))
    delta = torch.einsum("ika,jkb->ijab", points.ratios, points.ratios) / K
    weight = points.means[:, None, :, None] * points.means[None, :, None, :]
    for highest in (2, 3, 4, 5):
        layout = Layout(K, 6, highest)
        found = features(points, layout)
        assert found.shape == (8, layout.width)
        assert len(layout.orders) == highest - 1
        for order, columns in enumerate(layout.orders, 2):
            expected = (weight * delta**order).sum((2, 3))
            torch.testing.assert_close(found[:, columns] @ found[:, columns].T, expected, rtol=1e-9, atol=1e-12)


def test_features_do_not_depend_on_how_many_points_are_worked_on_together(monkeypatch):
    points, layout = Deviations.of(predictions(0, 30, 5, 8, 1.0)), Layout(5, 8, 5)
    whole = features(points, layout)
    monkeypatch.setattr(moments, "_TOGETHER", 1)
    torch.testing.assert_close(features(points, layout), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("order", "from_below", "from_above"), [(2, 0.3, 2.3), (3, 0.8, 1.9), (4, 0.85, 1.2), (5, 0.9, 1.2)]
)
def test_bounds_are_tight_for_predictions_of_an_ensemble(digits, order, from_below, from_above):
    points = Deviations.of(torch.from_numpy(digits[::9, :5]).double().exp())
    layout, pairs = Layout(5, 10, order), crossed(points, points)
    found, informative = features(points, layout), pairs > 1e-4
    assert (lower(found, found, layout)[informative] / pairs[informative]).median() > from_below
    assert (upper(found, found, layout)[informative] / pairs[informative]).median() < from_above


def test_with_order_two_the_upper_bound_is_one_product():
    points, layout = Deviations.of(predictions(2, 20, 6, 5, 1.0)), Layout(6, 5, 2)
    found = features(points, layout)
    product = (found * moments.linear(layout, torch.float64)) @ found.T
    torch.testing.assert_close(product, upper(found, found, layout), rtol=1e-12, atol=0)


def test_the_tangents_are_at_least_as_good_as_bernstein_with_cauchy_schwarz():
    points, layout = Deviations.of(predictions(3, 20, 5, 10, 1.0)), Layout(5, 10, 3)
    found = features(points, layout)
    second, third = (found[:, columns] @ found[:, columns].T for columns in layout.orders)
    bernstein = second**2 / (2 * second + 2 / 3 * third).clamp_min(1e-300)
    # The nodes are a grid, so the best tangent is missed by a little.
    assert (lower(found, found, layout) >= 0.98 * bernstein - 1e-12).all()


def share(t):
    """h(t), by its series where the formula loses its digits."""
    return share_bounds._share(t)[0] if abs(t) > 0.05 else sum((-t) ** n / ((n + 1) * (n + 2)) for n in range(14))


@pytest.mark.parametrize("K", [2, 3, 5, 6, 10, 40])
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_the_polynomials_are_on_their_side_of_h(degree, K):
    delta = np.concatenate([np.linspace(-1, 1, 2001), np.linspace(1, max(1, K - 1), 1001)])
    h = np.array([share(t) for t in delta])
    for q in share_bounds.above(degree, K):
        assert len(q) == degree + 1
        assert (np.polynomial.Polynomial(q)(delta) >= h - 1e-13).all()
    for q in share_bounds.below(degree, K):
        assert len(q) == degree + 1
        assert (np.polynomial.Polynomial(q)(delta) <= h + 1e-13).all()
