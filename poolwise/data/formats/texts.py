"""Labelled texts in a separated file, in one of the layouts in which a data set is known to be handed around."""

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
        columns: how they are called, in lower case.
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
        """Whether a file that begins with this row has this layout."""
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
        layouts: the layouts it may have; the first that fits its first row is taken.
    """

    file: str
    layouts: tuple[TextColumns, ...]
    md5: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The one file."""
        return (self.file,)

    def read(self, paths: Mapping[str, Path]) -> Raw:
        """Read it; the texts are left as they are, with what stands for a line break in some of them."""
        path = paths[self.file]
        rows = read_rows(path)
        layout = next((layout for layout in self.layouts if layout.fits(rows[0][1])), None)
        if layout is None:
            raise FileError(
                f"{path}: expected the columns {' or '.join(map(str, self.layouts))}, but it begins with "
                f"{', '.join(rows[0][1])[:200]!r}. Is it the file of another data set?"
            )
        rows = rows[layout.header :]
        texts = [" ".join(row[column] for column in layout.text) for _, row in rows]
        if layout.first is None:
            return Raw(texts, [row[layout.label] for _, row in rows])
        for line, row in rows:
            if not row[layout.label].strip().isdecimal():
                raise FileError(f"{path}, line {line}: expected the number of a class, found {row[layout.label]!r}.")
        return Raw(texts, np.array([int(row[layout.label]) for _, row in rows], np.int64) - layout.first)
