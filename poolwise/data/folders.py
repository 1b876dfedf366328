"""Folders of a user's own: images sorted into one folder per class, images alone, or images beside a table."""

from pathlib import Path

from poolwise.data.formats.images import ENDINGS
from poolwise.errors import FileError
from poolwise.storage import FolderSearch

_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".parquet")


def table_in(folder: Path) -> Path | None:
    """The one table in a folder; None if there is none."""
    tables = [entry for entry in _visible(folder) if entry.is_file() and entry.name.lower().endswith(_TABLES)]
    if len(tables) > 1:
        names = ", ".join(table.name for table in tables)
        raise FileError(f"{folder}: has several tables ({names}). Pass the path of the one to open.")
    return tables[0] if tables else None


def pictures_in(folder: Path) -> tuple[list[Path], list[str | None], list[str]]:
    """The images of a folder, their classes (None where unknown) and their ids, which are relative paths."""
    loose = [entry for entry in _visible(folder) if _is_picture(entry)]
    search = FolderSearch(folder, "image", "Give the folder of the images, or of their classes.")
    sorted_out = [picture for entry in _visible(folder) if entry.is_dir() for picture in _pictures(entry, search)]
    if loose and sorted_out:
        raise FileError(
            f"{folder}: {loose[0].name} is beside the folders of classes, so its class is not clear. Move it into "
            "one of them, or list the files and their labels in a CSV."
        )
    files = loose or sorted_out
    if not files:
        raise FileError(f"{folder}: expected images, one folder of images per class, or one table; found none.")
    ids = [file.relative_to(folder).as_posix() for file in files]
    return files, [None if loose else name.partition("/")[0] for name in ids], ids


def _visible(folder: Path) -> list[Path]:
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError as error:
        raise FileError(f"{folder}: cannot be read ({error.strerror}).") from error
    return sorted(entries, key=lambda entry: entry.name)


def _is_picture(entry: Path) -> bool:
    return entry.is_file() and entry.suffix.lower() in ENDINGS


def all_pictures(folder: Path) -> list[Path]:
    """The images of a folder and of all folders inside, sorted."""
    return _pictures(folder, FolderSearch(folder, "image", "Give the folder of the images."))


def _pictures(folder: Path, search: FolderSearch) -> list[Path]:
    """The images in a folder and the folders in it, in order of their names; links to folders are not followed."""
    found = []
    entries = _visible(folder)
    search.visited(any(map(_is_picture, entries)))
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            found += _pictures(entry, search)
        elif _is_picture(entry):
            found.append(entry)
    return found
