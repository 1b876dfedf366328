"""Posteriors of networks: ensembles trained in every way, dropout on top, their states and options."""

import os

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_networks import QUICK, convolutional, inputs, made, mlp, normed, picture, same_picture, values
from torch import nn
from torch.utils.data import Dataset

import poolwise as pw
from poolwise import errors, models
from poolwise.models.dropout import controlled
from poolwise.posteriors.consistent import Masks
from poolwise.posteriors.posterior import NetworkPosterior
from poolwise.seeding import child_seed
from poolwise.training import Training


def labelled(n=40, shape=(6,), classes=3):
    x = inputs(n, *shape, seed=5)
    return x, (x.flatten(1)[:, :classes]).argmax(1)


def weights(posterior):
    return [torch.cat([value.flatten() for value in network.state_dict().values()]) for network in posterior.networks]


def dropped():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 8), nn.LayerNorm(8), nn.GELU(),
        nn.Dropout(0.2), nn.Linear(8, 3),
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("make", [mlp, dropped])
def test_the_same_members_whichever_way(make, global_state):
    torch.set_num_threads(2)
    data, judge = labelled(), labelled(20)
    for training in (QUICK, Training(steps=40, batch_size=8, patience=2, validate_every=3, learning_rate=0.05)):
        fitted = {
            way: pw.posteriors.DeepEnsemble(make, 3, train_members=way, training=training).fit(data, judge, seed=4)
            for way in ("sequential", "processes", "vectorised", "auto")
        }
        for a, b, c, d in zip(*map(weights, fitted.values()), strict=True):
            assert torch.equal(a, b)
            torch.testing.assert_close(a, c, rtol=0, atol=1e-5)
            assert torch.equal(c, d)  # dense layers: all at once
        best = [[outcome.best_step for outcome in posterior.outcomes] for posterior in fitted.values()]
        assert best[0] == best[1] == best[2]
        assert all(not network.training for network in fitted["auto"].networks)


def test_convolutional_members_are_the_same_in_processes_to_the_last_bit():
    torch.set_num_threads(2)
    data = labelled(30, (1, 10, 10))
    fitted = [
        pw.posteriors.DeepEnsemble(convolutional, 2, train_members=way, training=QUICK).fit(data, seed=1)
        for way in ("sequential", "processes", "auto")
    ]
    for a, b, c in zip(*map(weights, fitted), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_processes_really_run_beside_each_other(monkeypatch):
    from poolwise.posteriors import posterior

    class Where(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(6, 3))
            self.register_buffer("process", torch.zeros(1, dtype=torch.long))

        def forward(self, x):
            self.process[0] = os.getpid()
            return super().forward(x)

    torch.set_num_threads(2)
    started = []
    real = posterior.Parallel
    monkeypatch.setattr(
        posterior, "Parallel", lambda workers, **options: started.append(workers) or real(workers, **options)
    )
    fitted = pw.posteriors.DeepEnsemble(Where, 3, train_members="processes", training=QUICK).fit(labelled())
    assert started == [2]
    assert os.getpid() not in [int(network.process) for network in fitted.networks]


def test_auto_falls_back_where_members_cannot_be_trained_at_once():
    class Buffered(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(6, 3))
            self.register_buffer("mean", torch.zeros(6))

        def forward(self, x):
            return super().forward(x - self.mean)

    class Decides(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(6, 3))

        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)

    class Random(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(6, 3))

        def forward(self, x):
            return super().forward(F.dropout(x, 0.5, self.training))

    torch.set_num_threads(1)
    for make in (Buffered, Decides, Random):
        auto = pw.posteriors.DeepEnsemble(make, 2, training=QUICK, warm_start=True)
        alone = pw.posteriors.DeepEnsemble(make, 2, training=QUICK, train_members="sequential", warm_start=True)
        for seed in (0, 1):  # also when it goes on from trained members
            for a, b in zip(
                weights(auto.fit(labelled(), seed=seed)), weights(alone.fit(labelled(), seed=seed)), strict=True
            ):
                assert torch.equal(a, b)
        with pytest.raises(errors.ParameterError, match='cannot be trained with train_members="vectorised"'):
            pw.posteriors.DeepEnsemble(make, 2, train_members="vectorised").fit(labelled())
    with pytest.raises(errors.ParameterError, match='cannot be trained with train_members="vectorised"'):
        pw.posteriors.DeepEnsemble(normed, 2, train_members="vectorised").fit(labelled())


