"""Fixtures that several files share."""

import gc
import os
import random
from functools import cache, partial
from importlib import import_module
from typing import NamedTuple

import pytest
from hypothesis import settings

# Nothing heavy is imported here: the process that hands out the tests runs none of them.

gc.set_threshold(20_000, 20, 20)  # a collection in ten is enough

# Times vary on a busy machine; failures must not. The same examples are tried every time.
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=40, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_collection_modifyitems(items):
    """Slow tests come first: whichever process is last is then left with quick ones only."""
    items.sort(key=lambda item: not any(item.iter_markers("slow")) and not any(item.iter_markers("thorough")))


def pytest_collection_finish(session):
    """Everything that is imported stays, so the garbage collector need not look at it again and again."""
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            for mark in item.iter_markers("xdist_group"):
                assert item.nodeid.endswith(f"@{mark.args[0]}"), "this pytest-xdist does not keep groups in one process"
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk():
    """What is written is left to the operating system: only a power cut would lose it, and no test makes one.

    Thousands of waits for the disk took a third of the time of the tests that kill a program and start it again. Tests
    of when files are synced put their own function in this place.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True)
def _threads():
    """Leave the number of threads as it was."""
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _methods():
    """Forget the methods that a test, or an example in a docstring, has registered."""
    from poolwise.selection import registry

    yield
    for name in [name for name, method in registry._METHODS.items() if not method.home.startswith("poolwise.")]:
        del registry._METHODS[name]


@pytest.fixture
def global_state():
    """Fails a test that draws from a global random state or sets it."""
    import numpy as np
    import torch

    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    yield
    assert random.getstate() == before[0]
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])


@pytest.fixture
def no_data_of_this_machine(tmp_path, monkeypatch):
    """No data of this machine is found: not in the working folder, the home folder or the environment."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("POOLWISE_DATA", raising=False)


@pytest.fixture
def draw():
    import numpy as np

    return np.random.default_rng(0)


@pytest.fixture
def one_thread():
    """Operations this small take longest when they are split."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def digits():
    """`[1797, 10, 10]` real log-probabilities: ten logistic regressions, each on a bootstrap sample of 20 labels."""
    import numpy as np
    from pools import normalise
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    images, labels = load_digits(return_X_y=True)
    images = images / 16
    draw = np.random.default_rng(0)
    labelled = np.concatenate([draw.choice(np.flatnonzero(labels == c), 2, replace=False) for c in range(10)])
    members = []
    for _ in range(10):
        sample = draw.choice(labelled, len(labelled))
        noisy = images[sample] + 0.1 * draw.normal(size=(len(sample), images.shape[1]))
        model = LogisticRegression(C=100.0, max_iter=2000).fit(noisy, labels[sample])
        logits = np.full((len(images), 10), -8.0)
        logits[:, model.classes_] = 2 * model.decision_function(images)
        members.append(normalise(logits))
    return np.stack(members, 1).astype(np.float32)


@pytest.fixture(scope="session")
def postgresql_server():
    """The URL of one PostgreSQL server for all tests. They are of one group, so that one process starts it."""
    from databases import postgresql

    with postgresql() as url:
        yield url


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def run_main(capsys, monkeypatch):
    """Run the entry point of a program in this process, and check its exit code (None for any)."""

    def command(entry_point, program, *arguments, code=0):
        monkeypatch.setattr("sys.argv", [program, *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            entry_point()
        done = Done(end.value.code or 0, *capsys.readouterr())
        assert code in (None, done.code), done.err
        return done

    return command


@pytest.fixture
def run(run_main, monkeypatch, tmp_path):
    """Run a command of Poolwise in an empty folder, and check its exit code; gives what it printed."""
    from poolwise.cli import main

    monkeypatch.chdir(tmp_path)
    return partial(run_main, main, "poolwise")


@pytest.fixture
def unrendered(monkeypatch):
    """Figures are made and saved, but blank: to render them takes most of the time of a report.

    `test_reports.py` looks at rendered ones.
    """
    from matplotlib.figure import Figure

    rendered = Figure.savefig

    def savefig(figure, file, **options):
        return rendered(Figure((0.1, 0.1)), file, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)
    monkeypatch.setattr(Figure, "tight_layout", lambda *arguments, **options: None)


@pytest.fixture
def brief_training(monkeypatch):
    """Networks learn for 30 steps at most: to see that a script runs, not what its networks have learnt."""
    from dataclasses import replace

    from poolwise.training import _Loop

    whole = _Loop.run

    def run(loop, *arguments):
        loop._training = replace(loop._training, steps=min(loop._training.steps or 30, 30))
        return whole(loop, *arguments)

    monkeypatch.setattr(_Loop, "run", run)


@cache
def _registered():
    """Register what belongs to the package: that is done when its files are imported, so once is enough."""
    import poolwise as pw

    pw.methods()
    pw.posteriors.kinds()


@pytest.fixture
def own_catalogues(monkeypatch):
    """Methods, posteriors and file formats that a test registers are gone after it."""
    import poolwise as pw
    from poolwise.selection import registry

    _registered()
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    if hasattr(pw.posteriors, "kinds"):
        kinds = import_module("poolwise.posteriors.registry")
        monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))
    if hasattr(pw.data, "reader"):
        reading = import_module("poolwise.data.reading")
        monkeypatch.setattr(reading, "_formats", dict(reading._formats))
