"""Networks that are trained already → predictions, in one call."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from poolwise import budget
from poolwise.errors import ParameterError
from poolwise.posteriors.mc_dropout import MCDropout
from poolwise.posteriors.posterior import NetworkPosterior
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent


def mc_dropout(
    module: nn.Module,
    data: object,
    samples: int = 100,
    seed: int = 0,
    *,
    embeddings: bool = False,
    out: str | Path | None = None,
    memory: int | str = budget.DEFAULT,
    device: str | torch.device = "auto",
    report: Report = silent,
) -> Predictions:
    """Predictions of a trained network with dropout layers; sample k drops the same units for every example.

    Args:
        module: the network; it is as before afterwards.
        data: a tensor, an array, or a `Dataset` of inputs or of (input, label).
        samples: K, how many masks.
        seed: where the masks come from.
        embeddings: whether to add what goes into the last layer, for the methods that need embeddings.
        out: a `.npy` file to write the predictions to.
        memory: bytes, or a text such as `"2GB"`: predictions that do not fit half of it go to a mapped file.
        device: `"auto"` for a GPU if there is one.
        report: told about progress.
    """
    posterior = MCDropout(module, samples, device=device, seed=seed)
    return posterior.predict(data, embeddings=embeddings, out=out, memory=memory, report=report)


def ensemble(
    modules: Sequence[nn.Module],
    data: object,
    *,
    embeddings: bool = False,
    out: str | Path | None = None,
    memory: int | str = budget.DEFAULT,
    device: str | torch.device = "auto",
    report: Report = silent,
) -> Predictions:
    """Predictions of trained networks: sample k is network k. The other arguments are those of `mc_dropout`."""
    return trained(modules, device=device).predict(data, embeddings=embeddings, out=out, memory=memory, report=report)


def trained(
    modules: Sequence[nn.Module], samples: int | None = None, *, seed: int = 0, device: str | torch.device = "auto"
) -> NetworkPosterior:
    """A posterior of networks that are trained already, to predict with.

    Args:
        modules: the networks; they are as before afterwards.
        samples: how many dropout masks of each, or None for no dropout.
        seed: where the masks come from.
        device: `"auto"` for a GPU if there is one.
    """
    networks = list(modules)
    if not networks or not all(isinstance(network, nn.Module) for network in networks):
        raise ParameterError("modules must be a list of at least one network. Try pw.ensemble([net1, net2], data).")
    posterior = NetworkPosterior(networks[0], len(networks), samples, device=device, seed=seed)
    posterior.networks = networks
    return posterior
