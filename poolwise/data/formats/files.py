"""Bytes from files, compressed or not, never more than asked for; and packages that only some formats need."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from poolwise.errors import FileError, MissingInputError

# What a damaged or unreadable file makes the standard library raise. A damaged gzip stream can also end early.
_DAMAGE = (OSError, EOFError, zlib.error)


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file open for reading, uncompressed on the way where its name ends in `.gz`.

    Damage that shows while it is read becomes a `FileError` that names the file.
    """
    try:
        with cast(IO[bytes], gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            yield file
    except FileError:
        raise
    except _DAMAGE as error:
        raise FileError(f"{path}: cannot be read ({error}). It may be damaged or cut short; fetch it again.") from error


def find(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Those of the files that are in a folder, by name; each may be there compressed, as `name.gz`."""
    paths = ((name, folder / form) for name in names for form in (f"{name}.gz", name))
    return {name: path for name, path in paths if path.is_file()}


def read_exactly(file: IO[bytes], count: int, path: Path, what: str) -> bytes:
    """The rest of a file, which must be `count` bytes long; no more than that is ever uncompressed."""
    content = file.read(count + 1)
    if len(content) != count:
        received = f"only {len(content):,}" if len(content) < count else "more"
        raise FileError(
            f"{path}: expected {count:,} bytes of {what}, found {received}. It is damaged or cut short; fetch it again."
        )
    return content


def package(name: str, install: str, purpose: str) -> Any:
    """A package that is imported only when something needs it.

    Args:
        name: what to import.
        install: what to pass to `pip install`.
        purpose: what it is needed for, to say when it is missing.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingInputError(
            f"{purpose} needs the package {name.partition('.')[0]}, which cannot be imported ({error}). "
            f"Install it with: pip install {install}"
        ) from error
