"""Predicting with networks: data of every kind, and where results go."""

import os
import sqlite3
import threading

import numpy as np
import pytest
import torch
from small_networks import convolutional, inputs, made, mlp, normed, values
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import poolwise as pw
from poolwise import errors
from poolwise.posteriors import buffer, networks


class Own(Dataset):
    """A user's data set; its items are read in the thread that asks for predictions, as a database needs it."""

    def __init__(self, x, y=None, wrap=lambda x: x):
        self.x, self.y, self.wrap = x, y, wrap
        self.base = sqlite3.connect(":memory:")

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        if not 0 <= index < len(self.x):
            raise IndexError(index)
        self.base.execute("select 1")
        return self.wrap(self.x[index]) if self.y is None else (self.x[index], self.y[index])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: x.numpy(),
        lambda x: x.double(),
        lambda x: x.double().numpy(),
        lambda x: x.numpy().astype(">f4"),
        lambda x: x.numpy()[::-1][::-1],
        lambda x: np.broadcast_to(x.numpy(), x.shape),  # read-only
        lambda x: list(x),
        lambda x: [(row, 1) for row in x],
        lambda x: [(row.numpy(), 1) for row in x],
        TensorDataset,
        lambda x: TensorDataset(x, torch.zeros(len(x), dtype=torch.long)),
        Own,
        lambda x: Own(x, [0] * len(x)),
        lambda x: Own(x, wrap=lambda item: item.numpy()),
        lambda x: torch.utils.data.Subset(Own(x), range(len(x))),
        lambda x: (x, np.zeros(len(x), int)),
    ],
)
def test_data_of_every_kind(wrap, monkeypatch, global_state):
    network, x = made(mlp), inputs(23)
    monkeypatch.setattr(networks, "_ROWS", 5)
    expected = values(pw.mc_dropout(network, x, 4))
    assert torch.equal(values(pw.mc_dropout(network, wrap(x), 4)), expected)
    assert pw.ensemble([network, network], wrap(x)).shape == (23, 2, 3)


def test_bytes_are_images_and_other_whole_numbers_numbers():
    network = made(convolutional)
    images = torch.randint(0, 256, (7, 1, 10, 10), dtype=torch.uint8)
    expected = values(pw.mc_dropout(network, images.float() / 255, 3))
    assert torch.equal(values(pw.mc_dropout(network, images, 3)), expected)
    assert torch.equal(values(pw.mc_dropout(network, images.numpy(), 3)), expected)
    numbers = torch.arange(12).view(2, 6)
    assert torch.equal(
        values(pw.mc_dropout(made(mlp), numbers, 3)), values(pw.mc_dropout(made(mlp), numbers.float(), 3))
    )


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (3, errors.ParameterError, "data must be"),
        (None, errors.ParameterError, "data must be"),
        (torch.ones(5), errors.ShapeError, "at least two axes"),
        (torch.ones(0, 6), errors.ShapeError, "no examples"),
        (["a text", "another"], errors.ParameterError, "Encode them first"),
        ([{"x": "a text"}], errors.ParameterError, "a network needs tensors"),
        (iter([torch.ones(6)]), errors.ParameterError, "data must be"),
    ],
)
def test_data_that_cannot_be_predicted(data, error, message):
    with pytest.raises(error, match=message):
        pw.mc_dropout(made(mlp), data)


