"""Images of unknown origin: decoded within limits, and encoded again before anybody gets them."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from poolwise.data.formats.files import package
from poolwise.data.formats.images import open_image
from poolwise.errors import FileError

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST_FILE = 64 << 20
"""Bytes of an image file that is opened."""

_QUALITY = 90


def inside(path: Path, folder: Path) -> bool:
    """Whether a file is in a folder, once all links are followed."""
    return folder.resolve() in path.resolve().parents


def check_size(path: Path) -> None:
    """Refuse files that are larger than any image that people look at."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}).") from error
    if size > LARGEST_FILE:
        raise FileError(f"{path}: expected at most {LARGEST_FILE >> 20} MB, found {size >> 20:,} MB. Make it smaller.")


def served(path: Path, longest: int = 1_600) -> tuple[bytes, str]:
    """An image to show in a browser, the right way up, and its media type.

    What is sent are pixels that were encoded here: nothing else of the file gets through, no script, no profile and no
    place where the photograph was taken. Small images stay unchanged, pixel by pixel.

    Args:
        path: the file.
        longest: pixels of the longer side that are sent at most.
    """
    check_size(path)
    operations = package("PIL.ImageOps", "pillow", "reading images")
    with open_image(path) as image:
        clear = image.mode in ("1", "P", "RGBA", "LA", "PA", "La", "RGBa")
        upright = operations.exif_transpose(image)
        if upright.mode.startswith(("I", "F")):
            upright = _eight_bits(upright)
        upright = upright.convert("RGBA" if clear else "L" if upright.mode == "L" else "RGB")
        upright.thumbnail((longest, longest))
        written = io.BytesIO()
        small = upright.width * upright.height <= 1 << 16
        if clear or small:
            upright.info.clear()
            upright.save(written, "PNG")
            return written.getvalue(), "image/png"
        upright.save(written, "JPEG", quality=_QUALITY)
        return written.getvalue(), "image/jpeg"


def _eight_bits(image: "Image") -> "Image":
    """An image of more than 8 bits per pixel, as of a scanner or a microscope: its darkest pixel is black, its lightest
    white. Pillow would clip it, to white for the most part."""
    values = np.asarray(image, np.float64)
    known = np.isfinite(values)
    low, high = (values[known].min(), values[known].max()) if known.any() else (0.0, 0.0)
    scaled = (np.where(known, values, low) - low) * (255 / (high - low) if high > low else 0.0)
    made: Image = package("PIL.Image", "pillow", "reading images").fromarray(np.round(scaled).astype(np.uint8))
    return made
