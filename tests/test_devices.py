"""Devices: which are taken, where networks stay, and whose random state is touched."""

import numpy as np
import pytest
import torch
from small_networks import QUICK, inputs, made, mlp, picture, same_picture
from torch import nn

import poolwise as pw
from poolwise import errors, models
from poolwise.models import randomness
from poolwise.posteriors.networks import Sampler
from poolwise.posteriors.trained import trained

LABELS = torch.arange(40) % 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda", 1), "mps", "xpu"])
def test_a_device_that_is_not_there_is_said(device):
    for call in (
        lambda: pw.mc_dropout(made(mlp), inputs(), 3, device=device),
        lambda: pw.ensemble([made(mlp)], inputs(), device=device),
        lambda: pw.posteriors.DeepEnsemble(mlp, 2, device=device),
        lambda: pw.posteriors.MCDropout(mlp, 2, device=device),
        lambda: pw.posteriors.Laplace(mlp, 2, device=device),
        lambda: pw.posteriors.MCDropout(mlp, 2).on(device),
    ):
        with pytest.raises(errors.ParameterError, match=r'PyTorch finds no such device here\. Use device="cpu"'):
            call()


@pytest.mark.parametrize("device", ["gpu", "cpu:x", 3.5, None, "CPU "])
def test_what_is_no_device_is_said(device):
    with pytest.raises(errors.ParameterError, match="device must be"):
        pw.mc_dropout(made(mlp), inputs(), 3, device=device)


def test_a_number_that_is_too_large_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(errors.ParameterError, match="there are 2, counted from cuda:0"):
        pw.mc_dropout(made(mlp), inputs(), 3, device="cuda:7")


@pytest.mark.parametrize("mode", [True, False])
def test_a_network_stays_on_its_device_and_in_its_mode(mode):
    network = made(mlp).train(mode)
    before, weights = picture(network), [id(parameter) for parameter in network.parameters()]
    sampler = Sampler([network], 3, device=torch.device("meta"))
    assert {p.device.type for p in sampler.networks[0].parameters()} == {"meta"}
    with pytest.raises((RuntimeError, NotImplementedError)):
        trained([network], device="meta").predict(inputs())
    same_picture(picture(network), before)
    assert [id(parameter) for parameter in network.parameters()] == weights
    assert {parameter.device.type for parameter in network.parameters()} == {"cpu"}
    for call in (lambda: pw.mc_dropout(network, inputs(), 3), lambda: pw.ensemble([network], inputs())):
        call()
        same_picture(picture(network), before)
    pw.posteriors.MCDropout(network, 3, training=QUICK).fit((inputs(), LABELS))
    pw.posteriors.Laplace(network, 3, train=False).fit((inputs(), LABELS)).predict(inputs())
    same_picture(picture(network), before)


class Gpu:
    """Stands in for `torch.cuda`: two devices, each with a random state."""

    def __init__(self):
        self.generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
        self.current = 0
        self.seeded = []

    def get_rng_state(self, device):
        return self.generators[device.index or 0].get_state()

    def set_rng_state(self, state, device):
        self.generators[device.index or 0].set_state(state)

    def manual_seed(self, seed):
        self.seeded.append(self.current)
        self.generators[self.current].manual_seed(seed)

    def device(self, device):
        gpu = self

        class Current:
            def __enter__(self):
                self.before, gpu.current = gpu.current, device.index or 0

            def __exit__(self, *_):
                gpu.current = self.before

        return Current()


def test_only_the_device_that_is_used_is_seeded(monkeypatch, global_state):
    gpu = Gpu()
    monkeypatch.setattr(torch, "cuda", gpu)
    before = [generator.get_state() for generator in gpu.generators]
    with randomness.seeded(5, torch.device("cuda", 1)):
        assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(5)))
        inside = torch.rand(3, generator=gpu.generators[1])
        assert torch.equal(inside, torch.rand(3, generator=torch.Generator().manual_seed(5)))
    assert gpu.seeded == [1]
    for generator, state in zip(gpu.generators, before, strict=True):
        assert torch.equal(generator.get_state(), state)


def test_training_seeds_no_other_device(monkeypatch, global_state):
    def never(*_):
        raise AssertionError("no other device may be seeded")

    for name in ("manual_seed", "manual_seed_all", "seed_all", "get_rng_state", "set_rng_state", "_lazy_init"):
        monkeypatch.setattr(torch.cuda, name, never)
    monkeypatch.setattr(torch, "manual_seed", never)

    class Noisy(nn.Sequential):
        def forward(self, x):
            return super().forward(x + torch.rand_like(x) if self.training else x)

    make = lambda: Noisy(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))  # noqa: E731
    first, second = (
        pw.posteriors.MCDropout(make, 3, training=QUICK).fit((inputs(), LABELS)).predict(inputs()) for _ in range(2)
    )
    np.testing.assert_array_equal(first.rows(np.arange(40)).log_probs, second.rows(np.arange(40)).log_probs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models.make("mlp", (6,), 3, hidden=(10**11,)), "would take .* GB"),
        (lambda: models.make("mlp", (6,), 3, hidden=(10**9, 10**9)), "would take .* GB"),
        (lambda: models.make("mlp", (6,), 3, hidden=(10**30,)), "Lower its sizes|at most"),
        (lambda: models.make("mlp", (6,), 3, hidden=(10**5000,)), "Lower its sizes|at most"),
        (lambda: models.make("linear", (6,), 10**12), "would take .* GB"),
        (lambda: pw.posteriors.DeepEnsemble(mlp, 10**9), "members must be at most 10,000"),
        (lambda: pw.posteriors.DeepEnsemble(mlp, 10**5000), "members must be at most"),
        (lambda: pw.posteriors.DeepEnsemble(mlp, 2, threads=100_000), "threads must be at most"),
        (lambda: pw.posteriors.MCDropout(mlp, 10**9), "samples must be at most"),
        (lambda: pw.mc_dropout(made(mlp), inputs(), 10**9), "samples must be at most"),
        (lambda: pw.posteriors.Laplace(mlp, 10**9), "samples must be at most"),
        (lambda: pw.Training(steps=10**18), "steps must be at most"),
        (lambda: pw.Training(batch_size=10**5000), "batch_size must be at most"),
    ],
)
def test_absurd_numbers_are_said_at_once(call, message):
    with pytest.raises(errors.ParameterError, match=message):
        call()


def test_predictions_that_fit_no_disk_are_said_before_the_work():
    def fail(*_):
        raise AssertionError("only a few examples may be predicted")

    class Big(nn.Linear):
        rows = 0

        def forward(self, x):
            Big.rows += len(x)
            return super().forward(x) if Big.rows < 1000 else fail()

    with pytest.raises(errors.FileError, match="no room for predictions"):
        pw.mc_dropout(nn.Sequential(nn.Dropout(0.5), Big(2, 1000)), torch.zeros(100_000, 2), 1_000_000)
