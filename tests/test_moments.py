"""Moments bound every pair, from below and from above, whatever the predictions and however they are rounded."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from poolwise.information import moments
from poolwise.information.moments import Moments
from poolwise.information.pairs import Deviations, crossed, with_itself

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


@given(pools, st.sampled_from(DTYPES), st.booleans())
def test_bounds_hold_for_every_pair(probs, dtype, fourth):
    points = Deviations.of(probs.to(dtype))
    exact = Deviations(points.ratios.double(), points.means.double())
    truth, computed = crossed(exact, exact), crossed(points, points).double()
    found = Moments.of(points, fourth)
    # What selection compares with is the computed pair, so the bounds must hold for that too. A pair is a sum of terms
    # of about δ²/2, each computed from numbers of about δ: it is off by roundings of its square root.
    for pair in (truth, computed):
        slack = 4 * torch.finfo(dtype).eps * (pair + pair.sqrt()) + 1e-13
        assert (found.lower(found).double() <= pair + slack).all()
        assert (found.upper(found) >= pair - slack).all()
    assert (found.scalars[:, 3].double() >= with_itself(exact) * (1 - 1e-6) - 1e-13).all()


@pytest.mark.parametrize("K", [2, 3, 5, 10, 11])
def test_products_of_moments_are_the_sums_they_stand_for(K):
    points = Deviations.of(predictions(0, 8, K, 6, 1.0))
    found = Moments.of(points, fourth=True)
    delta = torch.einsum("ika,jkb->ijab", points.ratios, points.ratios) / K
    weight = points.means[:, None, :, None] * points.means[None, :, None, :]
    for order, part in ((2, found.second), (3, found.third), (4, found.fourth)):
        assert part.shape[1] > 0
        torch.testing.assert_close(part @ part.T, (weight * delta**order).sum((2, 3)), rtol=1e-9, atol=1e-12)


def test_bounds_are_tight_for_predictions_of_an_ensemble(digits):
    points = Deviations.of(torch.from_numpy(digits[::9, :5]).double().exp())
    pairs, found = crossed(points, points), Moments.of(points, fourth=True)
    informative = pairs > 1e-4
    assert (found.lower(found)[informative] / pairs[informative]).median() > 0.8
    assert (found.upper(found)[informative] / pairs[informative]).median() < 1.2


def test_many_samples_are_bounded_without_the_higher_orders():
    points = Deviations.of(predictions(1, 12, 40, 5, 1.0))
    found, pairs = Moments.of(points, fourth=True), crossed(points, points)
    assert found.third.shape[1] == found.fourth.shape[1] == 0
    assert (found.lower(found) <= pairs + 1e-12).all()
    assert (found.upper(found) >= pairs - 1e-12).all()
    assert (found.lower(found) > 0).any()


def test_the_parabola_is_never_below_h():
    delta = torch.cat([torch.linspace(-1, 1, 4001)[1:], torch.linspace(1, 200, 4001)]).double()
    h, _ = moments._share(delta)
    for t in (-0.9, -0.5, -0.04, 0.0, 0.04, 0.06, 1.0, 10.0):
        value, slope = moments._share(torch.tensor([t], dtype=torch.float64))
        c = (1 - value + slope * (1 + t)) / (1 + t) ** 2
        parabola = value + slope * (delta - t) + c * (delta - t) ** 2
        assert (parabola >= h - 1e-9).all(), t


def test_moments_are_used_where_they_pay():
    assert moments.pays(5, 10)
    assert moments.pays(10, 10)
    assert moments.pays(5, 1000)
    assert not moments.pays(1, 10)
    assert not moments.pays(100, 10)
    assert not moments.pays(5, 2)
