"""What there is to choose from, read without importing PyTorch: for listings that must not make anybody wait.

The decorators of the files in this folder are the only place where a method is described. Here they are read as text.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files

DEFAULT = "posterior-coverage"
"""The method where none is named: the best over all settings of the study (docs/results.md)."""

GROUP = "poolwise.methods"
"""The entry-point group under which installed packages offer methods."""


@dataclass(frozen=True)
class Entry:
    """What a listing says about a method.

    Attributes:
        name: what to pass as `method=`.
        summary: what it is, in a line.
        needs: what it uses, see `poolwise.selection.inputs`.
        parameters: names of its own parameters.
        home: module that defines it, and must be imported to run it.
        features: which embeddings it prefers where a learner provides them, `"network"` or `"fixed"`.
    """

    name: str
    summary: str
    needs: tuple[str, ...]
    parameters: tuple[str, ...]
    home: str
    features: str = "network"


@cache
def built_in() -> dict[str, Entry]:
    """Methods that come with Poolwise, by name."""
    folder = files("poolwise.selection")
    sources = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".py")}
    found = {}
    for file in sorted(sources):
        if "@method(" in sources[file]:
            home = f"poolwise.selection.{file.removesuffix('.py')}"
            found.update({entry.name: entry for entry in _read(sources[file], home)})
    return dict(sorted(found.items()))


def plug_ins() -> dict[str, list[EntryPoint]]:
    """Entry points of installed packages, by the name of the method; several only if packages are in conflict."""
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        if all(point.value != other.value for other in found.get(point.name, [])):  # a folder may be on the path twice
            found.setdefault(point.name, []).append(point)
    return found


def listing() -> dict[str, Entry]:
    """Every method by name, those of installed packages too; these alone have to be imported for it."""
    if not plug_ins() and "poolwise.selection.registry" not in sys.modules:
        return built_in()
    from poolwise.selection.registry import methods

    return {
        method.name: Entry(
            method.name, method.summary, method.needs, tuple(method.parameters), method.home, method.features
        )
        for method in methods().values()
    }


def _read(source: str, home: str) -> Iterator[Entry]:
    """The methods that a file defines, by their decorators."""
    for node in ast.parse(source).body:
        for call in getattr(node, "decorator_list", []):
            if isinstance(node, ast.FunctionDef) and isinstance(call, ast.Call) and ast.unparse(call.func) == "method":
                given = {word.arg: word.value for word in call.keywords}
                needs = ast.literal_eval(given["needs"]) if "needs" in given else ("predictions",)
                parameters = tuple(argument.arg for argument in node.args.kwonlyargs)
                features = ast.literal_eval(given["features"]) if "features" in given else "network"
                name, summary = ast.literal_eval(call.args[0]), ast.literal_eval(given["summary"])
                yield Entry(name, summary, needs, parameters, home, features)