def test_seeds_and_members_differ():
    first = pw.posteriors.DeepEnsemble(mlp, 3, training=QUICK).fit(labelled(), seed=0)
    second = pw.posteriors.DeepEnsemble(mlp, 3, training=QUICK).fit(labelled(), seed=1)
    again = pw.posteriors.DeepEnsemble(mlp, 3, training=QUICK).fit(labelled(), seed=0)
    everyone = [*weights(first), *weights(second)]
    for i, a in enumerate(everyone):
        assert all(not torch.allclose(a, b) for b in everyone[i + 1 :])
    assert all(torch.equal(a, b) for a, b in zip(weights(first), weights(again), strict=True))
    # Member 0 of three is member 0 of two: nothing depends on how many there are.
    two = pw.posteriors.DeepEnsemble(mlp, 2, training=QUICK, train_members="sequential").fit(labelled(), seed=0)
    torch.testing.assert_close(weights(first)[0], weights(two)[0], rtol=0, atol=1e-5)


def test_a_lambda_and_a_local_class_work_in_processes():
    class Local(nn.Sequential):
        pass

    torch.set_num_threads(2)
    width = 5
    posterior = pw.posteriors.DeepEnsemble(
        lambda: Local(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3)), 2, train_members="processes", training=QUICK
    ).fit(labelled())
    assert posterior.predict(inputs()).shape == (40, 2, 3)
    assert all(type(network) is Local for network in posterior.networks)


def test_an_ensemble_of_networks_is_refused():
    for kind in (pw.posteriors.DeepEnsemble, pw.posteriors.DropoutEnsemble):
        with pytest.raises(errors.ParameterError, match="members that start from the same weights are no ensemble"):
            kind(made(mlp))
    with pytest.raises(errors.ParameterError, match="at least one network"):
        pw.ensemble([], inputs())
    with pytest.raises(errors.ParameterError, match="at least one network"):
        pw.ensemble([mlp], inputs())


def test_dropout_ensemble_orders_samples_by_member():
    posterior = pw.posteriors.DropoutEnsemble(mlp, 3, 4, training=QUICK, seed=9).fit(labelled())
    result = values(posterior.predict(inputs()))
    assert result.shape == (40, 12, 3)
    for member, network in enumerate(posterior.networks):
        masks = Masks(child_seed(9, "masks", member))
        for k in range(4):
            with controlled(network, lambda call, rows, k=k, masks=masks: masks.draw(call, k)), torch.no_grad():
                torch.testing.assert_close(
                    network(inputs()).log_softmax(1), result[:, member * 4 + k], rtol=0, atol=1e-6
                )


def test_mc_dropout_as_a_posterior(global_state):
    network = made(mlp)
    before = picture(network)
    posterior = pw.posteriors.MCDropout(network, 5, training=QUICK)
    assert torch.equal(values(posterior.predict(inputs())), values(pw.mc_dropout(network, inputs(), 5)))
    posterior.fit(labelled())
    same_picture(picture(network), before)  # a network that is given is never changed
    assert posterior.networks[0] is not network
    trained = weights(posterior)[0]
    assert not torch.equal(trained, torch.cat([v.flatten() for v in network.state_dict().values()]))
    assert torch.equal(weights(posterior.fit(labelled()))[0], trained)  # from the weights it was given, each time
    new = pw.posteriors.MCDropout(mlp, 5, training=QUICK)
    with pytest.raises(errors.StateError, match=r"Call fit\(data\) first"):
        new.predict(inputs())
    assert not torch.equal(weights(new.fit(labelled()))[0], trained)


@pytest.mark.parametrize("way", ["sequential", "vectorised", "processes"])
def test_warm_start_goes_on_from_the_weights_before(way):
    torch.set_num_threads(2)
    still = Training(steps=1, learning_rate=1e-30, optimiser="sgd")
    cold, warm = (
        pw.posteriors.DeepEnsemble(mlp, 2, train_members=way, training=QUICK, warm_start=start).fit(labelled(), seed=0)
        for start in (False, True)
    )
    assert all(torch.equal(a, b) for a, b in zip(weights(cold), weights(warm), strict=True))
    before = weights(warm)
    for posterior in (cold, warm):
        posterior._training = still
        posterior.fit(labelled(), seed=1)
    assert all(torch.equal(a, b) for a, b in zip(weights(warm), before, strict=True))
    assert not any(torch.allclose(a, b) for a, b in zip(weights(cold), before, strict=True))


