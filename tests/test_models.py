"""Reference networks: shapes, sizes, the order of dropout, initial weights, and networks by name."""

import math
import threading
import time

import pytest
import torch
from torch import nn

from poolwise import errors, models

IMAGE_MODELS = ["batchbald-cnn", "emnist-cnn", "cifar-cnn", "resnet-18"]
SHAPES = [
    ("batchbald-cnn", (1, 28, 28), {}),
    ("batchbald-cnn", (3, 32, 32), {}),
    ("batchbald-cnn", (2, 16, 17), {}),
    ("batchbald-cnn", (1, 8, 8), {"padding": 2}),
    ("emnist-cnn", (1, 28, 28), {}),
    ("emnist-cnn", (1, 14, 15), {}),
    ("emnist-cnn", (1, 8, 8), {"padding": 1}),
    ("cifar-cnn", (3, 32, 32), {}),
    ("cifar-cnn", (1, 8, 9), {}),
    ("resnet-18", (3, 32, 32), {}),
    ("resnet-18", (1, 28, 28), {"dropout": 0.1}),
    ("resnet-18", (1, 8, 8), {}),
    ("resnet-18", (3, 64, 64), {"stem": "imagenet"}),
    ("mlp", (20,), {}),
    ("mlp", (1, 8, 8), {"hidden": [32, 16], "dropout": 0.2}),
    ("linear", (20,), {}),
    ("linear", (1, 8, 8), {}),
]


def made(name, shape=None, classes=10, seed=0, **parameters):
    shape = shape or ((20,) if name in ("mlp", "linear") else (1, 28, 28))
    return models.build(lambda: models.make(name, shape, classes, **parameters), seed)


def inputs(shape, n=4, seed=0):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


# Shapes and sizes


@pytest.mark.parametrize(("name", "shape", "options"), SHAPES)
def test_float32_inputs_in_logits_out_and_a_linear_head(name, shape, options):
    model = made(name, shape, 7, **options).eval()
    x = inputs(shape)
    seen = []
    model.head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    logits = model(x)
    assert logits.shape == (4, 7)
    assert logits.dtype == torch.float32
    assert isinstance(model.head, nn.Linear)
    assert list(dict(model.named_modules()))[-1] == "head"
    torch.testing.assert_close(model.head(seen[0]), logits)  # nothing comes after the head
    assert torch.equal(model(x), logits)  # and in eval mode nothing is drawn


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "expected"),
    [
        ("batchbald-cnn", (1, 28, 28), 10, {}, (25 + 1) * 32 + (25 * 32 + 1) * 64 + (1024 + 1) * 128 + 129 * 10),
        ("emnist-cnn", (1, 28, 28), 47, {}, 10 * 32 + (288 + 1) * 64 + (576 + 1) * 128 + (2048 + 1) * 512 + 513 * 47),
        ("cifar-cnn", (3, 32, 32), 10, {}, 28 * 64 + 577 * 128 + 1153 * 256 + 4097 * 256 + 257 * 10),
        ("resnet-18", (3, 32, 32), 10, {}, 11_173_962),
        ("resnet-18", (3, 224, 224), 1000, {"stem": "imagenet"}, 11_689_512),
        ("mlp", (20,), 3, {"hidden": (8, 5)}, 21 * 8 + 9 * 5 + 6 * 3),
        ("linear", (20,), 3, {}, 21 * 3),
    ],
)
def test_parameter_counts(name, shape, classes, options, expected):
    assert parameters(models.make(name, shape, classes, **options)) == expected


@pytest.mark.parametrize("stem", ["small", "imagenet"])
def test_the_stem_sets_the_resolution(stem):
    model = made("resnet-18", (3, 64, 64), stem=stem).eval()
    assert model.stem(inputs((3, 64, 64), 1)).shape == (1, 64, *[64 if stem == "small" else 16] * 2)
    assert model.stages(torch.zeros(1, 64, 16, 16)).shape == (1, 512, 2, 2)


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_the_channels_last_layout_changes_nothing(name):
    model, x = made(name, (3, 32, 32)).eval(), inputs((3, 32, 32))
    expected = model(x)
    model = model.to(memory_format=torch.channels_last)
    torch.testing.assert_close(model(x.to(memory_format=torch.channels_last)), expected, atol=1e-5, rtol=1e-5)


