"""ResNet-18 (He et al. 2016), for large images as in the paper or with a small stem for images of about 32×32."""

from collections.abc import Sequence
from typing import Literal, get_args

from torch import Tensor, nn

from poolwise.errors import ParameterError
from poolwise.models import checks

Stem = Literal["small", "imagenet"]


def resnet_18(input_shape: Sequence[int], classes: int, *, stem: Stem = "small", dropout: float = 0.0) -> "ResNet18":
    """ResNet-18 with weights drawn as in He et al. (2015).

    Args:
        input_shape: (channels, height, width), of any size.
        classes: number of classes.
        stem: `"small"` begins with a 3×3 convolution at full resolution, for images of about 32×32; `"imagenet"` with
            a 7×7 convolution of stride 2 and max-pooling, as in the paper.
        dropout: rate of the only dropout layer, just before `head`; the paper has 0. With MC dropout, everything
            before it is computed once for all samples, so 100 samples cost little more than one.

    Example:
        >>> from poolwise import models
        >>> models.resnet_18((3, 32, 32), 10).head
        Linear(in_features=512, out_features=10, bias=True)
    """
    if stem not in get_args(Stem):
        raise ParameterError(f"stem must be one of {', '.join(map(repr, get_args(Stem)))}, not {stem!r}.")
    channels, _, _ = checks.image_shape(input_shape)
    return ResNet18(channels, checks.count(classes, "classes"), stem, checks.rate(dropout))


class ResNet18(nn.Module):
    """Stem, four stages of two residual blocks, average over positions, dropout, `head`."""

    def __init__(self, channels: int, classes: int, stem: Stem, dropout: float) -> None:
        super().__init__()
        self.stem = _small_stem(channels) if stem == "small" else _imagenet_stem(channels)
        self.stages = nn.Sequential(
            *(_Residual(64, 64, 1), _Residual(64, 64, 1)),
            *(_Residual(64, 128, 2), _Residual(128, 128, 1)),
            *(_Residual(128, 256, 2), _Residual(256, 256, 1)),
            *(_Residual(256, 512, 2), _Residual(512, 512, 1)),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(512, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """`[n, classes]` logits of `[n, channels, height, width]` images."""
        features = self.flatten(self.pool(self.stages(self.stem(images))))
        logits: Tensor = self.head(self.dropout(features))
        return logits


class _Residual(nn.Module):
    """Two 3×3 convolutions, added to the input or, where the shape changes, to a 1×1 convolution of it."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            *_convolution(channels_in, channels, 3, stride),
            nn.ReLU(inplace=True),
            *_convolution(channels, channels, 3),
        )
        same = channels_in == channels and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_convolution(channels_in, channels, 1, stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.relu(self.path(x) + self.shortcut(x))
        return result


def _convolution(channels_in: int, channels: int, kernel: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    """A convolution that keeps the size up to its stride, and batch normalisation, which has the bias."""
    convolution = nn.Conv2d(channels_in, channels, kernel, stride, padding=kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(channels)


def _small_stem(channels: int) -> nn.Sequential:
    return nn.Sequential(*_convolution(channels, 64, 3), nn.ReLU(inplace=True))


def _imagenet_stem(channels: int) -> nn.Sequential:
    stem = _convolution(channels, 64, 7, stride=2)
    return nn.Sequential(*stem, nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1))