@pytest.mark.parametrize("make", [mlp, convolutional, lambda: models.batchbald_cnn((1, 16, 16), 3)])
def test_state_round_trips_to_the_last_bit(make, tmp_path):
    shape = {mlp: (6,), convolutional: (1, 10, 10)}.get(make, (1, 16, 16))
    data, x = labelled(20, shape), inputs(30, *shape)
    posterior = pw.posteriors.DropoutEnsemble(make, 2, 3, training=QUICK, train_members="sequential").fit(data)
    torch.save(posterior.state(), tmp_path / "state.pt")
    other = pw.posteriors.DropoutEnsemble(make, 2, 3, training=QUICK, train_members="sequential")
    other.load_state(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(values(posterior.predict(x)), values(other.predict(x)))
    assert all(torch.equal(a, b) for a, b in zip(weights(posterior), weights(other), strict=True))
    # and from there on too, when it goes on from these weights
    for each in (posterior, other):
        each._warm_start = True
        each.fit(data, seed=8)
    assert all(torch.equal(a, b) for a, b in zip(weights(posterior), weights(other), strict=True))


def test_a_state_that_does_not_fit_is_refused():
    state = pw.posteriors.DeepEnsemble(mlp, 2, training=QUICK).fit(labelled()).state()
    with pytest.raises(errors.ParameterError, match="has 2 networks, and this DeepEnsemble has 3 members"):
        pw.posteriors.DeepEnsemble(mlp, 3).load_state(state)
    with pytest.raises(errors.ParameterError, match="do not fit"):
        pw.posteriors.DeepEnsemble(lambda: nn.Linear(6, 3), 2).load_state(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 0}, "members must be"),
        ({"members": 2.0}, "members must be"),
        ({"threads": 0}, "threads must be"),
        ({"train_members": "parallel"}, "train_members must be"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(errors.ParameterError, match=message):
        pw.posteriors.DeepEnsemble(mlp, **options)


def test_samples_and_model_are_checked():
    with pytest.raises(errors.ParameterError, match="samples must be"):
        pw.mc_dropout(made(mlp), inputs(), 0)
    with pytest.raises(errors.ParameterError, match="model must be a network or a function"):
        pw.posteriors.MCDropout("resnet-18")
    with pytest.raises(errors.ParameterError, match="seed must be"):
        pw.mc_dropout(made(mlp), inputs(), 3, seed=-1)
    with pytest.raises(errors.ParameterError, match="memory must be"):
        pw.mc_dropout(made(mlp), inputs(), 3, memory="much")


def test_device_is_respected():
    with pytest.raises((RuntimeError, NotImplementedError)):
        values(pw.mc_dropout(made(mlp), inputs(), 3, device="meta"))


def test_threads_are_used_in_training_and_put_back(monkeypatch):
    seen = []

    def make():
        network = mlp()
        network.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
        return network

    torch.set_num_threads(2)
    for threads, expected in ((1, 1), (None, 2)):
        seen.clear()
        pw.posteriors.DeepEnsemble(make, 2, train_members="sequential", threads=threads, training=QUICK).fit(labelled())
        assert set(seen) == {expected}
        assert torch.get_num_threads() == 2


def test_fit_reads_a_data_set_once_and_reports():
    class Counts(Dataset):
        reads = 0

        def __len__(self):
            return 40

        def __getitem__(self, index):
            Counts.reads += 1
            x, y = labelled()
            return x[index], int(y[index])

    seen = []
    pw.posteriors.DeepEnsemble(mlp, 2, train_members="sequential", training=QUICK).fit(
        Counts(), report=lambda *what: seen.append(what)
    )
    assert Counts.reads <= 2 * 40 + 3  # labels, inputs, and one item to see what it is
    assert seen == [("training the networks", 1, 2), ("training the networks", 2, 2)]


def test_failed_training_leaves_the_posterior_as_it_was():
    posterior = pw.posteriors.DeepEnsemble(mlp, 2, training=QUICK).fit(labelled())
    before, outcomes = weights(posterior), posterior.outcomes
    posterior._training = Training(optimiser="sgd", learning_rate=1e20, steps=50)
    with pytest.raises(errors.TrainingError):
        posterior.fit(labelled())
    assert all(torch.equal(a, b) for a, b in zip(weights(posterior), before, strict=True))
    assert posterior.outcomes is outcomes


def test_every_posterior_keeps_the_protocol():
    for posterior in (
        pw.posteriors.MCDropout(mlp, 4, training=QUICK),
        pw.posteriors.DeepEnsemble(mlp, 4, training=QUICK),
        pw.posteriors.DropoutEnsemble(mlp, 2, 2, training=QUICK),
    ):
        assert isinstance(posterior, NetworkPosterior)
        assert posterior.fit(labelled(), None, seed=0) is posterior
        predictions = posterior.predict(inputs(), embeddings=True)
        assert predictions.shape == (40, 4, 3)
        np.testing.assert_array_equal(predictions.embeddings, posterior.embed(inputs()))
