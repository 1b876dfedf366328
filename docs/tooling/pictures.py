"""The pictures of the concept pages, each from a real computation on scikit-learn's digits or on points drawn here.

    python -m docs.tooling.pictures          # all of them, about a minute
    python -m docs.tooling.pictures saturation lazy
    python -m docs.tooling.pictures numbers  # no picture: the figures of the pages on redundancy and saturation

Run it from the root of the repository. It writes docs/images/*.png.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

import poolwise as pw

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

IMAGES = Path(__file__).parents[1] / "images"
COLOURS = ["#00796b", "#e64a19", "#3949ab", "#8e24aa", "#616161"]


def crossing() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes that overlap on the left, where much is labelled, and are apart on the right, where nothing is."""
    rng = np.random.default_rng(3)
    labelled = np.c_[rng.uniform(-3, -0.5, 120), rng.normal(0, 1, 120)]
    labels = (rng.random(120) < 1 / (1 + np.exp(-2.5 * labelled[:, 1]))).astype(int)
    x, y = np.meshgrid(np.linspace(-3.5, 3.5, 120), np.linspace(-3, 3, 100))
    return labelled.astype(np.float32), labels, np.c_[x.ravel(), y.ravel()].astype(np.float32)


def ensemble(features: int, classes: int, members: int, steps: int = 300, hidden: int = 64) -> Any:
    """Small networks, trained alike from different weights."""
    training = pw.Training(steps=steps, batch_size=32, learning_rate=5e-3)
    make = lambda: pw.models.mlp((features,), classes, hidden=(hidden, hidden), dropout=0.2)  # noqa: E731
    return pw.posteriors.DeepEnsemble(make, members, training=training, threads=1)


def digits_predictions(members: int = 20, dropout_samples: int | None = None) -> tuple[Any, np.ndarray, Any]:
    """Predictions of the digits that are not labelled, two of each class being so; and their labels and images."""
    digits = load_digits()
    if dropout_samples is None:
        posterior = ensemble(64, 10, members)
    else:
        make = lambda: pw.models.mlp((64,), 10, hidden=(64,), dropout=0.5)  # noqa: E731
        posterior = pw.posteriors.MCDropout(make, dropout_samples, training=pw.Training(steps=300), threads=1)
    posterior, rest = digits_posterior(posterior)
    inputs = (digits.data / 16).astype(np.float32)
    return posterior.predict(inputs[rest]), digits.target[rest], digits.images[rest]


