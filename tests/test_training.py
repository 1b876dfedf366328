"""The training loop: every option against a loop by hand, early stopping, faults, several networks at once."""

import copy
import math
import random
import textwrap
from functools import partial

import numpy as np
import processes
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poolwise as pw
from poolwise import errors, models
from poolwise.data.examples import TensorExamples, as_examples
from poolwise.models.dropout import Call, dropout_layers
from poolwise.models.members import keep
from poolwise.seeding import stream
from poolwise.training import Training, _optimiser, class_weights, crop_and_flip, torch_generator, train

torch_loss = F.cross_entropy


def points(n=37, seed=0, classes=3, shape=(4,)):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, *shape, generator=draw)
    return x, (x.flatten(1)[:, :classes] + 0.3 * torch.randn(n, classes, generator=draw)).argmax(1)


X, Y = points()


@pytest.fixture(autouse=True)
def _one_thread():
    """Operations this small take longest when they are split."""
    torch.set_num_threads(1)


def linear():
    return nn.Sequential(nn.Linear(4, 3))


def mlp(dropout=0.5):
    return nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Dropout(dropout), nn.Linear(10, 3))


def fitted(training, make=linear, data=(X, Y), validation=None, seed=0):
    network = models.build(make, 1)
    judge = None if validation is None else as_examples(validation)
    outcome = train([network], as_examples(data), training, [seed], judge)[0]
    return network, outcome


def weights(network):
    return torch.cat([value.detach().flatten() for value in network.parameters()])


def by_hand(
    steps, optimiser, batch_size=64, milestones=(), gamma=0.1, loss=torch_loss, change=lambda x: x, make=linear
):
    """A loop as anyone would write it, over the same order of examples."""
    network = models.build(make, 1).train()
    optimiser = optimiser(network.parameters())
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, list(milestones), gamma)
    order, step, rates = stream(0, "order of examples"), 0, []
    while step < steps:
        permutation = order.permutation(len(X))
        for start in range(0, len(X), batch_size):
            if step == steps:
                break
            rows = torch.from_numpy(permutation[start : start + batch_size])
            optimiser.zero_grad()
            rates.append(optimiser.param_groups[0]["lr"])
            loss(network(change(X[rows])), Y[rows]).backward()
            optimiser.step()
            step += 1
        schedule.step()
    return network, rates


def adam(rate=1e-3, **options):
    return lambda parameters: torch.optim.Adam(parameters, rate, **options)


def sgd(rate=1e-3, momentum=0.9, **options):
    return lambda parameters: torch.optim.SGD(parameters, rate, momentum=momentum, **options)


# Every option does what it says

WEIGHTS = (1.0, 5.0, 0.2)
BALANCED = tuple((len(Y) / (3 * torch.bincount(Y))).tolist())


