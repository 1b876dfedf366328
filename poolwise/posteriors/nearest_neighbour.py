"""A nearest-neighbour classifier on a network's features as its output, in place of softmax (Wan et al. 2021).

Wan et al., Nearest Neighbor Classifier Embedded Network for Active Learning, AAAI 2021, argue that softmax is too sure
of itself far from the labelled points. They train prototypes of the classes inside the network. Here the network is
trained as it always is, and the labelled points themselves are the prototypes. That changes how it predicts, not how
it learns.
"""

from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array
from poolwise.data.examples import as_examples, needed_labels
from poolwise.errors import LabelError, ParameterError, ShapeError, StateError
from poolwise.models.checks import count
from poolwise.posteriors.base import BasePosterior
from poolwise.posteriors.protocol import Posterior, placed, untrained
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent


def nearest_neighbour(
    features: Array | Tensor,
    labelled: Array | Tensor,
    labels: Array | Tensor,
    classes: int,
    *,
    neighbours: int = 1,
    temperature: float = 1.0,
) -> Array:
    """`[n, K, C]` probabilities by the distance to the labelled points of each class.

    With `d_k(c)` the mean Euclidean distance to the nearest labelled points of class c in the features of sample k,
    `p_k(c) ∝ exp(-d_k(c) / temperature)`. A class without a labelled point has the probability zero.

    Args:
        features: `[n, K, D]` features of the points, by each of K posterior samples.
        labelled: `[L, K, D]` those of the labelled points.
        labels: `[L]` their classes.
        classes: C.
        neighbours: how many of the nearest points of a class count; all of them if it has fewer.
        temperature: a class that is farther away by this distance is e times less likely; smaller is more certain.

    Example:
        >>> import numpy as np
        >>> labelled = np.array([[[0.0]], [[3.0]]])  # one sample, one feature
        >>> nearest_neighbour(np.array([[[0.0]], [[1.5]]]), labelled, np.array([0, 1]), classes=2)[:, 0].round(2)
        array([[0.95, 0.05],
               [0.5 , 0.5 ]])
    """
    distances_n_K_C = _distances(_tensor(features), _tensor(labelled), _tensor(labels).long(), classes, neighbours)
    probs: Array = (-distances_n_K_C / _positive(temperature)).softmax(2).numpy()
    return probs


def _distances(x_n_K_D: Tensor, z_L_K_D: Tensor, labels_L: Tensor, C: int, neighbours: int) -> Tensor:
    """`[n, K, C]` mean distance to the nearest labelled points of each class; infinite where a class has none."""
    if (
        x_n_K_D.ndim != 3
        or z_L_K_D.ndim != 3
        or x_n_K_D.shape[1:] != z_L_K_D.shape[1:]
        or len(z_L_K_D) != len(labels_L)
    ):
        raise ShapeError(
            "features must be [n, K, D], labelled [L, K, D] and labels [L]; they are "
            f"{list(x_n_K_D.shape)}, {list(z_L_K_D.shape)} and {list(labels_L.shape)}."
        )
    if len(labels_L) and not 0 <= int(labels_L.min()) <= int(labels_L.max()) < C:
        low, high = int(labels_L.min()), int(labels_L.max())
        raise LabelError(f"labels must be whole numbers from 0 to {C - 1}; they go from {low} to {high}.")
    if not len(labels_L):
        raise LabelError("nearest neighbours need at least one labelled point.")
    n, K, _ = x_n_K_D.shape
    result_n_K_C = torch.full((n, K, C), torch.inf, dtype=x_n_K_D.dtype)
    for c in sorted({*labels_L.tolist()}):
        of_class = z_L_K_D[labels_L == c].transpose(0, 1).contiguous()
        # Without a product of matrices, so that a distance does not depend on the other rows.
        exact = "donot_use_mm_for_euclid_dist"
        distances_K_n_m = torch.cdist(x_n_K_D.transpose(0, 1).contiguous(), of_class, compute_mode=exact)
        nearest = distances_K_n_m.topk(min(neighbours, distances_K_n_m.shape[2]), largest=False).values
        result_n_K_C[:, :, c] = nearest.mean(2).T
    return result_n_K_C


