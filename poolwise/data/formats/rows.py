"""Rows of texts from files whose fields are separated by a character."""

import csv
import io
from collections.abc import Collection, Sequence
from pathlib import Path

from poolwise.data.formats.files import ending
from poolwise.data.formats.plain_text import read_text
from poolwise.errors import FileError, ParameterError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""The characters that are recognised as separators, and what to call them."""

Row = tuple[int, list[str]]
"""The number of the line that a row ends on, and its fields."""

_LONGEST_FIELD = 1 << 30

# Characters that are enough to find the first row with fields in it.
_BEGINNING = 1 << 20


def read_rows(path: Path) -> list[Row]:
    """Every row of an official file that is not empty; all of them as long as the first.

    In `.csv` files, commas separate; fields may be in double quotes, with line breaks inside and quotes doubled. In
    other files, tabs separate, and nothing else is special.
    """
    commas = ending(path) == ".csv"
    return _checked(
        path, _parse(path, read_text(path), "," if commas else "\t", quoted=commas), "," if commas else "\t"
    )


def read_table(
    path: Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
    wanted: Collection[str] = (),
) -> dict[str, list[str]]:
    """The columns of a user's table by name.

    Args:
        path: the file, or its `.gz`.
        separator: the character between fields; None finds it from the first row, or is an error where two are
            possible.
        encoding: how the text is encoded, see `read_text`.
        columns: names of the columns, for a file that has no header row.
        wanted: names that the header is expected to have, which help to find the separator.
    """
    text = read_text(path, encoding)
    if separator is None:
        separator = "\t" if ending(path) == ".tsv" else _find_separator(path, text, columns, wanted)
    elif not isinstance(separator, str) or len(separator) != 1 or separator in '"\r\n':
        raise ParameterError(f"separator must be one character, such as ',' or ';' or '\\t', not {separator!r}.")
    rows = _user_rows(path, text, separator)
    if columns is None:
        names, rows = [name.strip() for name in rows[0][1]], rows[1:]
    else:
        names = list(columns)
        if len(names) != len(rows[0][1]):
            raise FileError(
                f"{path}: columns names {len(names)} columns, but the first row has {len(rows[0][1])} fields."
            )
    named = [name for name in names if name]  # spreadsheets leave columns without a name at the end
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise FileError(
            f"{path}: expected a first row with a different name for each column, but {twice!r} occurs twice: "
            f"{', '.join(names)[:200]}. Rename one of them."
        )
    return {name: [row[place] for _, row in rows] for place, name in enumerate(names) if name}


def _user_rows(path: Path, text: str, separator: str) -> list[Row]:
    """Rows of a user's table. Tab-separated files are written with quotes by some programs and without by others."""
    spaced = any(name.startswith(" ") for name in _first_row(text, separator)[1:])  # as in `text, label`
    if ending(path) == ".tsv":
        plain = _parse(path, text, separator, quoted=False)
        if not any(field.startswith('"') for _, row in plain for field in row):
            return _checked(path, plain, separator)
        try:  # a field begins with a quote: if all of them fit the rules of quoting, they are quoted
            return _checked(path, _parse(path, text, separator, spaced), separator)
        except FileError:
            return _checked(path, plain, separator)
    return _checked(path, _parse(path, text, separator, spaced), separator)


def _find_separator(path: Path, text: str, columns: Sequence[str] | None, wanted: Collection[str]) -> str:
    """The one character that separates the first row; an error if there are two such."""
    first = {separator: _first_row(text, separator) for separator in SEPARATORS}
    several = [separator for separator, row in first.items() if len(row) > 1]
    if columns is not None:
        several = [separator for separator in several if len(first[separator]) == len(columns)]
    if len(several) > 1 and columns is None:
        # Names that are expected, and found as whole fields, settle it.
        found = {separator: len(set(wanted) & {name.strip() for name in first[separator]}) for separator in several}
        several = [separator for separator in several if found[separator] == max(found.values())]
    if len(several) > 1:
        raise FileError(
            f"{path}: the fields of its first row could be separated by "
            f"{' or '.join(SEPARATORS[separator] for separator in several)}. Name the character with separator=."
        )
    return several[0] if several else ","


def _first_row(text: str, separator: str) -> list[str]:
    """The fields of the first row that is not empty."""
    reader = csv.reader(io.StringIO(text[:_BEGINNING], newline=""), delimiter=separator)
    try:
        return next((row for row in reader if row), [])
    except csv.Error:
        return []


def _parse(path: Path, text: str, separator: str, spaced: bool = False, *, quoted: bool = True) -> list[Row]:
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        reader = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=separator,
            quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
            skipinitialspace=spaced,
            strict=quoted,
        )
        return [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise FileError(
            f"{path}, line {reader.line_num}: {error}. The file is cut short, or a field with quotes or line breaks is "
            "not in double quotes (with the quotes inside doubled)."
        ) from error
    finally:
        csv.field_size_limit(before)


def _checked(path: Path, rows: list[Row], separator: str) -> list[Row]:
    """The rows, all of them as long as the first."""
    if not rows:
        raise FileError(f"{path}: is empty. Expected rows of text.")
    for line, row in rows:
        if len(row) != len(rows[0][1]):
            raise FileError(
                f"{path}, line {line}: expected {len(rows[0][1])} fields as in the first row, found {len(row)}. Put "
                f"fields that contain {SEPARATORS.get(separator, repr(separator))} in double quotes; or name another "
                "character with separator=."
            )
    return rows
