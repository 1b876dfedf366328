"""The CNN of BatchBALD for 28 × 28 images, its convolutions compiled from C: for many runs on a few processor cores.

It is `poolwise.models.batchbald_cnn`: the same layers, initial weights and dropout masks, and the same function up to
rounding. A training step takes about half of the time. `paper/configs/paper/figure-1c-fmnist-ensemble-10.toml` is
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
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

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
        layers = self._modules
        weights = {(weight.dtype, weight.device.type) for weight in self.parameters()}
        if inputs.shape[1:] != (1, 28, 28) or inputs.device.type != "cpu" or weights != {(torch.float32, "cpu")}:
            raise ShapeError(  # the compiled code would read other memory
                f"expected inputs [n, 1, 28, 28] and float32 weights on the CPU, not {list(inputs.shape)} on "
                f"{inputs.device} and {sorted(map(str, weights))}. Use batchbald-cnn for anything else."
            )
        x = inputs.float()
        for number, block, channels, side in ((1, _First, 32, 24), (2, _Second, 64, 8)):
            convolution = layers[f"convolution{number}"]
            assert isinstance(convolution, nn.Conv2d)
            mask = _mask(layers[f"dropout{number}"], len(x), channels, side)
            x = block.apply(x, convolution.weight, convolution.bias, mask)  # type: ignore[no-untyped-call]
        for name in ("flatten", "hidden", "relu", "dropout", "head"):
            x = self.get_submodule(name)(x)
        return x


def _mask(layer: nn.Module | None, n: int, channels: int, side: int) -> Tensor | None:
    """`[n, channels, side, side]` what a dropout layer makes of ones, or None if it leaves them as they are."""
    assert layer is not None
    ones = _ones(n, channels, side)
    mask: Tensor = layer(ones)
    return None if mask is ones else mask.contiguous(memory_format=torch.channels_last)


@lru_cache(maxsize=4)
def _ones(n: int, channels: int, side: int) -> Tensor:
    """Ones as they lie in memory: a single one, repeated by its strides, makes the product with a mask slow."""
    return _images(n, channels, side).fill_(1)


class _First(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None) -> Tensor:
        n, x = len(inputs), inputs.contiguous()
        taps = weight.reshape(32, 25).T.contiguous()
        out, best = _images(n, 32, 12), _images(n, 32, 12, torch.int32)
        library().first_forward(n, *_addresses(x, taps, bias, mask, out, best))
        context.save_for_backward(x, best, *([] if mask is None else [mask]))
        return out

    @staticmethod
    def backward(context: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, best, *mask = context.saved_tensors
        dtaps, dbias, dout = torch.zeros(25, 32), torch.zeros(32), _nhwc(dout)
        library().first_backward(len(x), *_addresses(x, mask[0] if mask else None, dout, best, dtaps, dbias))
        return None, dtaps.T.reshape(32, 1, 5, 5), dbias, None


class _Second(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None) -> Tensor:
        n, x = len(x), _nhwc(x)
        filters = matrices()[1].T @ weight.permute(2, 3, 1, 0).reshape(25, 32 * 64)
        out, best = _images(n, 64, 4), _images(n, 64, 4, torch.int32)
        library().second_forward(n, *_addresses(x, filters, bias, mask, out, best))
        context.save_for_backward(x, weight, best, *([] if mask is None else [mask]))
        return out

    @staticmethod
    def backward(context: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, best, *mask = context.saved_tensors
        dx, dweight, dbias = torch.empty_like(x), _nhwc(torch.zeros_like(weight)), torch.zeros(64)
        weight, dout = _nhwc(weight), _nhwc(dout)
        library().second_backward(
            len(x), *_addresses(x, weight, mask[0] if mask else None, dout, best, dx, dweight, dbias)
        )
        return dx, dweight, dbias, None


def _images(n: int, channels: int, side: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty((n, channels, side, side), dtype=dtype, memory_format=torch.channels_last)


def _nhwc(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _addresses(*tensors: Tensor | None) -> list[ctypes.c_void_p | None]:
    return [None if tensor is None else ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]


@cache
def matrices() -> tuple[Tensor, Tensor, Tensor]:
    """Winograd's matrices of F(4, 5): `[8, 8]` of inputs, `[25, 64]` of 5 × 5 filters, `[4, 8]` of outputs.

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
    taps, inputs = taps / scale[:, None], inputs * scale[:, None]
    filters = np.einsum("pa,qb->abpq", taps, taps).reshape(25, 64)
    made = [torch.from_numpy(matrix).float() for matrix in (inputs, filters, outputs.T.copy())]
    return made[0], made[1], made[2]


@cache
def library() -> ctypes.CDLL:
    """The compiled blocks."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise ParameterError("paper.compiled_cnn needs a C compiler, and there is no cc. Use batchbald-cnn.")
    inputs, _, outputs = matrices()
    made = [f"-D{name}={_braces(matrix)}" for name, matrix in (("INPUT_MATRIX", inputs), ("OUTPUT_MATRIX", outputs))]
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
