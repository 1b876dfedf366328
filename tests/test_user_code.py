"""A mistake in a method, posterior or reader of somebody else: one message that says where, and the rest continues."""

import sys
import textwrap

import numpy as np
import pytest
from cases import thorough

import poolwise as pw
from poolwise.errors import UserCodeError
from poolwise.experiments.search import read_runs
from poolwise.user_code import culprit, describe, told

CODE = """
import numpy as np
import poolwise as pw
from frail.help import helper


def mine(task):
    '''Fails.'''
    return helper(0)


def fails_in_a_library(task):
    '''Fails inside NumPy.'''
    return np.zeros(3).reshape(2, 2)


def fails_in_a_block(task):
    '''Fails where Poolwise calls back.'''
    return task.scores(lambda block: helper(0))


def opens_nothing(task):
    '''Reads a file that is not there.'''
    return open("/no/such/file").read()


class Later(pw.posteriors.BasePosterior):
    '''Fails in its second fit.'''
    outputs = "probs"
    def __init__(self, classes: int = 10):
        self.classes, self.fits = classes, 0
    def fit(self, data, validation=None, *, seed=0, report=None):
        self.fits += 1
        if self.fits == 2:
            helper(0)
        return self
    def sample(self, inputs):
        return np.full((len(inputs), 2, self.classes), 1 / self.classes)


class AtOnce:
    '''Cannot be made.'''
    def __init__(self):
        helper(0)


def read(path):
    return helper(0)
"""

CONFIG = """
name = "mine"
seeds = 1
[data]
name = "digits"
pool = 60
test = 50
[posterior]
kind = "committee"
members = 2
[acquisition]
methods = ["random", { name = "frail.rules:mine", label = "mine" }]
initial_per_class = 1
batch_size = 5
labels = 20
"""

HELPER = "def helper(number):\n    return 1 / number\n"

PLACE = "frail.help:helper"


@pytest.fixture
def frail(tmp_path, monkeypatch):
    """A package of somebody's own that raises plain exceptions; gives the file that does."""
    folder = tmp_path / "elsewhere" / "frail"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    file = folder / "rules.py"
    file.write_text(CODE)
    (folder / "help.py").write_text(HELPER)
    (folder / "unready.py").write_text("x = 1 / 0\n")
    (folder / "unfinished.py").write_text("def rule(task:\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    yield file
    for name in [name for name in sys.modules if name.partition(".")[0] == "frail"]:
        del sys.modules[name]


def write(path, text):
    path.write_text(textwrap.dedent(text))
    return path


@pytest.mark.parametrize("jobs", [1, *thorough(2)])
def test_a_failing_method_stops_its_own_runs_only(frail, run, tmp_path, jobs):
    config = write(tmp_path / "mine.toml", CONFIG)
    done = run("run", config, "-o", "runs", "--jobs", jobs, "-q", code=2)
    assert done.err.count("poolwise: ") == 1
    assert "Traceback" not in done.err
    assert "mine, seed 0: code that is not part of Poolwise failed" in done.err
    assert f"ZeroDivisionError: division by zero; in {PLACE}, {frail.parent / 'help.py'}, line 2" in done.err
    [log] = (tmp_path / "runs").rglob("traceback.log")
    assert log.parent == tmp_path / "runs" / "mine" / "mine" / "seed-0"
    assert str(log.relative_to(tmp_path)) in done.err
    text = log.read_text()
    assert "return helper(0)" in text
    assert text.rstrip().endswith("ZeroDivisionError: division by zero")
    finished = read_runs(tmp_path / "runs" / "mine" / "random")  # the other run of the grid
    assert [record.reached for group in finished.values() for record in group] == [20]
    if jobs == 1:
        frail.write_text(CODE.replace("return helper(0)", "return list(range(task.batch_size))", 1))
        del sys.modules["frail.rules"]
        run("run", config, "-o", "runs", "-q")
        assert not list((tmp_path / "runs").rglob("traceback.log"))  # mended, it is resumed and the log goes


def test_the_traceback_is_shown_on_request(frail, run, tmp_path):
    np.save("preds.npy", np.log(np.full((6, 2, 2), 0.5)))
    plain = run("select", "preds.npy", "-b", 2, "--method", "frail.rules:mine", code=2)
    assert plain.err.startswith("poolwise: code that is not part of Poolwise failed (ZeroDivisionError")
    assert PLACE in plain.err
    assert "Traceback" not in plain.err
    assert "--traceback" in plain.err
    for place in (0, 1, 5):
        command = ["select", "preds.npy", "-b", 2, "--method", "frail.rules:mine"]
        shown = run(*command[:place], "--traceback", *command[place:], code=2)
        assert "Traceback (most recent call last)" in shown.err
        assert "return 1 / number" in shown.err
        assert "Add --traceback" not in shown.err
    assert "--traceback" in run("--help").out


@pytest.mark.parametrize(
    ("name", "place", "says"),
    [
        ("fails_in_a_library", "frail.rules:fails_in_a_library", "ValueError: cannot reshape"),
        ("fails_in_a_block", PLACE, "ZeroDivisionError"),
        ("opens_nothing", "frail.rules:opens_nothing", "FileNotFoundError"),
    ],
)
def test_the_line_is_that_of_the_users_own_code(frail, run, name, place, says):
    np.save("preds.npy", np.log(np.full((6, 2, 2), 0.5)))
    done = run("select", "preds.npy", "-b", 2, "--method", f"frail.rules:{name}", code=2)
    assert says in done.err
    assert f"in {place}, {frail.parent}" in done.err


def test_a_posterior_that_fails_in_a_later_round_is_not_blamed_on_the_checkpoint(frail, run, tmp_path):
    text = CONFIG.replace('kind = "committee"\nmembers = 2', 'kind = "frail.rules:Later"')
    config = write(tmp_path / "mine.toml", text.replace(', { name = "frail.rules:mine", label = "mine" }', ""))
    for _ in range(2):  # the second time resumes from the checkpoint
        done = run("run", config, "-o", "runs", "-q", code=2)
        assert "random, seed 0: code" in done.err
        assert PLACE in done.err
        assert "cannot resume" not in done.err


def test_what_fails_before_any_run_leaves_nothing_behind(frail, run, tmp_path):
    text = CONFIG.replace('kind = "committee"\nmembers = 2', 'kind = "frail.rules:AtOnce"')
    done = run("run", write(tmp_path / "mine.toml", text), "-o", "runs", "-q", code=2)
    assert PLACE in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "runs").exists()


