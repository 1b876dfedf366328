"""A user's own data: images in folders, tables of texts or of image files, arrays. Labels may be missing."""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from poolwise.arrays import Array, as_embeddings
from poolwise.data import folders, frames, tables
from poolwise.data.examples import Examples, Subset, TensorExamples, TextExamples, as_examples
from poolwise.data.formats import images
from poolwise.data.labels import MOST_CLASSES, UNKNOWN, number
from poolwise.data.reading import call_reader, find_format, formats_table
from poolwise.errors import FileError, ParameterError, PoolwiseError, ShapeError
from poolwise.user_code import load_function

# How many classes and ids a repr shows.
_CLASSES = 6
_IDS = 3


@dataclass(frozen=True, eq=False, repr=False)
class OpenedData:
    """A user's own data.

    Attributes:
        examples: the inputs; with labels if every one is known.
        labels: `[N]` int64 numbers of the classes, -1 where unknown; None if none is known.
        class_names: the names of the classes, in the order of their numbers.
        ids: what to call each example: a file, the value of a column, or its position.
        columns: the columns of a table that were used, by role (`"text"`, `"file"`, `"label"`, `"id"`).

    Example:
        >>> opened = open_data({"text": ["good", "bad", "odd"], "label": ["pos", "neg", None]})
        >>> opened
        OpenedData(3 texts; 2 classes: neg 1, pos 1; 1 without a label; columns text, label; ids '0', '1', '2')
        >>> opened.labels
        array([ 1,  0, -1])
    """

    examples: Examples
    labels: Array | None
    class_names: tuple[str, ...]
    ids: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What the inputs are: `"texts"`, `"images"`, `"arrays"` or `"examples"`."""
        if isinstance(self.examples, TextExamples):
            return "texts"
        if isinstance(self.examples, TensorExamples):
            return "images" if self.examples.inputs.dtype == torch.uint8 else "arrays"
        return "examples"

    def __len__(self) -> int:
        return len(self.examples)

    def __repr__(self) -> str:
        shape = f" {list(self.examples.inputs.shape[1:])}" if isinstance(self.examples, TensorExamples) else ""
        parts = [f"{len(self):,} {self.kind}{shape}", *self._labels_in_words()]
        if self.columns:
            named = (role if role == name else f"{role}={name!r}" for role, name in self.columns.items())
            parts.append(f"columns {', '.join(named)}")
        more = ", ..." if len(self.ids) > _IDS else ""
        parts.append(f"ids {', '.join(map(repr, self.ids[:_IDS]))}{more}")
        return f"OpenedData({'; '.join(parts)})"

    def _labels_in_words(self) -> list[str]:
        if self.labels is None:
            return ["no labels"]
        known = self.labels[self.labels != UNKNOWN]
        counts = np.bincount(known, minlength=len(self.class_names))
        shown = [f"{name} {count:,}" for name, count in zip(self.class_names[:_CLASSES], counts, strict=False)]
        words = [f"{len(counts):,} classes: {', '.join(shown)}{', ...' if len(counts) > _CLASSES else ''}"]
        return (
            words if len(known) == len(self.labels) else [*words, f"{len(self.labels) - len(known):,} without a label"]
        )


def open_data(
    path: str | os.PathLike[str] | Any,
    *,
    text: str | None = None,
    file: str | None = None,
    label: str | None = None,
    id: str | None = None,
    classes: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    reader: str | Callable[..., Any] | None = None,
    **options: Any,
) -> OpenedData:
    """Open data of your own: texts, images or arrays, with labels for all, some or none of them.

    What can be opened:

    - A table with a header row: `.csv`, `.tsv`, `.jsonl` (one object per line), `.parquet`; or a DataFrame. One column
      has the texts, or the names of image files relative to the folder of the table. The separator (comma, semicolon,
      tab, vertical bar) and the encoding (UTF-8, or UTF-16 with a byte order mark) are found by themselves where they
      are certain, and can be named.
    - A folder of images with one folder per class; or of images only (no labels); or of images and one table.
    - An array: `.npy`, `.npz`, `.pt`. `[N, D]` embeddings, `[N, ...]` numbers, or `[N, channels, height, width]` bytes.
      In an `.npz` or a dictionary: `inputs` or `x`, with `labels` or `y`, and `ids`.
    - What other packages or your own functions read, see `reader`.

    A label that is empty or missing is unknown. Nothing is guessed: if something could be read in two ways, an error
    says which argument decides.

    Args:
        path: the folder or file; or a table in memory: a DataFrame, or a dictionary of columns.
        text: the column of texts; `"text"` by default.
        file: the column of image files; `"file"` by default.
        label: the column of labels; `"label"` by default, if there is one.
        id: the column of ids; `"id"` by default, if there is one. Otherwise the id of an example is its file name or
            position.
        classes: the classes in order, such as the `class_names` of other data; None takes those that occur, sorted.
        size: height and width to resize images to; with None, all must have the same size.
        channels: 1 for grey images, 3 for colour; with None, grey if every image is grey.
        reader: the function that reads the file, or `"package.module:function"`; with None, the ending decides.
        options: passed on to the reader. Of CSV and TSV: `separator`, `encoding` and, for a file without a header row,
            `columns` (their names); of JSON lines: `encoding`.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "reviews.csv"
        >>> _ = file.write_text("review;mood\\nfine film;good\\nawful;bad\\nseen it;\\n")
        >>> opened = open_data(file, text="review", label="mood")
        >>> opened.class_names, opened.labels.tolist()
        (('bad', 'good'), [1, 0, -1])
        >>> opened.columns
        {'text': 'review', 'label': 'mood'}
    """
    if classes is not None and (isinstance(classes, str) or len(set(classes)) < len(classes)):
        raise ParameterError(f"classes must be a list of different names, not {classes!r}.")
    roles = tables.Roles(text, file, label, id)
    options = {name: value for name, value in options.items() if value is not None}
    if isinstance(path, Mapping) or frames.is_table(path):
        if options or reader is not None:
            raise ParameterError(f"{[*options, 'reader'][0]} is for files, not for tables in memory.")
        content, where, folder = path, "the table", Path()
    elif not isinstance(path, str | os.PathLike):
        raise ParameterError(
            f"path must be a file, a folder or a table, not a {type(path).__name__}. Arrays and lists in memory need "
            "no opening: pass them on as they are, or see as_examples."
        )
    else:
        place, content = _read(Path(path), reader, options, {"wanted": roles.names})
        where, folder = str(place), place.parent
    if isinstance(content, OpenedData):
        return content
    if isinstance(content, Mapping) or frames.is_table(content):
        columns = content if isinstance(content, Mapping) else frames.columns_of(content)
        listed = tables.list_table(columns, roles, where, folder)
        return _assemble(listed.inputs, listed.classes, listed.ids, listed.columns, where, classes, size, channels)
    named = next((role for role, name in vars(roles).items() if name is not None), None)
    if named is not None:
        raise ParameterError(f"{where}: {named}= names a column, but this is not a table. Leave it out.")
    return _assemble(*_parts(content, where), {}, where, classes, size, channels)


def _read(
    path: Path, reader: str | Callable[..., Any] | None, options: Mapping[str, Any], hints: Mapping[str, Any]
) -> tuple[Path, Any]:
    """The file that was read, and what its reader made of it."""
    if not path.exists():
        raise FileError(f"{path}: there is no such file or folder.")
    if reader is not None:
        return path, call_reader(
            load_function(reader, "reader") if isinstance(reader, str) else reader, path, options, hints
        )
    found = find_format(path)
    if path.is_dir() and (found is None or found.origin == "poolwise"):
        table = folders.table_in(path)
        if table is None:
            if options:
                raise ParameterError(f"{path}: {next(iter(options))} is for files, not for folders of images.")
            return path, folders.pictures_in(path)
        path, found = table, find_format(table)
    if found is None:
        known = ", ".join(formats_table())
        raise FileError(
            f"{path}: cannot read '{path.suffix}' files. Expected a folder, or one of {known}. Another format can be "
            "added with poolwise.data.reader."
        )
    return path, call_reader(found.load(), path, options, hints)


def _parts(content: Any, where: str) -> tuple[Any, Any, Any]:
    """Inputs, labels and ids from what a reader returned."""
    if isinstance(content, tuple) and len(content) in (2, 3):
        return content[0], content[1], content[2] if len(content) == 3 else None
    if content is None:
        raise FileError(f"{where}: its reader returned nothing. Expected inputs, (inputs, labels) or a table.")
    return content, getattr(content, "labels", None) if isinstance(content, Examples) else None, None


def _assemble(
    inputs: Any,
    labels: Any,
    ids: Any,
    columns: Mapping[str, str],
    where: str,
    classes: Sequence[str] | None,
    size: int | tuple[int, int] | None,
    channels: int | None,
) -> OpenedData:
    pictures = isinstance(inputs, list | tuple) and bool(inputs) and all(isinstance(item, Path) for item in inputs)
    examples = TensorExamples(images.read_images(inputs, size, channels)) if pictures else _examples(inputs, where)
    if not len(examples):
        raise FileError(f"{where}: expected at least one example, found none.")
    names = _ids(ids, len(examples), where)
    numbers, class_names = _numbered(labels, len(examples), classes, where, names)
    known = numbers is not None and bool((numbers != UNKNOWN).all())
    if isinstance(examples, TensorExamples | TextExamples):
        examples = copy.copy(examples)  # a reader may keep its own
        examples.labels = numbers if known else None
        examples.class_names = class_names
    elif known:
        examples = Subset(examples, np.arange(len(examples)), numbers, class_names)
    return OpenedData(examples, numbers, class_names, names, columns)


def _examples(inputs: Any, where: str) -> Examples:
    """Inputs as examples, with those mistakes named that files of arrays are full of."""
    if isinstance(inputs, np.ndarray):
        texts = inputs.dtype.kind in "UOT" and inputs.ndim == 1
        if not inputs.size or not (texts or (inputs.ndim >= 2 and inputs.dtype.kind in "fiub")):
            raise ShapeError(
                f"{where}: inputs must be numbers [N, D] or [N, ...], at least one, not {inputs.dtype} "
                f"{list(inputs.shape)}."
            )
        if inputs.dtype == np.uint8 and inputs.ndim == 4 and inputs.shape[1] > 4 >= inputs.shape[3]:
            raise ShapeError(
                f"{where}: images must be [N, channels, height, width], but {list(inputs.shape)} looks like "
                "[N, height, width, channels]. Save it again after x.transpose(0, 3, 1, 2)."
            )
        if inputs.dtype.kind == "f":
            as_embeddings(inputs.reshape(len(inputs), -1), f"{where}: inputs", len(inputs))
    try:
        return as_examples(inputs)
    except FileError:
        raise
    except PoolwiseError as error:
        raise type(error)(f"{where}: {error}") from error


def _ids(ids: Any, count: int, where: str) -> tuple[str, ...]:
    if ids is None:
        return tuple(map(str, range(count)))
    listed = ids if isinstance(ids, list | tuple) else frames.as_column(ids).tolist()
    if len(listed) != count:
        raise ShapeError(f"{where}: expected {count} ids, one per example, found {len(listed)}.")
    names = [str(name) for name in listed]
    tables.check_ids(names, where)
    return tuple(names)


def _numbered(
    labels: Any, count: int, classes: Sequence[str] | None, where: str, ids: Sequence[str]
) -> tuple[Array | None, tuple[str, ...]]:
    """Labels as numbers: names are numbered, whole numbers are used unchanged, with -1 for unknown."""
    if labels is None:
        return None, tuple(classes or ())
    given = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else frames.as_column(labels)
    if given.shape != (count,) or given.dtype.kind not in "iubUSOT":
        raise ShapeError(
            f"{where}: labels must be whole numbers or names [{count}], one per example, not {given.dtype} "
            f"{list(given.shape)}."
        )
    if given.dtype.kind in "USOT":
        found = [tables.class_name(value, where, row) for row, value in enumerate(given.tolist())]
        numbers, names = number(found, classes, lambda row: f"{where}, {ids[row]}")
    else:
        largest, smallest = int(given.max()), int(given.min())
        if classes is None and largest >= MOST_CLASSES:
            raise ParameterError(
                f"{where}: label {largest} is too large: labels number the classes from 0, and {MOST_CLASSES:,} "
                "classes are the most. Is it an id instead of a class? Save labels as names, or numbered from 0."
            )
        names = tuple(classes) if classes is not None else tuple(map(str, range(largest + 1)))
        if smallest < UNKNOWN or largest >= len(names):
            raise ParameterError(
                f"{where}: labels must be numbers of the {len(names)} classes from 0, or -1 where unknown, but they go "
                f"from {smallest} to {largest}."
            )
        numbers = given.astype(np.int64)
    return (numbers if (numbers != UNKNOWN).any() else None), names
