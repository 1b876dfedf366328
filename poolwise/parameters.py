"""Parameters of methods, networks and posteriors: what each may be, and what it does."""

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import numpy as np

from poolwise.budget import shorten
from poolwise.errors import ParameterError

REQUIRED = inspect.Parameter.empty
"""The default of a parameter that has none."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method: its default, what it may be, and what it does.

    Example:
        >>> parameter = Parameter("alpha", 1.0, float, "The power.")
        >>> parameter.check(2, "my-rule"), parameter.parse("0.5", "my-rule")
        (2, 0.5)
    """

    name: str
    default: object
    annotation: Any
    help: str

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED

    @property
    def choices(self) -> tuple[object, ...]:
        """The values of a parameter that is a choice of names; empty for any other."""
        return get_args(self.annotation) if get_origin(self.annotation) is Literal else ()

    def check(self, value: object, method: str) -> object:
        """The value, if it is one that this parameter can take."""
        value = value.item() if isinstance(value, np.generic) else value
        if _fits(value, self.annotation):
            return value
        raise self._refusal(value, method)

    def parse(self, text: str, method: str) -> object:
        """The value that a text from the command line stands for."""
        for convert in (int, float, _truth, str):
            try:
                value = convert(text)
            except ValueError:
                continue
            if _fits(value, self.annotation):
                return value
        raise self._refusal(text, method)

    def _refusal(self, value: object, method: str) -> ParameterError:
        text = f"{method}: {self.name} must be {_describe(self.annotation)}, not {shorten(value)}. {self.help}"
        return ParameterError(text.rstrip())


def read_parameters(
    function: Callable[..., Any], helps: typing.Mapping[str, str] | None = None
) -> dict[str, Parameter]:
    """The parameters of a function by name: those that are keyword-only, or that have a default.

    Args:
        function: the function, or a class.
        helps: what each does; those that are not named here are described by the docstring of the function.

    Example:
        >>> def rule(task, *, alpha: float = 1.0):
        ...     '''Pick by a power.
        ...
        ...     Args:
        ...         alpha: the power.
        ...     '''
        >>> read_parameters(rule)["alpha"].help
        'the power.'
    """
    hints = read_hints(function)
    described = {**_argument_texts(function), **(helps or {})}
    unnamed = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
    return {
        own.name: Parameter(own.name, own.default, hints.get(own.name, Any), described.get(own.name, ""))
        for own in inspect.signature(function).parameters.values()
        if own.kind not in unnamed and (own.kind is own.KEYWORD_ONLY or own.default is not REQUIRED)
    }


def read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The type hints of a function or of the constructor of a class, if they can be resolved."""
    while isinstance(function, functools.partial):
        function = function.func
    target = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    target = target if inspect.isroutine(target) else type(function).__call__  # an object that can be called
    try:
        return typing.get_type_hints(target)
    except Exception:  # hints name what is imported for type checkers only, or the callable has no hints at all
        return {}


def first_line(function: object) -> str:
    """The first sentence or line of a docstring; empty without one."""
    text = (inspect.getdoc(function) or "").strip()
    return text.splitlines()[0].strip() if text else ""


def _argument_texts(function: Callable[..., Any]) -> dict[str, str]:
    """What a docstring says about each argument: in an `Args:` section, or as `:param name: text`."""
    documents = [inspect.getdoc(function) or ""]
    if isinstance(function, type):
        documents.append(inspect.getdoc(function.__init__) or "")  # type: ignore[misc]
    found: dict[str, str] = {}
    for document in documents:
        for name, text in re.findall(r"^\s*:param\s+(?:[\w.]+\s+)?(\w+):\s*(.*)$", document, re.MULTILINE):
            found[name] = text.strip()
        section = re.search(r"^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+.*\n?|\n)*)", document, re.MULTILINE)
        if section is None:
            continue
        body = inspect.cleandoc("\n" + section[1])
        for name, text in re.findall(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*(?:\n[ \t]+.*)*)", body, re.MULTILINE):
            found[name] = " ".join(text.split())
    return found


def _truth(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError(text)


def _fits(value: object, annotation: Any) -> bool:
    if annotation is Any or annotation is object:
        return True
    if get_origin(annotation) is Literal:
        return isinstance(value, str | int) and value in get_args(annotation)
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(annotation))
    if annotation is float:
        within_range = not isinstance(value, int) or abs(value) <= 10**308  # a larger one cannot become a float
        return isinstance(value, int | float) and not isinstance(value, bool) and within_range
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation is None:
        return value is None
    try:
        return isinstance(value, get_origin(annotation) or annotation)
    except TypeError:  # a type variable, a protocol: it cannot be checked, so it is not refused
        return True


def _describe(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(annotation))
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return " or ".join(_describe(option) for option in get_args(annotation))
    names = {int: "a whole number", float: "a number", str: "a text", bool: "True or False", type(None): "None"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))
