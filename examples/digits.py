"""Every selection method on scikit-learn's digits: a table on the screen and a picture of each batch.

    python examples/digits.py [FOLDER]

An ensemble of ten small networks learns from 20 labelled images, two a class, and predicts the other 1,777. Each method
then chooses 20 of those to label next.
"""

import sys
import time
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

import poolwise as pw

MEMBERS, BATCH, STEPS = 10, 20, 200


def train(images: Tensor, labels: Tensor, seed: int) -> nn.Sequential:
    """One network with its own initialisation."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimiser.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        optimiser.step()
    return network


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    images, labels = torch.from_numpy(digits.data / 16).float(), digits.target
    order = np.random.default_rng(0).permutation(len(labels))
    labelled = np.concatenate([order[labels[order] == c][:2] for c in range(10)])
    pool = np.setdiff1d(np.arange(len(labels)), labelled)

    networks = [train(images[labelled], torch.from_numpy(labels[labelled]), seed) for seed in range(MEMBERS)]
    with torch.inference_mode():
        logits = torch.stack([network(images[pool]) for network in networks], dim=1)
        hidden = networks[0][:2](images[pool])
        known = networks[0][:2](images[labelled])
    predictions = pw.Predictions.from_logits(logits, embeddings=hidden, labelled_embeddings=known)
    bald = pw.scores.bald(predictions)
    accuracy = (logits.softmax(2).mean(1).argmax(1).numpy() == labels[pool]).mean()
    print(
        f"{MEMBERS} networks, {len(labelled)} labelled images, {len(pool):,} to choose from, accuracy {accuracy:.1%}\n"
    )

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method", no_wrap=True)
    for title in ("ms", "mean BALD", "joint information", "classes hit", "saturated at"):
        table.add_column(title, justify="right", no_wrap=True)
    batches = {}
    for method in pw.methods():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pw.SaturationWarning)  # the table has a column for it
            pw.select(predictions, BATCH, method)  # once before the clock starts, as first calls set up threads
            started = time.perf_counter()
            batch = pw.select(predictions, BATCH, method)
        took = time.perf_counter() - started
        batches[method] = pool[batch.indices]
        found = batch.diagnostics
        table.add_row(
            method,
            f"{1000 * took:.1f}",
            f"{bald[batch.indices].mean():.3f}",
            f"{found.information[-1]:.3f} of {found.ceiling:.3f}",
            str(len(np.unique(labels[batches[method]]))),
            "-" if found.saturated_at is None else str(found.saturated_at),
        )
    Console(width=max(100, Console().width)).print(table)
    print(
        "\nBALD and information are in nats; saturated at: how many picks were made before no remaining point had"
        "\nanything to add. A high information with few classes hit means look-alikes: compare the rows of the picture."
    )
    draw(digits.images, labels, batches, folder / "batches.png")
    print(f"\nThe batches as images: {folder / 'batches.png'}")


def draw(images: np.ndarray, labels: np.ndarray, batches: dict[str, np.ndarray], path: Path) -> None:
    """One row of images a method, in picking order."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, rows = plt.subplots(len(batches), 1, figsize=(11, 0.56 * len(batches) + 0.5))
    for axes, (method, chosen) in zip(rows, batches.items(), strict=True):
        strip = np.full((9, 9 * len(chosen) - 1), 16.0)
        for i, index in enumerate(chosen):
            strip[:8, 9 * i : 9 * i + 8] = 16 - images[index]
        axes.imshow(strip, cmap="gray", vmin=0, vmax=16, aspect="equal")
        axes.set_ylabel(method, rotation=0, ha="right", va="center", fontsize=9)
        axes.set_xticks(9 * np.arange(len(chosen)) + 3.5, [str(label) for label in labels[chosen]], fontsize=6)
        axes.tick_params(length=0, pad=0.5)
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
    rows[0].set_title(
        f"The {BATCH} digits that each method would have labelled next, in picking order (true class below)"
    )
    figure.tight_layout(pad=0.4, h_pad=0.15)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
