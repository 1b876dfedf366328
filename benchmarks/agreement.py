"""Rules of the field beside the programs of others, on real data: are the picks the same?

    POOLWISE_DATA=... .venv-bench/bin/python -m benchmarks.agreement

Peers are bmdal_reg (LCMD and BAIT, by the authors of LCMD) and scikit-activeml (MaxHerding). Each gets the features
that its rule has in Poolwise: the centred predictions for LCMD, `sqrt(p (1 - p)) h` for BAIT, rows of length one for
MaxHerding. A pool has 2,000 points and 100 labelled ones, predicted by an ensemble of five small networks. Picks may
differ where points gain the same: copies, or two points that are near to nothing but each other. More comparisons run
in tests/test_other_programs.py.
"""

import os
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import adaptive_avg_pool2d

import poolwise as pw
from benchmarks.contenders import Array
from poolwise.data import load

POINTS, LABELLED = 2_000, 100


class Real(NamedTuple):
    name: str
    inputs: Array
    labels: Array
    classes: int


class Case(NamedTuple):
    """Features and predictions of a pool, and of what is labelled."""

    rest: Array
    known: Array
    predictions: pw.Predictions
    of_known: pw.Predictions
    labels: Array


def real_data() -> Iterator[Real]:
    found = load_digits()
    yield Real("digits", (found.data / 16).astype(np.float32), found.target, 10)
    if "POOLWISE_DATA" in os.environ:
        images = load("fashion-mnist").train.take(np.arange(POINTS + LABELLED))
        pixels = adaptive_avg_pool2d(images.inputs.float(), 14).flatten(1).numpy() / 255
        yield Real("Fashion-MNIST", pixels, np.asarray(images.labels), 10)


def case(data: Real) -> Case:
    order = np.random.default_rng(0).permutation(len(data.inputs))[: POINTS + LABELLED]
    known, rest = order[:LABELLED], order[LABELLED:]
    x, training = data.inputs, pw.Training(steps=150)
    posterior = pw.posteriors.DeepEnsemble(
        lambda: pw.models.mlp((x.shape[1],), data.classes, hidden=(64,)), 5, training=training
    ).fit((x[known], data.labels[known]), seed=0)
    return Case(x[rest], x[known], posterior.predict(x[rest]), posterior.predict(x[known]), data.labels[known])


def probs(predictions: pw.Predictions) -> Array:
    return np.exp(predictions.log_probs.astype(np.float64))


def bmdal(rule: str, rest: Array, known: Array, size: int, **options: Any) -> Array:
    np.Inf = np.inf  # noqa: NPY201  (it uses that name, which NumPy 2 has no more)
    from bmdal_reg.bmdal import selection
    from bmdal_reg.bmdal.feature_data import TensorFeatureData
    from bmdal_reg.bmdal.feature_maps import IdentityFeatureMap
    from bmdal_reg.bmdal.features import Features

    pool, train = (
        Features(IdentityFeatureMap(rows.shape[1]), TensorFeatureData(torch.from_numpy(rows))) for rows in (rest, known)
    )
    chosen = getattr(selection, rule)(pool, train, sel_with_train=True, verbosity=0, **options).select(size)
    return np.asarray(chosen)


def lcmd(given: Case) -> tuple[Array, Array]:
    def features(predictions: pw.Predictions) -> Array:
        p = probs(predictions)
        return ((p - p.mean(1, keepdims=True)) / np.sqrt(p.shape[1])).reshape(len(p), -1)

    ours = pw.select(given.predictions, 100, "lcmd", labelled_predictions=given.of_known, information=False)
    rows = features(given.predictions), features(given.of_known)
    return ours.indices, bmdal("LargestClusterMaxDistSelectionMethod", *rows, 100)


def bait(given: Case) -> tuple[Array, Array]:
    def features(predictions: pw.Predictions, rows: Array) -> Array:
        p = probs(predictions).mean(1).max(1)
        return np.sqrt(p * (1 - p))[:, None] * rows.astype(np.float64)

    known = {"labelled_embeddings": given.known, "labelled_predictions": given.of_known}
    ours = pw.select(given.predictions, 50, "bait", embeddings=given.rest, **known, information=False)
    rows = features(given.predictions, given.rest), features(given.of_known, given.known)
    options = {"noise_sigma": 1.0, "overselection_factor": 2.0}
    return ours.indices, bmdal("BaitFeatureSpaceSelectionMethod", *rows, 50, **options)


def max_herding(given: Case) -> tuple[Array, Array]:
    from skactiveml.pool import MaxHerding

    both = np.concatenate([given.rest, given.known]).astype(np.float64)
    labels = np.concatenate([np.full(len(given.rest), np.nan), given.labels])
    rule = MaxHerding(random_state=0, metric="rbf", metric_dict={"gamma": 1.0})
    ours = pw.select(
        given.predictions, 100, "max-herding", embeddings=given.rest, labelled_embeddings=given.known, information=False
    )
    return ours.indices, rule.query(both, labels, batch_size=100)


def main() -> None:
    print("| data | rule | peer | picks | in common | first that differs |\n| --- | --- | --- | ---: | ---: | ---: |")
    for data in real_data():
        given = case(data)
        for rule, peer in ((lcmd, "bmdal_reg"), (bait, "bmdal_reg"), (max_herding, "scikit-activeml")):
            try:
                ours, theirs = rule(given)
            except ImportError as error:
                print(f"| {data.name} | {rule.__name__} | {peer} | {error} | | |")
                continue
            differs = np.flatnonzero(ours != theirs)
            first = differs[0] + 1 if len(differs) else "none"
            common = len({*ours.tolist()} & {*theirs.tolist()})
            name = rule.__name__.replace("_", "-")
            print(f"| {data.name} | {name} | {peer} | {len(ours)} | {common} | {first} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
