"""Names of version 0.1: they work, and say what they are called now."""

import importlib
import subprocess
import sys
import warnings

import pytest

import poolwise as pw
from poolwise import cluster, former


@pytest.fixture
def _not_imported(monkeypatch):
    for name in former._MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
        parent, _, last = name.rpartition(".")
        if last != "stopping":
            monkeypatch.delattr(importlib.import_module(parent), last, raising=False)


@pytest.mark.usefixtures("_not_imported")
@pytest.mark.parametrize(("name", "present"), former._MODULES.items())
def test_a_former_module_is_the_present_one(name, present):
    expected = importlib.import_module(present)
    spec = expected.__spec__
    with pytest.warns(DeprecationWarning, match=f"{name} is now {present}"):
        found = importlib.import_module(name)
    assert found is expected
    assert found.__spec__ is spec
    assert found.__name__ == present


def test_the_warning_points_at_the_line_that_imports():
    code = "import warnings\nwarnings.simplefilter('always')\nfrom poolwise.stopping import Target\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500, check=True)
    assert "<string>:3: DeprecationWarning: poolwise.stopping is now poolwise.learning.stopping." in done.stderr


def test_the_public_module_itself_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pw.stopping.Target is importlib.import_module("poolwise.learning.stopping").Target


@pytest.mark.parametrize("name", former._LEFT)
def test_what_has_left_the_package_says_where_it_went(name):
    with pytest.raises(ModuleNotFoundError, match=f"there is no {name} any more"):
        former._Finder().find_spec(name, None)


def test_other_modules_are_missing_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'poolwise\.nothing'"):
        importlib.import_module("poolwise.nothing")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = pw.nothing


def test_former_names_of_a_module_work_with_a_warning():
    with pytest.warns(DeprecationWarning, match=r"poolwise\.cluster\.hold is now called put"):
        assert cluster.hold is cluster.put
    with pytest.warns(DeprecationWarning, match=r"poolwise\.predictions\.Kind is now called PredictionKind"):
        assert pw.predictions.Kind is pw.predictions.PredictionKind
