"""The compiled network of Figure 1 (c) beside that of the package: time, and accuracy over several seeds.

    POOLWISE_DATA=... .venv/bin/python -m benchmarks.compiled_cnn [--seeds 8] [--members 5] [--labels 100]

Both train on the same labels of Fashion-MNIST, from the same weights, with different dropout masks. Accuracies are
compared on average: many seeds of one member say more than few of five. Times are processor time on one thread.
"""

import argparse
import time

import numpy as np
import torch

import poolwise as pw
from poolwise import models
from poolwise.data import load

TEST, STEPS = 5_000, 384
NETWORKS = ("batchbald-cnn", "paper.compiled_cnn:batchbald_cnn")


def accuracy(network: str, seed: int, members: int, labels: int) -> tuple[float, float, float]:
    """Accuracy of an ensemble, milliseconds per training step of a member, microseconds per image and member."""
    data = load("fashion-mnist")
    labelled = data.train.take(np.random.default_rng(seed).permutation(len(data.train))[:labels])
    test = data.test.take(np.arange(TEST))

    def make() -> torch.nn.Module:
        made = models.make(network, (1, 28, 28), 10, dropout=(0.25, 0.25, 0.5), drop="elements")
        return models.glorot_(made, torch.default_generator)

    training = pw.Training(steps=STEPS, batch_size=64)
    posterior = pw.posteriors.DeepEnsemble(make, members, training=training, train_members="sequential")
    started = time.process_time()
    posterior.fit(labelled, seed=seed)
    trained = time.process_time()
    predicted = np.exp(posterior.predict(test).log_probs).mean(1).argmax(1)
    seconds = time.process_time() - trained
    right = float((predicted == test.labels).mean())
    return right, 1e3 * (trained - started) / (STEPS * members), 1e6 * seconds / (TEST * members)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--labels", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for seed in range(options.seeds):
        found.append([accuracy(network, seed, options.members, options.labels) for network in NETWORKS])
        print(f"seed {seed}: accuracy " + " and ".join(f"{right:.4f}" for right, _, _ in found[-1]), flush=True)
    right_S_2, step_S_2, image_S_2 = np.moveaxis(np.array(found), 2, 0)
    apart_S = right_S_2[:, 1] - right_S_2[:, 0]
    error = apart_S.std(ddof=1) / np.sqrt(len(apart_S)) if len(apart_S) > 1 else float("nan")
    print(f"accuracy, compiled minus plain: {100 * apart_S.mean():+.2f} points, standard error {100 * error:.2f}")
    for what, values_S_2 in (("ms per training step", step_S_2), ("µs per image", image_S_2)):
        plain, compiled = values_S_2.min(0)
        print(f"{what}: {plain:.1f} plain, {compiled:.1f} compiled, {plain / compiled:.1f} times as fast")


if __name__ == "__main__":
    main()
