"""Tables of a user's own, by the names of their columns: CSV, TSV, JSON lines and Parquet."""

import json
from collections.abc import Collection
from pathlib import Path
from reprlib import repr as short

from poolwise.arrays import Array
from poolwise.data.formats.files import check_memory, package
from poolwise.data.formats.plain_text import read_text
from poolwise.data.frames import as_column
from poolwise.errors import FileError

# Bytes that one value takes at least once it is a Python object in a list.
_VALUE = 8


def read_json_lines(path: Path, *, encoding: str | None = None) -> dict[str, list[object]]:
    """The columns of a file with one JSON object per line; a value that is not there is None.

    Args:
        path: the file, or its `.gz`.
        encoding: how the text is encoded, see `read_text`.
    """
    records = []
    for line, text in enumerate(read_text(path, encoding).split("\n"), 1):
        if not text or text.isspace():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            raise FileError(f"{path}, line {line}: not JSON ({reason}). Expected one object per line.") from error
        if not isinstance(record, dict):
            raise FileError(
                f'{path}, line {line}: expected an object such as {{"text": "..."}}, found {short(record)}.'
            )
        records.append(record)
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def read_parquet(path: Path, *, wanted: Collection[str] = ()) -> dict[str, Array | list[object]]:
    """The columns of a Parquet file.

    Args:
        path: the file.
        wanted: the columns to read; others are there as well, but empty.
    """
    library = package("pyarrow.parquet", "pyarrow", "reading Parquet")
    try:
        with library.ParquetFile(path) as file:
            names = list(file.schema_arrow.names)
            read = [name for name in names if not wanted or name in wanted]
            check_memory(path, _VALUE * file.metadata.num_rows * len(read))
            table = file.read(columns=read)
        return {name: as_column(table.column(name)) if name in read else [] for name in names}
    except FileError:
        raise
    except Exception as error:  # pyarrow has its own kinds
        reason = " ".join(str(error).split())
        raise FileError(f"{path}: not a whole Parquet file ({reason}). Write it again.") from error
