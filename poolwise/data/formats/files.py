"""Bytes from files, compressed or not, never more than asked for; and packages that only some formats need."""

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from poolwise.errors import FileError, MissingInputError

# What a damaged or unreadable file makes the standard library raise. A damaged gzip stream can also end early.
_DAMAGE = (OSError, EOFError, zlib.error)

# A file that unpacks to more than the first, and to more than the second times its size, was made to fill the memory.
# Texts shrink five- to twentyfold, pictures and numbers less.
_UNPACKED = 1 << 28
_RATIO = 200

# Bytes read at a time. A buffer is made for all that is asked for, however short the file is.
_BLOCK = 1 << 20


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file open for reading, unpacked on the way if its name ends in `.gz`.

    Damage that shows while it is read becomes a `FileError` that names the file.
    """
    try:
        with cast(IO[bytes], gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")) as file:
            yield file
    except FileError:
        raise
    except _DAMAGE as error:
        raise FileError(f"{path}: cannot be read ({error}). It may be damaged or cut short; fetch it again.") from error


def read_bytes(path: Path) -> bytes:
    """A whole file, unpacked if its name ends in `.gz`; one that was made to fill the memory is refused."""
    with open_bytes(path) as file:
        packed, blocks, size = path.stat().st_size, [], 0
        while block := file.read(_BLOCK):
            blocks.append(block)
            size += len(block)
            check_unpacked(path, size, packed)
    return b"".join(blocks)


def check_unpacked(path: Path, size: int, packed: int) -> None:
    """Refuse a file that unpacks to far more than any honest one."""
    if size > max(_UNPACKED, _RATIO * packed):
        raise FileError(
            f"{path}: unpacks to more than {max(_UNPACKED, _RATIO * packed) >> 20:,} MB, {_RATIO} times its size. If "
            "that is right, unpack it yourself (or save it without compression) and open the result."
        )
    check_memory(path, size)


def check_memory(path: Path, size: int) -> None:
    """Refuse contents that cannot fit in the memory of this machine.

    Args:
        path: the file.
        size: bytes that its contents take.
    """
    total = machine_memory()
    if total is not None and size > total:
        raise FileError(
            f"{path}: its contents take {size / 1e9:,.1f} GB, and this machine has {total / 1e9:,.1f} GB of memory. "
            "Is it damaged? Save large arrays as .npy, which is mapped and not read whole."
        )


def machine_memory() -> int | None:
    """Bytes of memory of this machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def find(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Those of the files that are in a folder, by name; each may be there compressed, as `name.gz`."""
    paths = ((name, folder / form) for name in names for form in (f"{name}.gz", name))
    return {name: path for name, path in paths if path.is_file()}


def read_exactly(file: IO[bytes], count: int, path: Path, what: str) -> bytes:
    """The rest of a file, which must be `count` bytes long; no more than that is ever unpacked."""
    content = file.read(count + 1)
    if len(content) != count:
        received = f"only {len(content):,}" if len(content) < count else "more"
        raise FileError(
            f"{path}: expected {count:,} bytes of {what}, found {received}. It is damaged or cut short; fetch it again."
        )
    return content


def ending(path: Path) -> str:
    """The ending of a name, in lower case and without a `.gz`."""
    return Path(path.name[:-3] if path.suffix.lower() == ".gz" else path.name).suffix.lower()


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