# Dropout


@pytest.mark.parametrize(("name", "count"), [("batchbald-cnn", 3), ("emnist-cnn", 4), ("cifar-cnn", 4)])
def test_each_layer_can_have_a_rate_of_its_own(name, count):
    rates = [0.1 * (n + 1) for n in range(count)]
    model = made(name, dropout=tuple(rates))
    assert [m.p for m in model.modules() if isinstance(m, nn.Dropout | nn.Dropout2d)] == rates


def test_dropped_elements_are_dropped_before_pooling():
    model = made("batchbald-cnn", dropout=(0.25, 0.25, 0.5), drop="elements").train()
    names = [name for name, _ in model.named_children()]
    assert names.index("convolution1") < names.index("dropout1") < names.index("pool1")
    torch.manual_seed(0)
    share_of_zeros = (model.dropout1(torch.ones(64, 8, 10, 10)) == 0).float().mean(dim=(2, 3))
    assert share_of_zeros.min() > 0  # every channel loses some of its elements,
    assert share_of_zeros.max() < 1  # and none is lost as a whole


@pytest.mark.parametrize(
    ("name", "channels", "units"),
    [("batchbald-cnn", 2, 1), ("emnist-cnn", 3, 1), ("cifar-cnn", 3, 1), ("resnet-18", 0, 1), ("mlp", 0, 1)],
)
def test_dropout_layers_are_modules_with_the_rate_asked_for(name, channels, units):
    model = made(name, dropout=0.3)
    found = [m for m in model.modules() if isinstance(m, nn.Dropout2d | nn.Dropout)]
    assert sum(isinstance(m, nn.Dropout2d) for m in found) == channels
    assert sum(isinstance(m, nn.Dropout) for m in found) == units
    assert {m.p for m in found} == {0.3}
    x = inputs((20,) if name == "mlp" else (1, 28, 28))
    model.eval()
    assert torch.equal(model(x), model(x))
    for layer in found:
        layer.train()
    with torch.random.fork_rng(devices=[]):
        assert not torch.equal(model(x), model(x))


@pytest.mark.parametrize(
    ("name", "rates"), [("batchbald-cnn", {0.5}), ("emnist-cnn", {0.5}), ("cifar-cnn", {0.25}), ("resnet-18", {0.0})]
)
def test_default_rates(name, rates):
    assert {m.p for m in made(name).modules() if isinstance(m, nn.Dropout | nn.Dropout2d)} == rates


def test_dropping_channels_before_or_after_pooling_and_relu_is_the_same_function():
    """The papers drop right after the convolution; here it is done last, with the same masks."""
    model, x = made("batchbald-cnn"), inputs((1, 28, 28), 16)
    draw = torch.Generator().manual_seed(1)
    masks = [2.0 * torch.randint(0, 2, (16, n), generator=draw) for n in (32, 64, 128)]
    relu, pool = nn.functional.relu, nn.functional.max_pool2d
    first, second = masks[0][:, :, None, None], masks[1][:, :, None, None]

    y = relu(pool(model.convolution1(x) * first, 2))
    y = relu(pool(model.convolution2(y) * second, 2))
    expected = model.head(relu(model.hidden(y.flatten(1)) * masks[2]))

    handles = [
        layer.register_forward_hook(lambda _, args, __, mask=mask: args[0] * mask)
        for layer, mask in zip((model.dropout1, model.dropout2, model.dropout), (first, second, masks[2]), strict=True)
    ]
    torch.testing.assert_close(model(x), expected)
    for handle in handles:
        handle.remove()


def test_a_part_of_a_convolutional_network_is_a_network():
    model, x = made("emnist-cnn").eval(), inputs((1, 28, 28))
    first = next(i for i, layer in enumerate(model) if isinstance(layer, nn.Dropout2d))
    torch.testing.assert_close(model[first:](model[:first](x)), model(x))


