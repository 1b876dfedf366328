"""The table of file formats: which function reads the files with which ending.

The formats of this package are in it from the start. Others are added by the decorator `reader`, or by an installed
package through the entry-point group `poolwise.formats`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from poolwise.errors import FileError, ParameterError, PoolwiseError
from poolwise.user_code import load_function, told

GROUP = "poolwise.formats"
"""The entry-point group in which packages name the formats that they read."""

Read = Callable[..., Any]
"""From the path of a file to what is in it; see `reader` for what it may return."""

_Function = TypeVar("_Function", bound=Read)


@dataclass(frozen=True)
class Format:
    """A kind of file that `open_data` reads.

    Attributes:
        ending: how the names of such files end.
        origin: the package that reads them, or `"this program"`.
        read: the function, or where it is, as `"package.module:function"`.

    Example:
        >>> from poolwise.data import formats_table
        >>> formats_table()[".csv"].origin
        'poolwise'
    """

    ending: str
    origin: str
    read: Read | str

    def load(self) -> Read:
        """The function that reads such files."""
        return self.read if callable(self.read) else load_function(self.read, "reader")


_HERE = "this program"
_OWN = {
    (".csv", ".tsv", ".csv.gz", ".tsv.gz"): "rows:read_table",
    (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"): "records:read_json_lines",
    (".parquet",): "records:read_parquet",
    (".npy",): "arrays:read_npy",
    (".npz",): "arrays:read_npz",
    (".pt", ".pth"): "arrays:read_pt",
}
_formats = {
    ending: Format(ending, "poolwise", f"poolwise.data.formats.{place}")
    for endings, place in _OWN.items()
    for ending in endings
}


def reader(*endings: str) -> Callable[[_Function], _Function]:
    """Add a file format: a decorator for the function that reads it.

    `open_data`, `poolwise run` (with `data.path`) and `poolwise predict` then read such files. The function gets the
    path, and those further keyword arguments of `open_data` that it has parameters for. It returns one of these:

    - inputs: anything that `as_examples` takes, such as an array `[N, ...]` or a list of texts; or a list of `Path`s of
      images;
    - a pair (inputs, labels) or a triple (inputs, labels, ids), with None for what is not there. Labels are names, with
      None where one is unknown, or numbers from 0, with -1 where one is unknown. Ids are what to call the examples;
    - a table: a dictionary of columns, or a DataFrame. The caller of `open_data` then says which column is which.

    An installed package can offer a format without being imported first. It names the format among its entry points:
    the key is the ending, the value is the function.

    ```toml
    [project.entry-points."poolwise.formats"]
    ".lines" = "my_package.formats:read_lines"
    ```

    Args:
        endings: how the names of such files end, such as `".lines"`; capitals do not matter.

    Example:
        >>> import pathlib, tempfile
        >>> @reader(".lines")
        ... def read_lines(path, *, mark="+"):
        ...     rows = path.read_text().splitlines()
        ...     return [row[1:] for row in rows], ["good" if row[0] == mark else "bad" for row in rows]
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "mine.lines"
        >>> _ = file.write_text("+fine\\n-awful\\n")
        >>> from poolwise.data import open_data
        >>> open_data(file)
        OpenedData(2 texts; 2 classes: bad 1, good 1; ids '0', '1')
    """
    for ending in endings:
        if not isinstance(ending, str) or not ending.startswith(".") or len(ending) < 2 or "/" in ending:
            raise ParameterError(f"an ending is a text such as '.lines', which begins with a dot, not {ending!r}.")
    if not endings:
        raise ParameterError("reader needs the endings of the files, as in @reader('.lines').")

    def add(function: _Function) -> _Function:
        for ending in endings:
            known = _formats.get(ending.lower())
            if known is not None and known.origin != _HERE:
                raise ParameterError(
                    f"files that end in {ending} are read by {known.origin} already. Choose another ending, or pass "
                    "your function as open_data(path, reader=...)."
                )
            _formats[ending.lower()] = Format(ending.lower(), _HERE, function)
        return function

    return add


def formats_table() -> Mapping[str, Format]:
    """All file formats by their ending: those of Poolwise, of your program and of installed packages.

    Example:
        >>> [ending for ending in formats_table() if ending.startswith(".np")]
        ['.npy', '.npz']
    """
    return {**{ending: _from_entry(ending, found) for ending, found in _entries().items()}, **_formats}


def find_format(path: Path) -> Format | None:
    """The format of a file by the longest ending of its name that is known, or None."""
    name = path.name.lower()
    endings = [name[place:] for place, letter in enumerate(name) if letter == "."]
    for known in (lambda: _formats, _entries):  # packages are only searched for what is not known
        table: Mapping[str, Any] = known()
        ending = next((ending for ending in endings if ending in table), None)
        if ending is not None:
            return table[ending] if ending in _formats else _from_entry(ending, table[ending])
    return None


def call_reader(read: Read, path: Path, options: Mapping[str, object], hints: Mapping[str, object]) -> Any:
    """What a reader makes of a file.

    Args:
        read: the reader.
        path: the file.
        options: what the caller passed; an error if the reader does not take it.
        hints: passed on if the reader takes them.
    """
    taken = _parameters(read)
    unknown = [name for name in options if taken is not None and name not in taken]
    if unknown:
        listed = f"It takes {', '.join(sorted(set(taken or ()) - set(hints)))}" if taken else "It takes no options"
        raise ParameterError(f"{path}: its reader takes no {unknown[0]!r}. {listed}.")
    hints = {name: value for name, value in hints.items() if taken is not None and name in taken}
    try:
        return read(path, **options, **hints)
    except PoolwiseError:
        raise
    except Exception as error:  # of somebody else's function, which may raise anything
        raise FileError(f"{path}: {getattr(read, '__qualname__', read)} cannot read it ({told(error)}).") from error


def _parameters(read: Read) -> list[str] | None:
    """The names of a function's parameters after the path; None if it takes any."""
    try:
        parameters = list(inspect.signature(read).parameters.values())[1:]
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _entries() -> dict[str, list[EntryPoint]]:
    """What installed packages offer, by ending; nothing of it is imported."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault("." + entry.name.lower().lstrip("."), []).append(entry)
    return found


def _from_entry(ending: str, entries: list[EntryPoint]) -> Format:
    values = sorted({entry.value for entry in entries})
    if len(values) > 1:
        raise FileError(
            f"files that end in {ending} are read by several installed packages: {', '.join(values)}. Pass one of "
            "these as open_data(path, reader=...), or as data.reader in an experiment."
        )
    package = entries[0].dist.name if entries[0].dist is not None else values[0].partition(".")[0]
    return Format(ending, package, values[0])
