"""Lists that a user has in a file: names of all points, points to leave out, labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from poolwise.errors import FileError, ParameterError

if TYPE_CHECKING:
    from poolwise.arrays import Array

By = Literal["index", "id"]
ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".parquet", ".npy")
_POSITIONS = ("index", "position")


class Column(NamedTuple):
    """One column of a file.

    Attributes:
        path: the file.
        name: what the column is called; empty in a file without names.
        values: its values.
    """

    path: Path
    name: str
    values: list[object]


def read_ids(given: str, N: int) -> list[str]:
    """The names of all points: a text file with one per line, or a column, as in `pool.csv:file`.

    Args:
        given: the file, with `:COLUMN` if it has several columns and none is called `id`.
        N: how many points there are.
    """
    column = _pick(*_open(given, "--ids"), ("id",), "--ids")
    if len(column.values) != N:
        raise FileError(
            f"{column.path}: has {len(column.values)} names, but the pool has {N} points. One per point is needed."
        )
    return [_text(value) for value in column.values]


def read_labels(given: str, option: str = "--labels") -> "Array":
    """`[L]` labels as whole numbers: a text file with one per line, an array, or a column, as in `train.csv:label`.

    Args:
        given: the file, with `:COLUMN` if it has several columns and none is called `label`.
        option: the option that names it, for errors.
    """
    import numpy as np

    column = _pick(*_open(given, option), ("label", "labels"), option)
    texts = [_text(value) for value in column.values]
    numbers = [_whole(text) for text in texts]
    wrong = next((row for row, number in enumerate(numbers) if number is None or number < 0), None)
    if wrong is not None:
        raise FileError(
            f"{column.path}: row {wrong + 1} has the label {_short(texts[wrong])}. Labels are whole numbers from 0, "
            "each the position of a class among the C classes of the predictions."
        )
    return np.array(numbers, np.int64)


def read_excluded(given: Sequence[str], by: By | None, ids: "Array | None", N: int) -> "Array":
    """`[n]` positions of the points that some files list, by position or by name.

    Args:
        given: the files, each with `:COLUMN` if it is not clear which column is meant.
        by: what the files list; None to tell from the column's name and from the values.
        ids: `[N]` names of the points, or None.
        N: how many points there are.
    """
    import numpy as np

    places: dict[str, list[int]] = {}
    for place, name in enumerate([] if ids is None else ids.tolist()):
        places.setdefault(name, []).append(place)
    wanted = {"index": _POSITIONS, "id": ("id",), None: (("id",) if places else ()) + _POSITIONS}[by]
    found: set[int] = set()
    for entry in given:
        column = _pick(*_open(entry, "--exclude"), wanted, "--exclude")
        found.update(_positions(column, by, places, N))
    return np.array(sorted(found), np.int64)


def _positions(column: Column, by: By | None, places: dict[str, list[int]], N: int) -> set[int]:
    texts = [_text(value) for value in column.values]
    if by is None and column.name in _POSITIONS:
        by = "index"
    elif by is None and column.name == "id":
        by = "id"
    if by == "id" and not places:
        raise FileError(
            f"{column.path}: lists names, but the predictions have none. Name the points with --ids, or list positions "
            "(--exclude-by index)."
        )
    numbers = [_whole(text) for text in texts]
    strange = next((text for text, n in zip(texts, numbers, strict=True) if n is None or not 0 <= n < N), None)
    unknown = next((text for text in texts if text not in places), None)
    as_positions = {n for n in numbers if n is not None}
    as_names = {place for text in texts for place in places.get(text, ())}
    if by is None and strange is None and unknown is None and as_positions != as_names:
        raise FileError(
            f"{column.path}: it is not clear whether {_short(texts[0])} and the others are positions or names. Say it "
            "with --exclude-by index or --exclude-by id."
        )
    if by != "index" and unknown is None:
        return as_names
    if by == "id":
        raise FileError(
            f"{column.path}: there is no point called {_short(unknown)} in the pool. Remove that row, or give the "
            "names of the points with --ids."
        )
    if strange is None:
        return as_positions
    if by is None and places:
        raise FileError(f"{column.path}: {_short(strange)} is neither a name of a point nor a position (0 to {N - 1}).")
    raise FileError(f"{column.path}: {_short(strange)} is not a position: those are whole numbers from 0 to {N - 1}.")


def _short(text: str | None) -> str:
    return repr(text if text is None or len(text) <= 60 else f"{text[:56]} ...")


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20 else None


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # whole numbers become floats where a table has gaps
    return str(value).strip() if not isinstance(value, bytes) else value.decode(errors="replace")


def _open(given: str, flag: str) -> tuple[Path, str | None, dict[str, list[object]]]:
    """The file, the column that was named, and all columns."""
    path, name = Path(given), None
    if not path.exists() and ":" in given:
        before, _, name = given.rpartition(":")
        path = Path(before)
    if not path.is_file():
        raise FileError(f"{path}: no such file. {flag} takes one of {', '.join(ENDINGS)} (FILE or FILE:COLUMN).")
    if path.suffix.lower() not in ENDINGS:
        raise FileError(f"{path}: cannot read '{path.suffix}' files. {flag} takes one of {', '.join(ENDINGS)}.")
    return path, name, _read(path)


def _read(path: Path) -> dict[str, list[object]]:
    ending = path.suffix.lower()
    if ending == ".txt":
        try:
            return {"": list(path.read_text(encoding="utf-8-sig").splitlines())}
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"{path}: cannot read the names ({error}). Save it as UTF-8 text, one per line.") from error
    if ending == ".npy":
        return {"": _read_npy(path)}
    if ending == ".json":
        return _read_batch(path)
    columns = _read_columns(path)
    if len(columns) == 1 and ending in (".csv", ".tsv") and _whole(next(iter(columns))) is not None:
        (first, values), *_ = columns.items()
        return {"": [first, *values]}  # a list of numbers without a header
    return columns


def _read_columns(path: Path) -> dict[str, list[object]]:
    """The columns of a table."""
    from poolwise.data.formats.records import read_json_lines, read_parquet
    from poolwise.data.formats.rows import read_table

    match path.suffix.lower():
        case ".parquet":
            return {name: list(values) for name, values in read_parquet(path).items()}
        case ".jsonl":
            return read_json_lines(path)
        case _:
            return {name: list(values) for name, values in read_table(path).items()}


def _read_npy(path: Path) -> list[object]:
    import numpy as np

    from poolwise.storage import reading_arrays

    with reading_arrays(path, "Write it again with numpy.save of one list."):
        values = np.load(path, allow_pickle=False)
    if values.ndim != 1 or values.dtype.kind not in "iuU":
        raise FileError(
            f"{path}: expected one list of whole numbers or texts, not {values.dtype} {list(values.shape)}."
        )
    return list(values.tolist())


def _read_batch(path: Path) -> dict[str, list[object]]:
    """The columns of a batch that `poolwise select -o batch.json` wrote, or of a plain list."""
    from poolwise.storage import read_json

    found = read_json(path, "Write it again.")
    if isinstance(found, list) and not any(isinstance(value, dict | list) for value in found):
        return {"": found}
    picks = found.get("picks") if isinstance(found, dict) else None
    if not isinstance(picks, list) or not all(isinstance(pick, dict) for pick in picks):
        raise FileError(f"{path}: expected a list, or a batch that `poolwise select -o FILE.json` wrote.")
    names = dict.fromkeys(name for pick in picks for name in pick)
    return {name: [pick.get(name) for pick in picks] for name in names}


def _pick(path: Path, name: str | None, columns: dict[str, list[object]], wanted: Sequence[str], flag: str) -> Column:
    """The column that was named; else the first of the wanted ones; else the only one."""
    if name is not None and name not in columns:
        known = ", ".join(column for column in columns if column)
        raise FileError(f"{path}: has no column {name!r}; {f'its columns: {known}' if known else 'it has no header'}.")
    chosen = name or next((column for column in wanted if column in columns), None)
    if chosen is None and len(columns) == 1:
        chosen = next(iter(columns))
    if chosen is None:
        raise ParameterError(
            f"{path}: say which column to read, as in {flag} {path.name}:{next(iter(columns), 'COLUMN')}; its columns: "
            f"{', '.join(columns) or 'none'}."
        )
    return Column(path, chosen, columns[chosen])
