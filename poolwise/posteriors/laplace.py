"""Last-layer Laplace: one training, then any number of samples of the last layer's weights (Daxberger et al. 2021).

The network is trained as usual. Its last linear layer gets a Gaussian around the trained weights, whose precision is
the curvature of the loss plus that of a prior; see `curvature.py`. K weights are drawn once in `fit`, so sample k is
the same model for every example. The features in front of the layer are computed once, whatever K is, and one matrix
product gives the logits of all samples.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self, get_args

import numpy as np
import torch
from torch import Tensor, nn

from poolwise.arrays import Array
from poolwise.data.batches import Data
from poolwise.data.examples import Examples, as_examples, needed_labels
from poolwise.errors import ParameterError, StateError
from poolwise.models.checks import count
from poolwise.models.inputs import Reading, rows
from poolwise.models.last_layer import penultimate
from poolwise.models.modes import evaluating
from poolwise.models.outputs import PROBED, Outputs, as_logits
from poolwise.posteriors.base import BasePosterior
from poolwise.posteriors.curvature import Choice, Full, Kronecker, fitted_precision, log_evidence
from poolwise.posteriors.posterior import NetworkPosterior
from poolwise.posteriors.registry import register
from poolwise.progress import Report, silent
from poolwise.seeding import stream
from poolwise.training import Training

# Weights that are drawn at a time (numbers).
_DRAWN = 1 << 22


@register(
    "laplace",
    summary="Draws of the last layer's weights, around one trained network.",
    paper="Daxberger et al. 2021",
    parameters={
        "samples": "K, how many weights are drawn.",
        "curvature": "The curvature of the last layer: kronecker, full, or auto, which is kronecker.",
        "prior_precision": "Precision of the prior; left out, it is chosen by the marginal likelihood.",
        "train": "Whether fit trains the network first.",
        "warm_start": "Whether a round's training continues from the weights of the round before.",
        "outputs": "What the network returns: logits, probs, log-probs, or auto for logits, with a check.",
        "device": "Where the network runs: auto, cpu, cuda:0, ...",
    },
)
class Laplace(BasePosterior):
    """One network; sample k is draw k of its last layer's weights.

    It works with any network whose last layer is linear, and on fixed features, where the network is that layer alone
    (`models.linear`). The `[N, D]` features are kept in memory while predicting.

    After `fit`: `prior_precision`, `log_marginal_likelihood`, `curvature` (`"full"` or `"kronecker"`), and `weights`,
    `[K, C, D]` or, with a bias as the last column, `[K, C, D + 1]`.

    Args:
        model: a function that makes a new network; or a network, which is copied for training and never changed.
        samples: K, how many sets of weights are drawn.
        curvature: `"kronecker"` (a product of two smaller matrices), `"full"`, or `"auto"`, which is Kronecker. It was
            as good as the full curvature on six data sets, in less time and memory: see the page on PyTorch models.
        prior_precision: precision of the Gaussian prior on the weights. None chooses the one with the largest marginal
            likelihood, and fits the layer's weights under that prior (`curvature.fitted_precision`).
        train: whether `fit` trains the network; if False, it only computes the curvature.
        training: how the network is trained.
        threads: PyTorch threads to train on; None for what PyTorch is set to.
        warm_start: whether a later `fit` continues from the weights of the one before.
        device: where the network runs, `"auto"` for a GPU if there is one; the samples are computed on the CPU.
        outputs: what the network returns: `"logits"`, `"probs"`, `"log-probs"`, or `"auto"` for logits, with a check.

    Example:
        >>> import torch, poolwise as pw
        >>> data = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 3
        >>> make_model = lambda: pw.models.mlp((4,), 3, hidden=(8,))
        >>> posterior = pw.posteriors.Laplace(make_model, samples=200, training=pw.Training(steps=5)).fit(data)
        >>> posterior.predict(data[0]).shape, posterior.prior_precision > 0
        ((30, 200, 3), True)
    """

    outputs = "logits"
    settings = ("samples", "_trained", "_curvature", "_prior_precision", "_train", "_network_outputs")

    def __init__(
        self,
        model: Callable[[], nn.Module] | nn.Module,
        samples: int = 100,
        *,
        curvature: Choice = "kronecker",
        prior_precision: float | None = None,
        train: bool = True,
        training: Training | None = None,
        threads: int | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        outputs: Outputs = "auto",
    ) -> None:
        self.samples = count(samples, "samples", most=100_000)
        if curvature not in get_args(Choice):
            raise ParameterError(f"curvature must be one of {', '.join(get_args(Choice))}, not {curvature!r}.")
        if prior_precision is not None and not 0 < prior_precision < float("inf"):
            raise ParameterError(f"prior_precision must be a number above 0, or None, not {prior_precision!r}.")
        if not train and not isinstance(model, nn.Module):
            raise ParameterError(
                "train=False is for a network that is trained already, and model is a function. Pass the network."
            )
        self._curvature, self._prior_precision, self._train = curvature, prior_precision, train
        self._network_outputs: Outputs = outputs
        self._trained = NetworkPosterior(
            model, 1, None, training=training, threads=threads, warm_start=warm_start, device=device, outputs=outputs
        )
        self.weights: Tensor | None = None
        self.curvature: str | None = None
        self.prior_precision: float | None = None
        self.log_marginal_likelihood: float | None = None

    def __repr__(self) -> str:
        if self.weights is None:
            return f"Laplace({self.samples} samples, not fitted)"
        return f"Laplace({self.samples} samples, {self.curvature}, prior precision {self.prior_precision:.3g})"

    @property
    def network(self) -> nn.Module | None:
        """The trained network, or None before `fit`."""
        return next(iter(self._trained.networks), None)

    def fit(self, data: Data, validation: Data | None = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Train the network, compute the curvature of its last layer and draw its weights.

        Args:
            data: labelled examples.
            validation: labelled examples for early stopping.
            seed: where initial weights, the order of examples, dropout in training, and the drawn weights come from.
            report: told about progress.
        """
        examples = as_examples(data)
        labels_n = torch.from_numpy(needed_labels(examples, "training"))
        if self._train:
            self._trained.fit(examples, validation, seed=seed, report=report)
        layer = self._last_layer(examples)
        mean_C_D = layer.weight.detach().cpu().double()
        features_n_D = torch.from_numpy(self._trained.embed(examples)).double()
        if layer.bias is not None:
            mean_C_D = torch.cat([mean_C_D, layer.bias.detach().cpu().double()[:, None]], 1)
            features_n_D = torch.cat([features_n_D, features_n_D.new_ones(len(features_n_D), 1)], 1)
        log_probs_n_C = (features_n_D @ mean_C_D.T).log_softmax(1)
        C, D = mean_C_D.shape
        full = self._curvature == "full"
        found = (Full if full else Kronecker).of(features_n_D, log_probs_n_C.exp())
        norm = float(mean_C_D.square().sum())
        precision = self._prior_precision or fitted_precision(features_n_D, labels_n, mean_C_D)
        likelihood = float(log_probs_n_C.gather(1, labels_n[:, None]).sum())
        generator, step = stream(seed, "last-layer Laplace"), max(1, _DRAWN // (C * D))
        weights_K_C_D = torch.empty(self.samples, C, D)
        for start in range(0, self.samples, step):
            noise = torch.from_numpy(generator.standard_normal((min(step, self.samples - start), C, D)))
            weights_K_C_D[start : start + step] = mean_C_D + found.draw(noise, precision)
        self.weights, self.curvature, self.prior_precision = weights_K_C_D, "full" if full else "kronecker", precision
        self.log_marginal_likelihood = log_evidence(likelihood, found.eigenvalues, norm, precision)
        return self

    def sample(self, inputs: Array) -> Tensor:
        """`[n, K, C]` logits.

        Args:
            inputs: `[n, D]` features.
        """
        assert self.weights is not None
        weights_KC_D, features_n_D = self.weights.flatten(0, 1), torch.from_numpy(inputs)
        D = features_n_D.shape[1]
        logits_n_KC = features_n_D @ weights_KC_D[:, :D].T
        if weights_KC_D.shape[1] > D:
            logits_n_KC += weights_KC_D[:, D]
        return logits_n_KC.view(len(features_n_D), *self.weights.shape[:2])

    def features(self, inputs: Array) -> Array:
        """The embeddings, which are the features themselves.

        Args:
            inputs: `[n, D]` features.
        """
        return inputs

    def state(self) -> dict[str, Any]:
        """The weights of the network and those drawn, and the numbers that describe them."""
        return {**super().state(), "network": self._trained.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        drawn = state["values"]["weights"]
        if drawn is not None and len(drawn) != self.samples:
            raise ParameterError(
                f"the saved state has {len(drawn)} samples, and this Laplace has {self.samples}. Make it with "
                f"samples={len(drawn)}."
            )
        self._trained.load_state(state["network"])
        super().load_state(state)

    def untrained(self) -> Self:
        """An untrained copy, whose `fit` starts from the beginning."""
        other = copy.copy(self)
        other._trained = self._trained.untrained()
        return other

    def on(self, device: str | torch.device) -> Self:
        """A copy whose network is on another device, `"auto"` for a GPU if there is one."""
        other = type(self).__new__(type(self))
        vars(other).update({**vars(self), "_trained": self._trained.on(device)})
        return other

    def _check_fitted(self) -> None:
        if self.weights is None:
            raise StateError("Laplace has drawn no weights yet. Call fit(data) first, also for a trained network.")

    def _examples(self, data: Data, memory: int) -> Examples:
        """The features in front of the last layer."""
        return as_examples(self._trained.embed(data, memory=memory))

    def _last_layer(self, examples: Examples) -> nn.Linear:
        """The network's last layer, which its outputs must come from."""
        network, batch = self._trained.networks[0], examples.batch(np.arange(min(PROBED, len(examples))))
        inputs = Reading.of(network, batch)(batch)
        with evaluating(network), torch.no_grad():
            output, features_n_D, layer = penultimate(network, inputs)
            logits = as_logits(output, rows(inputs), self._network_outputs)
            expected = layer(features_n_D) if features_n_D.shape[1] == layer.in_features else logits[:, :0]
        if layer.out_features < 2:
            raise ParameterError("Laplace needs a network with one output per class, two for two classes.")
        same = logits.shape == expected.shape and torch.allclose(
            logits.log_softmax(1), expected.log_softmax(1), rtol=1e-2, atol=1e-3
        )
        if not same:
            raise ParameterError(
                f"the outputs of {type(network).__name__} are not those of its last linear layer, {layer}, so Laplace "
                'cannot sample them. Let the network end in nn.Linear. Softmax after it needs outputs="probs".'
            )
        return layer
