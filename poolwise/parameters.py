"""Parameters of methods, networks and posteriors: what each may be, and what it does."""

import types
import typing
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import numpy as np

from poolwise.budget import shorten
from poolwise.errors import ParameterError


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method: its default, what it may be, and what it does."""

    name: str
    default: object
    annotation: Any
    help: str

    @property
    def choices(self) -> tuple[object, ...]:
        """The values of a parameter that is a choice of names; empty for any other."""
        return get_args(self.annotation) if get_origin(self.annotation) is Literal else ()

    def check(self, value: object, method: str) -> object:
        """The value, if it is one that this parameter can take."""
        value = value.item() if isinstance(value, np.generic) else value
        if _fits(value, self.annotation):
            return value
        raise ParameterError(
            f"{method}: {self.name} must be {_describe(self.annotation)}, not {shorten(value)}. {self.help}"
        )

    def parse(self, text: str, method: str) -> object:
        """The value that a text from the command line stands for."""
        for convert in (int, float, str):
            try:
                value = convert(text)
            except ValueError:
                continue
            if _fits(value, self.annotation):
                return value
        raise ParameterError(
            f"{method}: {self.name} must be {_describe(self.annotation)}, not {shorten(text)}. {self.help}"
        )


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
    return isinstance(value, get_origin(annotation) or annotation)


def _describe(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(annotation))
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return " or ".join(_describe(option) for option in get_args(annotation))
    names = {int: "a whole number", float: "a number", str: "a text", type(None): "None"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))
