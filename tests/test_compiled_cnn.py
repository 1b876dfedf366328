"""The network of Figure 1 (c) whose convolutions are compiled from C: the same function as that of the package."""

import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import poolwise as pw
from paper import compiled_cnn
from paper.compiled_cnn import Drop
from poolwise import errors, models
from poolwise.training import Training

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
ADDRESS = "paper.compiled_cnn:batchbald_cnn"
OPTIONS = {"dropout": (0.25, 0.25, 0.5), "drop": "elements"}


def blocks(network, x, masks):
    """What goes into the dense layers, by PyTorch."""
    for number, mask in enumerate(masks, 1):
        x = network.get_submodule(f"convolution{number}")(x)
        x = F.relu(F.max_pool2d(x if mask is None else x * mask, 2))
    return x


def compiled_blocks(network, x, masks):
    for number, (block, mask) in enumerate(zip((compiled_cnn._First, compiled_cnn._Second), masks, strict=True), 1):
        layer = network.get_submodule(f"convolution{number}")
        x = block.apply(x, layer.weight, layer.bias, None if mask is None else Drop.of_mask(mask))
    return x


@pytest.fixture
def case():
    """A network, 13 images with dark borders and with one that is dark throughout, and dropout masks."""
    draw = torch.Generator().manual_seed(0)
    network = models.build(lambda: models.batchbald_cnn((1, 28, 28), 10, **OPTIONS), 0)
    x = torch.rand(13, 1, 28, 28, generator=draw)
    x[:, :, :9], x[3] = 0, 0
    masks = [
        (torch.rand(13, channels, side, side, generator=draw) > 0.25).float().div(0.75)
        .contiguous(memory_format=torch.channels_last)
        for channels, side in ((32, 24), (64, 8))
    ]  # fmt: skip
    return network, x, masks


@pytest.mark.parametrize("dropping", [False, True])
def test_blocks_and_their_gradients_are_those_of_pytorch(case, dropping):
    network, x, masks = case
    masks = masks if dropping else [None, None]
    exact = blocks(network.double(), x.double(), [mask if mask is None else mask.double() for mask in masks])
    weights = [parameter for name, parameter in network.named_parameters() if "convolution" in name]
    # A gradient may go elsewhere where rounding decides which is the largest of a window, or whether it is above zero.
    towards = torch.randn(exact.shape, generator=torch.Generator().manual_seed(1))
    exact_gradients = torch.autograd.grad(exact, weights, towards.double())
    network.float()
    weights = [parameter for name, parameter in network.named_parameters() if "convolution" in name]
    found = compiled_blocks(network, x, masks)
    assert_close(found.double(), exact, rtol=1e-5, atol=2e-6)
    for gradient, right in zip(torch.autograd.grad(found, weights, towards), exact_gradients, strict=True):
        assert (gradient - right).norm() < 0.02 * right.norm()


def test_a_gradient_that_is_zero_stays_zero(case):
    """Adam divides by the usual size of a gradient: it would make a whole step of a rounding error."""
    network, x, masks = case
    x[:, :, :, :14] = 0
    weight, bias = network.get_submodule("convolution2").weight, torch.full((32,), -0.1)
    first = network.get_submodule("convolution1").weight
    hidden = compiled_cnn._First.apply(x, first, bias, Drop.of_mask(masks[0]))
    assert (hidden == 0).float().mean() > 0.5
    zeros = []

    def compiled(x, weight, bias, mask):
        return compiled_cnn._Second.apply(x, weight, bias, Drop.of_mask(mask))

    for block in (compiled, lambda x, w, b, m: F.relu(F.max_pool2d(F.conv2d(x, w, b) * m, 2))):
        out = block(hidden, weight, torch.zeros(64), masks[1])
        (gradient,) = torch.autograd.grad(out[:, :2].sum(), weight)
        assert (gradient[2:] == 0).all()
        zeros.append(gradient[:2] == 0)
    ours, pytorch = zeros
    assert 0 < pytorch.sum() < pytorch.numel()
    assert (ours == pytorch).float().mean() > 0.99


def test_what_an_image_gives_does_not_depend_on_the_others(case):
    network, x, masks = case
    whole = compiled_blocks(network, x, masks)
    for rows in (slice(0, 1), slice(5, 7), slice(2, 13)):
        assert torch.equal(compiled_blocks(network, x[rows], [mask[rows] for mask in masks]), whole[rows])


def test_without_a_way_back_the_outputs_are_the_same(case):
    """Predictions go through both blocks at once."""
    network = models.make(ADDRESS, (1, 28, 28), 10).eval()
    x = case[1]
    found = network.blocks(x)
    assert found.requires_grad
    with torch.no_grad():
        assert torch.equal(network.blocks(x), found)
        assert torch.equal(network.blocks(x[4:9]), found[4:9])


def trained(network, data, **training):
    posterior = pw.posteriors.DeepEnsemble(
        lambda: models.make(network, (1, 28, 28), 10, dropout=(0, 0, 0.5), drop="elements"),
        2,
        training=Training(batch_size=16, **training),
        train_members="sequential",
    )
    return posterior.fit(data, seed=0).predict(data[0]).log_probs


