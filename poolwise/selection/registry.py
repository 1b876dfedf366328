"""The catalogue of selection methods: a table that each method's own file adds one line to."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from poolwise.errors import ParameterError, UnknownMethodError
from poolwise.parameters import Parameter

DEFAULT = "posterior-coverage"
"""The method where none is named: the best over all settings of the study (docs/results.md)."""


@dataclass(frozen=True)
class Method:
    """A selection method and everything that is said about it.

    Attributes:
        name: what to pass as `method=`.
        summary: what it is, in a line.
        formula: what it maximises or samples from.
        paper: where it comes from.
        needs: what it uses: `"predictions"`, `"embeddings"`, or nothing.
        parameters: its own parameters by name.
        stochastic: whether the seed changes the batch.
        run: the function that selects.
        bound: from a task and the method's parameters to `[N]` numbers that no gain of a point is above, whatever was
            picked; or None.
        resumable: whether picks can be kept as they are made, and a selection go on from there.
    """

    name: str
    summary: str
    formula: str
    paper: str
    needs: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    stochastic: bool
    run: Callable[..., Any]
    bound: Callable[..., np.ndarray[Any, np.dtype[Any]]] | None = None
    resumable: bool = False

    def check(self, given: Mapping[str, object]) -> dict[str, object]:
        """The given parameters, each known and of the right kind."""
        for name in given:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise ParameterError(f"{self.name} has no parameter {name!r}; its parameters: {known}.")
        return {name: self.parameters[name].check(value, self.name) for name, value in given.items()}

    def inputs(self, given: Mapping[str, object]) -> set[str]:
        """What it uses with these parameters: also what a parameter names, as `kernel="embeddings"` does."""
        return {*self.needs, *(value for value in given.values() if value == "embeddings")}


_METHODS: dict[str, Method] = {}


def method(
    name: str,
    *,
    summary: str,
    formula: str,
    paper: str,
    needs: tuple[str, ...] = ("predictions",),
    stochastic: bool = False,
    parameters: Mapping[str, str] | None = None,
    bound: Callable[..., np.ndarray[Any, np.dtype[Any]]] | None = None,
    resumable: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function `run(task, *, ...)` as a selection method.

    Its keyword-only parameters become the method's; `parameters` says in words what each does. `bound` is what
    prefilters go by. A `resumable` method hands `task.journal` to its engine.
    """

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        hints = typing.get_type_hints(run)
        own = {
            p.name: Parameter(p.name, p.default, hints[p.name], (parameters or {})[p.name])
            for p in inspect.signature(run).parameters.values()
            if p.kind is p.KEYWORD_ONLY
        }
        _METHODS[name] = Method(name, summary, formula, paper, needs, own, stochastic, run, bound, resumable)
        return run

    return register


def methods() -> dict[str, Method]:
    """Every selection method by name: what it is, what it needs, its parameters."""
    return dict(sorted(_METHODS.items()))


def find(name: str) -> Method:
    """The method of that name."""
    if name in _METHODS:
        return _METHODS[name]
    raise UnknownMethodError(f"there is no method {name!r}. The methods are: {', '.join(sorted(_METHODS))}.")