# Training


@pytest.mark.parametrize("name", [name for name in models.names() if name != "transformer"])
def test_a_training_step_lowers_the_loss_of_a_fixed_batch(name):
    shape = (20,) if name in ("mlp", "linear") else (1, 28, 28)
    model, x, y = made(name), inputs(shape, 8), torch.arange(8)
    for layer in model.modules():
        if isinstance(layer, nn.Dropout | nn.Dropout2d):
            layer.p = 0.0  # the same function before and after
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    before = nn.functional.cross_entropy(model(x), y)
    before.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    optimiser.step()
    assert nn.functional.cross_entropy(model(x), y) < before


# Initial weights


def test_glorot_weights_fill_their_bounds_with_the_right_variance():
    model = models.glorot_(made("batchbald-cnn"), torch.Generator().manual_seed(0))
    fans = {"convolution1": 25 * (1 + 32), "convolution2": 25 * (32 + 64), "hidden": 1024 + 128, "head": 128 + 10}
    for name, total in fans.items():
        layer, bound = getattr(model, name), math.sqrt(6 / total)
        assert layer.weight.abs().max() <= bound
        assert layer.weight.abs().max() > 0.99 * bound
        # The variance of n uniform draws has the relative standard error sqrt(0.8 / n).
        n = layer.weight.numel()
        assert layer.weight.var().item() == pytest.approx(bound**2 / 3, rel=5 * math.sqrt(0.8 / n))
        assert torch.equal(layer.bias, torch.zeros_like(layer.bias))


def test_glorot_leaves_normalisation_as_it_is_and_is_given_back():
    model = made("resnet-18")
    norm = model.stem[1]
    assert models.glorot_(model, torch.Generator().manual_seed(0)) is model
    assert torch.equal(norm.weight, torch.ones(64))
    assert torch.equal(norm.bias, torch.zeros(64))
    assert torch.equal(model.head.bias, torch.zeros(10))


def test_glorot_depends_on_the_generator_only():
    def drawn(before, seed, layout=torch.contiguous_format):
        model = made("cifar-cnn", seed=before).to(memory_format=layout)
        return weights(models.glorot_(model, torch.Generator().manual_seed(seed)))

    state = torch.get_rng_state()
    assert torch.equal(drawn(0, 7), drawn(1, 7))
    assert torch.equal(drawn(0, 7), drawn(0, 7, torch.channels_last))
    assert not torch.equal(drawn(0, 7), drawn(0, 8))
    assert torch.equal(torch.get_rng_state(), state)


def test_weights_depend_on_the_seed_only_and_the_global_state_is_put_back():
    expected = weights(made("batchbald-cnn", seed=3))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        state = torch.get_rng_state()
        assert torch.equal(weights(made("batchbald-cnn", seed=3)), expected)
        assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(weights(made("batchbald-cnn", seed=4)), expected)


def test_the_global_state_is_put_back_after_an_error():
    def fail():
        torch.rand(3)
        raise RuntimeError("no")

    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="no"):
        models.build(fail, 0)
    assert torch.equal(torch.get_rng_state(), state)


def test_networks_can_be_built_from_several_threads():
    def slowly():
        first = nn.Linear(3, 2)
        time.sleep(0.01)  # long enough for another thread to set the global state, if it could
        return nn.Sequential(first, nn.Linear(2, 2))

    expected = {seed: weights(models.build(slowly, seed)) for seed in range(4)}
    found, state = {}, torch.get_rng_state()

    def work(seed):
        found[seed] = weights(models.build(slowly, seed))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(found[seed], expected[seed]) for seed in range(4))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_a_bad_seed_is_refused(seed):
    with pytest.raises(errors.ParameterError, match="seed"):
        made("linear", seed=seed)


# Names and errors


def test_all_networks_are_listed():
    vectors = {"mlp", "linear"}
    assert set(models.names()) == {"batchbald-cnn", "emnist-cnn", "cifar-cnn", "resnet-18", "transformer"} | vectors


