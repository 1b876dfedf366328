"""From the columns of a table to inputs, labels and ids."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short
from typing import Any

import numpy as np

from poolwise.data import frames
from poolwise.errors import FileError


@dataclass(frozen=True)
class Roles:
    """The names of the columns that a caller wants; None is the usual name, if there is such a column.

    Attributes:
        text: texts, usually `"text"`.
        file: image files, usually `"file"`.
        label: labels, usually `"label"`.
        id: what to call the examples, usually `"id"`.
    """

    text: str | None = None
    file: str | None = None
    label: str | None = None
    id: str | None = None

    @property
    def names(self) -> set[str]:
        """All names, the usual ones included."""
        return {value or name for name, value in vars(self).items()}


@dataclass(frozen=True)
class Listed:
    """What a folder or a table lists.

    Attributes:
        inputs: texts, or image files.
        classes: the name of the class of each, None where unknown.
        ids: what to call each.
        columns: the columns that were used, by role.
    """

    inputs: list[str] | list[Path]
    classes: list[str | None]
    ids: list[str]
    columns: Mapping[str, str]


def list_table(table: Mapping[str, Any], roles: Roles, where: str, folder: Path) -> Listed:
    """Texts or image files, labels and ids from a table.

    Args:
        table: the columns by name.
        roles: which column is which.
        where: the name of the file, for errors.
        folder: what image files are relative to.
    """
    used = _used(table, roles, where)
    role = "text" if "text" in used else "file"
    inputs = _strings(_values(table[used[role]]), used[role], where)
    if not inputs:
        raise FileError(f"{where}: expected at least one row, found none.")
    classes: list[str | None] = [None] * len(inputs)
    if "label" in used:
        labels = _values(table[used["label"]])
        _check_length(labels, inputs, used["label"], where)
        classes = [class_name(value, where, row) for row, value in enumerate(labels)]
    ids = list(inputs) if role == "file" else [str(row) for row in range(len(inputs))]
    if "id" in used:
        given = _values(table[used["id"]])
        _check_length(given, inputs, used["id"], where)
        ids = [_id(value, where, row) for row, value in enumerate(given)]
    check_ids(ids, where)
    if role == "file":
        return Listed([folder / value for value in inputs], classes, ids, used)
    return Listed(inputs, classes, ids, used)


def class_name(value: object, where: str, row: int) -> str | None:
    """The name of a class from a cell of a table; None if it is empty."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value != value or (isinstance(value, str) and not value.strip()):  # only NaN is not itself
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # whole numbers become floats where a table has gaps
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str | int):
        return str(value).strip()
    raise FileError(f"{where}, row {row}: expected the name or number of a class as label, found {short(value)}.")


def check_ids(ids: list[str], where: str) -> None:
    """Refuse ids that do not tell examples apart."""
    name, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise FileError(
            f"{where}: expected a different id for each example, but {short(name)} occurs {times} times. Name "
            "another column with id=."
        )


def _used(table: Mapping[str, Any], roles: Roles, where: str) -> dict[str, str]:
    """The columns that are used, by role."""
    used = {role: name for role, name in vars(roles).items() if name is not None}
    found = ", ".join(map(str, table))[:500] or "none"
    for role, name in used.items():
        if name not in table:
            raise FileError(f"{where}: has no column {name!r}, which {role}= names. Its columns are: {found}.")
    inputs = [role for role in ("text", "file") if role in used] or [r for r in ("text", "file") if r in table]
    if len(inputs) != 1:
        header = (
            " If its first row is not a header, name its columns with columns=[...]."
            if where.lower().removesuffix(".gz").endswith((".csv", ".tsv"))
            else ""
        )
        raise FileError(
            f"{where}: expected a column 'text' of texts or a column 'file' of image files, and not both; found "
            f"{found}. Name the column with text= or file= (in an experiment: data.text or data.file).{header}"
        )
    used[inputs[0]] = used.get(inputs[0], inputs[0])
    for role in ("label", "id"):
        if role not in used and role in table:
            used[role] = role
    return used


def _values(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    values: list[Any] = frames.as_column(column).tolist()
    return values


def _strings(values: list[Any], name: str, where: str) -> list[str]:
    wrong = next((row for row, value in enumerate(values) if not isinstance(value, str)), None)
    if wrong is not None:
        raise FileError(f"{where}, row {wrong}: expected a text as {name!r}, found {short(values[wrong])}.")
    return values


def _check_length(values: list[Any], inputs: list[str], name: str, where: str) -> None:
    if len(values) != len(inputs):
        raise FileError(f"{where}: column {name!r} has {len(values)} rows, and the inputs have {len(inputs)}.")


def _id(value: object, where: str, row: int) -> str:
    if value is None or value != value or value == "":
        raise FileError(f"{where}, row {row}: its id is missing. Fill it in, or name another column with id=.")
    return str(value)
