"""Last-layer Laplace beside the single network, MC dropout and a deep ensemble of 5, on Fashion-MNIST 14 × 14.

Run: `POOLWISE_DATA=DIR python -m benchmarks.laplace`. Prints accuracy, negative log-likelihood and calibration error on
5,000 test images, mean over seeds, and seconds for fitting and predicting.
"""

import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import poolwise as pw
from poolwise.data import load
from poolwise.data.examples import TensorExamples

LABELS, SEEDS, TEST = (100, 1000), 3, 5000


def small(examples, indices):
    part = examples.take(indices)
    part.inputs = F.adaptive_avg_pool2d(part.inputs.float(), 14).round().byte()
    return TensorExamples(part.inputs.float().flatten(1) / 255, part.labels, part.class_names)


def main() -> None:
    found = load(sys.argv[1] if len(sys.argv) > 1 else "fashion-mnist")
    test = small(found.test, np.random.default_rng(0).permutation(len(found.test))[:TEST])
    training = pw.Training(steps=400, batch_size=64)
    make = lambda: pw.models.mlp((196,), 10, hidden=(128,), dropout=0.25)  # noqa: E731
    posteriors = {
        "single network": lambda: pw.posteriors.DeepEnsemble(make, 1, training=training),
        "mc-dropout, K = 100": lambda: pw.posteriors.MCDropout(make, 100, training=training),
        "deep ensemble of 5": lambda: pw.posteriors.DeepEnsemble(make, 5, training=training),
        "laplace, K = 100": lambda: pw.posteriors.Laplace(make, 100, training=training),
        "laplace, K = 1000": lambda: pw.posteriors.Laplace(make, 1000, training=training),
        "laplace, kronecker": lambda: pw.posteriors.Laplace(make, 100, training=training, curvature="kronecker"),
    }
    print("| labels | posterior | accuracy | nll | ece | mean BALD | fit s | predict s | prior precision |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for count in LABELS:
        for name, new in posteriors.items():
            rows = []
            for seed in range(SEEDS):
                chosen = np.random.default_rng(seed).permutation(len(found.train))[:count]
                posterior, started = new(), time.perf_counter()
                posterior.fit(small(found.train, chosen), seed=seed)
                fitted = time.perf_counter()
                predictions = posterior.predict(test)
                ended = time.perf_counter()
                metrics = pw.metrics.evaluate(predictions, test.labels)
                bald = float(np.mean(pw.scores.bald(predictions)))
                precision = getattr(posterior, "prior_precision", float("nan"))
                rows.append(
                    [metrics["accuracy"], metrics["nll"], metrics["ece"], bald, fitted - started, ended - fitted]
                )
                rows[-1].append(precision)
            accuracy, nll, ece, bald, fit, predict, precision = np.mean(rows, 0)
            print(
                f"| {count} | {name} | {accuracy:.3f} | {nll:.3f} | {ece:.3f} | {bald:.3f} | {fit:.1f} "
                f"| {predict:.1f} | "
                f"{'–' if np.isnan(precision) else f'{precision:.2g}'} |",
                flush=True,
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