def test_a_reader_that_fails_is_named(frail, run, tmp_path):
    write(tmp_path / "data.xyz", "1 2 3")
    text = CONFIG.replace('name = "digits"\n', 'path = "data.xyz"\nreader = "frail.rules:read"\n').replace(
        "test = 50", ""
    )
    done = run("run", write(tmp_path / "mine.toml", text), "-o", "runs", "-q", code=2)
    assert "data.xyz: read cannot read it (ZeroDivisionError: division by zero; in frail.help:helper" in done.err


@pytest.mark.parametrize(("module", "says"), [("unready", "ZeroDivisionError"), ("unfinished", "SyntaxError")])
def test_modules_that_cannot_be_imported_are_named(frail, run, tmp_path, module, says):
    address = f"frail.{module}:rule"
    np.save("preds.npy", np.log(np.full((6, 2, 2), 0.5)))
    method = run("select", "preds.npy", "-b", 2, "--method", address, code=2)
    text = CONFIG.replace('kind = "committee"\nmembers = 2', f'kind = "{address}"')
    posterior = run("run", write(tmp_path / "mine.toml", text), "-o", "runs", "-q", code=2)
    write(tmp_path / "data.xyz", "1 2 3")
    text = CONFIG.replace('name = "digits"\n', f'path = "data.xyz"\nreader = "{address}"\n').replace("test = 50", "")
    reader = run("run", write(tmp_path / "other.toml", text), "-o", "runs", "-q", code=2)
    for done in (method, posterior, reader):
        assert says in done.err
        assert f"{module}.py, line 1" in done.err
        assert "Traceback" not in done.err


def test_python_gets_the_exception_itself(frail):
    from frail.rules import mine

    with pytest.raises(ZeroDivisionError) as caught:
        pw.select(np.log(np.full((6, 2, 2), 0.5)), 2, mine)
    assert str(culprit(caught.value)).startswith(PLACE)


def test_a_mistake_of_ours_is_called_so(monkeypatch, run):
    def broken(*_, **__):
        import json

        return json.loads("{")

    broken.__code__ = broken.__code__.replace(co_filename=pw.__file__)
    monkeypatch.setattr("poolwise.experiments.read_config", broken)
    done = run("run", "x.toml", code=2)
    assert "Poolwise failed (JSONDecodeError" in done.err
    assert "report it" in done.err


def test_an_exception_of_another_process_keeps_its_place(frail):
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from frail.help import helper

    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        error = pool.submit(helper, 0).exception()
    place = culprit(error)
    assert (place.file, place.line, place.function) == (str(frail.with_name("help.py")), 2, "helper")
    assert "helper" in describe(error)


def test_a_message_of_several_lines_is_cut_and_an_empty_one_is_named():
    assert told(ValueError("first.\nsecond")) == "ValueError: first"
    assert told(ValueError()) == "ValueError"
    assert issubclass(UserCodeError, pw.errors.PoolwiseError)