def test_results_go_to_a_file(tmp_path):
    network, x = made(mlp), inputs(50)
    expected = values(pw.mc_dropout(network, x, 4))
    for out in (tmp_path / "a.npy", str(tmp_path / "b.npy")):
        predictions = pw.mc_dropout(network, x, 4, out=out)
        assert torch.equal(values(predictions), expected)
        assert torch.equal(torch.from_numpy(np.load(out)), expected)
        assert oct(os.stat(out).st_mode & 0o777) == oct(0o666 & ~umask())
    assert torch.equal(values(pw.ensemble([network], x, out=tmp_path / "c.npy")), values(pw.ensemble([network], x)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "b.npy", "c.npy"]
    (tmp_path / "a.npy").write_bytes(b"old")
    pw.mc_dropout(network, x, 4, out=tmp_path / "a.npy")
    assert np.load(tmp_path / "a.npy").shape == (50, 4, 3)


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_small_budget_sends_results_to_a_mapped_file_with_the_same_values(monkeypatch, tmp_path):
    monkeypatch.setattr(buffer.tempfile, "gettempdir", lambda: str(tmp_path))
    network, x = made(mlp), inputs(200)
    expected = pw.mc_dropout(network, x, 8, embeddings=True)
    assert "mapped" not in repr(expected)
    for memory in (200 * 8 * 3 * 4 * 2 - 8, "10KB"):
        predictions = pw.mc_dropout(network, x, 8, embeddings=True, memory=memory)
        assert "mapped" in repr(predictions)
        torch.testing.assert_close(values(predictions), values(expected), rtol=0, atol=1e-6)
        np.testing.assert_allclose(predictions.embeddings, expected.embeddings, rtol=0, atol=1e-6)
        assert list(tmp_path.iterdir()) == []  # the mapping outlives the name
        assert len(pw.select(predictions, 5, "bald").indices) == 5
    assert "mapped" not in repr(pw.mc_dropout(network, x, 8, memory=200 * 8 * 3 * 4 * 2))


@pytest.mark.parametrize("out", ["predictions", "predictions.pt", "nowhere/predictions.npy"])
def test_a_bad_path_is_found_before_the_work(out, tmp_path):
    def fail(*_):
        raise AssertionError("should not be called")

    network = made(mlp)
    network.register_forward_hook(fail)
    with pytest.raises(errors.FileError, match=r"out must be a \.npy file in a folder that exists"):
        pw.mc_dropout(network, inputs(), out=tmp_path / out)


def test_no_room_on_the_disk(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(errors.FileError, match=r"no room for predictions .*No space left"):
        pw.mc_dropout(made(mlp), inputs(), out=tmp_path / "out.npy")
    assert list(tmp_path.iterdir()) == []


def test_embeddings_are_the_inputs_of_the_last_layer(monkeypatch):
    monkeypatch.setattr(networks, "_ROWS", 7)
    x, network = inputs(30), made(normed)
    network.eval()
    with torch.no_grad():
        expected = network[:-1](x)
    features = pw.mc_dropout(network, x, 3, embeddings=True).embeddings
    assert features.shape == (30, 12)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-6)
    other = made(normed, 1).eval()
    both = pw.ensemble([network, other], x, embeddings=True).embeddings
    with torch.no_grad():
        np.testing.assert_allclose(both, torch.cat([expected, other[:-1](x)], 1), rtol=0, atol=1e-6)
    posterior = pw.posteriors.MCDropout(network, 3)
    np.testing.assert_array_equal(posterior.embed(x), features)
    assert pw.mc_dropout(network, x, 3).embeddings is None

    class Headed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head, self.extra = nn.Linear(6, 4), nn.Linear(4, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.extra(self.head(torch.tanh(self.body(x))))

    headed = made(Headed)
    with torch.no_grad():
        np.testing.assert_allclose(
            pw.ensemble([headed], x, embeddings=True).embeddings, torch.tanh(headed.body(x)), rtol=0, atol=1e-6
        )
    with pytest.raises(errors.ParameterError, match="calls no linear layer"):
        pw.ensemble([nn.Sequential(nn.Conv2d(1, 3, 10), nn.Flatten())], inputs(4, 1, 10, 10), embeddings=True)


def test_progress_is_reported_in_order(monkeypatch):
    monkeypatch.setattr(networks, "_ROWS", 10)
    seen = []
    pw.mc_dropout(made(mlp), inputs(25), 3, report=lambda *what: seen.append(what))
    assert seen == [("predicting", 10, 25), ("predicting", 20, 25), ("predicting", 25, 25)]


def test_two_threads_may_predict_with_networks_of_their_own():
    results = {}

    def work(seed):
        results[seed] = values(pw.mc_dropout(made(normed, seed), inputs(300), 20, seed))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        assert torch.equal(results[seed], values(pw.mc_dropout(made(normed, seed), inputs(300), 20, seed)))
