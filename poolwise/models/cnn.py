"""Small convolutional networks with dropout throughout, as Bayesian active learning uses them.

A block is a convolution, an optional 2×2 max-pooling, ReLU and channel dropout. The papers drop channels right after
the convolution. Dropout multiplies a channel by 0 or by 1 / (1 - rate). Max-pooling and ReLU both commute with
multiplication by a number of at least 0, so dropping last is the same function of the same mask. This order is cheaper:
everything up to the first dropout layer is shared by all samples of Monte Carlo dropout. For the same reason ReLU comes
before the dropout of the hidden layer.

With `drop="elements"` single activations are dropped instead of whole channels. The maximum over a window then depends
on which of its elements are dropped, so this dropout stays in front of the pooling.

The networks are flat `nn.Sequential`s, so `network[:n]` is a network too. Convolution, pooling, ReLU and dropout all
keep the channels-last layout: `network.to(memory_format=torch.channels_last)` is faster on most processors.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, NamedTuple

from torch import nn

from poolwise.errors import ParameterError, ShapeError
from poolwise.models import checks

Drop = Literal["channels", "elements"]


class _Block(NamedTuple):
    channels: int
    kernel: int
    pool: bool = True

    def size(self, size: int, padding: int) -> int:
        """Height or width after the block, from that before it; 0 where nothing is left."""
        convolved = size + 2 * padding - self.kernel + 1
        return max(0, convolved // 2 if self.pool else convolved)


def batchbald_cnn(
    input_shape: Sequence[int],
    classes: int,
    *,
    dropout: float | Sequence[float] = 0.5,
    drop: Drop = "channels",
    padding: int = 0,
) -> nn.Sequential:
    """The network of Kirsch et al. (2019) for MNIST: 5×5 convolutions of 32 and 64 channels, then 128 units.

    Args:
        input_shape: (channels, height, width); images of at least 16×16, smaller ones with padding.
        classes: number of classes.
        dropout: rate of all three dropout layers, or one rate for each.
        drop: what dropout removes after a convolution: whole channels, or single elements.
        padding: zeros around each convolution's input. 0 is as in the authors' program; 2 keeps the size, for
            images such as the 8×8 digits of scikit-learn.

    Example:
        >>> from poolwise import models
        >>> models.batchbald_cnn((1, 28, 28), 10).head.out_features
        10
    """
    return _cnn(input_shape, classes, [_Block(32, 5), _Block(64, 5)], 128, dropout, drop, padding)


def emnist_cnn(
    input_shape: Sequence[int],
    classes: int,
    *,
    dropout: float | Sequence[float] = 0.5,
    drop: Drop = "channels",
    padding: int = 0,
) -> nn.Sequential:
    """The network of Kirsch et al. (2019) for EMNIST: 3×3 convolutions of 32, 64 and 128 channels, then 512 units.

    As in the authors' program, the first and the last convolution are followed by pooling, the second is not.

    Args:
        input_shape: (channels, height, width); images of at least 14×14, smaller ones with padding.
        classes: number of classes.
        dropout: rate of all four dropout layers, or one rate for each.
        drop: what dropout removes after a convolution: whole channels, or single elements.
        padding: zeros around each convolution's input. 0 is as in the authors' program; 1 keeps the size.

    Example:
        >>> from poolwise import models
        >>> models.emnist_cnn((1, 28, 28), 10).head.out_features
        10
    """
    blocks = [_Block(32, 3), _Block(64, 3, pool=False), _Block(128, 3)]
    return _cnn(input_shape, classes, blocks, 512, dropout, drop, padding)


def cifar_cnn(
    input_shape: Sequence[int], classes: int, *, dropout: float | Sequence[float] = 0.25, drop: Drop = "channels"
) -> nn.Sequential:
    """A small network for 32×32 colour images: padded 3×3 convolutions of 64, 128 and 256 channels, then 256 units.

    Args:
        input_shape: (channels, height, width); images of at least 8×8.
        classes: number of classes.
        dropout: rate of all four dropout layers, or one rate for each.
        drop: what dropout removes after a convolution: whole channels, or single elements.

    Example:
        >>> from poolwise import models
        >>> models.cifar_cnn((3, 32, 32), 10).head.out_features
        10
    """
    return _cnn(input_shape, classes, [_Block(64, 3), _Block(128, 3), _Block(256, 3)], 256, dropout, drop, padding=1)


def _cnn(
    input_shape: Sequence[int],
    classes: int,
    blocks: list[_Block],
    hidden: int,
    dropout: float | Sequence[float],
    drop: Drop,
    padding: int,
) -> nn.Sequential:
    channels, *size = checks.image_shape(input_shape)
    checks.count(classes, "classes")
    checks.count(padding, "padding", least=0)
    *rates, last_rate = checks.rates(dropout, len(blocks) + 1)
    if drop not in ("channels", "elements"):
        raise ParameterError(f"drop must be 'channels' or 'elements', not {drop!r}.")
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (block, rate) in enumerate(zip(blocks, rates, strict=True), 1):
        layers[f"convolution{number}"] = nn.Conv2d(channels, block.channels, block.kernel, padding=padding)
        if drop == "elements":
            layers[f"dropout{number}"] = nn.Dropout(rate)
        if block.pool:
            layers[f"pool{number}"] = nn.MaxPool2d(2)
        layers[f"relu{number}"] = nn.ReLU()
        if drop == "channels":
            layers[f"dropout{number}"] = nn.Dropout2d(rate)
        channels, size = block.channels, [block.size(side, padding) for side in size]
    if 0 in size:
        raise ShapeError(
            f"images of {'×'.join(map(str, input_shape[1:]))} are too small: nothing is left of them after "
            f"{len(blocks)} convolutions with padding={padding}. Enlarge the images, or pass "
            f"padding={blocks[0].kernel // 2}, which keeps their size in a convolution."
        )
    layers["flatten"] = nn.Flatten()
    layers["hidden"] = nn.Linear(channels * size[0] * size[1], hidden)
    layers["relu"] = nn.ReLU()
    layers["dropout"] = nn.Dropout(last_rate)
    layers["head"] = nn.Linear(hidden, classes)
    return nn.Sequential(layers)