def test_an_unknown_name_gets_the_nearest_and_the_list():
    with pytest.raises(errors.ParameterError, match=r"Did you mean 'resnet-18'\? The models are: batchbald-cnn, "):
        models.make("resnet18", (3, 32, 32), 10)
    with pytest.raises(errors.ParameterError, match=r"no model 'perceptron'\. The models are"):
        models.make("perceptron", (3, 32, 32), 10)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "batchbald-cnn",
            {"rate": 1},
            r"no parameter 'rate'\. Its parameters: dropout=0.5, drop='channels', padding=0\.",
        ),
        ("linear", {"dropout": 0.5}, r"no parameter 'dropout'\. Its parameters: none\."),
        ("batchbald-cnn", {"dropout": "half"}, r"dropout must be a number from 0 to less than 1, not 'half'"),
        ("batchbald-cnn", {"dropout": (0.5, 0.5)}, r"one rate, or 3 of them \(one per layer\), not 2"),
        ("batchbald-cnn", {"drop": "rows"}, r"drop must be one of 'channels', 'elements', not 'rows'"),
        ("batchbald-cnn", {"dropout": 1.0}, r"from 0 to less than 1, not 1\.0"),
        ("mlp", {"dropout": -0.1}, r"from 0 to less than 1, not -0\.1"),
        ("batchbald-cnn", {"padding": -1}, r"padding must be a whole number of at least 0, not -1"),
        ("resnet-18", {"stem": "large"}, r"stem must be one of 'small', 'imagenet', not 'large'"),
        ("mlp", {"hidden": ()}, r"hidden must be one size per layer.*not \(\)"),
        ("mlp", {"hidden": "64"}, r"hidden must be one size per layer.*not '64'"),
        ("mlp", {"hidden": 64}, r"mlp: hidden must be"),
        ("mlp", {"hidden": (64, 0)}, r"each size in hidden must be a whole number of at least 1, not 0"),
    ],
)
def test_bad_parameters_are_refused_with_what_would_do(name, options, message):
    with pytest.raises(errors.ParameterError, match=message):
        made(name, **options)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("batchbald-cnn", (1, 8, 8), r"images of 8×8 are too small.*2 convolutions with padding=0.*padding=2"),
        ("batchbald-cnn", (1, 28, 15), r"28×15 are too small"),
        ("emnist-cnn", (1, 13, 28), r"13×28 are too small.*padding=1"),
        ("resnet-18", (28, 28), r"\(channels, height, width\).*not \(28, 28\).*'mlp'"),
        ("cifar-cnn", (3, 0, 32), r"shape of one input.*not \(3, 0, 32\)"),
        ("mlp", 20, r"shape of one input.*not 20"),
        ("linear", (), r"shape of one input.*not \(\)"),
    ],
)
def test_bad_shapes_are_refused_with_what_would_do(name, shape, message):
    with pytest.raises(errors.ShapeError, match=message):
        models.make(name, shape, 10)


@pytest.mark.parametrize("name", models.names())
@pytest.mark.parametrize("classes", [0, 2.5, True])
def test_a_bad_number_of_classes_is_refused(name, classes):
    with pytest.raises(errors.ParameterError, match="classes must be a whole number"):
        made(name, classes=classes)


def test_the_stem_is_checked_without_the_registry():
    with pytest.raises(errors.ParameterError, match="stem"):
        models.resnet_18((3, 32, 32), 10, stem="tiny")


def test_a_network_of_your_own_is_named_by_its_address():
    network = models.make("small_networks:sized", (6,), 3, hidden=5)
    assert network[0].out_features == 5
    with pytest.raises(errors.ParameterError, match=r"no parameter 'width'\. Its parameters: hidden=16\."):
        models.make("small_networks:sized", (6,), 3, width=5)
    with pytest.raises(errors.ParameterError, match=r"cannot be loaded .*small_networks has no missing"):
        models.make("small_networks:missing", (6,), 3)
    with pytest.raises(errors.ParameterError, match="One of your own is named by its address"):
        models.make("missing", (6,), 3)
