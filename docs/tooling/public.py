"""The public names of Poolwise: what the reference documents and the docstring tests check."""

import importlib
import importlib.util
import types
from collections.abc import Iterator
from typing import Any

MODULES = {
    "poolwise": "The names that most programs need.",
    "poolwise.predictions": "Predictions in memory, in files and in folders of shards.",
    "poolwise.scores": "One number per point.",
    "poolwise.selection": "What selection methods are made of.",
    "poolwise.data": "Data sets, your own data, and texts as embeddings.",
    "poolwise.models": "Reference networks.",
    "poolwise.posteriors": "From data to predictions.",
    "poolwise.metrics": "How good predictions are, once the labels are known.",
    "poolwise.stopping": "When to stop asking for labels.",
    "poolwise.labelling": "Projects that people label, and the store behind them.",
    "poolwise.errors": "Every error and warning that Poolwise raises on purpose.",
    "poolwise.cluster": "The same work on several machines, with Ray.",
    "poolwise.experiments": "Experiments from one file, run by run.",
    "poolwise.reports": "From the records of runs to one HTML page.",
    "poolwise.testing": "Checks for your own methods and posteriors.",
}
"""The public modules, in the order of the reference, each with what it is for."""


def modules() -> dict[str, types.ModuleType]:
    """The public modules that exist, by the name under which a user reaches them."""
    found = {}
    for name in MODULES:
        if name == "poolwise.stopping":  # `pw.stopping` is a name for a module of another package
            found[name] = importlib.import_module("poolwise").stopping
        elif importlib.util.find_spec(name) is not None:
            found[name] = importlib.import_module(name)
    return found


def names(module: types.ModuleType) -> list[str]:
    """The public names of a module: its `__all__`, or what it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return sorted(name for name in own if not name.startswith("_"))


def objects() -> Iterator[tuple[str, Any]]:
    """Every public class, function and module, once, by the first name under which a user reaches it."""
    seen = set()
    for path, module in modules().items():
        for name in names(module):
            value = getattr(module, name)
            if isinstance(value, type | types.FunctionType | types.ModuleType) and id(value) not in seen:
                seen.add(id(value))
                yield f"{path}.{name}", value
