"""The data of a project as items: what each is called, what it is, and whether it has changed."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.arrays import Array, as_embeddings
from poolwise.data import folders, frames, tables
from poolwise.data.embedding_store import text_key
from poolwise.data.formats.images import ENDINGS
from poolwise.data.reading import call_reader, find_format
from poolwise.errors import FileError, ParameterError
from poolwise.labelling.images import inside
from poolwise.storage import reading_arrays

# Names by which a column is taken for the texts, before the longest texts are.
_TEXT_NAMES = ("text", "texts", "message", "body", "content", "document", "sentence", "review", "comment")
_ID_NAME = re.compile(r"(?:.*[_\- ])?(?:id|uid|uuid|guid|key)", re.IGNORECASE)
_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".parquet")

# Bytes from the beginning of an image file that tell, with its size, whether it has changed.
_BEGINNING = 1 << 16


@dataclass(frozen=True)
class Items:
    """The items of a project, in the order of the data.

    Attributes:
        kind: what an item is: `"text"`, `"image"` or `"features"`.
        ids: what each is called.
        texts: the text of each, if they have texts.
        files: the image file of each, if they have images.
        features: `[N, D]` features of each, if the data are features.
        text: the column of texts, if they come from a table.
        file: the column of files.
        id: the column of ids; None if they are called by their row or file.
        originals: what the features were made from.
        said: what was chosen and what was left out, in words.
    """

    kind: str
    ids: Sequence[str]
    texts: Sequence[str] | None = None
    files: Sequence[Path] | None = None
    features: Array | None = None
    text: str | None = None
    file: str | None = None
    id: str | None = None
    originals: Path | None = None
    said: Sequence[str] = ()
    position: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", {name: place for place, name in enumerate(self.ids)})

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def by_row(self) -> bool:
        """Whether items are called by their row, so that inserting one renames the others."""
        return self.id is None and self.files is None

    def shown(self, item: str) -> str:
        """What a person sees of an item in a table: its text, its file, or the beginning of its features."""
        place = self.position[item]
        if self.texts is not None:
            return self.texts[place]
        if self.files is not None:
            return str(self.files[place])
        assert self.features is not None
        row = self.features[place]
        return " ".join(f"{value:.4g}" for value in row[:8]) + (" ..." if len(row) > 8 else "")

    def empty(self) -> Array:
        """`[N]` whether there is nothing to see of an item, so that nobody can label it."""
        if self.texts is None:
            return np.zeros(len(self), bool)
        return np.array([not text.strip() for text in self.texts], bool)

    def digest(self, place: int) -> str:
        """A fingerprint of the content of an item."""
        if self.files is not None and self.features is None:
            return _file_digest(self.files[place])
        found = hashlib.sha256()
        if self.texts is not None:
            found.update(text_key(self.texts[place]))
        if self.features is not None:
            found.update(np.ascontiguousarray(self.features[place]).tobytes())
        return found.hexdigest()[:32]

    def stamp(self, place: int) -> str:
        """What tells quickly that a file has not changed; empty where there is no file."""
        if self.files is None or self.features is not None:
            return ""
        status = self.files[place].stat()
        return f"{status.st_size} {status.st_mtime_ns}"


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = hashlib.sha256(file.read(_BEGINNING))
            found.update(str(path.stat().st_size).encode())
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}).") from error
    return found.hexdigest()[:32]


def open_items(
    path: Path,
    *,
    text: str | None = None,
    file: str | None = None,
    id: str | None = None,
    originals: Path | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> Items:
    """Open data to be labelled: a folder of images, a table of texts, or features with their originals.

    Args:
        path: the folder or file.
        text: the column of texts; found if it is not named.
        file: the column of image files, relative to the folder of the table.
        id: the column of ids; found if it is not named, else the row.
        originals: a folder of images or a table, in the same order as the features.
        separator: the character between the fields of a CSV file.
        encoding: how a text file is encoded.
    """
    if not path.exists():
        raise FileError(f"{path}: there is no such file or folder.")
    options = {k: v for k, v in (("separator", separator), ("encoding", encoding)) if v is not None}
    if path.is_dir():
        if text or file or id or options:
            raise ParameterError(f"{path}: columns and separators are for tables, and this is a folder of images.")
        return _folder(path)
    if path.suffix.lower() == ".npy":
        return _features(path, originals, text, file, id, options)
    if originals is not None:
        raise ParameterError(f"{path}: originals= is for features (.npy), and this is not such a file.")
    if not path.name.lower().endswith(_TABLES):
        raise FileError(
            f"{path}: expected a folder of images, a table of texts ({', '.join(_TABLES)}) or features (.npy)."
        )
    return _table(path, text, file, id, options)


def _folder(path: Path) -> Items:
    found, said = [], []
    strange = 0
    for picture in folders.all_pictures(path):
        if not inside(picture, path) or not _is_text(picture.relative_to(path).as_posix()):
            strange += 1
        else:
            found.append(picture)
    if not found:
        raise FileError(f"{path}: expected a folder of images, and found none in it.")
    if strange:
        many = "1 image is" if strange == 1 else f"{strange:,} images are"
        said.append(f"{many} left out: links that lead out of the folder, or names that are no text")
    ids = [picture.relative_to(path).as_posix() for picture in found]
    return Items("image", ids, files=found, said=[f"{len(ids):,} images, called by their files", *said])


def _is_text(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _table(path: Path, text: str | None, file: str | None, id: str | None, options: Mapping[str, Any]) -> Items:
    found = find_format(path)
    assert found is not None
    wanted = {name for name in (text, file, id) if name} | {"text", "file", "id"}
    hints = {} if path.suffix.lower() == ".parquet" else {"wanted": wanted}
    columns = call_reader(found.load(), path, options, hints)
    named = {"text": text, "file": file, "id": id}
    for role, name in named.items():
        if name is not None and name not in columns:
            listed = ", ".join(map(str, columns))[:500] or "none"
            raise FileError(
                f"{path}: has no column {name!r}, which {role}= or its project names. Its columns are: {listed}."
            )
    said = []
    if not any(len(column) for column in columns.values()):
        raise FileError(f"{path}: expected at least one row, found none.")
    if file is None and text is None:
        text, file = _find_content(columns)
        if text is not None:
            said.append(f"texts are in the column {text!r}")
        elif file is not None:
            said.append(f"image files are in the column {file!r}")
        else:
            listed = ", ".join(map(str, columns))[:500] or "none"
            raise FileError(f"{path}: found no column of texts. Name it with text=. Its columns are: {listed}.")
    inputs = _strings(columns[text or file], path, text or str(file))
    id = id or _find_id(columns, {text, file})
    if id is not None:
        ids = [_id(value, path, row) for row, value in enumerate(_values(columns[id]))]
        tables.check_ids(ids, str(path))
        said.append(f"ids are in the column {id!r}")
    elif file is not None:
        ids = list(inputs)
        tables.check_ids(ids, str(path))
        said.append("items are called by their files")
    else:
        ids = [str(row) for row in range(len(inputs))]
        twice = next((str(name) for name in columns if _ID_NAME.fullmatch(str(name))), None)
        because = f", since not all values of the column {twice!r} are different" if twice is not None else ""
        said.append(f"items are called by their row, the first of which is 0{because}")
    if file is not None:
        files = [path.parent / name for name in inputs]
        outside = next(
            (name for name, place in zip(inputs, files, strict=True) if not inside(place, path.parent)), None
        )
        if outside is not None:
            raise FileError(f"{path}: {outside!r} is not in the folder {path.parent}. Image files must be.")
        return Items("image", ids, files=files, file=file, id=id, said=[f"{len(ids):,} images", *said])
    empty = sum(not value.strip() for value in inputs)
    if empty:
        said.append(
            f"{empty:,} {'row has no text and is' if empty == 1 else 'rows have no text and are'} never offered"
        )
    return Items("text", ids, inputs, text=text, id=id, said=[f"{len(ids):,} texts", *said])


def _find_content(columns: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The column of texts, or that of image files: by their names, else the column with the longest texts."""
    for wanted in _TEXT_NAMES:
        for name in columns:
            if str(name).strip().lower() == wanted and _mean_length(columns[name]) > 0:
                return str(name), None
    if "file" in columns and all(Path(str(v)).suffix.lower() in ENDINGS for v in _values(columns["file"])[:100]):
        return None, "file"
    lengths = {str(name): _mean_length(column) for name, column in columns.items() if not _ID_NAME.fullmatch(str(name))}
    longest = max(lengths, key=lambda name: lengths[name], default=None)
    return (longest if longest is not None and lengths[longest] > 0 else None), None


