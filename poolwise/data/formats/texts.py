"""Labelled texts in a separated file, with the columns that copies of a data set are known to have."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolwise.data.formats.official import Raw
from poolwise.data.formats.rows import read_rows
from poolwise.errors import FileError


@dataclass(frozen=True)
class TextColumns:
    """What the columns of a file mean.

    Attributes:
        columns: their names, in lower case.
        text: the positions of those that make up the text, joined by a space.
        label: the position of the label.
        first: the number of the first class, where labels are numbers; None where they are names.
        header: whether the first row holds the names of the columns.
    """

    columns: tuple[str, ...]
    text: tuple[int, ...]
    label: int
    first: int | None = None
    header: bool = True

    def fits(self, row: list[str]) -> bool:
        """Whether a file that begins with this row has these columns."""
        return len(row) == len(self.columns) and (
            not self.header or tuple(field.strip().lower() for field in row) == self.columns
        )

    def __str__(self) -> str:
        return f"{', '.join(self.columns)} {'with' if self.header else 'without'} a header row"


@dataclass(frozen=True)
class Texts:
    """Texts with their labels, in one file.

    Attributes:
        file: its name.
        columns: the columns it may have; the first that fit its first row are taken.
    """

    file: str
    columns: tuple[TextColumns, ...]
    md5: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The one file."""
        return (self.file,)

    def read(self, paths: Mapping[str, Path]) -> Raw:
        """Read it; the texts are left unchanged, with the marks for line breaks that some of them have."""
        path = paths[self.file]
        rows = read_rows(path)
        columns = next((columns for columns in self.columns if columns.fits(rows[0][1])), None)
        if columns is None:
            raise FileError(
                f"{path}: expected the columns {' or '.join(map(str, self.columns))}, but it begins with "
                f"{', '.join(rows[0][1])[:200]!r}. Is it the file of another data set?"
            )
        rows = rows[columns.header :]
        texts = [" ".join(row[column] for column in columns.text) for _, row in rows]
        if columns.first is None:
            return Raw(texts, [row[columns.label] for _, row in rows])
        for line, row in rows:
            if not row[columns.label].strip().isdecimal() or len(row[columns.label]) > 9:
                found = row[columns.label][:100]
                raise FileError(f"{path}, line {line}: expected the number of a class, found {found!r}.")
        return Raw(texts, np.array([int(row[columns.label]) for _, row in rows], np.int64) - columns.first)
