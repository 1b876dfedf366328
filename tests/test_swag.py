"""SWAG: the moments against weights that are written down, consistency, batch normalisation, the catalogue."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

import poolwise as pw
from poolwise import errors
from poolwise.posteriors.registry import Setting, find
from poolwise.posteriors.swag import Moments
from poolwise.testing import check_posterior
from poolwise.training import train

QUICK = pw.Training(steps=4, batch_size=16)
INPUTS = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(40) % 3


def mlp():
    return pw.models.mlp((6,), 3, hidden=(8,))


def normalised():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def swag(model=mlp, samples=4, **settings):
    return pw.posteriors.SWAG(model, samples, **{"snapshots": 5, "every": 3, "training": QUICK, **settings})


def test_moments_are_those_of_the_weights_written_down():
    path = 3 + np.random.default_rng(0).normal(size=(7, 5))
    path[:, 2] = 1.1  # a weight that never moves
    moments = Moments(rank=3)
    for weights in path:
        moments.add(torch.tensor(weights, dtype=torch.float64))
    means = np.stack([path[: n + 1].mean(0) for n in range(7)])
    np.testing.assert_allclose(moments.mean, path.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.variances, (path**2).mean(0) - path.mean(0) ** 2, atol=1e-12)
    np.testing.assert_allclose(torch.stack(moments.deviations), (path - means)[-3:], atol=1e-12)
    assert moments.count == 7
    assert moments.variances[2] == 0


def test_draws_have_the_covariance_of_the_paper():
    path = np.random.default_rng(1).normal(size=(6, 3)) * [1, 2, 0.5]
    moments = Moments(rank=4)
    for weights in path:
        moments.add(torch.tensor(weights))
    D = torch.stack(moments.deviations, 1).numpy()
    expected = 0.5 * (np.diag(moments.variances.numpy()) + D @ D.T / 3)
    generator = np.random.default_rng(2)
    draws = np.stack([moments.draw(generator, 0.7).numpy() for _ in range(20_000)])
    np.testing.assert_allclose(draws.mean(0), moments.mean, atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), 0.7 * expected, atol=0.06)
    np.testing.assert_array_equal(moments.draw(generator, 0.0), moments.mean)


def test_weights_are_collected_along_the_path_of_sgd():
    """Against the same training with the weights of every third step written down."""
    posterior = swag().fit((INPUTS, LABELS), seed=3)
    network, seen = copy.deepcopy(posterior._trained.networks[0]), []
    sgd = pw.Training(optimiser="sgd", learning_rate=0.01, batch_size=16, steps=15)
    seed = pw.posteriors.swag.child_seed(3, "SWAG")

    def note(stage, done, total):
        seen.append(parameters_to_vector(network.parameters()).detach().double().clone())

    train([network], pw.data.as_examples((INPUTS, LABELS)), sgd, [seed], None, note)
    path = torch.stack(seen)[2::3]
    assert len(path) == posterior.moments.count == 5
    torch.testing.assert_close(posterior.moments.mean, path.mean(0))
    torch.testing.assert_close(posterior.moments.variances, path.var(0, correction=0))
    mean = parameters_to_vector(posterior.mean.parameters())
    torch.testing.assert_close(mean, path.mean(0).float())


@pytest.mark.parametrize("model", [mlp, normalised])
def test_it_keeps_the_contract(model):
    assert "consistency" in check_posterior(lambda: swag(model, 3, snapshots=3))


def test_statistics_of_batch_normalisation_belong_to_the_drawn_weights():
    posterior = swag(normalised, scale=4.0, learning_rate=0.1).fit((INPUTS, LABELS), seed=0)
    for network in [posterior.mean, *posterior.networks]:
        before = network[0](INPUTS).detach()
        torch.testing.assert_close(network[1].running_mean, before.mean(0))
        torch.testing.assert_close(network[1].running_var, before.var(0))
        assert network[1].momentum == 0.1
        assert not any(layer.training for layer in network.modules())
    assert not torch.equal(posterior.networks[0][1].running_mean, posterior.networks[1][1].running_mean)


def test_scale_zero_is_the_mean_of_the_weights():
    posterior = swag(scale=0).fit((INPUTS, LABELS), seed=0)
    predicted = posterior.predict(INPUTS).probs
    np.testing.assert_array_equal(predicted, np.repeat(predicted[:, :1], 4, 1))
    expected = posterior.mean(INPUTS).softmax(1).detach()
    np.testing.assert_allclose(predicted[:, 0], expected, atol=1e-6)
    assert posterior.embed(INPUTS).shape == (40, 8)


def test_a_given_network_is_left_alone_and_trained_in_a_copy():
    network = mlp()
    before = copy.deepcopy(network.state_dict())
    posterior = swag(network, 1)
    with pytest.raises(errors.StateError, match="Call fit"):
        posterior.predict(INPUTS)
    posterior.fit((INPUTS, LABELS))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert repr(posterior) == "SWAG(Sequential)"


def test_settings_are_checked_and_the_catalogue_has_it():
    for wrong in ({"snapshots": 1}, {"rank": 0}, {"scale": -1}, {"learning_rate": 0}, {"every": 0}):
        with pytest.raises(errors.ParameterError, match=next(iter(wrong))):
            swag(**wrong)
    kind = find("swag")
    made = kind.build(Setting(mlp, QUICK, classes=3), {"samples": 7, "snapshots": 2})
    assert isinstance(made, pw.posteriors.SWAG)
    assert made.fit((INPUTS, LABELS)).predict(INPUTS).shape == (40, 7, 3)
    assert kind.cost({"samples": 7}).passes == 7
    assert all(parameter.help for parameter in kind.parameters.values())
