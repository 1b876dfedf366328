"""The command line, run as a user runs it."""

import csv
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from processes import Program

import poolwise as pw
from poolwise.cli.flags import in_flags
from poolwise.selection import registry


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
    done = subprocess.run([command, "select", preds, "-b", "3"], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 4
    done = subprocess.run([command, "status"], cwd=preds.parent, capture_output=True, text=True, timeout=500)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_an_output_that_cannot_be_written_is_said(preds: Path) -> None:
    command = ["-m", "poolwise", "select", preds, "-b", "5", "-q"]
    with (
        open("/dev/full", "w") as full,
        Program(command, stdout=full, stderr=subprocess.PIPE, text=True) as end,
    ):
        said = end.communicate()[1]
    assert (end.returncode, said) == (2, "poolwise: the output: No space left on device.\n")


def test_a_digit_that_is_no_number_is_refused(run, preds: Path) -> None:
    assert "candidates must be" in run("select", preds, "-b", 5, "--candidates", "²", code=2).err


# Names of the examples, and examples that must not be chosen


@pytest.fixture
def named(tmp_path: Path, log_probs: np.ndarray) -> Path:
    names = [f"image {59 - i}.png" for i in range(60)]
    with pw.predictions.ShardWriter(tmp_path / "folder", (60, 4, 3), dtype="float32", ids=names) as writer:
        writer.put(0, log_probs)
    return tmp_path / "folder"


def picks(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_names_in_a_folder_are_shown(run, named: Path) -> None:
    rows = picks(run("select", named, "-b", 7).out)
    assert [row["id"] for row in rows] == [f"image {59 - int(row['index'])}.png" for row in rows]


def test_a_batch_that_was_written_is_excluded_from_the_next(run, named: Path, preds: Path, tmp_path: Path) -> None:
    for pool in (named, preds):
        for ending in (".csv", ".json", ".parquet"):
            run("select", pool, "-b", 20, "-o", f"first{ending}")
            rows = picks(run("select", pool, "-b", 40, "--exclude", f"first{ending}").out)
            first = {int(row["index"]) for row in picks(run("select", pool, "-b", 20).out)}
            assert {int(row["index"]) for row in rows} == {*range(60)} - first
    many = run("select", preds, "-b", 5, "--exclude", "first.csv", "--exclude", "first.json")
    assert "20 of them excluded" in many.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.txt", "3\n5\n"),
        ("x.csv", "3\n5\n"),
        ("x.csv", "index\n3\n5\n3\n"),
        ("x.csv", "id,index\nn3,3\nn5,5\n"),
        ("x.tsv", "position\tlabel\n3\tcat\n5\tdog\n"),
        ("x.csv:row", "label,row\ncat,3\ndog,5\n"),
        ("x.jsonl", '{"index": 3}\n{"index": 5}\n'),
        ("x.json", "[3, 5]"),
        ("x.npy", np.array([5, 3], np.uint64)),
        ("x.parquet", {"index": [3, 5]}),
        ("x.parquet:p", {"q": ["a", "b"], "p": [3.0, 5.0]}),
    ],
)
def test_every_form_of_list_excludes_the_same(run, preds: Path, tmp_path: Path, name: str, content) -> None:
    path = tmp_path / name.partition(":")[0]
    if isinstance(content, str):
        path.write_text(content)
    elif isinstance(content, dict):
        pq = pytest.importorskip("pyarrow.parquet")
        pa = pytest.importorskip("pyarrow")
        pq.write_table(pa.table(content), path)
    else:
        np.save(path, content)
    rows = picks(run("select", preds, "-b", 58, "--exclude", name).out)
    assert {int(row["index"]) for row in rows} == {*range(60)} - {3, 5}


