"""Last-layer Laplace, with both curvatures, and SWAG beside the single network, MC dropout and a deep ensemble of 5.

Run: `POOLWISE_DATA=DIR python -m benchmarks.laplace [DATA SET ...]`, by default on Fashion-MNIST. Images are averaged
to 14 × 14, texts are 128 components of their TF-IDF. Prints accuracy, negative log-likelihood and calibration error on
3,000 test examples, mean over seeds, and seconds for fitting and predicting. `--precisions` prints instead what larger
prior precisions than the one of the marginal likelihood would do. `--only swag` prints the posteriors with that in
their name; it can be given several times. The full curvature is left out if its matrix would have more than 3,000
rows.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F

import poolwise as pw
from poolwise.data import load
from poolwise.data.examples import TensorExamples, TextExamples

LABELS, SEEDS, TRAIN, TEST, COMPONENTS = (20, 100, 500), 3, 8000, 3000, 128
FACTORS = (1, 3, 10, 30, 100)
HIDDEN, LARGEST = 128, 3_000


def small(images):
    pixels = F.adaptive_avg_pool2d(images.inputs.float(), 14).round().flatten(1) / 255
    return TensorExamples(pixels, images.labels, images.class_names)


def components(train, test):
    """Texts as TF-IDF, its largest components, each text at the same length."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    counts = words.fit_transform(train.texts), words.transform(test.texts)
    found = TruncatedSVD(COMPONENTS, random_state=0).fit(counts[0])
    made = []
    for examples, count in zip((train, test), counts, strict=True):
        rows = torch.from_numpy(found.transform(count)).float()
        made.append(TensorExamples(F.normalize(rows) * 0.3 * COMPONENTS**0.5, examples.labels, examples.class_names))
    return made


def read(name):
    found = load(name, check=False)
    draw = np.random.default_rng(0)
    rows = draw.permutation(len(found.train))[:TRAIN], draw.permutation(len(found.test))[:TEST]
    if isinstance(found.train, TensorExamples):
        return small(found.train.take(rows[0])), small(found.test.take(rows[1]))
    return components(
        *(TextExamples(part.batch(r), part.labels[r]) for part, r in zip((found.train, found.test), rows, strict=True))
    )


def posteriors(features, classes):
    training = pw.Training(steps=400, batch_size=64)
    make = lambda: pw.models.mlp((features,), classes, hidden=(HIDDEN,), dropout=0.25)  # noqa: E731
    own = pw.posteriors
    return {
        "single network": lambda: own.DeepEnsemble(make, 1, training=training),
        "mc-dropout, K = 20": lambda: own.MCDropout(make, 20, training=training),
        "deep ensemble of 5": lambda: own.DeepEnsemble(make, 5, training=training),
        "laplace, kronecker": lambda: own.Laplace(make, 100, training=training, curvature="kronecker"),
        "laplace, full": lambda: own.Laplace(make, 100, training=training, curvature="full"),
        "swag, K = 20": lambda: own.SWAG(make, 20, training=training),
        "swag, rate 0.1": lambda: own.SWAG(make, 20, training=training, learning_rate=0.1),
    }


def measure(new, train, test, seed):
    """Accuracy, nll, calibration error, mean BALD, seconds to fit and to predict, and the prior precision."""
    posterior, started = new(), time.perf_counter()
    posterior.fit(train, seed=seed)
    fitted = time.perf_counter()
    predictions = posterior.predict(test)
    ended = time.perf_counter()
    metrics = pw.metrics.evaluate(predictions, test.labels)
    bald = float(np.mean(pw.scores.bald(predictions)))
    quality = [metrics["accuracy"], metrics["nll"], metrics["ece"], bald]
    return [*quality, fitted - started, ended - fitted, getattr(posterior, "prior_precision", float("nan"))]


def precisions(name, train, test, labels=100):
    """The nll on the test data with multiples of the prior precision that the marginal likelihood chooses."""
    make = posteriors(train.inputs.shape[1], int(train.labels.max()) + 1)["single network"]
    for curvature in ("kronecker", "full"):
        rows = []
        for seed in range(SEEDS):
            part = train.take(np.random.default_rng(seed).permutation(len(train))[:labels])
            [network] = make().fit(part, seed=seed).networks
            own = pw.posteriors.Laplace(network, 100, train=False, curvature=curvature)
            chosen = own.fit(part, seed=seed).prior_precision
            row = []
            for factor in FACTORS:
                own = pw.posteriors.Laplace(
                    network, 100, train=False, curvature=curvature, prior_precision=factor * chosen
                )
                row.append(pw.metrics.evaluate(own.fit(part, seed=seed).predict(test), test.labels)["nll"])
            rows.append(row)
        cells = " | ".join(f"{nll:.3f}" for nll in np.mean(rows, 0))
        print(f"| {name} | {labels} | {curvature} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Laplace and SWAG beside other posteriors.")
    parser.add_argument("names", nargs="*", default=["fashion-mnist"], metavar="DATA SET")
    parser.add_argument("--precisions", action="store_true", help="larger prior precisions instead")
    parser.add_argument("--only", action="append", help="a part of the names of the posteriors to measure")
    given = parser.parse_args()
    names = given.names
    if given.precisions:
        print(f"| data | labels | curvature | {' | '.join(f'× {factor}' for factor in FACTORS)} |")
        print("| --- " * (3 + len(FACTORS)) + "|")
        for name in names:
            precisions(name, *read(name))
        return
    print("| data | labels | posterior | accuracy | nll | ece | mean BALD | fit s | predict s | prior precision |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        train, test = read(name)
        for count in LABELS:
            classes = int(train.labels.max()) + 1
            for kind, new in posteriors(train.inputs.shape[1], classes).items():
                too_large = kind == "laplace, full" and classes * min(count, HIDDEN + 1) > LARGEST
                if too_large or not any(part in kind for part in given.only or [""]):
                    continue
                chosen = [np.random.default_rng(seed).permutation(len(train))[:count] for seed in range(SEEDS)]
                rows = [measure(new, train.take(part), test, seed) for seed, part in enumerate(chosen)]
                *numbers, precision = np.mean(rows, 0)
                cells = [f"{number:.3f}" for number in numbers[:4]] + [f"{number:.1f}" for number in numbers[4:]]
                cells.append("–" if np.isnan(precision) else f"{precision:.2g}")
                print(f"| {name} | {count} | {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