@pytest.mark.parametrize(
    ("training", "hand"),
    [
        (Training(steps=9), {"steps": 9, "optimiser": adam()}),
        (Training(steps=9, learning_rate=0.1), {"steps": 9, "optimiser": adam(0.1)}),
        (Training(steps=9, weight_decay=0.5), {"steps": 9, "optimiser": adam(weight_decay=0.5)}),
        (Training(steps=9, optimiser="sgd"), {"steps": 9, "optimiser": sgd()}),
        (Training(steps=9, optimiser="sgd", momentum=0.2), {"steps": 9, "optimiser": sgd(momentum=0.2)}),
        (Training(steps=9, optimiser="sgd", momentum=0), {"steps": 9, "optimiser": sgd(momentum=0)}),
        (
            Training(steps=9, optimiser="sgd", learning_rate=0.3, weight_decay=0.1),
            {"steps": 9, "optimiser": sgd(0.3, weight_decay=0.1)},
        ),
        (Training(steps=9, batch_size=10), {"steps": 9, "optimiser": adam(), "batch_size": 10}),
        (Training(steps=9, batch_size=1), {"steps": 9, "optimiser": adam(), "batch_size": 1}),
        (Training(epochs=3, min_steps=0, batch_size=10), {"steps": 12, "optimiser": adam(), "batch_size": 10}),
        (Training(epochs=3, min_steps=15, batch_size=10), {"steps": 15, "optimiser": adam(), "batch_size": 10}),
        (Training(epochs=5, min_steps=15, batch_size=10), {"steps": 20, "optimiser": adam(), "batch_size": 10}),
        (Training(epochs=5, min_steps=15, batch_size=10, steps=2), {"steps": 2, "optimiser": adam(), "batch_size": 10}),
        (
            Training(steps=20, batch_size=10, milestones=(2, 4), gamma=0.3, optimiser="sgd", learning_rate=0.2),
            {"steps": 20, "optimiser": sgd(0.2), "batch_size": 10, "milestones": (2, 4), "gamma": 0.3},
        ),
        (
            Training(steps=9, label_smoothing=0.3),
            {"steps": 9, "optimiser": adam(), "loss": lambda p, y: torch_loss(p, y, label_smoothing=0.3)},
        ),
        (
            Training(steps=9, class_weights=WEIGHTS, batch_size=10),
            {
                "steps": 9, "optimiser": adam(), "batch_size": 10,
                "loss": lambda p, y: torch_loss(p, y, torch.tensor(WEIGHTS)),
            },
        ),
        (
            Training(steps=9, class_weights="balanced"),
            {"steps": 9, "optimiser": adam(), "loss": lambda p, y: torch_loss(p, y, torch.tensor(BALANCED))},
        ),
        (
            Training(steps=9, class_weights=WEIGHTS, label_smoothing=0.2),
            {
                "steps": 9, "optimiser": adam(),
                "loss": lambda p, y: torch_loss(p, y, torch.tensor(WEIGHTS), label_smoothing=0.2),
            },
        ),
        (Training(steps=9, augment=lambda x, _: 2 * x), {"steps": 9, "optimiser": adam(), "change": lambda x: 2 * x}),
    ],
)  # fmt: skip
def test_options_against_a_loop_by_hand(training, hand):
    network, outcome = fitted(training)
    torch.testing.assert_close(weights(network), weights(by_hand(**hand)[0]), rtol=1e-5, atol=1e-6)
    assert outcome.steps == hand["steps"]
    # and each of them makes a difference
    if training != Training(steps=9):
        assert not torch.allclose(weights(network), weights(by_hand(9, adam())[0]), rtol=1e-5, atol=1e-6)


def test_milestones_are_epochs():
    _, rates = by_hand(20, sgd(0.2), 10, (2, 4), 0.3)
    assert rates == pytest.approx([0.2] * 8 + [0.06] * 8 + [0.018] * 4)


def test_the_defaults():
    _, outcome = fitted(Training())
    assert outcome.steps == 300  # 50 epochs of one step are too few
    assert outcome.best_step == 300
    assert outcome.validation is None
    assert 0 < outcome.loss < 1


