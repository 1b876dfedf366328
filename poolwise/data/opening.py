"""A user's own data: pictures in folders, tables of texts or of picture files, arrays. Labels may be missing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolwise.arrays import Array, as_embeddings, as_view
from poolwise.data.examples import Examples, TensorExamples, TextExamples
from poolwise.data.formats import arrays, images, records
from poolwise.data.formats.rows import kind
from poolwise.data.labels import UNKNOWN, number
from poolwise.errors import FileError, ParameterError, ShapeError


@dataclass(frozen=True)
class OpenedData:
    """A user's own data.

    Attributes:
        examples: the inputs; with labels where every one is known.
        labels: `[N]` int64 numbers of the classes, -1 where unknown; None where none is known.
        class_names: what the classes are called, in the order of their numbers.
        ids: what to call each example: a file, the value of a column, or its position.
    """

    examples: Examples
    labels: Array | None
    class_names: tuple[str, ...]
    ids: tuple[str, ...]


@dataclass(frozen=True)
class _Listed:
    """What a folder or table lists: files of pictures or texts, their classes (None where unknown) and their names."""

    inputs: list[Path] | list[str]
    classes: list[str | None]
    ids: list[str]


def open_data(
    path: str | Path,
    *,
    text: str = "text",
    file: str = "file",
    label: str = "label",
    id: str = "id",
    classes: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
) -> OpenedData:
    """Open data in any of these forms; a label that is empty or missing is unknown.

    - A folder with one sub-folder of pictures a class; or of pictures only (no labels); or of pictures and one table.
    - A table (`.csv`, `.tsv`, `.jsonl`, `.parquet`) with a column of texts, or of picture files relative to its folder.
    - An array (`.npy`, `.npz`, `.pt`): `[N, D]` embeddings, `[N, ...]` numbers, `[N, channels, height, width]` bytes.
      In an `.npz` or a dictionary: `inputs` or `x`, with `labels` or `y`.

    Args:
        path: the folder or file.
        text: the column of texts.
        file: the column of picture files.
        label: the column of labels.
        id: the column that names the examples; without it they are called by their file or position.
        classes: the classes in order, such as the `class_names` of other data; None takes those that occur, sorted.
        size: height and width to resize pictures to; None requires that all have the same.
        channels: 1 for grey pictures, 3 for colour; None is grey if every picture is.
    """
    path = Path(path)
    if classes is not None and (isinstance(classes, str) or len(set(classes)) < len(classes)):
        raise ParameterError(f"classes must be a list of different names, not {classes!r}.")
    if not path.is_dir() and path.suffix.lower() in arrays.READERS:
        return _open_array(_existing(path), classes)
    table = _table_of(path) if path.is_dir() else _existing(path)
    listed = _list_folder(path) if table is None else _list_table(table, text, file, label, id)
    numbers, names = number(listed.classes, classes, lambda row: f"{path}, {listed.ids[row]}")
    labels = numbers if (numbers != UNKNOWN).all() else None
    examples: Examples
    if isinstance(listed.inputs[0], Path):
        pictures = [Path(entry) for entry in listed.inputs]
        examples = TensorExamples(images.read_images(pictures, size, channels), labels, names)
    else:
        examples = TextExamples([str(entry) for entry in listed.inputs], labels, names)
    return OpenedData(examples, numbers if (numbers != UNKNOWN).any() else None, names, tuple(listed.ids))


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileError(f"{path}: there is no such file or folder.")
    if kind(path) not in records.READERS and path.suffix.lower() not in arrays.READERS:
        known = ", ".join([*records.READERS, *arrays.READERS])
        raise FileError(f"{path}: cannot read '{path.suffix}' files. Expected a folder, or one of {known}.")
    return path


def _table_of(folder: Path) -> Path | None:
    """The one table in a folder, None if there is none."""
    tables = [entry for entry in _visible(folder) if entry.is_file() and kind(entry) in records.READERS]
    if len(tables) > 1:
        names = ", ".join(table.name for table in tables)
        raise FileError(f"{folder}: holds several tables ({names}). Pass the path of the one to open.")
    return tables[0] if tables else None


def _list_folder(folder: Path) -> _Listed:
    loose = [entry for entry in _visible(folder) if _is_picture(entry)]
    sorted_out = [picture for entry in _visible(folder) if entry.is_dir() for picture in _pictures(entry)]
    if loose and sorted_out:
        raise FileError(
            f"{folder}: {loose[0].name} lies beside the folders of classes, so its class is not clear. Move it into "
            "one of them, or list the files and their labels in a CSV."
        )
    files = loose or sorted_out
    if not files:
        raise FileError(f"{folder}: expected pictures, or one folder of pictures a class; found none.")
    ids = [file.relative_to(folder).as_posix() for file in files]
    return _Listed(files, [None if loose else name.partition("/")[0] for name in ids], ids)


def _visible(folder: Path) -> list[Path]:
    return sorted((entry for entry in folder.iterdir() if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _is_picture(entry: Path) -> bool:
    return entry.is_file() and entry.suffix.lower() in images.ENDINGS


def _pictures(folder: Path) -> list[Path]:
    """The pictures in a folder and the folders in it, in order of their names; links to folders are not followed."""
    found = []
    for entry in _visible(folder):
        if entry.is_dir() and not entry.is_symlink():
            found += _pictures(entry)
        elif _is_picture(entry):
            found.append(entry)
    return found


def _list_table(path: Path, text: str, file: str, label: str, id: str) -> _Listed:
    columns = records.read_records(path)
    if (text in columns) == (file in columns):
        raise FileError(
            f"{path}: expected a column {text!r} of texts or a column {file!r} of picture files, and not both; found "
            f"{', '.join(columns) or 'none'}. Name the column with text= or file=."
        )
    column = text if text in columns else file
    values: list[str] = []
    for row, value in enumerate(columns[column]):
        if not isinstance(value, str):
            raise FileError(f"{path}, row {row}: expected a text as {column!r}, found {value!r}.")
        values.append(value)
    if not values:
        raise FileError(f"{path}: expected at least one row under the header, found none.")
    classes = [_class_name(value, path, row) for row, value in enumerate(columns.get(label, [None] * len(values)))]
    positions = [str(row) for row in range(len(values))]
    ids = [str(value) for value in columns[id]] if id in columns else positions if column == text else values
    name, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise FileError(f"{path}: expected a different name for each example, but {name!r} is there {times} times.")
    return _Listed(values if column == text else [path.parent / value for value in values], classes, ids)


def _class_name(value: object, path: Path, row: int) -> str | None:
    """The name of a class from a cell of a table; None if it is empty."""
    if value is None or value != value or (isinstance(value, str) and not value.strip()):  # only NaN is not itself
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # whole numbers become floats where a table has gaps
    if isinstance(value, str | int):
        return str(value).strip()
    raise FileError(f"{path}, row {row}: expected the name or number of a class as label, found {value!r}.")


def _open_array(path: Path, classes: Sequence[str] | None) -> OpenedData:
    inputs, given = arrays.read_arrays(path)
    if inputs.ndim < 2 or inputs.dtype.kind not in "fiub" or not inputs.size:
        raise ShapeError(
            f"{path}: inputs must be numbers [N, D] or [N, ...], at least one, not {inputs.dtype} {list(inputs.shape)}."
        )
    if inputs.dtype == np.uint8 and inputs.ndim == 4 and inputs.shape[1] > 4 >= inputs.shape[3]:
        raise ShapeError(
            f"{path}: pictures must be [N, channels, height, width], but {list(inputs.shape)} looks like "
            "[N, height, width, channels]. Save it again after x.transpose(0, 3, 1, 2)."
        )
    if inputs.dtype.kind == "f":
        as_embeddings(inputs.reshape(len(inputs), -1), f"{path}: inputs", len(inputs))
    if not inputs.dtype.isnative:
        inputs = inputs.astype(inputs.dtype.newbyteorder("="))
    numbers, names = (None, tuple(classes or ())) if given is None else _numbered(path, given, len(inputs), classes)
    known = None if numbers is None or (numbers == UNKNOWN).any() else numbers
    ids = tuple(map(str, range(len(inputs))))
    return OpenedData(TensorExamples(as_view(inputs), known, names), numbers, names, ids)


def _numbered(
    path: Path, given: Array, count: int, classes: Sequence[str] | None
) -> tuple[Array | None, tuple[str, ...]]:
    """Labels of an array file: names, or whole numbers that are used as they are, with -1 for unknown."""
    if given.shape != (count,) or given.dtype.kind not in "iuU":
        raise ShapeError(
            f"{path}: labels must be whole numbers or names [{count}], one an example, not {given.dtype} "
            f"{list(given.shape)}."
        )
    if given.dtype.kind == "U":
        numbers, names = number([name or None for name in given.tolist()], classes, lambda row: f"{path}, row {row}")
    else:
        numbers = given.astype(np.int64)
        names = tuple(classes) if classes is not None else tuple(map(str, range(int(numbers.max()) + 1)))
        if numbers.min() < UNKNOWN or numbers.max() >= len(names):
            raise ParameterError(
                f"{path}: labels must be numbers of the {len(names)} classes from 0, or -1 where unknown, but they go "
                f"from {numbers.min()} to {numbers.max()}."
            )
    return (numbers if (numbers != UNKNOWN).any() else None), names
