"""Columns of lists in Parquet and Arrow files, which is how other pipelines store predictions.

Such files are packed, and a row of them cannot be read alone. So the column is unpacked once, batch by batch, to a
temporary file without a name, which is then mapped as an `.npy` file is: selecting needs no more memory than from one,
and the space on the disk is given back when the predictions are gone.
"""

import mmap
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.errors import FileError, MissingInputError
from poolwise.predictions.arrays import Array, as_bytes

ENDINGS = (".parquet", ".arrow", ".feather")
# Rows are unpacked so many at a time.
_ROWS = 8192


def is_tables(path: Path) -> bool:
    """Whether a path is such a file, or a folder of such files and nothing else."""
    return bool(_files(path))


def open_column(path: Path, key: str | None) -> tuple[Array, mmap.mmap]:
    """`[N, L]` numbers from a column of lists, `[N, A, B]` from one of lists of lists, mapped.

    Args:
        path: a file, or a folder of files in the order of their names.
        key: which column; not needed if only one holds lists.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingInputError(f"{path}: reading it needs pyarrow. Try: pip install 'poolwise[parquet]'") from error
    rows, shape, dtype = 0, None, None
    with tempfile.TemporaryFile() as room:
        for file in _files(path):
            try:
                for batch in _batches(file, key):
                    block = _numbers(batch, f"{file}, rows from {rows}")
                    shape, dtype = shape or block.shape[1:], dtype or block.dtype
                    if (block.shape[1:], block.dtype) != (shape, dtype):
                        raise FileError(
                            f"{file}: its lists are {block.dtype} {list(block.shape[1:])}, and those before "
                            f"{dtype} {list(shape)}. All must be alike."
                        )
                    room.write(as_bytes(block))
                    rows += len(block)
            except pa.ArrowException as error:
                raise FileError(f"{file}: not a whole file of its kind ({error}). Write it again.") from error
            except OSError as error:
                raise FileError(
                    f"{file}: cannot be unpacked to {tempfile.gettempdir()} ({error.strerror or error}). If there is "
                    "no room, set TMPDIR to a folder with more."
                ) from error
        if not rows or shape is None or not np.prod(shape):
            raise FileError(f"{path}: holds no rows.")
        room.flush()
        mapping = mmap.mmap(room.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapping, dtype).reshape(rows, *shape), mapping


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if path.suffix in ENDINGS and path.exists() else []
    visible = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
    return visible if all(entry.suffix in ENDINGS for entry in visible) else []


def _batches(file: Path, key: str | None) -> Iterator[Any]:
    """The column of a file in parts, each an Arrow array."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.suffix == ".parquet":
        with pq.ParquetFile(file) as packed:
            name = _choose(file, packed.schema_arrow, key)
            for batch in packed.iter_batches(_ROWS, columns=[name]):
                yield batch.column(0)
        return
    with pa.memory_map(str(file)) as mapped, pa.ipc.open_file(mapped) as packed:
        place = packed.schema.get_field_index(_choose(file, packed.schema, key))
        for number in range(packed.num_record_batches):
            column = packed.get_batch(number).column(place)
            for start in range(0, len(column), _ROWS):
                yield column.slice(start, _ROWS)


def _choose(file: Path, schema: Any, key: str | None) -> str:
    lists = [field.name for field in schema if _is_list(field.type)]
    chosen = lists[0] if key is None and len(lists) == 1 else key
    if chosen not in lists:
        raise FileError(
            f"{file}: say which column to read with key=; those that hold lists: {', '.join(lists) or 'none'}."
        )
    return str(chosen)


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _numbers(column: Any, where: str) -> Array:
    """`[n, ...]` numbers of a part of a column, in which every list must have the same length."""
    sizes = [len(column)]
    while _is_list(column.type):
        if column.null_count:
            raise FileError(f"{where}: a list is missing (null). Drop or repair that row.")
        inner = column.flatten()
        length, rest = divmod(len(inner), max(1, len(column)))
        lengths = column.value_lengths() if hasattr(column, "value_lengths") else None
        if rest or (lengths is not None and len(lengths) and set(lengths.unique().to_pylist()) != {length}):
            raise FileError(f"{where}: the lists differ in length. Every point needs as many numbers.")
        sizes.append(length)
        column = inner
    if column.null_count:
        raise FileError(f"{where}: a number is missing (null). Drop or repair that row.")
    values: Array = column.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values).reshape(sizes)