def test_the_papers_resnet_runs():
    assert Training.resnet() == Training(
        optimiser="sgd",
        learning_rate=0.05,
        momentum=0.9,
        weight_decay=5e-4,
        milestones=(25, 40),
        gamma=0.1,
        batch_size=64,
        epochs=50,
        min_steps=0,
        monitor="accuracy",
        augment="crop-flip",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimiser": "adamw"}, "optimiser must be one of"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0"),
        ({"momentum": -0.1}, "momentum must be at least 0"),
        ({"weight_decay": -1}, "weight_decay must be at least 0"),
        ({"gamma": 0}, "gamma must be above 0"),
        ({"batch_size": 0}, "batch_size must be above 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"epochs": 0}, "epochs must be above 0"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"min_steps": -1}, "min_steps must be at least 0"),
        ({"steps": 0}, "steps must be above 0"),
        ({"patience": 0}, "patience must be above 0"),
        ({"validate_every": 0}, "validate_every must be above 0"),
        ({"monitor": "loss"}, "monitor must be one of"),
        ({"label_smoothing": -0.1}, "label_smoothing must be at least 0"),
        ({"label_smoothing": 1.1}, "label_smoothing must be at most 1"),
        ({"augment": "mixup"}, "augment must be one of"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(errors.ParameterError, match=message):
        Training(**options)


@pytest.mark.parametrize("given", [(1.0, 2.0), (1.0, 2.0, 3.0, 4.0), (1.0, 2.0, -1.0), "even"])
def test_class_weights_are_checked(given):
    with pytest.raises(errors.ParameterError, match="3 numbers of at least 0"):
        fitted(Training(steps=2, class_weights=given))


def test_balanced_weights_make_up_for_unequal_numbers():
    assert class_weights("balanced", torch.tensor([0, 0, 0, 2]), 3).tolist() == pytest.approx([4 / 6, 0, 2])
    assert class_weights(None, torch.tensor([0]), 3) is None
    _, outcome = fitted(Training(steps=3, class_weights=(0.0, 0.0, 1.0)), data=(X[Y == 0], Y[Y == 0]))
    assert outcome.loss == 0  # nothing counts, and nothing is divided by zero


# Augmentation


def test_crop_and_flip_moves_by_an_eighth_and_mirrors_half():
    images = torch.arange(1.0, 257).view(1, 1, 16, 16).repeat(400, 2, 1, 1)
    images[:, 1] *= 2
    result = crop_and_flip(images, torch_generator(0, "test"))
    assert result.shape == images.shape
    assert torch.equal(result[:, 1], 2 * result[:, 0])  # channels go together
    padded = F.pad(images[0, 0], (2, 2, 2, 2))
    seen = set()
    for image in result[:, 0]:
        found = [
            (top, left, mirrored)
            for top in range(5)
            for left in range(5)
            for mirrored in (False, True)
            if torch.equal(
                image,
                padded[top : top + 16, left : left + 16].flip(1)
                if mirrored
                else padded[top : top + 16, left : left + 16],
            )
        ]
        assert len(found) == 1
        seen.update(found)
    assert len(seen) == 50  # every place, both ways
    assert crop_and_flip(torch.ones(2, 1, 4, 4), torch_generator(0)).shape == (2, 1, 4, 4)


def test_crop_and_flip_changes_what_is_learnt_by_seed_and_leaves_the_data():
    x, y = points(30, shape=(1, 8, 8))
    kept = x.clone()

    def make():
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))

    plain, augmented, again = (
        weights(fitted(Training(steps=5, augment=augment), make, (x, y))[0])
        for augment in (None, "crop-flip", "crop-flip")
    )
    assert not torch.allclose(plain, augmented)
    assert torch.equal(augmented, again)
    assert torch.equal(x, kept)
    with pytest.raises(errors.ParameterError, match=r"is for images .* not \[37, 4\]"):
        fitted(Training(steps=5, augment="crop-flip"))


