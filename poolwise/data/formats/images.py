"""Images from files, decoded once into one tensor of bytes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from poolwise.data.formats.files import check_memory, package
from poolwise.errors import FileError, ParameterError

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
"""The endings of the names of image files."""

# What is read, whatever a file is called. Pillow knows others too, and runs other programs for some of them.
_FORMATS = ("PNG", "JPEG", "BMP", "DIB", "GIF", "WEBP", "TIFF", "PPM")

# Pixels. A file of a few bytes can claim any size, and fill the memory when it is decoded; this many take 200 MB.
_LARGEST = 1 << 26
_GREY = {"1", "L", "LA", "La"}
_DEEP = ("I", "F")  # more than 8 bits per pixel; Pillow would clip them to white
_ORIENTATION = 0x0112  # the EXIF tag by which a camera says how it was held; from 5 on, width and height swap


def read_images(
    paths: Sequence[Path], size: int | tuple[int, int] | None = None, channels: int | None = None
) -> "Tensor":
    """`[N, channels, height, width]` bytes, the right way up, decoded on several threads.

    Args:
        paths: the files, at least one.
        size: height and width to resize to, one number for squares; None requires all to have the size of the first.
        channels: 1 for grey, 3 for colour; None is grey if every image is.
    """
    import torch

    from poolwise.parallel import one_thread_an_operation, ordered_map

    wanted = _checked_size(size)
    if channels not in (None, 1, 3):
        raise ParameterError(f"channels must be 1 (grey), 3 (colour) or None, not {channels!r}.")
    with one_thread_an_operation():
        headers = list(ordered_map(_header, paths))
        if wanted is None:
            odd = next((place for place, header in enumerate(headers) if header[0] != headers[0][0]), None)
            if odd is not None:
                raise FileError(
                    f"{paths[odd]}: expected {_words(headers[0][0])} as in {paths[0].name}, found "
                    f"{_words(headers[odd][0])}. Pass size=(height, width) to resize them all."
                )
            wanted = headers[0][0]
        if channels is None:
            channels = 1 if all(grey for _, grey in headers) else 3
        check_memory(paths[0].parent, len(paths) * channels * wanted[0] * wanted[1])
        images = torch.empty((len(paths), channels, *wanted), dtype=torch.uint8)

        def decode(place: int) -> None:
            images[place] = torch.from_numpy(_decode(paths[place], images.shape[1:]))

        for _ in ordered_map(decode, range(len(paths))):
            pass
    return images


def _checked_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = size if isinstance(size, tuple) else (size, size)
    if len(sides) != 2 or not all(isinstance(side, int) and side >= 1 for side in sides):
        raise ParameterError(f"size must be a whole number or (height, width), at least 1, not {size!r}.")
    return sides


def _words(size: tuple[int, int]) -> str:
    return f"height {size[0]} and width {size[1]}"


def _header(path: Path) -> tuple[tuple[int, int], bool]:
    """Height and width, the right way up, and whether the image is grey; the pixels are not decoded."""
    with open_image(path) as image:
        if image.mode.startswith(_DEEP):
            raise FileError(f"{path}: has more than 8 bits per pixel (mode {image.mode}). Convert it to 8 bits first.")
        turned = image.getexif().get(_ORIENTATION, 1) >= 5
        size = (image.width, image.height) if turned else (image.height, image.width)
        return size, image.mode in _GREY


def _decode(path: Path, shape: Sequence[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    operations = package("PIL.ImageOps", "pillow", "reading images")
    channels, height, width = shape
    with open_image(path) as image:
        upright = operations.exif_transpose(image).convert("L" if channels == 1 else "RGB")
        if upright.size != (width, height):
            upright = upright.resize((width, height), resample=2)  # 2 is bilinear, averaged where it shrinks
        pixels = np.array(upright, np.uint8).reshape(height, width, channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


@contextmanager
def open_image(path: Path) -> Iterator["Image"]:
    """An image, opened; whatever is wrong with it becomes an error that names it."""
    library = package("PIL.Image", "pillow", "reading images")
    try:
        with library.open(path, formats=_FORMATS) as image:
            if image.width * image.height > _LARGEST:
                raise library.DecompressionBombError(f"{image.width:,} by {image.height:,}")
            yield image
    except FileError:
        raise
    except (library.DecompressionBombError, library.DecompressionBombWarning) as error:
        raise FileError(
            f"{path}: expected at most {_LARGEST:,} pixels, found more ({error}). Make it smaller first."
        ) from error
    except Exception as error:  # Pillow raises many kinds on damaged files
        raise FileError(f"{path}: not an image that can be read ({error}). Remove or replace it.") from error