def _mean_length(column: Any) -> float:
    """Characters per value of a column of texts; 0 for numbers."""
    values = [value for value in _values(column)[:2_000] if value is not None]
    if not values or not all(isinstance(value, str) for value in values):
        return 0.0
    if all(_is_number(value) for value in values):
        return 0.0
    return sum(map(len, values)) / len(values)


def _is_number(value: str) -> bool:
    try:
        float(value.replace(",", ".") or "0")
    except ValueError:
        return False
    return True


def _find_id(columns: Mapping[str, Any], used: set[str | None]) -> str | None:
    """A column whose name says that it holds ids, if they are all different."""
    for name in sorted((name for name in columns if _ID_NAME.fullmatch(str(name)) and name not in used), key=len):
        values = _values(columns[name])
        known = {str(value) for value in values if value is not None and value == value and value != ""}
        if len(known) == len(values):
            return str(name)
    return None


def _values(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    values: list[Any] = frames.as_column(column).tolist()
    return values


def _strings(column: Any, path: Path, name: str) -> list[str]:
    values = ["" if value is None else value for value in _values(column)]
    wrong = next((row for row, value in enumerate(values) if not isinstance(value, str)), None)
    if wrong is not None:
        raise FileError(f"{path}, row {wrong}: expected a text as {name!r}, found {values[wrong]!r:.80}.")
    return values


def _id(value: object, path: Path, row: int) -> str:
    if value is None or value != value or value == "":
        raise FileError(f"{path}, row {row}: its id is missing. Fill it in, or name another column with id=.")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _features(
    path: Path,
    originals: Path | None,
    text: str | None,
    file: str | None,
    id: str | None,
    options: Mapping[str, Any],
) -> Items:
    with reading_arrays(path, "Save features with numpy.save."):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or not array.size:
        raise FileError(f"{path}: expected numbers [N, D], one row per item, not {array.dtype} {list(array.shape)}.")
    as_embeddings(array, str(path), len(array))
    said = [f"{len(array):,} rows of {array.shape[1]:,} features"]
    shown = _open_originals(originals, text, file, id, options) if originals is not None else None
    if shown is None and originals is None:
        shown = _find_originals(path, len(array), lambda place: _open_originals(place, text, file, id, options))
    if shown is None:
        said.append("their originals are not beside them, so people see numbers; name them with originals=")
        return Items("features", [str(row) for row in range(len(array))], features=array, said=said)
    if len(shown) != len(array):
        raise FileError(
            f"{path}: has {len(array):,} rows, and {shown.originals} has {len(shown):,} items. They must be the same, "
            "in the same order."
        )
    said += [f"their originals are in {shown.originals}", *shown.said[1:]]
    return Items(
        "features",
        shown.ids,
        shown.texts,
        shown.files,
        array,
        text=shown.text,
        file=shown.file,
        id=shown.id,
        originals=shown.originals,
        said=said,
    )


def _open_originals(
    place: Path, text: str | None, file: str | None, id: str | None, options: Mapping[str, Any]
) -> Items:
    items = _folder(place) if place.is_dir() else _table(place, text, file, id, options)
    object.__setattr__(items, "originals", place)
    return items


def _find_originals(path: Path, count: int, open_place: Callable[[Path], Items]) -> Items | None:
    """The originals of features: with the same name and another ending, else the only ones of the same number."""
    beside = [entry for entry in sorted(path.parent.iterdir()) if entry != path and entry.name[0] != "."]
    places = [e for e in beside if (e.is_dir() and e.suffix != ".poolwise") or e.name.lower().endswith(_TABLES)]
    places.sort(key=lambda entry: entry.name.partition(".")[0] != path.stem)
    fitting = []
    for place in places:
        try:
            items = open_place(place)
        except FileError:
            continue
        if place.name.partition(".")[0] == path.stem:
            return items
        if len(items) == count:
            fitting.append(items)
    return fitting[0] if len(fitting) == 1 else None
