"""Make the real predictions that the benchmark and the slow tests use, once.

    python benchmarks/make_predictions.py DATA_DIR [OUT_DIR]

`DATA_DIR` holds the four Fashion-MNIST idx files (`train-images-idx3-ubyte.gz` and so on), `OUT_DIR`
(default `benchmarks/predictions`) receives float32 log-probabilities `[60000, K, 10]` of the training images:

    fashion-ensemble.npy     K = 20 independently trained networks
    fashion-mc-dropout.npy   K = 100 dropout masks of one network, the same mask for every image

Both are trained on 100 labelled images, ten per class, which is where an active-learning run spends its time.
The network is the BatchBALD CNN: two 5x5 convolutions (32, 64), one hidden layer of 128, dropout 0.5.
"""

import gzip
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

MEMBERS, MASKS, STEPS = 20, 100, 150


def read_idx(path: Path) -> np.ndarray:
    """Read one gzipped idx file of bytes."""
    with gzip.open(path) as file:
        data = file.read()
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


class Network(nn.Module):
    """The BatchBALD CNN; `masks` fixes the dropout masks, one per layer, for every image of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 64, 5)
        self.hidden, self.out = nn.Linear(1024, 128), nn.Linear(128, 10)

    def features(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(F.dropout2d(self.conv1(x), training=self.training), 2))
        x = F.relu(F.max_pool2d(F.dropout2d(self.conv2(x), training=self.training), 2))
        return x.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.dropout(F.relu(self.hidden(self.features(x))), training=self.training))

    def masked(self, x: Tensor, masks: list[Tensor]) -> Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x) * masks[0][:, None, None], 2))
        x = F.relu(F.max_pool2d(self.conv2(x) * masks[1][:, None, None], 2)).flatten(1)
        return self.out(F.relu(self.hidden(x)) * masks[2])


def train(images: Tensor, labels: Tensor, seed: int) -> Network:
    """Train one network from a seeded initialisation."""
    torch.manual_seed(seed)
    network = Network().to(memory_format=torch.channels_last)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(STEPS):
        rows = torch.randint(len(images), (64,))
        optimiser.zero_grad()
        F.cross_entropy(network(images[rows]), labels[rows]).backward()
        optimiser.step()
    return network.eval()


@torch.inference_mode()
def main(data: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    pixels = read_idx(data / "train-images-idx3-ubyte.gz")
    classes = read_idx(data / "train-labels-idx1-ubyte.gz")
    images = torch.from_numpy(pixels.astype(np.float32) / 255 - 0.286)[:, None] / 0.353
    images = images.contiguous(memory_format=torch.channels_last)
    order = np.random.default_rng(0).permutation(len(classes))
    labelled = np.concatenate([order[classes[order] == c][:10] for c in range(10)])
    x, y = images[labelled], torch.from_numpy(classes[labelled].astype(np.int64))

    start = time.perf_counter()
    ensemble = np.empty((len(images), MEMBERS, 10), np.float32)
    for k in range(MEMBERS):
        with torch.inference_mode(False):
            network = train(x.clone(), y.clone(), seed=k)
        for i in range(0, len(images), 1000):
            ensemble[i : i + 1000, k] = network(images[i : i + 1000]).log_softmax(1)
    np.save(out / "fashion-ensemble.npy", ensemble)
    accuracy = (np.exp(ensemble).mean(1).argmax(1) == classes).mean()
    print(f"ensemble of {MEMBERS}: accuracy {accuracy:.3f}, {time.perf_counter() - start:.0f} s")

    generator = torch.Generator().manual_seed(0)
    keep = [[2.0 * torch.randint(2, (n,), generator=generator) for n in (32, 64, 128)] for _ in range(MASKS)]
    dropout = np.empty((len(images), MASKS, 10), np.float32)
    for i in range(0, len(images), 1000):
        for k in range(MASKS):
            dropout[i : i + 1000, k] = network.masked(images[i : i + 1000], keep[k]).log_softmax(1)
    np.save(out / "fashion-mc-dropout.npy", dropout)
    accuracy = (np.exp(dropout).mean(1).argmax(1) == classes).mean()
    print(f"MC dropout, {MASKS} masks: accuracy {accuracy:.3f}, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "benchmarks/predictions"))
