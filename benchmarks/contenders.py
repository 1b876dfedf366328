"""What a contender is: it prepares an input (not timed), is called (timed), and what came back is read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass
class Inputs:
    """What a contender is given: the pool's files, the batch size, and the parameters of the method."""

    files: dict[str, str]
    batch: int
    parameters: dict[str, Any]

    def log_probs(self) -> Array:
        """`[N, K, C]`, read into memory."""
        array: Array = np.load(self.files["log_probs"])
        return array

    def probs(self, layout: str = "NKC") -> Array:
        """Contiguous probabilities in another order of axes."""
        probs = np.exp(self.log_probs())
        return np.ascontiguousarray(probs.transpose(["NKC".index(axis) for axis in layout]))

    def embeddings(self) -> tuple[Array, Array]:
        """Embeddings of the pool and of the labelled points."""
        return np.load(self.files["embeddings"]), np.load(self.files["labelled"])


@dataclass
class Outcome:
    """What a call gave, in one form for all contenders.

    `information` is the joint information that the contender claims for its batch (nats), if it claims one.
    """

    picks: list[int]
    scores: Array | None = None
    information: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)


Prepared = tuple[Callable[[], Any], Callable[[Any], Outcome]]
Prepare = Callable[[Inputs], Prepared]


@dataclass(frozen=True)
class Contender:
    """One function of one package; `package` is its distribution name."""

    package: str
    prepare: Prepare


CONTENDERS: dict[str, Contender] = {}


def contender(name: str, package: str) -> Callable[[Prepare], Prepare]:
    """Register a `prepare` function under a name."""

    def register(prepare: Prepare) -> Prepare:
        CONTENDERS[name] = Contender(package, prepare)
        return prepare

    return register


def top(scores: Array, batch: int) -> Outcome:
    """Read a score per point: the picks are the `batch` largest, ties by the lowest index, NaN last."""
    scores = np.asarray(scores)
    order = np.argsort(-scores, kind="stable")
    return Outcome(order[:batch].tolist(), scores)


def gradients(log_probs: Array, embeddings: Array) -> Array:
    """`[N, C·D]` BADGE's gradient embeddings, written out."""
    probs = np.exp(log_probs.mean(1))
    factor = probs - np.eye(probs.shape[1])[probs.argmax(1)]
    written_out: Array = (factor[:, :, None] * embeddings[:, None, :]).reshape(len(probs), -1)
    return written_out


def squared_distances(points: Array, pick: int) -> Array:
    """`[N]` squared distances of all points to one of them."""
    squared: Array = ((points - points[pick]) ** 2).sum(1)
    return squared


def potential(log_probs: Array, embeddings: Array, picks: list[int]) -> float:
    """Sum of squared distances of BADGE's gradient embeddings to the nearest pick: what k-means++ lowers."""
    points = gradients(log_probs, embeddings)
    nearest = np.full(len(points), np.inf)
    for pick in picks:
        nearest = np.minimum(nearest, squared_distances(points, pick))
    return float(nearest.sum())
