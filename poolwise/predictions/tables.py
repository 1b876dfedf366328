"""Columns of lists in Parquet and Arrow files, which is how other pipelines store predictions.

Such files are packed, and a single row cannot be read. So the column is unpacked once, batch by batch, to a temporary
file without a name. That file is mapped as an `.npy` file is, so that selecting needs no more memory. Its space on the
disk is freed when the predictions are gone.
"""

import mmap
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.arrays import Array, as_bytes
from poolwise.errors import FileError, MissingInputError, ShapeError

ENDINGS = (".parquet", ".arrow", ".feather")
# The first bytes of an Arrow file with an index, and the last bytes of a stream, which Hugging Face `datasets` writes.
_INDEXED, _END = b"ARROW1", b"\xff\xff\xff\xff\0\0\0\0"
# How many rows are unpacked at a time.
_ROWS = 8192


def is_tables(path: Path) -> bool:
    """Whether a path is such a file, or a folder of such files and nothing else."""
    return bool(_files(path))


def open_column(path: Path, key: str | None) -> tuple[Array, mmap.mmap]:
    """`[N, L]` numbers from a column of lists, `[N, A, B]` from one of lists of lists, mapped.

    Args:
        path: a file, or a folder of files in the order of their names.
        key: which column; not needed if only one has lists.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingInputError(f"{path}: reading it needs pyarrow. Try: pip install 'poolwise[parquet]'") from error
    rows, shape, dtype = 0, None, None
    try:
        with tempfile.TemporaryFile() as room:
            for file in _in_order(path):
                first = rows
                try:
                    for name, batch in _batches(file, key):
                        key, block = name, _numbers(batch, file, rows - first)
                        shape, dtype = shape or block.shape[1:], dtype or block.dtype
                        if (block.shape[1:], block.dtype) != (shape, dtype):
                            raise FileError(
                                f"{file}: its lists are {block.dtype} {list(block.shape[1:])}, and those before "
                                f"{dtype} {list(shape)}. All must be alike."
                            )
                        room.write(as_bytes(block))
                        rows += len(block)
                except (pa.ArrowException, OSError) as error:
                    if getattr(error, "errno", None) is not None:
                        raise  # of the disk, where one of Arrow's own has no number
                    raise FileError(f"{file}: not a whole file of its kind ({error}). Write it again.") from error
            if not rows or shape is None or not np.prod(shape):
                raise FileError(f"{path}: has no rows.")
            room.flush()
            mapping = mmap.mmap(room.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise FileError(
            f"{path}: cannot be unpacked to {tempfile.gettempdir()} ({error.strerror or error}). If there is no room, "
            "set TMPDIR to a folder with more."
        ) from error
    return np.frombuffer(mapping, dtype).reshape(rows, *shape), mapping


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if path.suffix in ENDINGS and path.exists() else []
    visible = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
    tables = [entry for entry in visible if entry.suffix != ".json"]  # which Hugging Face `datasets` puts beside them
    return tables if all(entry.suffix in ENDINGS for entry in tables) else []


def _in_order(path: Path) -> list[Path]:
    """The files, whose names must have one order: some programs would read 10 after 9, others before 2."""
    files = _files(path)
    by_number = sorted(files, key=lambda file: [int(n) if n.isdecimal() else n for n in re.split(r"(\d+)", file.name)])
    for file, other in zip(files, by_number, strict=True):
        if file != other:
            raise FileError(
                f"{path}: it is not clear whether {file.name} or {other.name} comes first. Rename the files so that "
                "all numbers have as many digits, as in part-02 and part-10."
            )
    return files


def _batches(file: Path, key: str | None) -> Iterator[tuple[str, Any]]:
    """The column of a file in parts, each an Arrow array, with the name of the column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.suffix == ".parquet":
        with pq.ParquetFile(file) as packed:
            name = _choose(file, packed.schema_arrow, key)
            for batch in packed.iter_batches(_ROWS, columns=[name]):
                yield name, batch.column(0)
        return
    with pa.memory_map(str(file)) as mapped:
        indexed = mapped.read(len(_INDEXED)) == _INDEXED
        mapped.seek(max(0, mapped.size() - len(_END)))
        if not indexed and mapped.read() != _END:
            raise FileError(
                f"{file}: neither an Arrow file nor a stream with an end: it may be cut short. Write it again."
            )
        mapped.seek(0)
        with pa.ipc.open_file(mapped) if indexed else pa.ipc.open_stream(mapped) as packed:
            name = _choose(file, packed.schema, key)
            batches = (packed.get_batch(i) for i in range(packed.num_record_batches)) if indexed else packed
            for batch in batches:
                for start in range(0, len(batch), _ROWS):
                    yield name, batch.column(name).slice(start, _ROWS)


def _choose(file: Path, schema: Any, key: str | None) -> str:
    lists = [field.name for field in schema if _is_list(field.type)]
    chosen = lists[0] if key is None and len(lists) == 1 else key
    if lists.count(chosen) != 1:
        named = "" if key is None else f", not {key}"
        raise FileError(
            f"{file}: say which column to read with key={named}; those with lists: {', '.join(lists) or 'none'}."
        )
    return str(chosen)


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _numbers(column: Any, file: Path, first: int) -> Array:
    """`[n, ...]` numbers of a part of a column, in which every list must have the same length.

    Args:
        column: the part.
        file: where it is from, for errors.
        first: which row of the file it begins with.
    """
    import pyarrow.types as types

    def refuse(wrong: Any, what: str) -> None:
        wrong_n = np.asarray(wrong)
        if wrong_n.any():
            row = first + int(np.argmax(wrong_n)) // int(np.prod(sizes[1:]))
            raise FileError(f"{file}, row {row}: {what}. Drop or repair that row.")

    sizes = [len(column)]
    while _is_list(column.type):
        refuse(column.is_null(), "a list is missing (null)")
        lengths_n = np.asarray(column.value_lengths())
        refuse(lengths_n != lengths_n[:1], "a list has another length than those before it")
        column = column.flatten()
        sizes.append(len(column) // max(1, len(lengths_n)))
    if not types.is_floating(column.type):
        raise ShapeError(f"{file}: its lists must be of float16, float32 or float64, not {column.type}. Convert them.")
    refuse(column.is_null(), "a number is missing (null)")
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False)).reshape(sizes)