def test_a_function_that_augments_draws_from_a_generator_of_its_own():
    def noise(x, generator):
        return x + torch.randn(x.shape, generator=generator)

    first, second = (weights(fitted(Training(steps=5, augment=noise))[0]) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.allclose(first, weights(fitted(Training(steps=5, augment=noise), seed=1)[0]))
    assert not torch.allclose(first, weights(fitted(Training(steps=5))[0]))

    def in_place(x, generator):
        return x.mul_(2)

    kept = X.clone()
    fitted(Training(steps=5, augment=in_place))
    assert torch.equal(X, kept)


# Early stopping


def zeros():
    network = linear()
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
    return network


# Every step towards the labels is one away from these, for a network that begins at zero.
WRONG = X, (Y + 1) % 3


def losses(network, data):
    with torch.no_grad():
        return float(torch_loss(network(data[0]), data[1]))


def test_the_best_weights_are_the_result():
    training = Training(steps=60, learning_rate=0.05, validate_every=4)
    network, outcome = fitted(training, zeros, validation=WRONG)
    assert (outcome.steps, outcome.best_step) == (60, 4)
    expected, _ = fitted(Training(steps=4, learning_rate=0.05), zeros)
    assert torch.equal(weights(network), weights(expected))
    assert outcome.validation == pytest.approx(-losses(network, WRONG), rel=1e-5)
    judge = points(20, 1)
    better, outcome = fitted(training, zeros, validation=judge)
    assert outcome.best_step > 4
    assert losses(better, judge) < losses(expected, judge)


@pytest.mark.parametrize(
    ("patience", "every", "steps"), [(1, 4, 8), (3, 4, 16), (2, 7, 21), (100, 4, 60), (None, 4, 60)]
)
def test_patience_counts_looks_without_improvement(patience, every, steps):
    training = Training(steps=60, learning_rate=0.05, validate_every=every, patience=patience)
    _, outcome = fitted(training, zeros, validation=WRONG)
    assert (outcome.steps, outcome.best_step) == (steps, every)
    assert fitted(training, zeros)[1].steps == 60  # without a validation set nothing stops early


def test_validations_come_every_epoch_or_twenty_steps_and_at_the_end(monkeypatch):
    from poolwise import training as module

    looks = []
    real = module._Loop._validate
    monkeypatch.setattr(module._Loop, "_validate", lambda self, *rest: looks.append(rest[-1]) or real(self, *rest))
    for options, expected in (
        ({"steps": 50}, [20, 40, 50]),
        ({"steps": 50, "validate_every": 15}, [15, 30, 45, 50]),
        ({"steps": 90, "batch_size": 3}, [20, 40, 60, 80, 90]),
    ):
        looks.clear()
        fitted(Training(**options), validation=points(20, 1))
        assert looks == expected
    looks.clear()
    fitted(Training(steps=60, batch_size=2), data=points(50), validation=points(20, 1))
    assert looks == [25, 50, 60]  # an epoch is 25 steps


def test_monitor_says_what_is_compared():
    judge = points(200, 1)
    histories = {"nll": [], "accuracy": []}
    for steps in range(1, 41):
        each, _ = fitted(Training(steps=steps, learning_rate=0.05))
        with torch.no_grad():
            histories["accuracy"].append(float((each(judge[0]).argmax(1) == judge[1]).double().mean()))
        histories["nll"].append(-losses(each, judge))
    for monitor, history in histories.items():
        network, outcome = fitted(
            Training(steps=40, validate_every=1, learning_rate=0.05, monitor=monitor), validation=judge
        )
        best = int(np.argmax(history)) + 1
        assert outcome.best_step == best
        assert outcome.validation == pytest.approx(max(history), rel=1e-5)
        assert torch.equal(weights(network), weights(fitted(Training(steps=best, learning_rate=0.05))[0]))


def test_best_weights_include_running_statistics():
    def make():
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

    network, outcome = fitted(Training(steps=30, validate_every=3, learning_rate=0.05), make, validation=WRONG)
    expected, _ = fitted(Training(steps=outcome.best_step, learning_rate=0.05), make)
    for name, value in network.state_dict().items():
        assert torch.equal(value, expected.state_dict()[name]), name


def test_a_look_leaves_training_as_it_was():
    """The same weights with and without looks: dropout, batch statistics and modes go on as before."""

    def make():
        return nn.Sequential(
            nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.4, inplace=True), nn.Linear(6, 3)
        )

    plain, _ = fitted(Training(steps=30, learning_rate=0.05), make)
    judge = points(2500, 1)  # more than goes through at a time
    network = models.build(make, 1)
    seen = []
    handle = network[3].register_forward_pre_hook(lambda layer, _: seen.append((network.training, layer.training)))
    training = Training(steps=30, validate_every=7, learning_rate=0.05)
    outcome = train([network], as_examples((X, Y)), training, [0], as_examples(judge))[0]
    handle.remove()
    assert set(seen) == {(True, False), (False, False)}  # the layer itself never drops: the loop does
    if outcome.best_step == 30:
        assert torch.equal(weights(network), weights(plain))
    other, _ = fitted(Training(steps=outcome.best_step, learning_rate=0.05), make)
    assert torch.equal(weights(network), weights(other))


# Faults


def test_a_loss_that_is_not_finite_is_an_error():
    with pytest.raises(
        errors.TrainingError, match=r"diverged: the loss is not finite at step .*Lower the learning rate"
    ):
        fitted(Training(optimiser="sgd", learning_rate=1e38, steps=50))
    broken = X.clone()
    broken[3, 2] = float("nan")
    with pytest.raises(errors.TrainingError, match="check the inputs"):
        fitted(Training(steps=50), data=(broken, Y))
    with pytest.raises(errors.TrainingError, match="the loss on the validation set is not finite"):
        fitted(Training(steps=50), validation=(broken, Y))


