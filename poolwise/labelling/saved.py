"""How many labels were saved against drawing at random, estimated from the labels of the project itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from poolwise.arrays import Array
from poolwise.labelling.project import Project
from poolwise.labelling.review import PARTS, Going, predict_part, read_cached
from poolwise.progress import silent
from poolwise.storage import write_json

if TYPE_CHECKING:
    from poolwise.labelling.training import PlannedRound

SAVED = "saved.json"
"""The file in the cache of a project."""

FEW_RANDOM = 20
"""Random labels below which nothing is said."""

# Points of the curve that are compared.
_POINTS = 5


@dataclass(frozen=True)
class Saved:
    """How many chosen labels do what random labels do, estimated.

    Attributes:
        random: this many labels drawn at random were compared.
        chosen: this many labels that were chosen gave the same accuracy; None if even `random` of them did not.
        accuracy: what the random labels gave.
        measured: how many labels measured it.
        labels: how many labels were chosen so far.
    """

    random: int
    chosen: float | None
    accuracy: float
    measured: int
    labels: int

    @property
    def share(self) -> float | None:
        """The share of labels that is saved; None if none were."""
        return None if self.chosen is None else max(0.0, 1 - self.chosen / self.random)

    @property
    def count(self) -> int:
        """Labels saved so far, if the share holds for all of them."""
        return 0 if not self.share else round(self.labels * self.share / (1 - self.share))

    def save(self, folder: Path) -> None:
        """Write it to the cache of a project."""
        write_json(folder / "cache" / SAVED, vars(self))


def load_saved(folder: Path) -> Saved | None:
    """The last estimate of a project; None if there is none."""
    found = read_cached(folder / "cache" / SAVED)
    try:
        saved = Saved(**found)
        return saved if saved.random > 0 and (saved.chosen is None or saved.chosen > 0) else None
    except TypeError:
        return None


def estimate_saved(project: Project, going: Going = lambda: True) -> Saved | None:
    """Compare the labels that were chosen with those that were drawn at random to measure models.

    Models trained on random labels are measured on the random labels that they have not seen. Models trained on the
    first chosen labels, fewer and fewer of them, are measured on the same ones. Where the two curves meet is how many
    chosen labels do what the random ones do.

    Args:
        project: the project.
        going: asked between two models; False stops, and None is returned.
    """
    from poolwise.seeding import child_seed, stream

    work = project._round(silent)
    labels = work.labels
    count = len(labels.checked)
    random = count - -(-count // PARTS)
    if count < FEW_RANDOM or len(labels.trained) < random or not labels.enough:
        return None
    if len(np.unique(labels.checked_labels)) < 2:
        return None
    part = stream(work.seed, "saved", count).permutation(np.arange(count) % PARTS)
    correct = 0
    for number in range(PARTS):
        here = part == number
        if not going() or len(np.unique(labels.checked_labels[~here])) < 2:
            return None
        seed = child_seed(work.seed, "saved", number, count)
        probs = predict_part(work, labels.checked[~here], labels.checked_labels[~here], labels.checked[here], seed)
        correct += int((probs.argmax(1) == labels.checked_labels[here]).sum())
    goal = correct / count
    order = _in_order(project, work)
    points, reached = [(0.0, 0.0)], None
    for step in range(1, _POINTS + 1):
        first = order[: max(2, round(random * step / _POINTS))]
        if not going():
            return None
        if len(np.unique(labels.trained_labels[first])) < 2:
            points.append((float(len(first)), points[-1][1]))
            continue
        seed = child_seed(work.seed, "saved chosen", step, count)
        probs = predict_part(work, labels.trained[first], labels.trained_labels[first], labels.checked, seed)
        points.append((float(len(first)), float((probs.argmax(1) == labels.checked_labels).mean())))
        if points[-1][1] >= goal:
            (n0, a0), (n1, a1) = points[-2:]
            reached = n1 if a1 <= a0 else n0 + (n1 - n0) * (goal - a0) / (a1 - a0)
            break
    chosen = None if reached is None else round(max(1.0, min(reached, float(random))), 1)
    return Saved(random, chosen, goal, count, len(labels.trained))


def _in_order(project: Project, work: "PlannedRound") -> Array:
    """Numbers of the chosen labels, in the order in which they were given."""
    fold = project.store.fold()
    when = [fold.items[work.items.ids[place]].answers[-1].event for place in work.labels.trained.tolist()]
    return np.argsort(np.array(when), kind="stable")