def test_names_can_be_excluded_and_come_from_any_column(run, preds: Path, named: Path, tmp_path: Path) -> None:
    (tmp_path / "done.csv").write_text("file,label\nimage 56.png,cat\nimage 54.png,dog\n")
    rows = picks(run("select", named, "-b", 58, "--exclude", "done.csv:file").out)
    assert {int(row["index"]) for row in rows} == {*range(60)} - {3, 5}
    lines = "".join(f"{i},text {i}\n" for i in range(59, -1, -1))
    (tmp_path / "pool.csv").write_text(f"key,text\n{lines}")
    (tmp_path / "numbers.txt").write_text("56\n54\n")
    arguments = ["select", preds, "-b", 58, "--ids", "pool.csv:key", "--exclude", "numbers.txt"]
    assert "--exclude-by" in run(*arguments, code=2).err  # are they positions or names?
    by_name = picks(run(*arguments, "--exclude-by", "id").out)
    by_position = picks(run(*arguments, "--exclude-by", "index").out)
    assert {int(row["index"]) for row in by_name} == {*range(60)} - {3, 5}
    assert {int(row["index"]) for row in by_position} == {*range(60)} - {56, 54}
    assert {row["id"] for row in by_name} == {str(i) for i in range(60)} - {"56", "54"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--exclude", "none.csv"], "no such file"),
        (["--exclude", "x.xlsx"], "cannot read '.xlsx'"),
        (["--exclude", "two.csv"], "--exclude two.csv:a"),
        (["--exclude", "two.csv:c"], "no column 'c'"),
        (["--exclude", "far.txt"], "'60' is not a position"),
        (["--exclude", "names.txt"], "is not a position"),
        (["--exclude", "names.txt", "--exclude-by", "id"], "--ids"),
        (["--exclude-by", "id"], "give --exclude as well"),
        (["--exclude", "all.txt"], "only 0 of the 60"),
        (["--ids", "two.csv"], "--ids two.csv:a"),
        (["--ids", "two.csv:a"], "has 2 names"),
    ],
)
def test_lists_that_cannot_be_used(run, preds: Path, tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "x.xlsx").write_text("")
    (tmp_path / "two.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "far.txt").write_text("1\n60\n")
    (tmp_path / "names.txt").write_text("cat\n")
    (tmp_path / "all.txt").write_text("".join(f"{i}\n" for i in range(60)))
    assert says in run("select", preds, "-b", 5, *arguments, code=2).err


def test_old_folders_have_no_names_and_damaged_names_are_told(run, named: Path) -> None:
    content = (named / "ids.json").read_text()
    (named / "ids.json").write_text(content.replace("image 7.png", "image 8.png"))
    assert "ids.json is damaged" in run("select", named, "-b", 5, code=2).err
    (named / "ids.json").write_text("[]")
    assert "ids.json" in run("select", named, "-b", 5, code=2).err
    (named / "ids.json").unlink()
    assert "id" not in picks(run("select", named, "-b", 5).out)[0]
    with (
        pytest.raises(pw.errors.ShapeError, match="60 names"),
        pw.predictions.ShardWriter(named, (60, 4, 3), dtype="float32", ids=["a"]),
    ):
        pass


def test_names_of_a_folder_do_not_change_under_it(named: Path) -> None:
    other = [f"image {i}.png" for i in range(60)]
    with (
        pytest.raises(pw.errors.FileError, match=r"names point 0 'image 59.png'"),
        pw.predictions.ShardWriter(named, (60, 4, 3), dtype="float32", ids=other),
    ):
        pass


# The words of the command line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["two.npz"], "--key; it contains a, b"),
        (["flat.npy"], "--samples"),
        (["flat.npy", "--samples", "5"], "--samples 5 is for"),
        (["{preds}", "-b", "61"], "--batch-size is 61"),
        (["{preds}", "-b", "5", "--seed", "-1"], "--seed must be"),
        (["{preds}", "-b", "5", "--memory", "lots"], "--memory must be"),
        (["{preds}", "-b", "5", "--candidates", "half"], "--candidates must be"),
        (["{preds}", "--verify"], "Leave out --verify"),
        (["{preds}", "-b", "5", "--method", "badge"], "pass --embeddings"),
        (["{preds}", "--embeddings", "e.npy", "--labelled-embeddings", "narrow.npy"], "--labelled-embeddings 2"),
        (["wrong.npy", "-b", "5"], "--layout KNC"),
    ],
)
def test_errors_name_flags(run, preds: Path, tmp_path: Path, log_probs: np.ndarray, arguments, says: str) -> None:
    np.savez(tmp_path / "two.npz", a=log_probs, b=log_probs)
    np.save(tmp_path / "flat.npy", log_probs.reshape(60, 12))
    np.save(tmp_path / "e.npy", np.zeros((60, 5)))
    np.save(tmp_path / "narrow.npy", np.zeros((3, 2)))
    np.save(tmp_path / "wrong.npy", log_probs.transpose(1, 0, 2))
    said = run("select", *[argument.format(preds=preds) for argument in arguments], code=2).err
    assert says in said
    assert "batch_size" not in said
    assert "labelled_embeddings" not in said
    assert not any(
        f" {name}=" in said for name in ("key", "samples", "layout", "embeddings", "verify", "seed", "method")
    )