def test_labels_and_outputs_must_fit():
    with pytest.raises(errors.TrainingError, match="whose largest label is 3"):
        fitted(Training(steps=5), data=(X, (Y == 0) * 3))
    with pytest.raises(errors.TrainingError, match="a label of the validation set is 3"):
        fitted(Training(steps=25), validation=(X, (Y == 0) * 3))
    with pytest.raises(errors.ShapeError, match=r"must return a tensor \[examples, classes\]"):
        fitted(Training(steps=5), make=lambda: nn.Sequential(nn.Linear(4, 3), nn.Unflatten(1, (3, 1))))


def test_what_is_missing_is_said_before_training():
    def never(*_):
        raise AssertionError("no step may be taken")

    def make():
        network = linear()
        network.register_forward_pre_hook(never)
        return network

    for data, validation, message in [
        (X, None, "training needs labels"),
        ((X, Y), X, "a validation set needs labels"),
        ((X[:0], Y[:0]), None, "at least one labelled example"),
        ((X, Y), (X[:0], Y[:0]), "the validation set is empty"),
    ]:
        with pytest.raises(errors.MissingInputError, match=message):
            fitted(Training(steps=30), make, data, validation)
    with pytest.raises(errors.ParameterError, match="Encode them first"):
        fitted(Training(steps=2), data=(["a text", "another"], [0, 1]))


@pytest.mark.parametrize(("count", "size"), [(9, 4), (5, 4), (65, 64), (2, 64), (3, 2), (4, 4)])
def test_no_batch_of_one_example_meets_batch_normalisation(count, size):
    def make():
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

    x, y = points(count)
    seen = []
    network = models.build(make, 1)
    handle = network.register_forward_pre_hook(lambda net, given: seen.append(len(given[0])) if net.training else None)
    train([network], as_examples((x, y)), Training(epochs=2, min_steps=0, batch_size=size), [0])
    handle.remove()
    assert sum(seen) == 2 * count  # every example, twice
    assert min(seen) > 1


def test_a_single_example():
    network, outcome = fitted(Training(steps=50, learning_rate=0.05), mlp, (X[:1], Y[:1]))
    assert outcome.steps == 50
    assert int(network(X[:1]).argmax()) == int(Y[0])


def test_frozen_parameters_stay():
    def make():
        network = mlp()
        network[0].weight.requires_grad_(False)
        return network

    for networks in (1, 3):
        members = [models.build(make, seed) for seed in range(networks)]
        before = [member[0].weight.clone() for member in members]
        train(members, as_examples((X, Y)), Training(steps=5), list(range(networks)))
        assert all(torch.equal(member[0].weight, old) for member, old in zip(members, before, strict=True))
        assert all(not member[0].weight.requires_grad for member in members)


def test_the_state_of_the_world_is_left_alone():
    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002

    class Noisy(nn.Sequential):
        def forward(self, x):
            return super().forward(x + 0.1 * torch.randn_like(x) if self.training else x)

    first, second = (fitted(Training(steps=5), lambda: Noisy(nn.Linear(4, 3)))[0] for _ in range(2))
    fitted(Training(steps=5), mlp)
    assert torch.equal(weights(first), weights(second))  # other randomness comes from the seed too
    assert random.getstate() == before[0]
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])
    with torch.no_grad():
        fitted(Training(steps=5))
    assert torch.is_grad_enabled()


def test_after_training_and_after_a_fault_the_network_is_whole():
    for training in (Training(steps=5), Training(optimiser="sgd", learning_rate=1e38, steps=50)):
        for count in (1, 3):
            members = [models.build(mlp, seed) for seed in range(count)]
            try:
                train(members, as_examples((X, Y)), training, list(range(count)))
            except errors.TrainingError:
                assert training.learning_rate == 1e38
            for member in members:
                assert not any(part.training for part in member.modules())
                assert not any(part._forward_hooks or part._forward_pre_hooks for part in member.modules())
                copy.deepcopy(member)


def test_progress_is_reported():
    seen = []
    train(
        [models.build(linear, 0)], as_examples((X, Y)), Training(steps=3), [0], report=lambda *what: seen.append(what)
    )
    assert seen == [("training", 1, 3), ("training", 2, 3), ("training", 3, 3)]


