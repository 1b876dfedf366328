"""Archives as they are distributed: the files that are wanted, extracted once into a folder beside the archive.

Members are checked by the standard library's own filter for data (`tarfile.data_filter`): links, devices and paths that
lead out of the archive are refused. No path of an archive is ever written to: every file goes into one new folder,
under the name that was asked for.
"""

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from poolwise.data.formats.files import find
from poolwise.errors import FileError

# The largest official archive holds 1.5 GB in 50 files. These keep a forged one from filling the disk.
_LARGEST = 4 << 30
_MOST = 10_000

_DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError)


def extract(archive: Path, names: Sequence[str]) -> dict[str, Path]:
    """The wanted files of an archive by name; they are extracted by the first call and found there by later ones.

    Args:
        archive: a `.zip`, `.tar` or `.tar.gz` file.
        names: the files to extract, wherever in the archive they are; each may be there as `name.gz`.
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
        _extract(archive, {form for name in names for form in (name, name + ".gz")}, scratch)
        _found(scratch, archive, names)
        try:
            os.rename(scratch, folder)
        except OSError:
            if not folder.is_dir():  # if it is one, another process was faster, and its files are the same
                raise
    except FileError:
        raise
    except tarfile.FilterError as error:
        raise FileError(f"{archive}: refused ({error}). The official archive is plain; fetch it again.") from error
    except _DAMAGE as error:
        raise FileError(f"{archive}: cannot be extracted ({error}). It may be damaged; fetch it again.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _found(folder: Path, archive: Path, names: Sequence[str]) -> dict[str, Path]:
    paths = find(folder, names)
    missing = [name for name in names if name not in paths]
    if missing:
        raise FileError(
            f"{archive}: does not contain {', '.join(missing)}. Is it another archive under this name? Remove it, and "
            f"{archive.name}.extracted if that is there, and fetch it again."
        )
    return paths


def _extract(archive: Path, wanted: set[str], scratch: Path) -> None:
    total = 0
    members = _zip_members if archive.suffix == ".zip" else _tar_members
    for count, (member, content) in enumerate(members(archive)):
        total += member.size  # which neither library reads beyond
        if total > _LARGEST or count >= _MOST:
            raise FileError(
                f"{archive}: contains more than {_LARGEST >> 30} GB or {_MOST:,} files. The official archive does not; "
                "fetch it again."
            )
        name = tarfile.data_filter(member, str(scratch)).name.rpartition("/")[2]
        if name in wanted and content is not None:
            with (scratch / name).open("xb") as file:
                shutil.copyfileobj(content, file)


def _tar_members(archive: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Every member, and its content if it is a file, one by one: a size is known before anything is unpacked."""
    with tarfile.open(archive) as opened:
        for member in opened:
            yield member, opened.extractfile(member) if member.isreg() else None


def _zip_members(archive: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """As for a tar; the members of a zip are described as those of a tar, so that one filter is for both."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            member = tarfile.TarInfo(entry.filename)
            member.size = entry.file_size
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if entry.is_dir() or kind not in (0, stat.S_IFREG):
                member.type = tarfile.DIRTYPE if entry.is_dir() else tarfile.CHRTYPE
                yield member, None
            else:
                with opened.open(entry) as content:
                    yield member, content
