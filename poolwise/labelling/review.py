"""Labels worth a second look.

A model that has seen a label hardly ever contradicts it. So each label is compared with a model that has not: the
labels are dealt into a few parts, and each part is predicted by a model trained on the others. The server only reads
what was found, so PyTorch is imported when something is searched for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import FileError
from poolwise.labelling.project import Project
from poolwise.progress import silent
from poolwise.storage import read_json, write_json

if TYPE_CHECKING:
    from poolwise.labelling.training import PlannedRound

REVIEW = "review.json"
"""The file in the cache of a project."""

PARTS = 4
"""Parts into which labels are dealt."""

# Labels below which it is not worth it.
_FEW = 12

# Items that are listed at most.
_LISTED = 200

# Two items are near-duplicates if their distance is below this share of the usual distance to the nearest neighbour.
_NEAR = 0.5

# Rows of distances at once.
_BLOCK = 1_024

Going = Callable[[], bool]
"""Asked between two models; False stops."""


@dataclass(frozen=True)
class Doubt:
    """A label that a model which has not seen it contradicts.

    Attributes:
        item: the item.
        label: its label.
        said: the class that the model gives it.
        share: the probability of that class.
        own: the probability of the label.
    """

    item: str
    label: str
    said: str
    share: float
    own: float


@dataclass(frozen=True)
class Twins:
    """Two items that are almost the same and have different labels.

    Attributes:
        first: an item.
        second: the other one.
        distance: between them, as a share of the usual distance to the nearest neighbour.
    """

    first: str
    second: str
    distance: float


@dataclass(frozen=True)
class Review:
    """What to look at again.

    Attributes:
        doubts: the clearest contradictions first.
        twins: the nearest first.
        after_event: the last event that was known.
    """

    doubts: Sequence[Doubt] = ()
    twins: Sequence[Twins] = ()
    after_event: int = 0

    def save(self, folder: Path) -> None:
        """Write it to the cache of a project."""
        values = {
            "after_event": self.after_event,
            "doubts": [vars(doubt) for doubt in self.doubts],
            "twins": [vars(pair) for pair in self.twins],
        }
        write_json(folder / "cache" / REVIEW, values)


def load_review(folder: Path) -> Review:
    """The last review of a project; an empty one if there is none."""
    found = read_cached(folder / "cache" / REVIEW)
    try:
        return Review(
            [Doubt(**entry) for entry in found["doubts"]],
            [Twins(**entry) for entry in found["twins"]],
            int(found["after_event"]),
        )
    except (KeyError, TypeError, ValueError):
        return Review()


def read_cached(path: Path) -> Any:
    """A value that can be made again; an empty one if it is not there or damaged."""
    try:
        return read_json(path)
    except FileError:
        return {}


def review(project: Project, going: Going = lambda: True) -> Review | None:
    """Find labels to look at again.

    Args:
        project: the project.
        going: asked between two models; False stops, and None is returned.
    """
    work = project._round(silent)
    labels = work.labels
    places = np.concatenate([labels.trained, labels.checked])
    numbers = np.concatenate([labels.trained_labels, labels.checked_labels])
    doubts: list[Doubt] | None = []
    if len(places) >= _FEW and len(np.unique(numbers)) > 1:
        doubts = _doubts(work, places, numbers, going)
    if doubts is None:
        return None
    features = project._features
    values = None if features is None else features.values[places]
    twins = [] if values is None else _twins([work.items.ids[p] for p in places.tolist()], values, numbers)
    return Review(doubts, twins, labels.last)


def _doubts(work: "PlannedRound", places: Array, numbers: Array, going: Going) -> list[Doubt] | None:
    from poolwise.seeding import child_seed, stream

    draw = stream(work.seed, "review", len(places))
    part = draw.permutation(np.arange(len(places)) % PARTS)
    probs = np.full((len(places), max(2, len(work.labels.classes))), np.nan)
    for number in range(PARTS):
        here = part == number
        if not going():
            return None
        if len(np.unique(numbers[~here])) > 1:
            seed = child_seed(work.seed, "review", number, len(places))
            probs[here] = predict_part(work, places[~here], numbers[~here], places[here], seed)
    said = np.where(np.isnan(probs), -1, probs).argmax(1)
    own, share = probs[np.arange(len(places)), numbers], probs[np.arange(len(places)), said]
    against = np.flatnonzero((said != numbers) & (share > own))
    order = against[np.argsort(own[against] - share[against], kind="stable")][:_LISTED]
    names = work.labels.classes
    return [
        Doubt(work.items.ids[places[n]], names[numbers[n]], names[said[n]], float(share[n]), float(own[n]))
        for n in order.tolist()
    ]


def predict_part(work: "PlannedRound", places: Array, numbers: Array, wanted: Array, seed: int) -> Array:
    """`[n, C]` mean probabilities of some items, by a model that is trained on some labels only.

    Args:
        work: the model and the classes.
        places: positions of the labelled items to train on.
        numbers: the numbers of their classes.
        wanted: positions of the items to predict.
        seed: of the training.
    """
    from poolwise.data.examples import Subset
    from poolwise.data.pool import Pool
    from poolwise.labelling.training import mean_probs
    from poolwise.learning.learner import ActiveLearner

    examples = work.model.examples
    pool = Pool(examples, classes=max(2, len(work.labels.classes)))
    pool.label(places, numbers)
    learner = ActiveLearner(work.model.posterior, pool, batch_size=1, seed=seed)
    learner.fit()
    return mean_probs(learner.predict(Subset(examples, wanted)))[0]


def _twins(names: Sequence[str], values: Array, numbers: Array) -> list[Twins]:
    """Pairs of items with different labels that are much nearer than neighbours usually are."""
    if len(names) < 3:
        return []
    values = np.asarray(values, np.float32)
    squares = np.square(values, dtype=np.float64).sum(1)
    nearest = np.empty(len(names))
    found: list[tuple[float, int, int]] = []
    for start in range(0, len(names), _BLOCK):
        rows = slice(start, start + _BLOCK)
        apart = squares[rows, None] + squares[None] - 2 * (values[rows] @ values.T)
        apart = np.sqrt(np.maximum(apart, 0))
        own = np.arange(len(apart))
        apart[own, own + start] = np.inf
        nearest[rows] = apart.min(1)
        apart[numbers[rows, None] == numbers[None]] = np.inf
        best = apart.argmin(1)
        found += [(float(apart[n, m]), n + start, int(m)) for n, m in enumerate(best.tolist())]
    usual = float(np.median(nearest)) or float(np.sqrt(squares.mean())) or 1.0
    pairs: dict[tuple[int, int], float] = {}
    for distance, one, two in found:
        if distance <= _NEAR * usual:
            pairs[min(one, two), max(one, two)] = distance / usual
    order = sorted(pairs, key=lambda pair: (pairs[pair], pair))[:_LISTED]
    return [Twins(names[one], names[two], round(pairs[one, two], 4)) for one, two in order]
