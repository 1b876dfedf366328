"""Networks that are trained already → predictions, in one call."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from poolwise import budget
from poolwise.data.batches import Data
from poolwise.errors import ParameterError
from poolwise.models.outputs import Outputs
from poolwise.posteriors.mc_dropout import MCDropout
from poolwise.posteriors.posterior import NetworkPosterior
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent


def mc_dropout(
    module: nn.Module,
    data: Data,
    samples: int = 100,
    seed: int = 0,
    *,
    embeddings: bool = False,
    out: str | Path | None = None,
    memory: int | str = budget.DEFAULT,
    device: str | torch.device = "auto",
    outputs: Outputs = "auto",
    report: Report = silent,
) -> Predictions:
    """Predictions of a trained network with dropout layers. Posterior sample k drops the same units for every example.

    Args:
        module: the network. Afterwards it is as before: the same weights, device and mode.
        data: a tensor, an array, tensors by name, a `Dataset` of inputs or of (input, label), or a `DataLoader`.
        samples: K, how many masks.
        seed: where the masks come from.
        embeddings: whether to add what goes into the last layer, for the methods that need embeddings.
        out: a `.npy` file to write the predictions to.
        memory: bytes, or a text such as `"2GB"`: predictions that do not fit half of it go to a mapped file.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
        outputs: what the network returns: `"logits"`; `"probs"` if it ends in softmax; `"log-probs"`; or `"auto"` for
            logits, with an error if they are probabilities already. One column is taken as the second of two classes.
        report: told about progress.
    Returns:
        `[N, K, C]` predictions.

    Example:
        >>> import torch, poolwise as pw
        >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
        >>> pw.mc_dropout(network, torch.zeros(5, 4), samples=10).shape
        (5, 10, 3)
    """
    posterior = MCDropout(module, samples, device=device, seed=seed, outputs=outputs)
    return posterior.predict(data, embeddings=embeddings, out=out, memory=memory, report=report)


def ensemble(
    modules: Sequence[nn.Module],
    data: Data,
    *,
    embeddings: bool = False,
    out: str | Path | None = None,
    memory: int | str = budget.DEFAULT,
    device: str | torch.device = "auto",
    outputs: Outputs = "auto",
    report: Report = silent,
) -> Predictions:
    """Predictions of trained networks: posterior sample k is network k.

    Args:
        modules: the networks; afterwards they are as before.
        data: a tensor, an array, tensors by name, a `Dataset` of inputs or of (input, label), or a `DataLoader`.
        embeddings: whether to add what goes into the last layers, for the methods that need embeddings.
        out: a `.npy` file to write the predictions to.
        memory: bytes, or a text such as `"2GB"`: predictions that do not fit half of it go to a mapped file.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
        outputs: what the networks return, as for `mc_dropout`.
        report: told about progress.
    Returns:
        `[N, K, C]` predictions, where K is the number of networks.

    Example:
        >>> import torch, poolwise as pw
        >>> pw.ensemble([torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)], torch.zeros(5, 4)).shape
        (5, 2, 3)
    """
    posterior = trained(modules, device=device, outputs=outputs)
    return posterior.predict(data, embeddings=embeddings, out=out, memory=memory, report=report)


def trained(
    modules: Sequence[nn.Module],
    samples: int | None = None,
    *,
    seed: int = 0,
    device: str | torch.device = "auto",
    outputs: Outputs = "auto",
) -> NetworkPosterior:
    """A posterior of networks that are trained already, to predict with.

    Args:
        modules: the networks; afterwards they are as before.
        samples: how many dropout masks of each, or None for no dropout.
        seed: where the masks come from.
        device: `"auto"` for a GPU if there is one.
        outputs: what the networks return, see `mc_dropout`.
    """
    single = isinstance(modules, nn.Module) and not isinstance(modules, nn.ModuleList)  # some can be iterated over
    networks = [] if single else list(modules)
    if not networks or not all(isinstance(network, nn.Module) for network in networks):
        raise ParameterError("modules must be a list of at least one network. Try pw.ensemble([net1, net2], data).")
    posterior = NetworkPosterior(networks[0], len(networks), samples, device=device, seed=seed, outputs=outputs)
    posterior.networks = networks
    return posterior
