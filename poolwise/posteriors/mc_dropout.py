"""MC dropout: the samples are dropout masks of one network (Gal & Ghahramani 2016), the same for every example."""

import torch
from torch import nn

from poolwise.models.outputs import Outputs
from poolwise.posteriors.posterior import MakeModel, NetworkPosterior
from poolwise.training import Training


class MCDropout(NetworkPosterior):
    """One network; sample k is mask k of its dropout layers, the same mask for every example.

    Dropout must be in layers (`nn.Dropout`, `nn.Dropout1d` to `3d`, `nn.AlphaDropout`). Batch normalisation stays in
    evaluation mode. What comes before the first dropout layer is computed once for all samples.

    Args:
        model: a trained network to predict with; or a function that makes a new one, for `fit`. `fit` trains a copy of
            a network, starting from its weights, and never changes the network itself.
        samples: K, how many masks.
        training: how the network is trained.
        threads: PyTorch threads to train on; None for what PyTorch is set to.
        warm_start: whether a later `fit` continues from the weights of the one before.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
        seed: where the masks come from.
        outputs: what the network returns: `"logits"`, `"probs"`, `"log-probs"`, or `"auto"` for logits, with an error
            if they are probabilities already.

    Example:
        >>> import torch, poolwise as pw
        >>> network = pw.models.mlp((4,), 3, hidden=(8,))
        >>> pw.posteriors.MCDropout(network, samples=20).predict(torch.zeros(5, 4)).shape
        (5, 20, 3)
    """

    def __init__(
        self,
        model: MakeModel | nn.Module,
        samples: int = 100,
        *,
        training: Training | None = None,
        threads: int | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        seed: int = 0,
        outputs: Outputs = "auto",
    ) -> None:
        super().__init__(
            model,
            1,
            samples,
            training=training,
            threads=threads,
            warm_start=warm_start,
            device=device,
            seed=seed,
            outputs=outputs,
        )
