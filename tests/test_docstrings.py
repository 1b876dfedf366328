"""Docstrings of public names: each has an example, and every example runs and gives what it says."""

import doctest
import importlib
import inspect
import pkgutil
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poolwise as pw
from docs.tooling import public

PUBLIC = dict(public.objects())


def finder() -> doctest.DocTestFinder:
    return doctest.DocTestFinder(exclude_empty=True)


def modules() -> Iterator[types.ModuleType]:
    """Every module of the package."""
    for found in pkgutil.walk_packages(pw.__path__, "poolwise."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def examples() -> list[Any]:
    """Every docstring with `>>>` lines, found where it is written, so that none is run twice."""
    found = {}
    for module in modules():
        for test in finder().find(module, module.__name__, module=module):
            if test.examples:
                found[test.name] = test
    return [pytest.param(test, id=name) for name, test in sorted(found.items())]


@pytest.mark.parametrize("test", examples())
@pytest.mark.usefixtures("own_catalogues")
def test_the_example_of_a_docstring_runs(
    test: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    test.globs.update(pw=pw, np=np)
    said: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with warnings.catch_warnings():
        for category in (pw.SaturationWarning, pw.PrefilterWarning):  # an example may show them
            warnings.simplefilter("ignore", category)
        result = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert result.failed == 0, "".join(said)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_docstring_with_an_example(name: str) -> None:
    value = PUBLIC[name]
    text = inspect.getdoc(value) or ""
    assert text, f"{name} has no docstring"
    if not isinstance(value, types.ModuleType) and getattr(value, "__module__", "").startswith("poolwise"):
        own = value.__doc__ or ""  # not one that it inherits
        assert ">>> " in own, f"{name} has no example"


@pytest.mark.parametrize("name", PUBLIC)
def test_public_methods_have_docstrings(name: str) -> None:
    value = PUBLIC[name]
    if isinstance(value, type):
        own = {key: member for key, member in vars(value).items() if not key.startswith("_")}
        members = {key: getattr(member, "__func__", member) for key, member in own.items()}
        kinds = (types.FunctionType, property)
        assert [key for key, m in members.items() if isinstance(m, kinds) and not inspect.getdoc(m)] == []
