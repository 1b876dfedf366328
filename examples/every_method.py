"""Every selection method on scikit-learn's digits: what each batch is worth, and a picture of it.

python examples/every_method.py [FOLDER]
"""

import sys
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

import poolwise as pw

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BATCH = 20
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
folder.mkdir(parents=True, exist_ok=True)

# An ensemble of ten small networks learns from 20 labelled images, two per class, and predicts the other 1,777.
digits = load_digits()
pool = pw.Pool((digits.data / 16).astype(np.float32), classes=10)
order = np.random.default_rng(0).permutation(len(pool))
first = np.concatenate([order[digits.target[order] == c][:2] for c in range(10)])
pool.label(first, digits.target[first])
posterior = pw.posteriors.DeepEnsemble(lambda: pw.models.mlp((64,), 10, hidden=(64,)), members=10)
posterior.fit(pool.labelled_examples(), seed=0)
predictions = posterior.predict(pool.unlabelled_examples(), embeddings=True)
predictions = predictions.with_embeddings(labelled_embeddings=posterior.embed(pool.labelled_examples()))
known = {"labelled_predictions": posterior.predict(pool.labelled_examples()), "labels": pool.labels}
# Methods that calibrate want to know how good a model is on labels that it was not trained on: one of each class here.
posterior.fit((pool.data.inputs[first[::2]], digits.target[first[::2]]), seed=1)
known["held_out_predictions"] = posterior.predict(pool.data.inputs[first[1::2]])
known["held_out_labels"] = digits.target[first[1::2]]
bald = pw.scores.bald(predictions)

print(f"{'method':20} {'mean BALD':>10} {'information':>16} {'classes':>8} {'saturated at':>13}")
figure, rows = plt.subplots(len(pw.methods()), 1, figsize=(11, 0.56 * len(pw.methods()) + 0.5))
for axes, method in zip(rows, pw.methods(), strict=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.SaturationWarning)  # the table has a column for it
        batch = pw.select(predictions, BATCH, method, **known)
    chosen, found = pool.unlabelled[batch.indices], batch.diagnostics
    joint = f"{found.information[-1]:.2f} of {found.ceiling:.2f}"
    classes, end = len(np.unique(digits.target[chosen])), found.saturated_at
    print(f"{method:20} {bald[batch.indices].mean():10.3f} {joint:>16} {classes:8} {'-' if end is None else end:>13}")

    strip = np.full((9, 9 * BATCH - 1), 16.0)
    for i, index in enumerate(chosen):
        strip[:8, 9 * i : 9 * i + 8] = 16 - digits.images[index]
    axes.imshow(strip, cmap="gray")
    axes.set_ylabel(method, rotation=0, ha="right", va="center", fontsize=9)
    axes.set(xticks=[], yticks=[])
figure.tight_layout(pad=0.4, h_pad=0.15)
figure.savefig(folder / "batches.png", dpi=130)
print(f"\nThe batches as images, in picking order: {folder / 'batches.png'}")
