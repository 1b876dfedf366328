"""The network of Figure 1 (c) whose convolutions are compiled from C: the same function as that of the package."""

import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import poolwise as pw
from paper import compiled_cnn
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
        x = block.apply(x, layer.weight, layer.bias, mask)
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
    hidden = compiled_cnn._First.apply(x, network.get_submodule("convolution1").weight, bias, masks[0])
    assert (hidden == 0).float().mean() > 0.5
    zeros = []
    for block in (compiled_cnn._Second.apply, lambda x, w, b, m: F.relu(F.max_pool2d(F.conv2d(x, w, b) * m, 2))):
        out = block(hidden, weight, torch.zeros(64), masks[1])
        (gradient,) = torch.autograd.grad(out[:, :2].sum(), weight)
        assert (gradient[2:] == 0).all()
        zeros.append(gradient[:2] == 0)
    compiled, pytorch = zeros
    assert 0 < pytorch.sum() < pytorch.numel()
    assert (compiled == pytorch).float().mean() > 0.99


def test_what_an_image_gives_does_not_depend_on_the_others(case):
    network, x, masks = case
    whole = compiled_blocks(network, x, masks)
    for rows in (slice(0, 1), slice(5, 7), slice(2, 13)):
        assert torch.equal(compiled_blocks(network, x[rows], [mask[rows] for mask in masks]), whole[rows])


def test_it_trains_and_predicts_as_the_network_of_the_package_does():
    images = torch.rand(30, 1, 28, 28, generator=torch.Generator().manual_seed(2))
    labels = np.arange(30) % 10
    found = {}
    for name, steps in (("batchbald-cnn", 2), (ADDRESS, 2), ("untrained", 1)):
        training = Training(steps=steps, batch_size=16, learning_rate=0.001 if steps == 2 else 1e-9)
        network = ADDRESS if name == "untrained" else name
        posterior = pw.posteriors.DeepEnsemble(
            lambda network=network: models.make(network, (1, 28, 28), 10, **OPTIONS),
            2,
            training=training,
            train_members="sequential",
        )
        found[name] = posterior.fit((images, labels), seed=0).predict(images).log_probs
    np.testing.assert_allclose(found[ADDRESS], found["batchbald-cnn"], rtol=0, atol=1e-3)
    assert np.abs(found["untrained"] - found[ADDRESS]).max() > 0.01


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
