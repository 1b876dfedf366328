"""Data that have labels already, as items of a project: texts, images or features, and the class of each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.data import folders, frames, tables
from poolwise.data.examples import TensorExamples, TextExamples
from poolwise.data.labels import UNKNOWN, number
from poolwise.data.opening import open_data
from poolwise.data.reading import call_reader, find_format
from poolwise.errors import FileError, ParameterError
from poolwise.experiments.pilot import check_classes
from poolwise.labelling.items import Items
from poolwise.labelling.number_columns import Column, check_numbers, place, read_column

# Columns by this name are no features, if all their values are different.
_ID = re.compile(r"(?:.*[_\- ])?(?:id|uid|uuid|guid|key|index)", re.IGNORECASE)

# Columns that an error names.
_SHOWN = 6


@dataclass(frozen=True)
class Labelled:
    """Items with the labels that there are.

    Attributes:
        items: all items, labelled or not.
        labels: `[N]` the numbers of their classes, -1 where there is none.
        class_names: the names of the classes.
        said: what was chosen, in words.
        name: what the features are, in words, where the data are features.
        pixels: images that are no files; else None.
        column: the column of labels, if the data are a table.
    """

    items: Items
    labels: Array
    class_names: tuple[str, ...]
    said: Sequence[str] = ()
    name: str = ""
    pixels: TensorExamples | None = None
    column: str = ""

    @property
    def kind(self) -> str:
        """What an item is: `"text"`, `"image"` or `"features"`."""
        return "image" if self.pixels is not None else self.items.kind

    @property
    def rows(self) -> Array:
        """`[n]` positions of the items that have a label, and something to see."""
        return np.flatnonzero((self.labels != UNKNOWN) & ~self.items.empty())

    def part(self) -> Items:
        """The items at `rows`."""
        rows, items = self.rows.tolist(), self.items
        return Items(
            items.kind,
            [items.ids[row] for row in rows],
            None if items.texts is None else [items.texts[row] for row in rows],
            None if items.files is None else [items.files[row] for row in rows],
            None if items.features is None else items.features[rows],
        )


def open_labelled(
    path: Path,
    *,
    text: str | None = None,
    file: str | None = None,
    label: str | None = None,
    features: Sequence[str] = (),
) -> Labelled:
    """Open a table, a folder of images or an array.

    Of a table that names none of its columns, the column `text` has the texts or the column `file` the image files. If
    there is neither, one column of texts alone, or columns of numbers alone, are taken.

    Args:
        path: the data.
        text: the column of texts.
        file: the column of image files, relative to the folder of the table.
        label: the column of labels; `"label"` by default.
        features: the columns of numbers.
    """
    if not path.exists():
        raise FileError(f"{path}: there is no such file or folder.")
    table = folders.table_in(path) if path.is_dir() else path
    found = None if table is None else find_format(table)
    if table is not None and found is not None:
        wanted = {name for name in (text, file, label, *features) if name} | {"text", "file", "label"}
        # A Parquet file is read in part; where no column is named, all are wanted, to find the right ones.
        part = text or file or features or table.suffix.lower() != ".parquet"
        hints = {"wanted": wanted} if part else {}
        content = call_reader(found.load(), table, {}, hints)
        if isinstance(content, Mapping) or frames.is_table(content):
            columns = content if isinstance(content, Mapping) else frames.columns_of(content)
            return _Table(table, columns, label).labelled(text, file, features)
    named = next(
        (n for n, value in (("text", text), ("file", file), ("label", label), ("features", features)) if value), None
    )
    if named is not None:
        raise ParameterError(f"{path}: {named}= names a column, but this is not a table. Leave it out.")
    if path.is_dir():
        files, classes, ids = folders.pictures_in(path)
        labels, class_names = number(classes, None, lambda row: ids[row])
        return Labelled(Items("image", ids, files=files), labels, class_names)
    return _arrays(path)


def _arrays(path: Path) -> Labelled:
    opened = open_data(path)
    labels = np.full(len(opened), UNKNOWN) if opened.labels is None else opened.labels
    examples = opened.examples
    if isinstance(examples, TextExamples):
        items = Items("text", opened.ids, list(examples.batch(np.arange(len(opened)))))
        return Labelled(items, labels, opened.class_names)
    if not isinstance(examples, TensorExamples):
        raise FileError(f"{path}: expected texts, images or numbers. A pilot cannot read other examples.")
    pixels = examples if opened.kind == "images" else None
    values = examples.inputs.flatten(1).numpy()
    return Labelled(Items("features", opened.ids, features=values), labels, opened.class_names, pixels=pixels)


class _Table:
    """A table with a column of labels.

    Args:
        path: its file.
        columns: the columns by name.
        label: the column of labels.
    """

    def __init__(self, path: Path, columns: Mapping[Any, Any], label: str | None) -> None:
        self.path, self.columns = path, {str(name): column for name, column in columns.items()}
        self.label = "label" if label is None else label
        if self.label not in self.columns:
            raise FileError(
                f"{path}: has no column {self.label!r} of labels. Name it with label=. Its columns are: {self._listed}."
            )
        if not len(self.columns[self.label]):
            raise FileError(f"{path}: expected at least one row, found none.")

    @property
    def _listed(self) -> str:
        return ", ".join(self.columns)[:500]

    def labelled(self, text: str | None, file: str | None, features: Sequence[str]) -> Labelled:
        """The items and their labels, by the columns that are named or found."""
        said: list[str] = []
        if sum(map(bool, (text, file, features))) > 1:
            raise ParameterError(f"{self.path}: text=, file= and features= exclude each other. Give one of them.")
        for role, name in (("text", text), ("file", file), *(("features", name) for name in features)):
            if name is not None and name == self.label:
                raise ParameterError(
                    f"{self.path}: the column {name!r} is named twice, with {role}= and with label=. The labels are in "
                    f"a column of their own: name another one. The columns are: {self._listed}."
                )
            if name is not None and name not in self.columns:
                raise FileError(f"{self.path}: has no column {name!r}, as {role}= says. It has {self._listed}.")
        values = self._values(self.label)
        names = [tables.class_name(_in_csv(value), str(self.path), row) for row, value in enumerate(values, 1)]
        labels, class_names = number(names, None, lambda row: f"{self.path}, row {row + 1}")
        # Before the other columns: if this is the wrong one, they cannot be understood either.
        counts_C = np.bincount(labels[labels != UNKNOWN], minlength=len(class_names))
        check_classes(str(self.path), counts_C, class_names, self.label)
        if not (text or file or features):
            text, file, features = self._found(said)
        if features:
            numbers, name = self._standardised(features), f"{len(features):,} columns of numbers, standardised"
            if len(features) == 1:
                name = f"the column of numbers {features[0]!r}, standardised"
            items = Items("features", self._ids, features=numbers)
            return Labelled(items, labels, class_names, said, name, column=self.label)
        inputs = ["" if value is None else value for value in self._values(text or str(file))]
        wrong = next((row for row, value in enumerate(inputs) if not isinstance(value, str)), None)
        if wrong is not None:
            where = place(self.path, wrong, len(inputs))
            raise FileError(f"{self.path}, {where}: expected a text as {text or file!r}, found {inputs[wrong]!r}.")
        if file is not None:
            items = Items("image", self._ids, files=[self.path.parent / value for value in inputs])
            return Labelled(items, labels, class_names, said, column=self.label)
        empty = sum(not value.strip() and name is not None for value, name in zip(inputs, names, strict=True))
        if empty:
            what = "row has no text and is" if empty == 1 else "rows have no text and are"
            said.append(f"{empty:,} labelled {what} left out.")
        return Labelled(Items("text", self._ids, inputs), labels, class_names, said, column=self.label)

    @property
    def _ids(self) -> list[str]:
        return [str(row) for row in range(len(self.columns[self.label]))]

    def _values(self, name: str) -> list[Any]:
        column = self.columns[name]
        values: list[Any] = column if isinstance(column, list) else frames.as_column(column).tolist()
        return values

    def _found(self, said: list[str]) -> tuple[str | None, str | None, list[str]]:
        """The column of texts, that of image files, or those of numbers; an error if it is not clear which."""
        others = [name for name in self.columns if name != self.label]
        usual = [name for name in ("text", "file") if name in others]
        if len(usual) == 1:
            return ("text", None, []) if usual[0] == "text" else (None, "file", [])
        ids = [name for name in others if _ID.fullmatch(name) and self._all_differ(name)]
        others = [name for name in others if name not in ids]
        columns = {name: self._column(name) for name in others}
        kinds = {name: column.kind for name, column in columns.items()}
        texts = [name for name in others if kinds[name] == "texts"]
        numbers = [name for name in others if kinds[name] == "numbers"]
        if numbers and not texts and not usual:
            left = f" Left out, since all its values differ: {', '.join(ids)}." if ids else ""
            hollow = [name for name in others if kinds[name] == "nothing"]
            left += f" Left out, since no row has a value: {', '.join(hollow)}." if hollow else ""
            one = f"The column of numbers {numbers[0]!r} is the feature."
            said.append((one if len(numbers) == 1 else f"{len(numbers):,} columns of numbers are the features.") + left)
            return None, None, numbers
        if len(texts) == 1 and not numbers:
            said.append(f"Texts are in the column {texts[0]!r}.")
            return texts[0], None, []
        if not texts:
            raise FileError(
                f"{self.path}: found neither texts nor numbers beside the labels in {self.label!r}. Its columns are: "
                f"{self._listed}."
            )
        beside = f", and numbers in {_few(numbers)}" if numbers else ""
        such = columns[texts[0]]
        example = next((value for value, other in zip(such.cells, such.others, strict=True) if other), "")
        raise FileError(
            f"{self.path}: has texts in {_few(texts)} (such as {str(example)[:40]!r}){beside}. A pilot takes texts or "
            "numbers: name one column of texts with text=, or columns of numbers with features=A,B."
        )

    def _all_differ(self, name: str) -> bool:
        values = self._values(name)
        return len(set(map(str, values))) == len(values)

    def _column(self, name: str) -> Column:
        """A column, read as numbers."""
        return read_column(self._values(name))

    def _standardised(self, names: Sequence[str]) -> Array:
        """`[N, D]` columns of numbers, each with mean 0 and deviation 1; a column that is constant is 0."""
        columns = {name: self._column(name) for name in names}
        check_numbers(self.path, columns)
        values = np.stack([columns[name].numbers for name in names], 1)
        spread = values.std(0)
        standard: Array = (values - values.mean(0)) / np.where(spread > 0, spread, 1)
        return standard.astype(np.float32)


def _in_csv(value: object) -> object:
    """A label as a CSV file would have it: 2.5 may be the name of a class there."""
    return str(value) if isinstance(value, float) and np.isfinite(value) and not value.is_integer() else value


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