def test_it_trains_and_predicts_as_the_network_of_the_package_does():
    images = torch.rand(30, 1, 28, 28, generator=torch.Generator().manual_seed(2))
    data = images, np.arange(30) % 10
    found = trained(ADDRESS, data, steps=2)
    np.testing.assert_allclose(found, trained("batchbald-cnn", data, steps=2), rtol=0, atol=1e-3)
    assert np.abs(trained(ADDRESS, data, steps=1, learning_rate=1e-9) - found).max() > 0.01


def test_masks_of_mc_dropout_are_those_of_the_package(case):
    networks = [models.build(lambda name=name: models.make(name, (1, 28, 28), 10, **OPTIONS), 0) for name in
                ("batchbald-cnn", ADDRESS)]  # fmt: skip
    plain, compiled = (pw.mc_dropout(network, case[1], samples=3, seed=4).log_probs for network in networks)
    np.testing.assert_allclose(compiled, plain, rtol=0, atol=1e-5)
    assert np.abs(plain[:, 0] - plain[:, 1]).max() > 0.01


def kept(drop, channels, side):
    """`[n, channels, side, side]` whether an activation is kept, by bytes of the words."""
    n, half = len(drop.words), side // 2
    words = drop.words.movedim(1, -1).contiguous().numpy().view(np.uint32)
    bytes_ = np.stack([words >> 8 * k & 255 for k in range(4)], -1).reshape(n, half, half, channels, 2, 2)
    return torch.from_numpy(bytes_ >= drop.lowest).permute(0, 3, 1, 4, 2, 5).reshape(n, channels, side, side)


@pytest.mark.parametrize("rate", [0.25, 0.5, 1 / 256])
def test_what_is_dropped_is_drawn_at_the_rate_and_from_the_random_state(rate):
    torch.manual_seed(3)
    first, other = Drop.drawn(rate, 20, 32, 24), Drop.drawn(rate, 20, 32, 24)
    torch.manual_seed(3)
    assert torch.equal(Drop.drawn(rate, 20, 32, 24).words, first.words)
    assert not torch.equal(first.words, other.words)
    drawn = kept(first, 32, 24)
    for axes in ((0, 1, 2, 3), (0, 2, 3)):  # all, and each channel
        share = drawn.double().mean(axes)
        error = (rate * (1 - rate) / (drawn.numel() / max(share.numel(), 1))) ** 0.5
        assert (share - (1 - rate)).abs().max() < 5 * error
    pixel, next_pixel = drawn[..., :-1].double(), drawn[..., 1:].double()
    assert abs(np.corrcoef(pixel.ravel(), next_pixel.ravel())[0, 1]) < 0.01
    again = Drop.of_mask(drawn / (1 - rate))
    assert again.scale == pytest.approx(first.scale)
    assert torch.equal(kept(again, 32, 24), drawn)


def test_training_uses_what_was_drawn(case):
    network = models.make(ADDRESS, (1, 28, 28), 10, dropout=(0.25, 0.25, 0), drop="elements").train()
    x = case[1]
    torch.manual_seed(5)
    found = network(x)
    torch.manual_seed(5)
    drops = [Drop.drawn(0.25, len(x), channels, side) for channels, side in ((32, 24), (64, 8))]
    masks = [
        kept(drop, channels, side) / 0.75 for drop, (channels, side) in zip(drops, ((32, 24), (64, 8)), strict=True)
    ]
    hidden = F.relu(network.hidden(blocks(network, x, masks).flatten(1)))
    assert_close(found, network.head(hidden), rtol=0, atol=1e-5)


def test_rates_that_bytes_cannot_have_are_refused():
    network = models.make(ADDRESS, (1, 28, 28), 10, dropout=(0.3, 0.25, 0.5), drop="elements").train()
    with pytest.raises(errors.ParameterError, match=r"k/256 below 1, not 0\.3"):
        network(torch.zeros(2, 1, 28, 28))
    with pytest.raises(errors.ParameterError, match="zeros and one other number"):
        Drop.of_mask(torch.tensor([0.0, 1.0, 2.0, 0.0]).view(1, 1, 2, 2))


@pytest.mark.parametrize(
    ("shape", "options"), [((1, 32, 32), {}), ((1, 28, 28), {"drop": "channels"}), ((1, 28, 28), {"padding": 2})]
)
def test_other_networks_are_refused(shape, options):
    with pytest.raises(errors.ParameterError, match="Use batchbald-cnn"):
        models.make(ADDRESS, shape, 10, **options)


def test_what_compiled_code_cannot_read_is_refused():
    network = models.make(ADDRESS, (1, 28, 28), 10)
    with pytest.raises(errors.ShapeError, match=r"not \[2, 1, 32, 32\]"):
        network(torch.zeros(2, 1, 32, 32))
    with pytest.raises(errors.ShapeError, match="float64"):
        network.double()(torch.zeros(2, 1, 28, 28))
