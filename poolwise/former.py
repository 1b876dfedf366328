"""Names of version 0.1 that still work, each with a `DeprecationWarning` that says the present one.

`install` makes former modules importable, so that `from poolwise.stopping import Target` works as it did. `renamed` is
for former names inside a module.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_MODULES = {
    "poolwise.checkpoint": "poolwise.learning.checkpoint",
    "poolwise.learner": "poolwise.learning.learner",
    "poolwise.memory": "poolwise.budget",
    "poolwise.query": "poolwise.learning.query",
    "poolwise.registry": "poolwise.selection.registry",
    "poolwise.rounds": "poolwise.learning.rounds",
    "poolwise.simulation": "poolwise.learning.simulation",
    "poolwise.stopping": "poolwise.learning.stopping",
    "poolwise.cluster.rows": "poolwise.cluster.row_cache",
    "poolwise.data.own": "poolwise.data.opening",
    "poolwise.predictions.arrays": "poolwise.arrays",
    "poolwise.reports.words": "poolwise.reports.verdicts",
    "poolwise.selection.rows": "poolwise.selection.row_cache",
}
_LEFT = {
    "poolwise.reports.records": "runs are read with poolwise.experiments.read_runs",
    "poolwise.reproduce": "it has moved out of the package: in a clone of the repository, use python -m paper --list",
    "poolwise.selection.journal": "a selection is started again rather than resumed, which takes less time",
}


def install() -> None:
    """Make former modules importable. They are searched for last, when nothing else has that name."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def renamed(module: str, names: Mapping[str, str], name: str) -> Any:
    """The value of a former name, for the `__getattr__` of a module.

    Args:
        module: the module's `__name__`.
        names: former names and the present ones.
        name: what was asked for.
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(f"{module}.{name} is now called {names[name]}.", DeprecationWarning, stacklevel=3)
    return getattr(sys.modules[module], names[name])


class _Finder(MetaPathFinder):
    """Finds former modules."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """The way to a module of that name, or None if it is no former one."""
        if fullname in _LEFT:
            raise ModuleNotFoundError(f"there is no {fullname} any more: {_LEFT[fullname]}.", name=fullname)
        return ModuleSpec(fullname, _Loader()) if fullname in _MODULES else None


class _Loader(Loader):
    """Gives the present module under its former name: one module, so that its classes are the same."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        present = _MODULES[spec.name]
        # Above this frame are those of the import system, which `warnings` leaves out.
        warnings.warn(f"{spec.name} is now {present}.", DeprecationWarning, stacklevel=2)
        module = import_module(present)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import system has replaced