# Dropout in training


@pytest.mark.parametrize(
    "layer", [nn.Dropout(0.3), nn.AlphaDropout(0.3), nn.Dropout1d(0.3), nn.Dropout2d(0.3), nn.FeatureAlphaDropout(0.3)]
)
def test_dropout_in_training_is_that_of_pytorch_and_differs_by_example(layer):
    shape = {nn.Dropout1d: (4, 6), nn.Dropout2d: (4, 3, 2), nn.FeatureAlphaDropout: (4, 3, 2)}.get(type(layer), (24,))
    x = torch.ones(500, *shape)
    y = torch.arange(500) % 2
    seen = []
    network = nn.Sequential(copy.deepcopy(layer), nn.Flatten(), nn.Linear(24, 2))
    handle = network[2].register_forward_pre_hook(lambda _, given: seen.append(given[0]) if network.training else None)
    train([network], TensorExamples(x, y), Training(steps=4, batch_size=500), [0])
    handle.remove()
    assert len(seen) == 4
    torch.manual_seed(0)
    theirs = copy.deepcopy(layer).train()(x).flatten(1)
    for result in seen:
        torch.testing.assert_close(torch.unique(result), torch.unique(theirs), rtol=1e-5, atol=1e-6)
        low = result == result.min()
        assert 0.25 < low.float().mean() < 0.35
        assert not (low == low[:1]).all()
        if not isinstance(layer, nn.Dropout | nn.AlphaDropout):
            channels = low.view(500, 4, 6)
            assert (channels == channels[:, :, :1]).all()
    assert not torch.equal(seen[0], seen[1])


# Several networks at once


@pytest.mark.parametrize(
    "training",
    [
        Training(steps=30, batch_size=10, learning_rate=0.02),
        Training(steps=30, optimiser="sgd", learning_rate=0.1, weight_decay=0.01, milestones=(5,), batch_size=10),
        Training(steps=30, class_weights="balanced", label_smoothing=0.1),
        Training(steps=30, augment=lambda x, generator: x + 0.1 * torch.randn(x.shape, generator=generator)),
        Training(steps=80, validate_every=3, patience=2, learning_rate=0.1, batch_size=10),
        Training(steps=80, validate_every=3, patience=2, learning_rate=0.1, batch_size=10, monitor="accuracy"),
    ],
)
def test_networks_at_once_equal_networks_one_by_one(training):
    judge = as_examples(points(30, 1))
    together, alone = ([models.build(mlp, seed) for seed in range(4)] for _ in range(2))
    outcomes = train(together, as_examples((X, Y)), training, [5, 6, 7, 8], judge)
    single = [
        train([network], as_examples((X, Y)), training, [seed], judge)[0]
        for network, seed in zip(alone, (5, 6, 7, 8), strict=True)
    ]
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(weights(a), weights(b), rtol=0, atol=1e-5)
    assert [outcome.best_step for outcome in outcomes] == [outcome.best_step for outcome in single]
    assert [outcome.validation for outcome in outcomes] == pytest.approx(
        [outcome.validation for outcome in single], abs=1e-5
    )
    if training.patience:  # members stop at different times
        assert len({outcome.steps for outcome in single}) > 1


def test_a_member_that_has_stopped_may_diverge_after():
    """One after another it would have been left alone at its best look, so its later losses count for nothing."""

    def step(x, generator):
        """Inputs that are not finite from the eleventh batch of the first member on."""
        calls[generator.initial_seed()] = calls.get(generator.initial_seed(), 0) + 1
        first = generator.initial_seed() == torch_generator(0, "augmentation").initial_seed()
        return x * float("nan") if first and calls[generator.initial_seed()] > 10 else x

    calls = {}
    # The second member begins at a third answer, and comes closer to the wrong labels on its way to the right ones.
    other, _ = fitted(Training(steps=100, learning_rate=0.05), data=(X, (Y + 2) % 3))
    members = [models.build(zeros, 1), other.train()]
    training = Training(steps=60, learning_rate=0.05, validate_every=2, patience=2, augment=step)
    outcomes = train(members, as_examples((X, Y)), training, [0, 3], as_examples(WRONG))
    assert outcomes[0].best_step == 2
    assert max(calls.values()) > 11  # the first member did see inputs that are not finite
    expected, _ = fitted(Training(steps=2, learning_rate=0.05), zeros)
    torch.testing.assert_close(weights(members[0]), weights(expected), rtol=0, atol=1e-6)


