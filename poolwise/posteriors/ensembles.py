"""Ensembles: the samples are networks (Lakshminarayanan et al. 2017), or dropout masks of several networks."""

import torch
from torch import nn

from poolwise.errors import ParameterError
from poolwise.models.outputs import Outputs
from poolwise.posteriors.posterior import MakeModel, NetworkPosterior, TrainMembers
from poolwise.training import Training


class DeepEnsemble(NetworkPosterior):
    """Networks of one architecture, each with its own initial weights and order of examples.

    Args:
        make_model: a function without arguments that makes a new network.
        members: K, how many networks.
        training: how they are trained.
        train_members: `"sequential"`, `"processes"` (each member in a separate process), `"vectorised"` (all as one
            stacked network; dense layers only), or `"auto"` for the fastest of them.
        threads: PyTorch threads that a member trains on.
        warm_start: whether a later `fit` continues from the weights of the one before.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
        outputs: what the networks return: `"logits"`, `"probs"`, `"log-probs"`, or `"auto"` for logits, with an error
            if they are probabilities already.
        way: the former name of `train_members`.

    Example:
        >>> import torch, poolwise as pw
        >>> data = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 3
        >>> make_model = lambda: pw.models.mlp((4,), 3, hidden=(8,))
        >>> posterior = pw.posteriors.DeepEnsemble(make_model, members=2, training=pw.Training(steps=5)).fit(data)
        >>> posterior.predict(data[0]).shape
        (30, 2, 3)
    """

    def __init__(
        self,
        make_model: MakeModel,
        members: int = 5,
        *,
        training: Training | None = None,
        train_members: TrainMembers = "auto",
        threads: int | None = 1,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        outputs: Outputs = "auto",
        way: str | None = None,
    ) -> None:
        _need_function(make_model)
        super().__init__(
            make_model,
            members,
            None,
            training=training,
            train_members=train_members,
            threads=threads,
            warm_start=warm_start,
            device=device,
            outputs=outputs,
            way=way,
        )


class DropoutEnsemble(NetworkPosterior):
    """An ensemble of networks with dropout: K = members × masks, such as 100 samples from five trainings.

    This is a cheap way to raise the ceiling `ln K` of what a batch can tell. Sample `m · samples + k` is mask k of
    member m, the same for every example.

    Args:
        make_model: a function without arguments that makes a new network with dropout layers.
        members: how many networks.
        samples: how many masks of each.
        training: how they are trained.
        train_members: `"sequential"`, `"processes"` (each member in a separate process), `"vectorised"` (all as one
            stacked network; dense layers only), or `"auto"` for the fastest of them.
        threads: PyTorch threads that a member trains on.
        warm_start: whether a later `fit` continues from the weights of the one before.
        device: `"auto"` for a GPU if there is one, `"cpu"`, `"cuda:1"`, ...
        seed: where the masks come from.
        outputs: what the networks return: `"logits"`, `"probs"`, `"log-probs"`, or `"auto"` for logits, with an error
            if they are probabilities already.
        way: the former name of `train_members`.

    Example:
        >>> import torch, poolwise as pw
        >>> data = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 3
        >>> make_model = lambda: pw.models.mlp((4,), 3, hidden=(8,))
        >>> posterior = pw.posteriors.DropoutEnsemble(make_model, members=2, samples=5, training=pw.Training(steps=5))
        >>> posterior.fit(data).predict(data[0]).shape
        (30, 10, 3)
    """

    def __init__(
        self,
        make_model: MakeModel,
        members: int = 5,
        samples: int = 20,
        *,
        training: Training | None = None,
        train_members: TrainMembers = "auto",
        threads: int | None = 1,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        seed: int = 0,
        outputs: Outputs = "auto",
        way: str | None = None,
    ) -> None:
        _need_function(make_model)
        super().__init__(
            make_model,
            members,
            samples,
            training=training,
            train_members=train_members,
            threads=threads,
            warm_start=warm_start,
            device=device,
            seed=seed,
            outputs=outputs,
            way=way,
        )


def _need_function(make_model: object) -> None:
    if isinstance(make_model, nn.Module):
        raise ParameterError(
            "make_model must be a function that makes a new network, not a network: members that start from the same "
            "weights are no ensemble. Pass `lambda: MyNetwork(...)`. For networks trained already there is pw.ensemble."
        )
