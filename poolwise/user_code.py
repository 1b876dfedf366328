"""Code of a user that Poolwise calls: methods, posteriors, data formats, networks. How it is found, and how it failed.

Whatever such code raises is somebody else's mistake. The message says whose, and where to look.
"""

import importlib
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from poolwise.errors import ParameterError, PoolwiseError

_PACKAGE = Path(__file__).resolve().parent
_STANDARD = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")
# A frame of a traceback that came from another process as text.
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)', re.MULTILINE)


class Place(NamedTuple):
    """A line of code.

    Attributes:
        file: its file.
        line: its number, from 1.
        function: the function that it is in.
        module: the module, as it is imported.
    """

    file: str
    line: int
    function: str
    module: str

    def __str__(self) -> str:
        return f"{self.module}:{self.function}, {self.file}, line {self.line}"


class NotLoaded(Exception):
    """Nothing was found at an address, or its module raised an exception when it was imported."""


def load(address: str) -> Any:
    """What `"package.module:name"` stands for.

    Raises:
        NotLoaded: with the reason, to be put into a message.
    """
    module, _, path = address.partition(":")
    if not module or not path:
        raise NotLoaded("expected package.module:name")
    try:
        found: Any = importlib.import_module(module)
    except PoolwiseError:
        raise
    except Exception as error:  # whatever somebody else's module raises when it is imported
        raise NotLoaded(told(error)) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise NotLoaded(f"{module} has no {path}")
        found = getattr(found, part)
    return found


def load_function(address: str, what: str, kind: type[PoolwiseError] = ParameterError) -> Callable[..., Any]:
    """The function or class at `"package.module:name"`.

    Args:
        address: where it is.
        what: what it is for, for the message: `"reader"`.
        kind: the exception to raise if it is not there, or cannot be called.
    """
    try:
        found = load(address)
    except NotLoaded as error:
        raise kind(
            f"the {what} {address!r} cannot be loaded ({error}). Install its package, or add its folder to PYTHONPATH."
        ) from error
    if not callable(found):
        raise kind(f"the {what} {address!r} is of type {type(found).__name__}, not a function or a class.")
    return found  # type: ignore[no-any-return]


def told(error: BaseException) -> str:
    """An exception in a line: its kind, what it says, and where a user's code raised it, if it did."""
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
    place = culprit(error)
    return said if place is None else f"{said}; in {place}"


def describe(error: BaseException) -> str:
    """A whole message about an exception that Poolwise did not raise on purpose."""
    if culprit(error) is not None:
        return f"code that is not part of Poolwise failed ({told(error)})."
    *_, last = [None, *_places(error)]
    where = "" if last is None else f"; in {last}"
    return (
        f"Poolwise failed ({told(error)}{where}). This is a mistake in Poolwise, or in a package that it uses. Please "
        "report it, with the traceback."
    )


def culprit(error: BaseException) -> Place | None:
    """The line of a user's code that an exception came through last, or None if it came through none."""
    places = list(_places(error))
    ours = [number for number, place in enumerate(places) if Path(place.file).is_relative_to(_PACKAGE)]
    # Before the first line of Poolwise is whoever called it.
    users = [place for place in places[ours[0] if ours else 0 :] if _is_users(place)]
    if not users:
        return None
    # Libraries that the user's code called may have raised it. The package that Poolwise called is the first.
    first = _package(users[0])
    return next(place for place in reversed(users) if _package(place) == first)


def full_text(error: BaseException) -> str:
    """The traceback, as Python prints it."""
    return "".join(traceback.format_exception(error))


def _places(error: BaseException) -> Iterator[Place]:
    """All lines that an exception came through, the outermost first, with those of another process."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        yield Place(code.co_filename, line, code.co_qualname, str(frame.f_globals.get("__name__", "?")))
    if isinstance(error, SyntaxError) and error.filename:
        yield Place(error.filename, error.lineno or 0, "<module>", Path(error.filename).stem)
    elsewhere = getattr(error.__cause__, "tb", None)  # how multiprocessing and joblib pass a traceback on
    if isinstance(elsewhere, str):
        for found in _FRAME.finditer(elsewhere):
            yield Place(found["file"], int(found["line"]), found["function"], Path(found["file"]).stem)


def _is_users(place: Place) -> bool:
    """Whether a line belongs neither to Poolwise, nor to Python, nor to a package that Poolwise needs."""
    if place.file.startswith("<frozen") or place.module.partition(".")[0] in sys.stdlib_module_names:
        return False
    file = Path(place.file).resolve()
    if file.is_relative_to(_PACKAGE):
        return False
    if _installed(file):
        return _package(place) not in _needed()
    return not any(file.is_relative_to(folder) for folder in _STANDARD)


def _installed(file: Path) -> bool:
    return any(name in file.parts for name in _INSTALLED)


def _package(place: Place) -> str:
    """The package that a line belongs to: its folder among the installed ones, or the first part of its module."""
    parts = Path(place.file).resolve().parts
    for name in _INSTALLED:
        if name in parts[:-1]:
            return parts[parts.index(name) + 1].removesuffix(".py")
    return place.module.partition(".")[0]


@cache
def _needed() -> frozenset[str]:
    """Names of the packages that Poolwise needs, directly or not, as they are imported."""
    waiting, known = ["poolwise"], set()
    while waiting:
        name = _normal(waiting.pop())
        if name in known:
            continue
        known.add(name)
        try:
            wanted = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        waiting += [found[0] for text in wanted if (found := re.match(r"[\w.-]+", text))]
    homes = metadata.packages_distributions()
    return frozenset(name for name, owners in homes.items() if any(_normal(owner) in known for owner in owners))


def _normal(name: str) -> str:
    """A distribution's name in the one spelling that all its spellings have in common."""
    return re.sub(r"[-_.]+", "-", name).lower()
