"""How much a pretrained encoder helps with images: accuracy of the labelling project's model after some labels.

Both kinds of features are made as `poolwise label` makes them, of the same image files, and the same model learns from
the same labels, which are drawn at random and equally many of each class.

    python -m benchmarks.image_encoders --data-set cifar-10 --images 1200
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from poolwise.arrays import Array
from poolwise.data import load
from poolwise.data.examples import Subset, TensorExamples
from poolwise.data.pool import Pool
from poolwise.labelling.features import Features, make_features
from poolwise.labelling.items import open_items
from poolwise.labelling.model import default_model
from poolwise.labelling.training import mean_probs
from poolwise.learning.learner import ActiveLearner
from poolwise.seeding import stream


def main() -> None:
    """Print one line per encoder and number of labels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-set", default="cifar-10")
    parser.add_argument("--images", type=int, default=1_200, help="a quarter of them measures, the others are labelled")
    parser.add_argument("--labels", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--encoders", nargs="+", default=["patches", "efficientnet"])
    given = parser.parse_args()
    train = load(given.data_set).train
    assert isinstance(train, TensorExamples)
    chosen = stream(0, "images").choice(len(train), given.images, replace=False)
    images, labels = train.images(chosen), np.asarray(train.labels)[chosen]
    assert images is not None
    classes = [str(number) for number in range(int(labels.max()) + 1)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "images"
        folder.mkdir()
        for number, pixels in enumerate(images):
            Image.fromarray(pixels.squeeze()).save(folder / f"{number:06d}.png")
        items = open_items(folder)
        for encoder in given.encoders:
            began = time.process_time()
            features = make_features(items, encoder, Path(place) / encoder)
            seconds = time.process_time() - began
            for count in given.labels:
                found = [_accuracy(features, labels, classes, count, seed) for seed in range(given.seeds)]
                error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else float("nan")
                print(
                    f"{given.data_set}, {encoder}: {np.mean(found):.1%} ± {error:.1%} right after {count} labels; "
                    f"{1000 * seconds / len(items):.0f} ms of processor time per image",
                    flush=True,
                )


def _accuracy(features: Features, labels: Array, classes: list[str], count: int, seed: int) -> float:
    order = stream(seed, "split").permutation(len(labels))
    held, pool = order[: len(order) // 4], order[len(order) // 4 :]
    trained = np.concatenate([pool[labels[pool] == c][: count // len(classes)] for c in range(len(classes))])
    model = default_model(features, classes)
    known = Pool(model.examples, classes=len(classes))
    known.label(trained, labels[trained])
    learner = ActiveLearner(model.posterior, known, batch_size=1, seed=seed)
    learner.fit()
    probs, _ = mean_probs(learner.predict(Subset(model.examples, held)))
    return float((probs.argmax(1) == labels[held]).mean())


if __name__ == "__main__":
    main()
