"""Reference networks, for experiments and as examples.

Each is a function of the shape of one input and the number of classes, and returns an ordinary PyTorch module. Inputs
are float32 (token ids for `transformer`) and outputs are logits. Dropout is in layers of its own, and the last linear
layer is named `head`. Poolwise takes any other module as well.
"""

from poolwise.models.cnn import batchbald_cnn, cifar_cnn, emnist_cnn
from poolwise.models.head import linear, mlp
from poolwise.models.initialise import build, glorot_
from poolwise.models.last_layer import penultimate
from poolwise.models.registry import make, names
from poolwise.models.resnet import resnet_18
from poolwise.models.transformer import Transformer, transformer

__all__ = [
    "Transformer",
    "batchbald_cnn",
    "build",
    "cifar_cnn",
    "emnist_cnn",
    "glorot_",
    "linear",
    "make",
    "mlp",
    "names",
    "penultimate",
    "resnet_18",
    "transformer",
]


def __dir__() -> list[str]:
    return sorted(__all__)
