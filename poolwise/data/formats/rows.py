"""Rows of texts from comma- or tab-separated files."""

import csv
import io
from pathlib import Path

from poolwise.data.formats.files import open_bytes
from poolwise.errors import FileError


class _Commas(csv.excel):
    strict = True


class _Tabs(csv.excel_tab):
    quoting = csv.QUOTE_NONE


_DIALECTS: dict[str, type[csv.Dialect]] = {".csv": _Commas, ".tsv": _Tabs, ".txt": _Tabs}
_LONGEST_FIELD = 1 << 30


def kind(path: Path) -> str:
    """The ending of a name, in lower case and without a `.gz`."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Every row that is not empty, with the number of the line it ends on; all of them as long as the first.

    Commas: fields may be in double quotes, with line breaks inside and quotes doubled. Tabs: nothing is special.
    """
    dialect = _DIALECTS[kind(path)]
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        with open_bytes(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            reader = csv.reader(text, dialect)
            rows = [(reader.line_num, row) for row in reader if row]
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8 text ({error}). Save it again as UTF-8.") from error
    except csv.Error as error:
        raise FileError(
            f"{path}, line {reader.line_num}: {error}. The file is cut short, or a field with quotes or line breaks is "
            "not in double quotes (with the quotes inside doubled)."
        ) from error
    finally:
        csv.field_size_limit(before)
    if not rows:
        raise FileError(f"{path}: is empty. Expected rows of text.")
    for line, row in rows:
        if len(row) != len(rows[0][1]):
            raise FileError(
                f"{path}, line {line}: expected {len(rows[0][1])} fields as in the first row, found {len(row)}. "
                "Put fields that hold commas in double quotes."
            )
    return rows
