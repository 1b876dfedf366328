"""The command line, run as a user runs it."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import poolwise as pw


@pytest.fixture
def log_probs() -> np.ndarray:
    logits = np.random.default_rng(0).normal(size=(60, 4, 3)) * 2
    return (logits - np.log(np.exp(logits).sum(2, keepdims=True))).astype(np.float32)


@pytest.fixture
def preds(tmp_path: Path, log_probs: np.ndarray) -> Path:
    np.save(tmp_path / "preds.npy", log_probs)
    return tmp_path / "preds.npy"


def test_prints_the_batch_that_select_returns(run, preds: Path, log_probs: np.ndarray) -> None:
    rows = list(csv.DictReader(run("select", preds, "--batch-size", 5, "--seed", 3).out.splitlines()))
    batch = pw.select(log_probs, 5, seed=3)
    assert [int(row["index"]) for row in rows] == batch.indices.tolist()
    assert [float(row["score"]) for row in rows] == batch.scores.tolist()
    assert [int(row["order"]) for row in rows] == [0, 1, 2, 3, 4]


def test_every_option_reaches_the_selection(run, tmp_path: Path, log_probs: np.ndarray) -> None:
    logits = log_probs + 3
    np.save(tmp_path / "logits.npy", logits.transpose(1, 0, 2))
    embeddings = np.random.default_rng(1).normal(size=(60, 5)).astype(np.float32)
    labelled = np.random.default_rng(2).normal(size=(6, 5)).astype(np.float32)
    np.save(tmp_path / "e.npy", embeddings)
    np.save(tmp_path / "l.npy", labelled)
    (tmp_path / "ids.txt").write_text("".join(f"image {i}.png\n" for i in range(60)))
    options = ["--kind", "logits", "--layout", "KNC", "--embeddings", tmp_path / "e.npy"]
    options += ["--labelled-embeddings", tmp_path / "l.npy", "--ids", tmp_path / "ids.txt"]
    run("select", tmp_path / "logits.npy", "--method", "coreset", "-b", 4, *options, "-o", tmp_path / "batch.json")
    content = json.loads((tmp_path / "batch.json").read_text())
    expected = pw.select(log_probs, 4, "coreset", embeddings=embeddings, labelled_embeddings=labelled)
    assert [pick["index"] for pick in content["picks"]] == expected.indices.tolist()
    assert [pick["id"] for pick in content["picks"]] == [f"image {i}.png" for i in expected.indices]
    assert content["diagnostics"]["ceiling"] == pytest.approx(np.log(4))
    assert len(content["diagnostics"]["information"]) == 4


def test_parameters_candidates_and_memory(run, preds: Path, tmp_path: Path, log_probs: np.ndarray) -> None:
    out = tmp_path / "batch.csv"
    run("select", preds, "--method", "power-lbb", "-b", 6, "-p", "alpha=5", "--param", "redundancy=max",
        "--candidates", "50%", "--memory", "100KB", "-o", out)  # fmt: skip
    expected = pw.select(log_probs, 6, "power-lbb", alpha=5, redundancy="max", candidates="50%")
    assert [int(row["index"]) for row in csv.DictReader(out.read_text().splitlines())] == expected.indices.tolist()


def test_targets_can_be_a_file(run, preds: Path, log_probs: np.ndarray) -> None:
    rows = list(csv.DictReader(run("select", preds, "--method", "epig", "-b", 3, "-p", f"targets={preds}").out.split()))
    assert [int(row["index"]) for row in rows] == pw.select(log_probs, 3, "epig", targets=log_probs).indices.tolist()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nope.npy"], "no such file"),
        (["{preds}", "--method", "nope"], "there is no method 'nope'"),
        (["{preds}", "-b", "61"], "only 60 points"),
        (["{preds}", "-b", "0"], "at least 1"),
        (["{preds}", "-b", "many"], "batch-size"),
        (["{preds}", "--kind", "guess"], "--kind"),
        (["{preds}", "-b", "5", "--kind", "probs"], "row 0"),
        (["{preds}", "--layout", "CNK"], "--layout"),
        (["{preds}", "-b", "5", "-p", "alpha"], "NAME=VALUE"),
        (["{preds}", "-b", "5", "--method", "power-lbb", "-p", "alpha=-1"], "above 0"),
        (["{preds}", "-b", "5", "--method", "power-lbb", "-p", "alpha=red"], "alpha must be a number"),
        (["{preds}", "-b", "5", "-p", "beta=1"], "no parameter 'beta'"),
        (["{preds}", "-b", "5", "--seed", "-1"], "seed"),
        (["{preds}", "-b", "5", "--memory", "lots"], "memory"),
        (["{preds}", "-b", "5", "--candidates", "half"], "candidates"),
        (["{preds}", "-b", "5", "--method", "badge"], "--embeddings"),
        (["{preds}", "-b", "5", "--ids", "{preds}"], "expected one list of whole numbers or texts"),
        (["{preds}", "-b", "5", "--ids", "{short}"], "has 2 names"),
        (["{preds}", "-b", "5", "-o", "batch.xlsx"], ".csv, .json or .parquet"),
        (["{preds}", "-b", "5", "-o", "{missing}/batch.csv"], "no such folder"),
        (["{bad}", "-b", "5"], "row 7"),
    ],
)
def test_wrong_input_gives_one_clear_message_and_no_file(
    run, preds: Path, tmp_path: Path, log_probs: np.ndarray, arguments: list[str], says: str
) -> None:
    (tmp_path / "short.txt").write_text("a\nb\n")
    log_probs[7, 1, 1] = np.nan
    np.save(tmp_path / "bad.npy", log_probs)
    names = {"preds": preds, "short": tmp_path / "short.txt", "missing": tmp_path / "none", "bad": tmp_path / "bad.npy"}
    before = sorted(tmp_path.iterdir())
    done = run("select", *[argument.format(**names) for argument in arguments], code=2)
    assert says in done.err
    assert done.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_a_batch_file_is_never_half_written(run, preds: Path, tmp_path: Path) -> None:
    out = tmp_path / "batch.csv"
    out.mkdir()  # cannot be replaced by a file
    assert "cannot write" in run("select", preds, "-b", 5, "-o", out, code=2).err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["batch.csv", "preds.npy"]


def test_quiet_says_nothing_and_saturation_is_said_otherwise(run, preds: Path) -> None:
    arguments = ["select", preds, "--method", "batchbald", "-b", "40"]
    assert run(*arguments, "--quiet").err == ""
    loud = run(*arguments).err
    assert "saturated" in loud
    assert "chose 40 of 60" in loud


def test_methods_lists_all_and_describes_one(run) -> None:
    listing = run("methods").out
    assert all(name in listing for name in pw.methods())
    one = run("methods", "power-lbb").out
    assert all(word in one for word in ("formula", "paper", "alpha", "redundancy", "normalised", "needs"))
    assert "there is no method" in run("methods", "nope", code=2).err


def test_help_teaches(run) -> None:
    assert "poolwise select preds.npy" in run("select", "--help").out
    assert pw.__version__ in run("--version").out


def test_the_command_is_installed_and_fails_without_a_traceback(preds: Path) -> None:
    command = Path(sys.executable).with_name("poolwise")
    done = subprocess.run([command, "select", preds, "-b", "3"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 4
    done = subprocess.run([command, "select", "nope.npy"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_an_output_that_cannot_be_written_is_said(preds: Path) -> None:
    command = [sys.executable, "-m", "poolwise", "select", str(preds), "-b", "5", "-q"]
    with open("/dev/full", "w") as full:
        end = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (end.returncode, end.stderr) == (2, "poolwise: the output: No space left on device.\n")


def test_a_digit_that_is_no_number_is_refused(run, preds: Path) -> None:
    assert "candidates must be" in run("select", preds, "-b", 5, "--candidates", "²", code=2).err
