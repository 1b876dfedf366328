"""Smaller networks for each dropout mask: the same samples as the whole network with its units multiplied by zero."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from poolwise.models import build, make
from poolwise.posteriors.consistent import ConsistentDropout
from poolwise.posteriors.thinned import ThinnedDropout, can_be_thinned

RATES = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])


def assert_same_samples(network, inputs, count=4):
    assert can_be_thinned(network, inputs.ndim)
    network.eval()
    thinned = torch.stack(list(ThinnedDropout(network, 3).samples(inputs, count)))
    with ConsistentDropout(network, 3) as whole:
        expected = torch.stack(list(whole.samples(inputs, count)))
    torch.testing.assert_close(thinned, expected, rtol=1e-5, atol=1e-5)
    return expected


@pytest.mark.parametrize(
    ("name", "shape"),
    [("batchbald-cnn", (1, 28, 28)), ("emnist-cnn", (1, 28, 28)), ("cifar-cnn", (3, 32, 32)), ("mlp", (12,))],
)
def test_the_networks_of_the_paper(name, shape):
    network = build(lambda: make(name, shape, 10), 0)
    samples = assert_same_samples(network, torch.randn(6, *shape))
    assert (samples[0] - samples[1]).abs().max() > 0.01


@st.composite
def rows_of_layers(draw):
    """Any row of layers that can be thinned: dropout anywhere, twice in a row, at the end, or none kept."""
    layers, channels, size = [], 2, 8
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["conv", "relu", "pool", "drop"]))
        if kind == "conv":
            out = draw(st.integers(1, 4))
            layers.append(nn.Conv2d(channels, out, 3, padding=1, bias=draw(st.booleans())))
            channels = out
        elif kind == "pool" and size > 2:
            layers.append(nn.MaxPool2d(2))
            size //= 2
        else:
            layers.append(nn.ReLU() if kind == "relu" else nn.Dropout2d(draw(RATES)))
    layers.append(nn.Flatten())
    features = channels * size * size
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["linear", "relu", "drop", "nothing"]))
        if kind == "linear":
            out = draw(st.integers(1, 5))
            layers.append(nn.Linear(features, out))
            features = out
        else:
            layers.append({"relu": nn.ReLU(), "nothing": nn.Identity(), "drop": nn.Dropout(draw(RATES))}[kind])
    return nn.Sequential(*layers, nn.Dropout(0.5), nn.Linear(features, 3))


@settings(max_examples=60)
@given(network=rows_of_layers(), n=st.integers(1, 5))
def test_any_row_of_layers(network, n):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for parameter in network.parameters():
            nn.init.normal_(parameter)
        assert_same_samples(network, torch.randn(n, 2, 8, 8))


@pytest.mark.parametrize(
    ("network", "rank"),
    [
        (nn.Sequential(nn.Linear(4, 3), nn.ReLU()), 2),  # nothing to drop
        (nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0)), 2),
        (nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 2)), 3),  # sequences
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.Dropout(0.5), nn.Flatten(), nn.Linear(4, 2)), 4),  # single elements
        (nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Dropout2d(0.5)), 4),
        (nn.Sequential(nn.Linear(4, 3), nn.Sigmoid(), nn.Dropout(0.5), nn.Linear(3, 2)), 2),  # sigmoid(0) is not 0
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2)), 2),
        (nn.ModuleList([nn.Dropout(0.5)]), 2),
    ],
)
def test_other_networks_are_left_to_the_general_way(network, rank):
    assert not can_be_thinned(network, rank)


def test_a_network_with_hooks_is_left_alone():
    network = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 2))
    assert can_be_thinned(network, 2)
    network[0].register_forward_hook(lambda *_: None)
    assert not can_be_thinned(network, 2)


def test_a_class_of_ones_own_is_left_alone():
    class Mine(nn.Sequential):
        def forward(self, x):
            return super().forward(x) * 2

    assert not can_be_thinned(Mine(nn.Linear(4, 3), nn.Dropout(0.5)), 2)
