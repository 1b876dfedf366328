"""Images through a pretrained network: what is kept, what cannot be read, and the network itself where it is."""

import numpy as np
import pytest
import torch
from PIL import Image

from poolwise.data import image_encoding
from poolwise.errors import MissingInputError, ParameterError
from poolwise.labelling.features import chosen_encoder, make_features
from poolwise.labelling.items import open_items

needs_network = pytest.mark.skipif(
    not image_encoding.installed(), reason="the encoder is not installed: pip install 'poolwise[encoder]'"
)


class Counting:
    """Stands for the network: the mean of each colour, and how many images it has seen."""

    fingerprint, seen = "counting", 0

    def __call__(self, pixels_n_3_H_W):
        self.seen += len(pixels_n_3_H_W)
        assert pixels_n_3_H_W.shape[1:] == (3, 224, 224)
        values = torch.zeros(len(pixels_n_3_H_W), 1_280)
        values[:, :3] = pixels_n_3_H_W.float().mean((2, 3))
        return torch.nn.functional.normalize(values, dim=1)


@pytest.fixture
def network(monkeypatch):
    found = Counting()
    monkeypatch.setattr(image_encoding, "_loaded", lambda: found)
    monkeypatch.setattr(image_encoding, "_BLOCK", 2)
    return found


def colours(folder, *, names="abcd"):
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        Image.new("RGB", (8 + number, 8), ((40 * number) % 256, 90, 10)).save(folder / f"{name}.png")
    return folder


def test_every_image_is_encoded_once_and_new_ones_are_added(tmp_path, network):
    folder = colours(tmp_path / "photos")
    (folder / "e.png").write_bytes((folder / "a.png").read_bytes())  # the same image under another name
    first = make_features(open_items(folder), "efficientnet", tmp_path / "cache")
    assert network.seen == 4
    assert first.values.shape == (5, 1_280)
    assert np.array_equal(first.values[0], first.values[4])
    assert not np.array_equal(first.values[0], first.values[1])
    assert "supervised on ImageNet" in first.name
    Image.new("RGB", (30, 30), (200, 0, 0)).save(folder / "f.png")
    again = make_features(open_items(folder), "efficientnet", tmp_path / "cache")
    assert network.seen == 5
    assert np.array_equal(again.values[:5], first.values)


def test_what_was_encoded_before_an_interruption_stays(tmp_path, network):
    def interrupt(stage, done, total):
        if done == 2:
            raise KeyboardInterrupt

    items = open_items(colours(tmp_path / "photos"))
    with pytest.raises(KeyboardInterrupt):
        make_features(items, "efficientnet", tmp_path / "cache", interrupt)
    make_features(items, "efficientnet", tmp_path / "cache")
    assert network.seen == 4


def test_images_that_cannot_be_read_are_left_out(tmp_path, network):
    folder = colours(tmp_path / "photos")
    (folder / "b.png").write_bytes(b"no image")
    found = make_features(open_items(folder), "efficientnet", tmp_path / "cache")
    assert found.usable.tolist() == [True, False, True, True]
    assert not found.values[1].any()
    assert network.seen == 3


def test_the_encoder_is_used_if_it_is_installed(monkeypatch):
    monkeypatch.setattr(image_encoding, "installed", lambda: True)
    assert chosen_encoder("image", "auto") == "efficientnet"
    assert chosen_encoder("image", "patches") == "patches"
    monkeypatch.setattr(image_encoding, "installed", lambda: False)
    assert chosen_encoder("image", "auto") == "patches"
    with pytest.raises(MissingInputError, match=r"poolwise\[encoder\]"):
        image_encoding.ImageEncoder()
    with pytest.raises(ParameterError, match="efficientnet or patches"):
        chosen_encoder("image", "minilm")


@needs_network
def test_the_network_gives_the_same_whatever_is_encoded_together():
    encoder = image_encoding.ImageEncoder()
    pixels = torch.randint(0, 256, (3, 3, 224, 224), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    together = encoder(pixels)
    assert together.shape == (3, encoder.width)
    torch.testing.assert_close(together.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(together, torch.cat([encoder(one[None]) for one in pixels]), atol=1e-5, rtol=1e-4)
