"""The CNN of BatchBALD for 28 × 28 images, its convolutions compiled from C: for many runs on a few processor cores.

It is `poolwise.models.batchbald_cnn`: the same layers and initial weights, and the same function up to rounding. In
training, what the two convolution blocks drop is drawn in another way, from a seed that PyTorch's random state gives.
A training step takes about a third of the time. `paper/configs/paper/figure-1c-fmnist-ensemble-10.toml` is
run with it by

    poolwise run FILE --set model.name=paper.compiled_cnn:batchbald_cnn

It needs a C compiler, `cc` or what the environment variable `CC` names, and compiles once, into the cache folder.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from poolwise import models
from poolwise.errors import ParameterError, ShapeError

_SOURCE = Path(__file__).with_suffix(".c")
_OPTIONS = ("-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "-w")
_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)


def batchbald_cnn(
    input_shape: Sequence[int],
    classes: int,
    *,
    dropout: Sequence[float] = (0.25, 0.25, 0.5),
    drop: str = "elements",
    padding: int = 0,
) -> nn.Sequential:
    """The network.

    Args:
        input_shape: (1, 28, 28), and nothing else.
        classes: number of classes.
        dropout: rates of the three dropout layers.
        drop: `"elements"`, and nothing else.
        padding: 0, and nothing else.
    """
    if tuple(input_shape) != (1, 28, 28) or drop != "elements" or padding != 0:
        raise ParameterError(
            "paper.compiled_cnn is for images of 1 × 28 × 28, drop='elements' and padding=0. Use batchbald-cnn."
        )
    library()
    layers = models.batchbald_cnn(input_shape, classes, dropout=dropout, drop="elements").named_children()
    return CompiledCNN(OrderedDict(layers))


class CompiledCNN(nn.Sequential):
    """The layers of `batchbald_cnn`, with the two convolution blocks in C."""

    def forward(self, inputs: Tensor) -> Tensor:
        """`[n, classes]` logits."""
        weights = {(weight.dtype, weight.device.type) for weight in self.parameters()}
        if inputs.shape[1:] != (1, 28, 28) or inputs.device.type != "cpu" or weights != {(torch.float32, "cpu")}:
            raise ShapeError(  # the compiled code would read other memory
                f"expected inputs [n, 1, 28, 28] and float32 weights on the CPU, not {list(inputs.shape)} on "
                f"{inputs.device} and {sorted(map(str, weights))}. Use batchbald-cnn for anything else."
            )
        x = self.blocks(inputs.float().contiguous())
        for name in ("flatten", "hidden", "relu", "dropout", "head"):
            x = self.get_submodule(name)(x)
        return x

    def blocks(self, x: Tensor) -> Tensor:
        """`[n, 64, 4, 4]` what goes into the dense layers."""
        drops = [self._drop(number, len(x)) for number in (1, 2)]
        convolutions = [(layer.weight, layer.bias) for layer in self if isinstance(layer, nn.Conv2d)]
        if torch.is_grad_enabled() or drops != [None, None]:
            for block, (weight, bias), drop in zip((_First, _Second), convolutions, drops, strict=True):
                x = block.apply(x, weight, bias, drop)  # type: ignore[no-untyped-call]
        else:
            out = _images(len(x), 64, 4)
            (weight1, bias1), (weight2, bias2) = convolutions
            filters = _first_filters(weight1), bias1, _second_filters(weight2), bias2
            library().blocks(len(x), *_addresses(x, *filters, out))
            return out
        return x

    def _drop(self, number: int, n: int) -> "Drop | None":
        """What a dropout layer drops in this pass: drawn here in training, and otherwise by the layer."""
        layer, (channels, side) = self.get_submodule(f"dropout{number}"), ((32, 24), (64, 8))[number - 1]
        assert isinstance(layer, nn.Dropout)
        if self.training:
            return Drop.drawn(layer.p, n, channels, side)
        ones = _ones(n, channels, side)
        mask: Tensor = layer(ones)  # masks of MC dropout come by a hook of the layer
        return None if mask is ones else Drop.of_mask(mask)


@dataclass(frozen=True)
class Drop:
    """Dropout before the pooling of a block.

    Attributes:
        words: `[n, channels, side / 2, side / 2]` int32, channels-last: a byte for each activation of a window.
        lowest: an activation is kept if its byte is at least this.
        scale: factor of what is kept.
    """

    words: Tensor
    lowest: int
    scale: float

    @staticmethod
    def drawn(rate: float, n: int, channels: int, side: int) -> "Drop | None":
        """Random words, from a seed that PyTorch's random state gives."""
        lowest = 256 * rate
        if not lowest.is_integer() or rate == 1:
            raise ParameterError(f"paper.compiled_cnn drops at rates k/256 below 1, not {rate:g}. Use batchbald-cnn.")
        if not rate:
            return None
        words = _images(n, channels, side // 2, torch.int32)
        seed = ctypes.c_ulong(int(torch.randint(2**63 - 1, ())))
        library().random_words(seed, ctypes.c_long(words.numel()), *_addresses(words))
        return Drop(words, int(lowest), 1 / (1 - rate))

    @staticmethod
    def of_mask(mask: Tensor) -> "Drop":
        """From `[n, channels, side, side]` numbers: 0 where an activation is dropped, one other number elsewhere."""
        scale = float(mask.max())
        n, channels, side, _ = mask.shape
        if not ((mask == 0) | (mask == scale)).all():
            raise ParameterError("paper.compiled_cnn takes masks of zeros and one other number. Use batchbald-cnn.")
        windows = (mask > 0).view(n, channels, side // 2, 2, side // 2, 2).permute(0, 2, 4, 1, 3, 5)
        bytes_ = windows.reshape(n, side // 2, side // 2, 4 * channels).to(torch.uint8)
        return Drop(bytes_.view(torch.int32).movedim(-1, 1), 1, scale)

    @staticmethod
    def arguments(drop: "Drop | None") -> tuple[Any, ...]:
        """As the C code takes them."""
        if drop is None:
            return None, 0, ctypes.c_float(1)
        return *_addresses(drop.words), drop.lowest, ctypes.c_float(drop.scale)


@lru_cache(maxsize=4)
def _ones(n: int, channels: int, side: int) -> Tensor:
    return torch.ones(()).expand(n, channels, side, side)


def _first_filters(weight: Tensor) -> Tensor:
    """`[8, 5, 32]`: each row of each filter at eight points."""
    return torch.einsum("pb,cab->pac", matrices().taps, weight[:, 0]).contiguous()


def _second_filters(weight: Tensor) -> Tensor:
    """`[64, 32, 64]`: each filter at 8 × 8 points, and there a matrix from input to output channels."""
    return _taps_squared() @ weight.permute(2, 3, 1, 0).reshape(25, 32 * 64)


@cache
def _taps_squared() -> Tensor:
    """`[64, 25]`: values of a filter at 8 × 8 points."""
    taps = matrices().taps
    return torch.einsum("pa,qb->pqab", taps, taps).reshape(64, 25).contiguous()


class _First(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor, drop: Drop | None) -> Tensor:
        filters, out, best = _first_filters(weight), _images(len(x), 32, 12), _images(len(x), 32, 12, torch.int32)
        library().first_forward(len(x), *_addresses(x, filters, bias), *Drop.arguments(drop), *_addresses(out, best))
        context.save_for_backward(x, best)
        context.scale = drop.scale if drop else 1.0
        return out

    @staticmethod
    def backward(context: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, best = context.saved_tensors
        dtaps, dbias, dout = torch.zeros(25, 32), torch.zeros(32), _nhwc(dout)
        library().first_backward(
            len(x), *_addresses(x), ctypes.c_float(context.scale), *_addresses(dout, best, dtaps, dbias)
        )
        return None, dtaps.T.reshape(32, 1, 5, 5), dbias, None


class _Second(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor, drop: Drop | None) -> Tensor:
        x = _nhwc(x)
        filters, out, best = _second_filters(weight), _images(len(x), 64, 4), _images(len(x), 64, 4, torch.int32)
        library().second_forward(len(x), *_addresses(x, filters, bias), *Drop.arguments(drop), *_addresses(out, best))
        context.save_for_backward(x, weight, best)
        context.scale = drop.scale if drop else 1.0
        return out

    @staticmethod
    def backward(context: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, best = context.saved_tensors
        dx, dweight, dbias = torch.empty_like(x), _nhwc(torch.zeros_like(weight)), torch.zeros(64)
        weight, dout = _nhwc(weight), _nhwc(dout)
        library().second_backward(
            len(x), *_addresses(x, weight), ctypes.c_float(context.scale), *_addresses(dout, best, dx, dweight, dbias)
        )
        return dx, dweight, dbias, None


def _images(n: int, channels: int, side: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty((n, channels, side, side), dtype=dtype, memory_format=torch.channels_last)


def _nhwc(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _addresses(*tensors: Tensor | None) -> list[ctypes.c_void_p | None]:
    return [None if tensor is None else ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]


class Winograd(NamedTuple):
    """The matrices of F(4, 5): `[8, 8]` of pieces of the input, `[8, 5]` of filters, `[4, 8]` of outputs."""

    inputs: Tensor
    taps: Tensor
    outputs: Tensor


@cache
def matrices() -> Winograd:
    """Winograd's matrices of F(4, 5).

    A product of polynomials of degree 4 and 3 is known by its values at eight points, of which one is infinity, where
    the leading coefficient counts. The transpose of that algorithm is a filter with five taps and four outputs.
    """
    values = np.zeros((8, 8))
    values[:7] = np.power.outer(np.array(_POINTS), np.arange(8))
    values[7, 7] = 1
    inputs = np.linalg.inv(values).T
    taps, outputs = values[:, :5].copy(), values[:, :4].copy()
    taps[7], outputs[7] = np.eye(5)[4], np.eye(4)[3]
    scale = np.abs(taps).max(1)  # the same in every product; keeps numbers of one size together
    made = (inputs * scale[:, None], taps / scale[:, None], outputs.T.copy())
    return Winograd(*[torch.from_numpy(matrix).float() for matrix in made])


@cache
def library() -> ctypes.CDLL:
    """The compiled blocks."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise ParameterError("paper.compiled_cnn needs a C compiler, and there is no cc. Use batchbald-cnn.")
    inputs, _, outputs = matrices()
    named = {"INPUT_MATRIX": inputs, "INPUT_TRANSPOSED": inputs.T, "OUTPUT_MATRIX": outputs}
    made = [f"-D{name}={_braces(matrix)}" for name, matrix in named.items()]
    command = [compiler, *_OPTIONS, *made, str(_SOURCE)]
    # Compiled for this processor: another one may not have its instructions.
    about = (_SOURCE.read_text(), str(command), Path("/proc/cpuinfo").read_text().partition("bugs")[0])
    folder = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "poolwise"
    path = folder / f"compiled-cnn-{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made_here = Path(scratch) / path.name
            subprocess.run([*command, "-o", str(made_here)], check=True)
            made_here.replace(path)
    return ctypes.CDLL(str(path))


def _braces(matrix: Tensor) -> str:
    return "{" + ",".join("{" + ",".join(f"{x!r}f" for x in row) + "}" for row in matrix.tolist()) + "}"
