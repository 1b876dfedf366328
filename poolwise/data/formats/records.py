"""Tables of a user's own, by the names of their columns: CSV, TSV, JSON lines and Parquet."""

import json
from collections.abc import Callable
from pathlib import Path

from poolwise.data.formats.files import open_bytes, package
from poolwise.data.formats.rows import kind, read_rows
from poolwise.errors import FileError

Columns = dict[str, list[object]]


def read_records(path: Path) -> Columns:
    """Every column of a table; what is not there is None."""
    return READERS[kind(path)](path)


def _separated(path: Path) -> Columns:
    (_, names), *rows = read_rows(path)
    if len(set(names)) < len(names):
        raise FileError(
            f"{path}: expected a first row with a different name for each column, found {', '.join(names)}."
        )
    return {name: [row[place] for _, row in rows] for place, name in enumerate(names)}


def _json_lines(path: Path) -> Columns:
    records = []
    with open_bytes(path) as file:
        for line, text in enumerate(file, 1):
            if text.isspace():
                continue
            try:
                record = json.loads(text)
            except ValueError as error:
                raise FileError(f"{path}, line {line}: not JSON ({error}). Expected one object a line.") from error
            if not isinstance(record, dict):
                raise FileError(f'{path}, line {line}: expected an object such as {{"text": "..."}}, found {record!r}.')
            records.append(record)
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _parquet(path: Path) -> Columns:
    reader = package("pyarrow.parquet", "pyarrow", "reading Parquet")
    try:
        table = reader.read_table(path)
        return {name: table.column(name).to_pylist() for name in table.column_names}
    except Exception as error:  # pyarrow has its own kinds
        raise FileError(f"{path}: not a whole Parquet file ({error}). Write it again.") from error


READERS: dict[str, Callable[[Path], Columns]] = {
    ".csv": _separated,
    ".tsv": _separated,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
"""The function that reads each kind of table, by the ending of its name."""
