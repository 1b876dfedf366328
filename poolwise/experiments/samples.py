"""Samples of what a run picked, for people to look at: pictures and texts from its first and its last batch."""

import io
import json
import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import FileError
from poolwise.experiments.json_values import WRONG, reason_of, short_json
from poolwise.learning.rounds import Round
from poolwise.storage import replacing, write_json

THUMBNAILS, TEXTS = "thumbnails.npz", "texts.json"

# How many pictures and texts of a batch are kept, and how many characters of a text.
_PICTURES, _TEXTS, _CHARACTERS = 20, 5, 160
# Pictures larger than this (bytes) in all were not written here.
_LARGEST = 1 << 28
_ROUND = "round-"


def write_samples(
    folder: Path,
    rounds: Sequence[Round],
    images: Callable[[Array], Array | None] | None,
    texts: Callable[[Array], list[str]] | None,
) -> None:
    """Write samples of the first and the last batch so far, in place of those before.

    Args:
        folder: of the run.
        rounds: the learner's rounds.
        images: from positions in the pool to `[n, height, width, channels]` bytes; None where there are none.
        texts: from positions in the pool to texts; None where there are none.
    """
    batches = [entry for entry in rounds if entry.indices]
    ends = {f"{_ROUND}{entry.round}": np.array(entry.indices) for entry in (*batches[:1], *batches[-1:])}
    if images is not None and ends:
        pictures = {name: images(picks[:_PICTURES]) for name, picks in ends.items()}
        found = {name: picture for name, picture in pictures.items() if picture is not None}
        if found:
            content = io.BytesIO()
            np.savez_compressed(content, **found)  # type: ignore[arg-type]
            with replacing(folder / THUMBNAILS) as file:
                file.write(content.getvalue())
    if texts is not None and ends:
        write_json(
            folder / TEXTS, {name: [_cut(text) for text in texts(picks[:_TEXTS])] for name, picks in ends.items()}
        )


def _cut(text: str) -> str:
    """The beginning of a text on one line."""
    plain = " ".join(text[: 4 * _CHARACTERS].split())
    return plain if len(plain) <= _CHARACTERS and len(text) <= 4 * _CHARACTERS else f"{plain[: _CHARACTERS - 1]}…"


def read_thumbnails(folder: Path) -> list[tuple[int, Array]]:
    """Numbers of rounds with the `[n, H, W, channels]` images picked in them, in order; nothing if none were kept."""
    path = folder / THUMBNAILS
    if not path.exists():
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > _LARGEST:
                raise ValueError("it is larger than any that Poolwise writes")
            batches = [
                (_number(name.removesuffix(".npy")), _pictures(archive.read(name))) for name in archive.namelist()
            ]
    except Exception as error:  # whatever a damaged archive makes zipfile or NumPy stumble over
        raise _damaged(path, "images", error) from error
    return sorted(((number, images) for number, images in batches if len(images)), key=lambda batch: batch[0])


def _pictures(content: bytes) -> Array:
    """An array of images; its header is compared with its size before memory is taken for it."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype != np.uint8 or len(shape) != 4 or shape[-1] not in (1, 3):
        raise ValueError(f"expected bytes [n, H, W, 1 or 3], found {dtype} {list(shape)}")
    if math.prod(shape) != len(content) - file.tell() or not all(shape[1:]):
        raise ValueError(f"its size does not fit its shape {list(shape)}")
    file.seek(0)
    images: Array = np.lib.format.read_array(file, allow_pickle=False)
    return images


def read_texts(folder: Path) -> list[tuple[int, list[str]]]:
    """Numbers of rounds with some of the texts picked in them, in order; nothing if none were kept."""
    path = folder / TEXTS
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise TypeError(f"expected an object, found {short_json(content)}")
        batches = [(_number(name), [_checked(text) for text in texts]) for name, texts in content.items()]
    except WRONG as error:
        raise _damaged(path, "texts", error) from error
    return sorted((number, texts) for number, texts in batches if texts)


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"expected a text, found {short_json(text)}")
    text.encode()  # half a surrogate pair cannot be shown
    return _cut(text)


def _number(name: str) -> int:
    """The number of a round, from its name in the file."""
    digits = name.removeprefix(_ROUND)
    if not name.startswith(_ROUND) or not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        raise ValueError(f"expected {_ROUND}0, {_ROUND}1, ..., found {name[:40]!r}")
    return int(digits)


def _damaged(path: Path, what: str, error: Exception) -> FileError:
    return FileError(
        f"{path} is damaged: {reason_of(error)}. Remove the file: the report does without the {what} of this run."
    )