def test_warnings_name_flags_and_a_wrong_layout_is_warned_of(run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 900, 3), np.float32))
    assert "pass --layout KNC" in run("select", "x.npy", "-b", 2, "--kind", "logits").err
    assert (
        "warning"
        not in run("select", "x.npy", "-b", 2, "--kind", "logits", "--layout", "KNC", "--method", "margin").err
    )
    np.save(tmp_path / "one.npy", np.zeros((9, 1, 3), np.float32))
    assert "--method margin" in run("select", "one.npy", "-b", 2, "--kind", "logits", "--method", "lbb").err


def test_flags_are_put_where_python_names_were() -> None:
    flags = {"batch_size": "--batch-size", "key": "--key", "file": "--file", "method": "--method", "change": "--set"}
    for said, expected in [
        ("read with key=; it contains", "read with --key; it contains"),
        ("method='power-lbb', or", "--method power-lbb, or"),
        ('pass method="lbb".', "pass --method lbb."),
        ("batch_size is 5", "--batch-size is 5"),
        ("the file must end", "the file must end"),
        ("key must be a", "--key must be a"),
        ("a/key=3 monkey=3 acquisition.batch_size=20", "a/key=3 monkey=3 acquisition.batch_size=20"),
        ("--key=3", "--key=3"),
    ]:
        assert in_flags(said, flags) == expected


# Help


COMMANDS = ("select", "methods", "predict", "run", "report", "datasets")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_summary_an_example_and_no_file_that_is_not_in_the_wheel(run, command: str) -> None:
    text = run(command, "--help").out
    assert f"\n    poolwise {command}" in text
    assert "docs/" not in text
    assert "configs/" not in text
    assert command in run("--help").out


def test_the_example_of_an_experiment_runs(run, tmp_path: Path) -> None:
    (tmp_path / "digits.toml").write_text(run("run", "--example").out)
    small = ["--set", "training.steps=5", "--set", "acquisition.labels=30", "--set", "seeds=[0]"]
    run("run", "digits.toml", "-o", "runs", *small, "--set", 'acquisition.methods=["random"]')
    assert list((tmp_path / "runs" / "digits").iterdir())
    assert "poolwise run --example" in run("run", code=2).err


def test_the_default_method_is_the_one_that_the_help_names(run) -> None:
    assert registry.DEFAULT in " ".join(run("select", "--help").out.split())


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, poolwise.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500, check=True)
    assert not {"torch", "numpy", "sklearn", "scipy", "pydantic", "pandas", "rich", "ray"} & {*done.stdout.split()}


