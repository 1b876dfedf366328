"""Tables and columns of pandas, Polars and Arrow as plain arrays, always by position and never by index label.

None of these packages is imported: an object is known by the package that its class belongs to.
"""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from poolwise.arrays import Array, is_tensor
from poolwise.errors import ParameterError, ShapeError

_PACKAGES = {"pandas", "polars", "pyarrow"}
_TABLES = {"DataFrame", "GeoDataFrame", "Table", "RecordBatch"}
_NUMBERS = "fiub"  # NumPy's letters for floats, integers, unsigned integers and booleans


def is_table(value: object) -> bool:
    """Whether this is a table of named columns: a DataFrame, or an Arrow table."""
    return _is_foreign(value) and any(base.__name__ in _TABLES for base in type(value).__mro__)


def is_column(value: object) -> bool:
    """Whether this is one column, or one row: a Series, an Index, an Arrow array."""
    return _is_foreign(value) and not is_table(value) and hasattr(value, "__len__") and hasattr(value, "__array__")


def _is_foreign(value: object) -> bool:
    return any(base.__module__.partition(".")[0] in _PACKAGES for base in type(value).__mro__)


def columns_of(table: Any) -> dict[str, Array]:
    """The columns of a table by name, each as an array; of several columns with one name, an error."""
    names = _names(table)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ParameterError(f"the table has several columns called {twice!r}. Give each column its own name.")
    return dict(zip(names, _columns(table), strict=True))


def as_inputs(value: Any) -> Array | list[str]:
    """Inputs from a table or a column: `[N, D]` numbers, or N texts.

    Args:
        value: a table of numbers, a table of one column, a column of texts, or a column with an array in each row.
    """
    if not is_table(value):
        column = as_column(value)
        return column if column.dtype.kind in _NUMBERS else as_texts(column)
    columns = _columns(value)
    if len(columns) == 1 and (columns[0].dtype.kind == "O" or columns[0].ndim > 1):
        return columns[0] if columns[0].dtype.kind in _NUMBERS else as_texts(columns[0])
    wrong = [
        name
        for name, column in zip(_names(value), columns, strict=True)
        if column.dtype.kind not in _NUMBERS or column.ndim != 1
    ]
    if wrong or not columns:
        shown = ", ".join(map(repr, wrong[:5])) + (", ..." if len(wrong) > 5 else "")
        raise ParameterError(
            f"a table of inputs must have columns of numbers only; these are not: {shown or 'it has no columns'}. "
            'Pass the columns to use, such as frame[["width", "height"]] or frame["text"]; or use '
            "open_data(frame, text=..., label=...), which takes columns by name."
        )
    stacked = np.stack(columns, 1)
    return stacked if stacked.dtype.kind == "f" else stacked.astype(np.float32)


def as_column(value: object) -> Array:
    """One column as an array `[N, ...]`: numbers where all values are numbers, objects otherwise.

    A missing number becomes NaN, any other missing value None. Values that are arrays of one shape are stacked.
    """
    if is_table(value):
        columns = _columns(value)
        if len(columns) != 1:
            raise ShapeError(f"expected one column, not a table of {len(columns)}. Pass one of them: frame[name].")
        return columns[0]
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(f"expected values of one length each, but they are ragged ({error}).") from error
    return _settled(array) if array.dtype.kind in "OT" and array.ndim == 1 else array


def as_rows(items: Sequence[Any]) -> Array | None:
    """`[N, ...]` rows stacked from a list of columns, or of lists of numbers; None for a list of anything else."""
    if not items or not all(is_column(item) or _is_numbers(item) for item in items):
        return None
    rows = [as_column(item) for item in items]
    odd = next((place for place, row in enumerate(rows) if row.shape != rows[0].shape), None)
    if odd is not None:
        raise ShapeError(
            f"rows must have the same shape, but row 0 has {list(rows[0].shape)} and row {odd} has "
            f"{list(rows[odd].shape)}. Pad or crop them first."
        )
    stacked = np.stack(rows)
    if stacked.dtype.kind not in _NUMBERS:
        raise ParameterError(f"rows must be numbers, not {_example(stacked.reshape(-1))}. Leave other columns out.")
    return stacked


def _names(table: Any) -> list[str]:
    return [str(name) for name in (table.column_names if hasattr(table, "column_names") else table.columns)]


def _columns(table: Any) -> list[Array]:
    """Every column, by position: names may be there twice, and an index has no say."""
    if hasattr(table, "iloc"):
        return [as_column(table.iloc[:, place]) for place in range(table.shape[1])]
    columns = table.columns if hasattr(table, "column_names") else table.get_columns()
    return [as_column(column) for column in columns]


def as_texts(column: Array) -> list[str]:
    """The texts of a column, or an error that names the first value that is none."""
    items = column.tolist()
    wrong = next((place for place, item in enumerate(items) if not isinstance(item, str)), None)
    if wrong is None:
        return [str(item) for item in items]
    missing = items[wrong] is None
    raise ParameterError(
        f"a column of inputs must have texts or numbers, but the value at position {wrong} is "
        f"{'missing' if missing else f'a {type(items[wrong]).__name__}'}. "
        f"{'Drop that row, or fill it in.' if missing else 'Convert the column first.'}"
    )


def _settled(array: Array) -> Array:
    """An array of objects as numbers where it can be."""
    items = [None if _is_missing(item) else item for item in array.tolist()]
    known = [item for item in items if item is not None]
    if known and all(isinstance(item, Real) for item in known):
        if len(known) == len(items):
            return np.array(items)
        return np.array([np.nan if item is None else float(item) for item in items])
    if known and len(known) == len(items) and all(_is_cell(item) for item in known):
        cells = [np.asarray(item.detach().cpu() if is_tensor(item) else item) for item in known]
        if len({cell.shape for cell in cells}) == 1 and all(cell.dtype.kind in _NUMBERS for cell in cells):
            return np.stack(cells)
    settled = np.empty(len(items), object)
    settled[:] = items
    return settled


def _is_cell(item: object) -> bool:
    return isinstance(item, np.ndarray) or is_tensor(item) or is_column(item) or _is_numbers(item)


def _is_numbers(item: object) -> bool:
    return isinstance(item, list) and bool(item) and all(isinstance(number, Real) for number in item)


def _is_missing(item: object) -> bool:
    if item is None or type(item).__name__ in ("NAType", "NaTType"):  # pandas.NA, pandas.NaT
        return True
    return isinstance(item, float) and item != item  # only NaN differs from itself


def _example(array: Array) -> str:
    return f"{array.dtype} such as {array[0]!r}" if len(array) else str(array.dtype)
