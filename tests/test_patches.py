"""Fixed features of images."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from poolwise.data.examples import TensorExamples
from poolwise.data.patches import Patches
from poolwise.errors import ParameterError, ShapeError


def textures(count, seed=0, size=16):
    """Colour images of two kinds, which differ by the direction of their stripes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    place, phase = np.arange(size), rng.uniform(0, 6.28, count)
    waves = np.sin(place[None] * 1.3 + phase[:, None])
    images = np.where(labels[:, None, None] == 0, waves[:, :, None], waves[:, None, :]) * 60 + 128
    images = images[:, None] + rng.normal(0, 5, (count, 3, size, size))
    return TensorExamples(torch.from_numpy(images.clip(0, 255).astype(np.uint8)), labels)


def test_features_tell_textures_apart_where_pixels_do_not():
    train, test = textures(200), textures(400, seed=1)
    patches = Patches(train, filters=20)

    def nearest_mean(near, far):
        means = torch.stack([near[torch.from_numpy(train.labels == label)].float().mean(0) for label in (0, 1)])
        return (torch.cdist(far.flatten(1).float(), means.flatten(1)).argmin(1).numpy() == test.labels).mean()

    assert nearest_mean(patches(train).inputs, patches(test).inputs) > 0.95
    assert nearest_mean(train.inputs, test.inputs) < 0.9


def test_features_have_mean_0_and_deviation_1_and_keep_labels():
    data = textures(100)
    features = Patches(data, filters=10)(data)
    assert features.inputs.shape == (100, 40)
    torch.testing.assert_close(features.inputs.mean(0), torch.zeros(40), atol=1e-5, rtol=0)
    torch.testing.assert_close(features.inputs.std(0), torch.ones(40), atol=1e-5, rtol=0)
    assert (features.labels == data.labels).all()


def test_an_image_has_the_same_features_whatever_stands_beside_it():
    data = textures(130)
    patches = Patches(data, filters=10)
    whole = patches(data).inputs
    torch.testing.assert_close(patches(data.take(np.array([129, 3]))).inputs, whole[[129, 3]], atol=1e-5, rtol=1e-5)


def test_features_by_the_definition():
    """Every patch of one image on its own, in double precision."""
    data = textures(50, size=9)
    patches = Patches(data, filters=5, size=4)
    image = data.inputs[7].double() / 255
    answers = torch.zeros(5, 6, 6, dtype=torch.float64)
    for row in range(6):
        for column in range(6):
            line = image[:, row : row + 4, column : column + 4].reshape(-1)
            line = (line - line.mean()) / (line.var() + 1.5e-4).sqrt()
            likeness = patches._filters @ (patches._whiten @ (line - patches._mean))
            answers[:, row, column] = (likeness - likeness.mean()).clamp_min(0)
    quarters = F.avg_pool2d(answers, 3).flatten()
    expected = (quarters.float() - patches._centre) / patches._spread
    torch.testing.assert_close(patches(data).inputs[7], expected, atol=1e-3, rtol=1e-3)


def test_brightness_and_contrast_change_little():
    data = textures(60)
    patches = Patches(data, filters=10)
    darker = TensorExamples((data.inputs.float() * 0.5 + 10).byte(), data.labels)
    assert torch.corrcoef(torch.stack([patches(data).inputs.flatten(), patches(darker).inputs.flatten()]))[0, 1] > 0.98


def test_what_is_no_image_is_refused():
    with pytest.raises(ShapeError, match="larger images of bytes"):
        Patches(TensorExamples(torch.rand(5, 3, 16, 16)))
    with pytest.raises(ShapeError, match="larger images of bytes"):
        Patches(textures(5, size=6))
    with pytest.raises(ParameterError, match="filters of at least 2"):
        Patches(textures(5), filters=1)