def digits_posterior(posterior: Any) -> tuple[Any, np.ndarray]:
    """A posterior fitted on two digits of each class, and the positions of the others."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    labelled = np.concatenate([order[digits.target[order] == c][:2] for c in range(10)])
    inputs = (digits.data[labelled] / 16).astype(np.float32)
    return posterior.fit((inputs, digits.target[labelled]), seed=0), np.setdiff1d(order, labelled)


def information() -> None:
    """Total uncertainty is what the label would settle plus what it would not."""
    labelled, labels, grid = crossing()
    predictions = ensemble(2, 2, 20).fit((labelled, labels), seed=0).predict(grid)
    maps = {
        "entropy: undecided": pw.scores.entropy(predictions),
        "noise: no label helps": pw.scores.conditional_entropy(predictions),
        "information (BALD): a label helps": pw.scores.bald(predictions),
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
    for panel, (title, values) in zip(axes, maps.items(), strict=True):
        shown = panel.imshow(
            np.asarray(values).reshape(100, 120),
            origin="lower",
            extent=(-3.5, 3.5, -3, 3),
            cmap="viridis",
            vmin=0,
            vmax=0.7,
        )
        for c, marker in enumerate("ox"):
            points = labelled[labels == c]
            panel.scatter(points[:, 0], points[:, 1], s=14, marker=marker, c="white", linewidths=1, alpha=0.8)
        panel.set_title(title, fontsize=11)
    figure.colorbar(shown, ax=axes, label="nats", shrink=0.9)
    save(figure, "information")


def consistency() -> None:
    """Pairs of one digit and its neighbour in the pool, with the same masks for both and with masks of their own."""
    predictions, _, _ = digits_predictions(dropout_samples=50)
    rng = np.random.default_rng(0)
    bald = np.asarray(pw.scores.bald(predictions))
    points = np.argsort(-bald)[:60]
    probs = np.exp(predictions.rows(points).log_probs.numpy().astype(float))
    apart = np.stack([row[rng.permutation(len(row))] for row in probs])
    figure, panel = plt.subplots(figsize=(7, 3.6), layout="constrained")
    upper = np.triu_indices(len(points), 1)
    bins = np.linspace(0, 0.12, 49)
    for values, name, colour in (
        (probs, "same mask k for every point", COLOURS[0]),
        (apart, "masks drawn per point", COLOURS[1]),
    ):
        pairs = shared_information(values)[upper]
        panel.hist(pairs, bins=bins, alpha=0.75, label=f"{name}: mean {pairs.mean():.2f} nats", color=colour)
    panel.set_xlabel("information that two labels share, I(y₁; y₂), in nats")
    panel.set_ylabel("pairs")
    panel.legend(frameon=False)
    save(figure, "consistency")


def shared_information(probs_n_K_C: np.ndarray) -> np.ndarray:
    """`[n, n]` information that the labels of two points share, in nats, straight from the definition."""
    joint = np.einsum("ika,jkb->ijab", probs_n_K_C, probs_n_K_C) / probs_n_K_C.shape[1]
    mean = probs_n_K_C.mean(1)
    apart = np.einsum("ia,jb->ijab", mean, mean)
    return (joint * np.log(joint / apart)).sum((2, 3))


def redundancy() -> None:
    """The first ten picks on digits, where every digit is in the pool four times."""
    predictions, labels, images = digits_predictions(members=10)
    rng = np.random.default_rng(0)
    base = np.log(np.exp(predictions.rows(np.arange(len(labels))).log_probs.numpy()))
    repeated = np.repeat(base, 4, axis=0) + rng.normal(0, 0.02, (4 * len(base), *base.shape[1:]))
    pool = pw.Predictions.from_logits(repeated.astype(np.float32))
    rows = {
        "bald": {"method": "bald"},
        "lbb, sum (as printed)": {"method": "lbb", "redundancy": "sum", "pairs": "ordered"},
        "lbb, normalised": {"method": "lbb"},
        "posterior-coverage": {"method": "posterior-coverage"},
    }
    scores = np.asarray(pw.scores.bald(pool))
    figure, axes = plt.subplots(len(rows), 10, figsize=(10, 4.6), layout="constrained")
    for panels, (name, call) in zip(axes, rows.items(), strict=True):
        picks = pw.select(pool, 10, **call).indices
        seen: set[int] = set()
        for panel, pick in zip(panels, picks, strict=True):
            again = pick // 4 in seen
            seen.add(pick // 4)
            panel.imshow(16 - images[pick // 4], cmap="gray")
            panel.set_xticks([])
            panel.set_yticks([])
            panel.set_xlabel(f"{scores[pick]:.2f}", fontsize=8, labelpad=1)
            for side in panel.spines.values():
                side.set(color=COLOURS[1] if again else "#cccccc", linewidth=3 if again else 1)
        panels[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
    figure.suptitle("First ten picks. Red frame: a copy of an earlier pick. Number: its information alone, in nats")
    save(figure, "redundancy")


def saturation() -> None:
    """Joint information by pick, and gains by pick."""
    predictions, _, _ = digits_predictions(members=50)
    everything = predictions.rows(np.arange(len(predictions))).log_probs.numpy()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for K, colour in zip((5, 20, 50), COLOURS, strict=False):
        batch = pw.select(everything[:, :K], 20, "batchbald", configurations=2_000)
        left.plot(range(1, 21), batch.diagnostics.information, color=colour, label=f"K = {K}")
        left.axhline(np.log(K), color=colour, linestyle=":", linewidth=1)
    left.set(xlabel="picks", ylabel="information of the batch, nats", title="batchbald: dotted, the ceiling ln K")
    left.set_xticks([1, 5, 10, 15, 20])
    left.legend(frameon=False)
    for form, colour in zip(("sum", "mean", "max", "normalised"), COLOURS, strict=False):
        scores = pw.select(everything[:, :20], 40, "lbb", redundancy=form).scores
        right.plot(range(1, 41), scores, color=colour, label=form)
    right.axhline(0, color="#999999", linewidth=0.8)
    right.set(xlabel="pick", ylabel="gain when picked, nats", title="lbb with K = 20, by redundancy")
    right.legend(frameon=False)
    save(figure, "saturation")


def coverage() -> None:
    """Twenty picks on a plane, by margin and by posterior coverage."""
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=1500)
    angle = rng.uniform(0, 2 * np.pi, 1500)
    radius = 1 + labels + 0.35 * rng.normal(size=1500)
    points = np.c_[radius * np.cos(angle), radius * np.sin(angle)].astype(np.float32)
    known = rng.choice(1500, 40, replace=False)
    predictions = ensemble(2, 3, 10).fit((points[known], labels[known]), seed=0).predict(points)
    undecided = np.asarray(pw.scores.margin(predictions))
    greys = LinearSegmentedColormap.from_list("greys", ["#dddddd", "#000000"])
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), sharey=True, layout="constrained")
    for panel, method in zip(axes, ("margin", "posterior-coverage"), strict=True):
        picks = pw.select(predictions, 20, method).indices
        shown = panel.scatter(points[:, 0], points[:, 1], c=undecided, s=9, cmap=greys, vmin=0, vmax=1)
        panel.scatter(points[known, 0], points[known, 1], marker="x", s=30, c=COLOURS[0], label="labelled")
        panel.scatter(
            points[picks, 0],
            points[picks, 1],
            s=70,
            facecolors="none",
            edgecolors=COLOURS[1],
            linewidths=2,
            label="picks",
        )
        panel.set(title=method, aspect="equal", xticks=[], yticks=[])
    axes[0].legend(loc="upper left", frameon=True)
    figure.colorbar(shown, ax=axes, label="how undecided: 1 − margin", shrink=0.8)
    save(figure, "coverage")


def lazy() -> None:
    """Pairs that lazy selection compares, against all pairs of a point and a pick."""
    predictions, _, _ = digits_predictions(members=10)
    sizes = [1, 2, 5, 10, 20, 50, 100]
    counts = [pw.select(predictions, b, "lbb", information=False).diagnostics.pairs for b in sizes]
    figure, panel = plt.subplots(figsize=(7, 3.6), layout="constrained")
    panel.loglog(sizes, [b * len(predictions) for b in sizes], "o--", color=COLOURS[4], label="every point, every pick")
    panel.loglog(sizes[1:], counts[1:], "o-", color=COLOURS[0], label="lazy: the same picks")
    for b, count in list(zip(sizes, counts, strict=True))[3:]:
        share = count / (b * len(predictions))
        panel.annotate(f"{share:.1%}", (b, count), textcoords="offset points", xytext=(0, -14), ha="center", fontsize=8)
    panel.set(xlabel="batch size", ylabel="pairs compared", title=f"lbb on {len(predictions):,} digits, K = 10")
    panel.legend(frameon=False)
    save(figure, "lazy")


def numbers() -> None:
    """How far copies share information, and when sums of pairs and BatchBALD are used up, on digits."""
    inputs = (load_digits().data / 16).astype(np.float32)
    for members in (5, 20):
        posterior, rest = digits_posterior(ensemble(64, 10, members))
        predictions = posterior.predict(inputs[rest])
        bald = np.asarray(pw.scores.bald(predictions))
        top = np.argsort(-bald)[:100]
        noise = np.random.default_rng(1).normal(0, 0.1, (100, 64)).astype(np.float32)
        pairs = predictions.take(top).log_probs, posterior.predict(inputs[rest][top] + noise).log_probs
        shared = shared_information(np.exp(np.concatenate(pairs).astype(float)))
        scale = np.sqrt(np.diag(shared))
        rho, copies = shared / scale[:, None] / scale, (np.arange(100), 100 + np.arange(100))
        others = rho[:100, :100][np.triu_indices(100, 1)]
        print(f"K = {members}: of the 100 digits with the most information, medians")
        print(f"  a noisy copy shares {np.median(shared[copies] / bald[top]):.2f} of the information of a digit")
        print(f"  rho of a digit and its copy {np.median(rho[copies]):.2f}, of two digits {np.median(others):.2f}")
        for count in ("ordered", "unordered"):
            gains = pw.select(predictions, 40, "lbb", redundancy="sum", pairs=count).scores
            print(f"  lbb, sum of {count} pairs: {int(np.argmax(gains <= 1e-9))} picks with a gain above 0")
        information = pw.select(predictions, 10, "batchbald", configurations=10_000).diagnostics.information
        print(f"  batchbald: {information[-1] / np.log(members):.2%} of the ceiling after 10 picks")


def save(figure: Any, name: str) -> None:
    """Write a picture, small enough for a page."""
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / f"{name}.png", dpi=110, metadata={"Software": None})
    plt.close(figure)
    print(f"docs/images/{name}.png")


PICTURES = [information, consistency, redundancy, saturation, coverage, lazy, numbers]

if __name__ == "__main__":
    wanted = sys.argv[1:] or [picture.__name__ for picture in PICTURES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.SaturationWarning)
        for picture in PICTURES:
            if picture.__name__ in wanted:
                picture()
