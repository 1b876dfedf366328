"""Tables that go to spreadsheets and come back: label files are read, batches and exports written.

A text may come from anybody, and a spreadsheet runs a cell as a formula if it begins with `=`, `+`, `-`, `@`, a tab or
the end of a line. Some do so with the wide forms of these characters too. Such cells are written with an apostrophe in
front, which is removed when they are read.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from poolwise.data.formats.files import package
from poolwise.data.reading import call_reader, find_format
from poolwise.data.tables import class_name
from poolwise.errors import FileError, LabelError
from poolwise.storage import replacing

READ = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
"""Endings of label files."""

WRITTEN = (".csv", ".jsonl", ".parquet")
"""Endings of tables that are written."""

# A cell that would run as a formula, and one that was kept from it. Apostrophes in front are doubled, so that every
# text comes back as it was.
_BEGINS = r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_FORMULA, _KEPT = re.compile(f"'*{_BEGINS}"), re.compile(f"'+{_BEGINS}")

# Characters in a cell. Excel cuts or refuses longer ones.
_LONGEST = 32_000


def safe_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula.

    Example:
        >>> safe_cell("=1+1"), safe_cell("plain"), plain_cell(safe_cell("=1+1"))
        ("'=1+1", 'plain', '=1+1')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def plain_cell(text: str) -> str:
    """The text that was made safe."""
    return text[1:] if _KEPT.match(text) else text


def read_labels(
    path: Path,
    id: str | None = None,
    label: str | None = None,
    *,
    encoding: str | None = None,
    rows: Sequence[str] | None = None,
) -> dict[str, str | None]:
    """The label of each item that a file lists; None where the label is empty.

    Args:
        path: the file; commas, semicolons and tabs are recognised, and the mark that Excel puts in front.
        id: the column of ids; `"id"` by default.
        label: the column of labels; `"label"` by default.
        encoding: how a text file is encoded, UTF-8 by default.
        rows: the id of each row, for a table that has no column of ids.
    """
    if not path.is_file():
        raise FileError(f"{path}: there is no such file.")
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith(READ):
        raise FileError(f"{path}: cannot read '{path.suffix}' files. Labels come as one of {', '.join(READ)}.")
    found = find_format(path)
    assert found is not None
    hints = {} if name.endswith(".parquet") else {"wanted": {id or "id", label or "label"}}
    options = {} if encoding is None else {"encoding": encoding}
    columns = {str(key): list(values) for key, values in call_reader(found.load(), path, options, hints).items()}
    labels = columns[_column(columns, label, "label", path)]
    if id is None and "id" not in columns and rows is not None and len(rows) == len(labels):
        ids = list(rows)
    else:
        ids = [_id(value, path, row) for row, value in enumerate(columns[_column(columns, id, "id", path)])]
    escaped = name.endswith((".csv", ".tsv"))
    taken: dict[str, str | None] = {}
    for row, (item, value) in enumerate(zip(ids, labels, strict=True)):
        wanted = class_name(value, str(path), row)
        if escaped:
            item = plain_cell(item)
            wanted = None if wanted is None else plain_cell(wanted)
        if item in taken and wanted is not None and taken[item] not in (None, wanted):
            raise LabelError(
                f"{path}, row {row}: {item!r} occurs twice, as {taken[item]!r} and as {wanted!r}. Remove one of them."
            )
        taken[item] = wanted if wanted is not None else taken.get(item)
    return taken


def _column(columns: Mapping[str, Any], wanted: str | None, usual: str, path: Path) -> str:
    name = wanted or next((found for found in columns if found.strip().lower() == usual), usual)
    if name not in columns:
        listed = ", ".join(columns)[:500] or "none"
        raise FileError(f"{path}: has no column {name!r}. Its columns are: {listed}. Name another one with {usual}=.")
    return name


def _id(value: object, path: Path, row: int) -> str:
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        raise FileError(f"{path}, row {row}: its id is missing. Remove the row, or fill it in.")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def check_ending(path: Path, endings: Sequence[str] = WRITTEN) -> None:
    """Refuse a file that cannot be written, before the work begins."""
    if path.suffix.lower() not in endings:
        raise FileError(f"{path}: cannot write '{path.suffix}' files. Use one of {', '.join(endings)}.")
    if not path.absolute().parent.is_dir():
        raise FileError(f"{path.absolute().parent}: no such folder to write to. Make it first.")


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV, with cells that no spreadsheet takes for formulas."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([safe_cell(name) for name in columns])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, mark: bool = False) -> None:
    """Write a table as CSV, JSON lines or Parquet, by the ending of the file; it is never half written.

    Args:
        path: the file.
        columns: the names of the columns.
        rows: the values; None is an empty cell.
        mark: whether a CSV begins with the mark by which Excel knows UTF-8.
    """
    check_ending(path)
    rows = list(rows)
    with replacing(path) as file:
        match path.suffix.lower():
            case ".csv":
                file.write(as_csv(columns, rows).encode("utf-8-sig" if mark else "utf-8", "replace"))
            case ".jsonl":
                for row in rows:
                    record = dict(zip(columns, row, strict=True))
                    file.write((json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
            case _:
                arrow = package("pyarrow", "pyarrow", "writing Parquet")
                parquet = package("pyarrow.parquet", "pyarrow", "writing Parquet")
                table = arrow.table({name: [row[place] for row in rows] for place, name in enumerate(columns)})
                parquet.write_table(table, file)


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value if value is not None else ""
    return safe_cell(value if len(value) <= _LONGEST else f"{value[:_LONGEST]} ...")
