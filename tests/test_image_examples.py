"""Images as embeddings, kept on the disk; and long-tailed pools."""

import numpy as np
import pytest
import torch

from poolwise import errors
from poolwise.data import image_examples
from poolwise.data.examples import TensorExamples
from poolwise.experiments import Config
from poolwise.experiments.build import split


class Encoder:
    """Stands for the network, whose package tests do not need: the mean of each channel, and how often it was asked."""

    fingerprint, width, side = "means", 4, 5

    def __init__(self):
        self.seen = 0

    def __call__(self, images):
        self.seen += len(images)
        return images.float().mean((2, 3)).repeat(1, 3)[:, :4]


@pytest.fixture
def encoder(monkeypatch):
    made = Encoder()
    monkeypatch.setattr(image_examples, "_encoder", lambda: made)
    monkeypatch.setattr(image_examples, "_BLOCK", 3)
    return made


def images(*values):
    inputs = torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 5, 5).contiguous()
    return TensorExamples(inputs, np.arange(len(values)))


def test_no_image_is_encoded_twice(encoder, tmp_path):
    found = image_examples.encoded_images(images(7, 3, 7, 9, 1), cache=tmp_path)
    assert encoder.seen == 4
    assert found.inputs[:, 0].tolist() == [7, 3, 7, 9, 1]
    assert found.labels.tolist() == [0, 1, 2, 3, 4]
    assert str(found.encoder) == "efficientnet-lite0 (means)"
    again = image_examples.encoded_images(images(9, 2, 3), cache=tmp_path)
    assert encoder.seen == 5
    assert again.inputs[:, 3].tolist() == [9, 2, 3]


def test_images_of_another_shape_are_other_images(encoder, tmp_path):
    wide, high = torch.zeros(1, 3, 2, 8, dtype=torch.uint8), torch.zeros(1, 3, 8, 2, dtype=torch.uint8)
    for inputs in (wide, high):
        image_examples.encoded_images(TensorExamples(inputs), cache=tmp_path)
    assert encoder.seen == 2


def config(**data):
    return Config(name="tail", data={"name": "digits", **data}).data


def test_a_long_tail_keeps_the_stated_share_of_each_class():
    plain, tail = (split(config(imbalance=ratio), 3).pool.labels for ratio in (1.0, 100.0))
    counts, before = np.bincount(tail, minlength=10), np.bincount(plain, minlength=10)
    expected = before * 100.0 ** (-np.arange(10) / 9)
    assert (np.abs(counts - expected) <= 4 * np.sqrt(expected)).all()
    assert counts[0] == before[0]
    assert counts[9] < 10


def test_a_long_tail_leaves_the_test_set_alone_and_differs_by_seed():
    tails = [split(config(imbalance=20.0), seed) for seed in (0, 1)]
    assert len(tails[0].test) == len(split(config(), 0).test)
    assert not np.array_equal(tails[0].origins, tails[1].origins)


def test_a_pool_that_the_long_tail_cannot_fill_is_an_error():
    with pytest.raises(errors.ConfigError, match=r"leaves \d+ examples, fewer than data.pool = 1200"):
        split(config(imbalance=100.0, pool=1200), 0)


def test_a_method_may_have_a_first_method_of_its_own(tmp_path):
    from poolwise.experiments import runs_of
    from poolwise.experiments.records import read_run
    from poolwise.experiments.run import execute

    made = Config(
        name="cold",
        seeds=1,
        data={"name": "digits", "pool": 80, "test": 50},
        posterior={"kind": "committee", "members": 2},
        acquisition={
            "methods": ["random", {"name": "random", "first": "coreset"}],
            "first": "random", "batch_size": 15, "labels": 30,
        },
    )  # fmt: skip
    firsts = {}
    for run in runs_of(made, tmp_path):
        rounds = execute(run)
        firsts[run.method.label] = (rounds[0].indices, rounds[0].origin)
        assert f"{run.method.first or 'random'} chooses the first batch" in read_run(run.folder).start
    assert firsts["random"][1] == "random"
    assert firsts["random first=coreset"][1] == "first"
    with pytest.raises(ValueError, match=r"needs acquisition\.first too"):
        Config(name="x", data={"name": "digits"}, acquisition={"methods": [{"name": "random", "first": "coreset"}]})
