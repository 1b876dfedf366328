"""What networks take."""

import torch
from torch import Tensor

from poolwise.errors import ParameterError


def network_inputs(batch: object) -> Tensor:
    """A batch that a network can take, or an error for texts."""
    if isinstance(batch, Tensor):
        return batch
    if not (isinstance(batch, list) and all(isinstance(item, str) for item in batch)):
        raise ParameterError(
            f"a network needs one tensor a batch, and these examples come as a {type(batch).__name__}. Let the data "
            "set give one tensor an item, or a pair (tensor, label)."
        )
    raise ParameterError(
        "a network needs numbers, and these examples are texts. Encode them first (poolwise.data.encoding.encode) and "
        "pass the [N, D] embeddings; or make tokens of them (poolwise.data.tokens.tokenise) for the model transformer; "
        "or use a Committee of scikit-learn pipelines that begin with a vectoriser."
    )


def layout(inputs: Tensor) -> Tensor:
    """Images in channels-last order in memory, where convolutions and pooling are several times faster on a CPU."""
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.ndim == 4 else inputs
