"""Archives as they are distributed: the files that are wanted, taken out once into a folder beside the archive.

The library never writes to a path that stands in an archive: every file goes into one new folder, under the name that
was asked for. An archive with a link, a device, or a path that leads out of it is not the official one, and is refused.
"""

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from poolwise.data.formats.files import find
from poolwise.errors import FileError

# The largest official archive holds 1.5 GB in 50 files. These keep a forged one from filling the disk.
_LARGEST = 4 << 30
_MOST = 10_000

_DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError)


def extract(archive: Path, names: Sequence[str]) -> dict[str, Path]:
    """The wanted files of an archive by name; they are taken out by the first call and found there by later ones.

    Args:
        archive: a `.zip`, `.tar` or `.tar.gz` file.
        names: the files to take out, wherever in the archive they are; each may be there as `name.gz`.
    """
    folder = archive.with_name(archive.name + ".extracted")
    if not folder.is_dir():
        _make(folder, archive, names)
    return _found(folder, archive, names)


def _make(folder: Path, archive: Path, names: Sequence[str]) -> None:
    """Make the folder with the files in it, whole or not at all."""
    try:
        scratch = Path(tempfile.mkdtemp(prefix=".extracting-", dir=archive.parent))
    except OSError as error:
        raise FileError(
            f"{archive}: cannot make a folder beside it to extract it into ({error}). Extract it yourself, or copy it "
            "to a folder that can be written to and pass that as root."
        ) from error
    try:
        _take(archive, {form for name in names for form in (name, name + ".gz")}, scratch)
        _found(scratch, archive, names)
        try:
            os.rename(scratch, folder)
        except OSError:
            if not folder.is_dir():  # if it is one, another process was faster, and its files are the same
                raise
    except FileError:
        raise
    except _DAMAGE as error:
        raise FileError(f"{archive}: cannot be extracted ({error}). It may be damaged; fetch it again.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _found(folder: Path, archive: Path, names: Sequence[str]) -> dict[str, Path]:
    paths = find(folder, names)
    missing = [name for name in names if name not in paths]
    if missing:
        raise FileError(
            f"{archive}: does not hold {', '.join(missing)}. Is it another archive under this name? Remove it, and "
            f"{archive.name}.extracted if that is there, and fetch it again."
        )
    return paths


def _take(archive: Path, wanted: set[str], scratch: Path) -> None:
    total = 0
    members = _zip_members if archive.suffix == ".zip" else _tar_members
    for count, (name, size, content) in enumerate(members(archive)):
        total += size
        if total > _LARGEST or count >= _MOST:
            raise FileError(
                f"{archive}: holds more than {_LARGEST >> 30} GB or {_MOST:,} files. The official archive does not; "
                "fetch it again."
            )
        path = PurePosixPath(name.replace("\\", "/"))
        if content is None or path.is_absolute() or ".." in path.parts or ":" in name:
            raise FileError(
                f"{archive}: refused, since it holds {name!r}, a link, a device or a path that leads out of the "
                "archive. The official archive does not; fetch it again."
            )
        if path.name in wanted:
            with (scratch / path.name).open("xb") as file:
                _copy(content, file, size, archive, name)


def _copy(content: IO[bytes], file: IO[bytes], size: int, archive: Path, name: str) -> None:
    left = size
    while left and (block := content.read(min(left, 1 << 20))):
        left -= file.write(block)
    if left or content.read(1):
        raise FileError(f"{archive}: {name!r} is not as long as the archive says. It is damaged; fetch it again.")


def _zip_members(archive: Path) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    """Name, size and content of each file; None as the content of what is not a plain file."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                yield entry.filename, 0, None
            elif not entry.is_dir():
                with opened.open(entry) as content:
                    yield entry.filename, entry.file_size, content


def _tar_members(archive: Path) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    """As for a zip. Members come one by one, so that a size is checked before the content is uncompressed."""
    with tarfile.open(archive) as opened:
        for entry in opened:
            if not entry.isdir():
                yield entry.name, entry.size, opened.extractfile(entry) if entry.isreg() else None