class NearestNeighbour(BasePosterior):
    """A posterior of networks that predicts by the nearest labelled points, see `nearest_neighbour`.

    Each network is one posterior sample, with the features that go into its own last layer. A single network is one
    sample, however many dropout masks it has. So use an ensemble for methods that need disagreement.

    Args:
        posterior: a posterior with embeddings, such as a `DeepEnsemble`. It is trained as usual.
        neighbours: how many of the nearest labelled points of a class count.
        temperature: a class that is farther away by this distance is e times less likely.

    Example:
        >>> import torch, poolwise as pw
        >>> data = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 3
        >>> networks = pw.posteriors.DeepEnsemble(
        ...     lambda: pw.models.mlp((4,), 3, hidden=(8,)), 2, training=pw.Training(steps=5)
        ... )
        >>> posterior = pw.posteriors.NearestNeighbour(networks, neighbours=3).fit(data)
        >>> posterior.predict(data[0]).shape
        (30, 2, 3)
    """

    outputs = "logits"
    settings = ("posterior", "neighbours", "temperature")

    def __init__(self, posterior: Posterior, neighbours: int = 1, temperature: float = 1.0) -> None:
        if getattr(posterior, "embeds_inputs", False):
            raise ParameterError(
                f"NearestNeighbour needs a posterior with its own embeddings, such as DeepEnsemble, not "
                f"{type(posterior).__name__}."
            )
        self.posterior, self.neighbours = posterior, count(neighbours, "neighbours", most=1_000_000)
        self.temperature = _positive(temperature)
        self.labelled: Array | None = None
        self.labels: Array | None = None
        self.classes = 0

    def __repr__(self) -> str:
        return f"NearestNeighbour({self.posterior!r}, neighbours={self.neighbours}, temperature={self.temperature:g})"

    def fit(self, data: Any, validation: Any = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Train the networks, and keep the features of the labelled examples.

        Args:
            data: labelled examples.
            validation: labelled examples for early stopping, or None.
            seed: root of all randomness.
            report: told about progress.
        """
        examples = as_examples(data)
        labels_L = needed_labels(examples, "training")
        self.posterior.fit(data, validation, seed=seed, report=report)
        names = examples.class_names
        self.classes = max(len(names) if names else 2, int(labels_L.max()) + 1)
        self.labelled, self.labels = self._split(self.posterior.embed(examples)), labels_L
        return self

    def predict(
        self,
        data: Any,
        *,
        embeddings: bool = False,
        out: str | Path | None = None,
        memory: int | str = budget.DEFAULT,
        report: Report = silent,
    ) -> Predictions:
        """`[N, K, C]` predictions; the arguments are those of `BasePosterior.predict`."""
        self._check_fitted()
        features_N_D = self.embed(data, memory=memory)
        return super().predict(features_N_D, embeddings=embeddings, out=out, memory=memory, report=report)

    def sample(self, inputs: Array) -> Tensor:
        """`[n, K, C]` logits.

        Args:
            inputs: `[n, D]` features.
        """
        assert self.labelled is not None
        assert self.labels is not None
        features, labels_L = _tensor(self._split(inputs)), _tensor(self.labels)
        distances = _distances(features, _tensor(self.labelled), labels_L, self.classes, self.neighbours)
        return -distances / self.temperature

    def features(self, inputs: Array) -> Array:
        """The embeddings, which are the features themselves.

        Args:
            inputs: `[n, D]` features.
        """
        return inputs

    def embed(self, data: Any, *, memory: int | str = budget.DEFAULT) -> Array:
        """`[N, D]` float32: the embeddings of the posterior.

        Args:
            data: examples.
            memory: working memory, in bytes or as `"2GB"`.
        """
        return self.posterior.embed(data, memory=memory)

    def state(self) -> dict[str, Any]:
        """The state of the posterior, and the features and labels of the labelled examples."""
        return {**super().state(), "posterior": self.posterior.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        self.posterior.load_state(state["posterior"])
        super().load_state(state)

    def untrained(self) -> Self:
        """An untrained copy, whose `fit` starts from the beginning."""
        return type(self)(untrained(self.posterior), self.neighbours, self.temperature)

    def on(self, device: str | torch.device) -> Self:
        """A copy whose posterior is on another device."""
        other = type(self).__new__(type(self))
        vars(other).update({**vars(self), "posterior": placed(self.posterior, str(device))})
        return other

    @property
    def _warm_start(self) -> bool:
        """Whether training continues from the weights before, which a learner then must not lose."""
        return bool(getattr(self.posterior, "_warm_start", False))

    def _check_fitted(self) -> None:
        if self.labelled is None:
            raise StateError("NearestNeighbour has no labelled examples yet. Call fit(data) first.")

    def _split(self, features_n_D: Array) -> Array:
        """`[n, K, D / K]` the features of each network, which come side by side."""
        K = max(1, len(getattr(self.posterior, "networks", ())))
        return features_n_D.reshape(len(features_n_D), K, -1)


def _tensor(values: Array | Tensor) -> Tensor:
    return values.detach().cpu() if isinstance(values, Tensor) else torch.from_numpy(np.array(values))


def _positive(temperature: float) -> float:
    if isinstance(temperature, bool) or not isinstance(temperature, Real) or not 0 < temperature < float("inf"):
        raise ParameterError(f"temperature must be a number above 0, not {temperature!r}.")
    return float(temperature)
