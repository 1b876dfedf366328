"""Columns of numbers in a user's table: which columns are such, and which of their rows have no number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.data.formats.plain_text import read_text
from poolwise.errors import FileError, PoolwiseError

MISSING = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "?", "-", "null", "none"))
"""What people and programs write where a value is missing, in small letters."""

# A column with at least this share of numbers, among what is not missing, is meant as numbers: the rest are slips.
_MOST = 0.9
_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True)
class Column:
    """A column, read as numbers.

    Attributes:
        cells: the values as they are in the table.
        numbers: `[N]` the numbers, NaN where there is none.
        missing: `[N]` whether a value is missing.
        others: `[N]` whether a value is neither a number nor missing.
    """

    cells: Sequence[Any]
    numbers: Array
    missing: Array
    others: Array

    @property
    def kind(self) -> str:
        """What is in it: `"numbers"`, `"texts"`, or `"nothing"`."""
        known = int((~self.missing).sum())
        if not known:
            return "nothing"
        return "numbers" if known - self.others.sum() >= _MOST * known else "texts"

    @property
    def gaps(self) -> Array:
        """`[n]` the rows without a finite number, from 0."""
        return np.flatnonzero(~np.isfinite(self.numbers))


def read_column(cells: Sequence[Any]) -> Column:
    """Read a column as numbers.

    Args:
        cells: its values.
    """
    numbers = np.full(len(cells), np.nan)
    missing, others = np.zeros(len(cells), bool), np.zeros(len(cells), bool)
    for row, value in enumerate(cells):
        if is_missing(value):
            missing[row] = True
            continue
        try:
            numbers[row] = float(value)
        except (TypeError, ValueError):
            others[row] = True
    return Column(cells, numbers, missing, others)


def is_missing(value: object) -> bool:
    """Whether a value stands for one that is missing."""
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in MISSING)


def check_numbers(path: Path, columns: Mapping[str, Column]) -> None:
    """Refuse columns that have rows without a number, and say which and how many.

    Args:
        path: the table.
        columns: the columns by name.
    """
    wrong = [name for name, column in columns.items() if len(column.gaps)]
    if not wrong:
        return
    column = columns[wrong[0]]
    rows = column.gaps.tolist()
    value = column.cells[rows[0]]
    empty = value is None or value != value or not str(value).strip()
    found = f"{wrong[0]!r} has {'no value' if empty else repr(value)[:60]} in {place(path, rows[0], len(column.cells))}"
    advice = f"{'fill it in' if column.missing[rows[0]] else 'correct it'} or leave the row out"
    if len(rows) > 1:
        alike = len({str(column.cells[row]).strip() for row in rows}) == 1
        found += f", as in {len(rows):,} rows" if alike else f", and no number in {len(rows):,} rows"
        advice = "fill it in or leave the rows out" if alike else "fill them in or leave the rows out"
    if len(wrong) > 1:
        found += f" ({len(wrong):,} columns have such rows)"
    if column.kind == "texts":
        raise FileError(f"{path}: {found}, so it is no column of numbers. Name columns of numbers with features=A,B.")
    raise FileError(f"{path}: {found}: {advice}; or name other columns of numbers with features=A,B.")


def place(path: Path, row: int, count: int) -> str:
    """Where a row is, for a person who looks at the table: its number from 1, and its line if that is certain.

    Args:
        path: the table.
        row: its row, from 0.
        count: how many rows there are.
    """
    shown = f"row {row + 1:,}"
    if not path.name.lower().endswith(_CSV):
        return shown
    try:
        lines = len(read_text(path).splitlines())
    except PoolwiseError:  # in an encoding that only its reader knows
        return shown
    return f"{shown} (line {row + 2:,} of the file)" if lines == count + 1 else shown