def test_labels_and_the_server_need_no_pytorch(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("id,text\n1,a good film\n2,a bad film\n")
    (tmp_path / "labels.csv").write_text("id,label\n1,good\n")
    code = """
import sys
from poolwise.labelling.project import Project
import poolwise.labelling.server.running, poolwise.labelling.label_studio.syncing
with Project.open("texts.csv", classes=["good", "bad"]) as project:
    project.add("labels.csv"), project.status(), project.export("out.csv")
print(*sorted({name.partition('.')[0] for name in sys.modules}))"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=True, cwd=tmp_path)
    assert not {"torch", "sklearn", "scipy", "pandas", "ray"} & {*done.stdout.split()}


# Absurd numbers and hostile files


@pytest.mark.parametrize(
    "arguments",
    [
        *(["-b", number] for number in ("9" * 5000, "9" * 400, "-" + "9" * 30, "nan", "²")),
        *(["-b", "5", "--seed", number] for number in ("-1", "9" * 5000, "1.5")),
        *(["-b", "5", "--memory", size] for size in ("9" * 5000, "9" * 400 + "GB", "9" * 30, "0GB", "-1GB", "inf")),
        *(
            ["-b", "5", "--candidates", some]
            for some in ("9" * 5000, "top:" + "9" * 5000, "2024-01-01", "9" * 400 + "%")
        ),
        *(["-b", "5", "--samples", number] for number in ("9" * 4000, "0", "-3")),
        *(["-b", "5", "--method", "power-lbb", "-p", f"alpha={number}"] for number in ("9" * 5000, "9" * 400, "nan")),
    ],
)
def test_absurd_numbers_give_one_short_message(run, preds: Path, arguments: list[str]) -> None:
    said = run("select", preds, *arguments, code=2).err
    assert "Traceback" not in said
    assert len(said) < 6000


@pytest.mark.parametrize("seed", [10**12, 2**64, 10**300])
def test_large_seeds_are_seeds(run, preds: Path, seed: int) -> None:
    assert len(picks(run("select", preds, "-b", 5, "--method", "random", "--seed", seed).out)) == 5


@pytest.mark.parametrize(
    ("shape", "descr"),
    [
        ("(1000000000000000000, 1000000000000000000, 9)", "<f4"),
        ("(99999999999999999999999999999999999999, 2, 3)", "<f4"),
        ("(-1, 2, 3)", "<f4"),
        ("(10000000000, 2, 3)", "<f4"),
        ("(4, 2, 3)", "|O"),
        ("(2, 2, 3)", "<f4,<f4"),
        ("((((1,),),),)", "<f4"),
    ],
)
def test_hostile_files_give_one_message(run, tmp_path: Path, shape: str, descr: str) -> None:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(100)
    (tmp_path / "x.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", content)
    for name in ("x.npy", "x.npz"):
        said = run("select", name, "-b", 1, code=2).err
        assert said.startswith(f"poolwise: {name}")
        assert said.count("\n") == 1


def test_a_command_that_moved_says_where_to(run):
    assert "python -m paper --list" in run("reproduce", "figure-1", "--scale", "paper", code=2).err


def test_a_run_keeps_the_memory_that_it_frees(run, monkeypatch):
    called = []
    monkeypatch.setattr("poolwise.budget.keep_freed_memory", lambda: called.append(True))
    run("run", "missing.toml", code=2)
    assert called == [True]


@pytest.mark.skipif(sys.platform != "linux", reason="only the C library of Linux is told what to keep")
def test_freed_memory_is_not_fetched_again():
    """Page faults of the second use of as much memory: none is left to fetch."""
    program = """
import resource, sys
from poolwise import budget
if sys.argv[1] == "kept":
    budget.keep_freed_memory()
def use():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    texts = [b"x" * ((4 << 20) + number) for number in range(20)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
use(); use()
print(use())
"""
    faults = {
        way: int(subprocess.run([sys.executable, "-c", program, way], capture_output=True, check=True).stdout)
        for way in ("kept", "given back")
    }
    assert faults["kept"] < 1_000 < 5_000 < faults["given back"]
