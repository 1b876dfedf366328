"""Ensembles: the samples are networks (Lakshminarayanan et al. 2017), or dropout masks of several networks."""

import torch
from torch import nn

from poolwise.errors import ParameterError
from poolwise.posteriors.posterior import MakeModel, NetworkPosterior, Way
from poolwise.training import Training


class DeepEnsemble(NetworkPosterior):
    """Networks of one architecture, each with initial weights and an order of examples of its own.

    Args:
        make_model: a function without arguments that makes a new network.
        members: K, how many networks.
        training: how they are trained.
        way: `"sequential"`, `"processes"`, `"together"` or `"auto"`, see `NetworkPosterior`.
        threads: PyTorch threads that a member trains on.
        warm_start: whether a later `fit` goes on from the weights of the one before.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
    """

    def __init__(
        self,
        make_model: MakeModel,
        members: int = 5,
        *,
        training: Training | None = None,
        way: Way = "auto",
        threads: int | None = 1,
        warm_start: bool = False,
        device: str | torch.device = "auto",
    ) -> None:
        _need_function(make_model)
        super().__init__(
            make_model,
            members,
            None,
            training=training,
            way=way,
            threads=threads,
            warm_start=warm_start,
            device=device,
        )


class DropoutEnsemble(NetworkPosterior):
    """Members × masks: K = 100 samples from five trainings, the cheap way to raise the `ln K` ceiling.

    Sample `m · samples + k` is mask k of member m, the same for every example.

    Args:
        make_model: a function without arguments that makes a new network with dropout layers.
        members: how many networks.
        samples: how many masks of each.
        training: how they are trained.
        way: `"sequential"`, `"processes"`, `"together"` or `"auto"`, see `NetworkPosterior`.
        threads: PyTorch threads that a member trains on.
        warm_start: whether a later `fit` goes on from the weights of the one before.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
        seed: where the masks come from.
    """

    def __init__(
        self,
        make_model: MakeModel,
        members: int = 5,
        samples: int = 20,
        *,
        training: Training | None = None,
        way: Way = "auto",
        threads: int | None = 1,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        seed: int = 0,
    ) -> None:
        _need_function(make_model)
        super().__init__(
            make_model,
            members,
            samples,
            training=training,
            way=way,
            threads=threads,
            warm_start=warm_start,
            device=device,
            seed=seed,
        )


def _need_function(make_model: object) -> None:
    if isinstance(make_model, nn.Module):
        raise ParameterError(
            "make_model must be a function that makes a new network, not a network: members that start from the same "
            "weights are no ensemble. Pass `lambda: MyNetwork(...)`. For networks trained already there is pw.ensemble."
        )