def test_a_network_does_not_depend_on_its_company():
    few, many = ([models.build(mlp, seed) for seed in range(count)] for count in (2, 5))
    training = Training(steps=20, batch_size=10)
    train(few, as_examples((X, Y)), training, [0, 1])
    train(many, as_examples((X, Y)), training, [0, 1, 2, 3, 4])
    for a, b in zip(few, many, strict=False):
        torch.testing.assert_close(weights(a), weights(b), rtol=0, atol=1e-5)


def test_networks_with_buffers_cannot_be_stacked():
    members = [nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)) for _ in range(2)]
    with pytest.raises(errors.ParameterError, match="cannot be trained at once"):
        train(members, as_examples((X, Y)), Training(steps=3), [0, 1])


def test_dropout_really_regularises_a_posterior():
    """End to end: with dropout the training loss of a member is higher than without, by the same seed."""
    losses = [
        fitted(Training(steps=200, learning_rate=0.02), lambda rate=rate: mlp(rate))[1].loss for rate in (0.0, 0.6)
    ]
    assert losses[1] > losses[0] + 0.05
    assert dropout_layers(mlp(0.0)) == {}
    assert isinstance(pw.Training(), Training)


# What PyTorch does for its compiler


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_optimisers_make_the_steps_of_pytorch(optimiser):
    training = Training(optimiser=optimiser, learning_rate=0.1, momentum=0.9, weight_decay=0.01)
    kinds = {"adam": torch.optim.Adam, "sgd": partial(torch.optim.SGD, momentum=0.9)}
    ours, theirs = (torch.linspace(-1, 1, 7).requires_grad_() for _ in range(2))
    for weights, made in (
        (ours, _optimiser([ours], training)),
        (theirs, kinds[optimiser]([theirs], 0.1, weight_decay=0.01, fused=True)),
    ):
        for _ in range(5):
            made.zero_grad()
            weights.exp().sum().backward()
            made.step()
    assert torch.equal(ours, theirs)


def test_the_compiler_of_pytorch_is_not_imported_to_train():
    """It takes as long as PyTorch itself, in every process that trains."""
    code = """
        import sys, torch, poolwise as pw
        posterior = pw.posteriors.DeepEnsemble(lambda: torch.nn.Linear(2, 2), 2, training=pw.Training(steps=2))
        posterior.fit((torch.zeros(4, 2), [0, 1, 0, 1])).predict(torch.zeros(3, 2))
        assert "torch._dynamo" not in sys.modules
    """
    done = processes.run(["-c", textwrap.dedent(code)])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.1, 0.9, 1 / 3, 1.0])
@pytest.mark.parametrize("shape", [(7,), (3, 5, 4), (6, 1, 1)])
def test_masks_of_training_drop_at_the_layers_rate(rate: float, shape: tuple[int, ...]) -> None:
    rows = 40_000 // math.prod(shape) + 1
    kept = keep(Call("layer", 0, shape, rate), rows, torch.Generator().manual_seed(3))
    assert kept.shape == (rows, *shape)
    assert set(kept.unique().tolist()) <= {0.0, 1.0}
    spread = math.sqrt(rate * (1 - rate) / kept.numel())
    assert abs(float(kept.mean()) - (1 - rate)) <= 5 * spread
    together = torch.corrcoef(torch.stack([kept.flatten()[:-1], kept.flatten()[1:]]))[0, 1] if rate < 1 else 0.0
    assert abs(float(together)) < 5 / math.sqrt(kept.numel())


def test_masks_of_images_are_laid_out_as_the_activations() -> None:
    kept = keep(Call("layer", 0, (8, 6, 6), 0.25), 16, torch.Generator().manual_seed(0))
    assert kept.is_contiguous(memory_format=torch.channels_last)
