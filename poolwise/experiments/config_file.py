"""Reading a configuration from its TOML file, with changes from the command line."""

import math
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from poolwise.errors import ConfigError, FileError, ParameterError
from poolwise.experiments.config import Config, short_text
from poolwise.training import Training

# A number of thousands of digits is a plain ValueError, brackets thousands deep a RecursionError.
_NOT_TOML = (tomllib.TOMLDecodeError, ValueError, RecursionError)
# The largest whole number and other number, and the longest text, that any setting has use for.
_LARGEST, _FARTHEST, _LONGEST = 10**18 - 1, 1e30, 4096

# How files end that are no configuration, but data that somebody may take for the argument.
_DATA = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".npy", ".npz")
_SPREADSHEETS = (".xlsx", ".xls", ".ods")


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read the configuration of an experiment.

    Args:
        path: a TOML file.
        changes: texts such as `"acquisition.batch_size=20"`, which take precedence over the file.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "mine.toml"
        >>> _ = file.write_text('name = "mine"\\n[data]\\nname = "digits"')
        >>> read_config(file, ["acquisition.batch_size=20"]).acquisition.batch_size
        20
    """
    _refuse_data(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    except _NOT_TOML as error:
        raise ConfigError(f"{path} is not valid TOML: {_reason(error)}.") from error
    changed = [_apply(values, change) for change in changes]
    try:
        _check_sizes(path, changed, values)
        return Config.model_validate(values)
    except ValidationError as error:
        lines = dict.fromkeys(_explain(path, changed, issue) for issue in error.errors())
        raise ConfigError("\n".join(lines)) from error
    except RecursionError as error:
        raise ConfigError(f"{path}: tables are nested too deeply. Sections have one level.") from error


def _refuse_data(path: Path) -> None:
    """Say what to do with data, where a configuration is expected."""
    name = path.name.lower().removesuffix(".gz")
    if not path.is_dir() and not (name.endswith((*_DATA, *_SPREADSHEETS)) and path.exists()):
        return
    what, command = "a folder" if path.is_dir() else "a file of data", f"poolwise pilot {shlex.quote(str(path))}"
    if name.endswith(_SPREADSHEETS):
        command = f"poolwise pilot {shlex.quote(str(path.with_suffix('.csv')))}, once it is saved as CSV"
    raise ConfigError(
        f"{path} is {what}, and `poolwise run` takes a configuration: a TOML file that describes an experiment. "
        f"`poolwise run --example` prints one. For data with labels, this compares methods: {command}"
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "brackets are nested too deeply"
    return str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number has too many digits"


def _apply(values: dict[str, Any], change: str) -> str:
    """Make a change in place; its dotted name."""
    name, separator, text = change.partition("=")
    *tables, key = (part.strip() for part in name.split("."))
    if not separator or not all([*tables, key]):
        raise ParameterError(f"--set takes section.key=value, such as acquisition.batch_size=20, not {change!r}.")
    for table in tables:
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            raise ParameterError(f"--set {short_text(change, str)}: {table} is not a section.")
    try:
        values[key] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        values[key] = text.strip()
    except _NOT_TOML as error:
        raise ParameterError(f"--set {name.strip()}: {_reason(error)}.") from error
    return ".".join([*tables, key])


def _check_sizes(path: Path, changed: Sequence[str], value: Any, name: str = "") -> None:
    """Refuse numbers and texts of absurd length, wherever they are, before anything tries to use or print them."""
    if isinstance(value, dict):
        for key, part in value.items():
            _check_sizes(path, changed, part, f"{name}.{key}".strip("."))
    elif isinstance(value, list):
        for part in value:
            _check_sizes(path, changed, part, name)
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise ConfigError(f"{_where(path, changed, name)}: a whole number has at most 18 digits here.")
    elif isinstance(value, float) and math.isfinite(value) and abs(value) > _FARTHEST:
        raise ConfigError(f"{_where(path, changed, name)}: a number is at most {_FARTHEST:g} here, not {value:g}.")
    elif isinstance(value, str) and len(value) > _LONGEST:
        raise ConfigError(f"{_where(path, changed, name)}: a text has at most {_LONGEST:,} characters here.")


def _where(path: Path, changed: Sequence[str], name: str) -> str:
    """The flag or the file that a setting comes from, and its name."""
    by_flag = any(f"{name}.".startswith(f"{change}.") for change in changed)
    return f"--set {name}" if by_flag else f"{path}: {name}".removesuffix(": ")


def _explain(path: Path, changed: Sequence[str], issue: Any) -> str:
    """One error: the file or flag, the setting, what is wrong, and the value."""
    keys = [str(part) for part in issue["loc"] if isinstance(part, str) and part not in ("tuple", "Training")]
    message = issue["msg"].removeprefix("Value error, ").rstrip(".")
    if keys == ["training"] and message.split()[0] in Training.__dataclass_fields__:
        keys.append(message.split()[0])  # a check of the whole section begins with the name of the setting
    name = ".".join(keys)
    if issue["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        message = "there is no such setting; `poolwise run --help` says where all of them are described"
    if issue["type"] == "missing":
        return f"{path}: {name} is missing. Add it."
    given = "" if isinstance(issue["input"], dict) else f" (it is {short_text(issue['input'])})"
    return f"{_where(path, changed, name)}: {message}{given}."
