"""A selection that was killed between picks goes on, to the same batch."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
from pools import messy, pool

import poolwise as pw
from poolwise.errors import FileError, ParameterError, StateError
from poolwise.selection.journal import NAME

pytestmark = pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")

REQUESTS = [
    ("lbb", {}),
    ("lbb", {"redundancy": "mean"}),
    ("lbb", {"redundancy": "sum", "pairs": "ordered"}),
    ("power-lbb", {}),
    ("power-lbb", {"alpha": 8.0}),
    ("power-lbb", {"redundancy": "mean", "engine": "full"}),
    ("batchbald", {"configurations": 200}),
    ("gp-variance", {}),
    ("posterior-coverage", {"filter": 3.0}),
]


class Killed(Exception):
    pass


def stop_after(picks):
    def report(stage, done, total):
        if stage == "picking" and done >= picks:
            raise Killed

    return report


def same(one, other):
    assert one.indices.tolist() == other.indices.tolist()
    assert one.scores.tolist() == other.scores.tolist()
    assert one.diagnostics.saturated_at == other.diagnostics.saturated_at
    for name in ("information", "standard_error"):
        mine, theirs = getattr(one.diagnostics, name), getattr(other.diagnostics, name)
        assert (mine is None and theirs is None) or mine.tolist() == theirs.tolist()


@pytest.mark.parametrize(("method", "parameters"), REQUESTS, ids=lambda value: str(value))
@pytest.mark.parametrize("make", [pool, messy])
def test_goes_on_to_the_same_batch(method, parameters, make, tmp_path):
    x = make(150, 6, 4, seed=3)
    expected = pw.select(x, 60, method, seed=5, **parameters)
    for picks in (1, 7, 33):
        with pytest.raises(Killed):
            pw.select(x, 60, method, seed=5, resume=tmp_path, report=stop_after(picks), **parameters)
        assert len((tmp_path / NAME).read_text().splitlines()) == picks + 1
    same(pw.select(x, 60, method, seed=5, resume=tmp_path, **parameters), expected)
    same(pw.select(x, 60, method, seed=5, resume=tmp_path, **parameters), expected)


def test_survives_a_kill(tmp_path):
    """The process is killed from outside, twice, and the third goes on to the end."""
    x = pool(3000, 10, 5, seed=1)
    np.save(tmp_path / "preds.npy", x)
    code = textwrap.dedent(
        """
        import sys, time
        import poolwise as pw, poolwise.cli, poolwise.cluster
        assert "ray" not in sys.modules  # it is not even imported unasked
        slow = lambda stage, done, total: time.sleep(0.02) if stage == "picking" else None
        pw.select(pw.Predictions.open(sys.argv[1]), 200, "power-lbb", seed=1, resume=sys.argv[2], report=slow)
        """
    )
    journal = tmp_path / "journal" / NAME
    for picks in (20, 60):
        process = subprocess.Popen([sys.executable, "-c", code, tmp_path / "preds.npy", journal.parent])
        deadline = time.monotonic() + 120
        while not (journal.exists() and len(journal.read_bytes().splitlines()) > picks):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    batch = pw.select(x, 200, "power-lbb", seed=1, resume=journal.parent)
    same(batch, pw.select(x, 200, "power-lbb", seed=1))


def test_drops_what_was_being_written(tmp_path):
    x = pool(60, 5, 3)
    expected = pw.select(x, 20, "lbb", resume=tmp_path)
    path = tmp_path / NAME
    lines = path.read_bytes().splitlines(keepends=True)
    for rest in (lines[12][:-9], lines[12][:-1], lines[12].replace(b"index", b"inbox"), b""):
        path.write_bytes(b"".join(lines[:12]) + rest)
        same(pw.select(x, 20, "lbb", resume=tmp_path), expected)
        assert path.read_bytes() == b"".join(lines)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"seed": 1}, "seed"),
        ({"batch_size": 9}, "batch_size"),
        ({"method": "batchbald"}, "method"),
        ({"redundancy": "max"}, "parameters"),
        ({"candidates": np.arange(50)}, "candidates"),
    ],
)
def test_refuses_another_request(change, word, tmp_path):
    x = pool(60, 5, 3)
    request = {"batch_size": 8, "method": "lbb", "seed": 0}
    pw.select(x, **request, resume=tmp_path)
    with pytest.raises(StateError, match=f"another {word}" if word != "candidates" else "another"):
        pw.select(x, **{**request, **change}, resume=tmp_path)


def test_refuses_other_predictions(tmp_path):
    x = pool(60, 5, 3)
    pw.select(x, 8, "lbb", resume=tmp_path)
    y = x.copy()
    y[17] = y[17, ::-1, ::-1]
    y[18] = x[19]
    with pytest.raises(StateError, match="another predictions"):
        pw.select(y, 8, "lbb", resume=tmp_path)


def test_one_process_at_a_time(tmp_path):
    x, refused = pool(60, 5, 3), []

    def report(stage, done, total):
        if stage == "picking" and done == 3:
            with pytest.raises(StateError, match="in use"):
                pw.select(x, 8, "lbb", resume=tmp_path)
            refused.append(done)

    pw.select(x, 8, "lbb", resume=tmp_path, report=report)
    assert refused


def test_is_for_methods_that_pick_one_by_one(tmp_path):
    with pytest.raises(ParameterError, match="power-lbb"):
        pw.select(pool(60, 5, 3), 8, "bald", resume=tmp_path)


def test_candidates_go_on_too(tmp_path):
    x = pool(200, 5, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.PrefilterWarning)
        expected = pw.select(x, 30, "lbb", candidates="top:80")
        with pytest.raises(Killed):
            pw.select(x, 30, "lbb", candidates="top:80", resume=tmp_path, report=stop_after(9))
        same(pw.select(x, 30, "lbb", candidates="top:80", resume=tmp_path), expected)


def test_a_file_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "picks.jsonl").write_text('{"mine": 1}\n')
    with pytest.raises(FileError, match=r"picks\.jsonl is not a journal"):
        pw.select(pool(60, 5, 4), 5, "lbb", resume=tmp_path)
    assert (tmp_path / "picks.jsonl").read_text() == '{"mine": 1}\n'


def test_a_file_that_may_not_grow_is_said_and_the_picks_are_kept(tmp_path):
    x, limits = pool(60, 5, 4), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(FileError, match=r"picks\.jsonl \(File too large\).*make room"):
            pw.select(x, 20, "lbb", resume=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert 1 < len((tmp_path / NAME).read_bytes().splitlines()) < 20
    same(pw.select(x, 20, "lbb", resume=tmp_path), pw.select(x, 20, "lbb"))
