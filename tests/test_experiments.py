"""Experiments: what a configuration says is what is run, and nothing that happens to a run changes its records."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from processes import Program, wait_until
from test_reports import damage

from poolwise import storage
from poolwise.cli import main
from poolwise.errors import ConfigError, FileError, PoolwiseError, StateError, TrainingError
from poolwise.experiments import Config, execute, execute_all, read_config, runs_of
from poolwise.experiments.build import split, start
from poolwise.experiments.checks import build_parts
from poolwise.experiments.config import DataConfig
from poolwise.experiments.run import finished

TINY = """
name = "tiny"
seeds = 2

[data]
name = "digits"
pool = 300
test = 200

[model]
name = "mlp"
hidden = [16]

[posterior]
members = 3

[training]
steps = 15

[acquisition]
methods = ["random", { name = "power-lbb", alpha = 2.0 }]
initial_per_class = 1
batch_size = 5
labels = 25
"""


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def config(config_file):
    return read_config(config_file)


def records(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


def without_times(folder: Path) -> list[dict]:
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in records(folder)]


# The configuration


def test_defaults_and_lists_are_read(config):
    assert config.seeds == (0, 1)
    assert [method.label for method in config.acquisition.methods] == ["random", "power-lbb alpha=2.0"]
    assert config.training.steps == 15
    assert config.model.parameters == {"hidden": (16,)}


@pytest.mark.parametrize(
    ("old", "new", "name", "words"),
    [
        ("batch_size = 5", 'batch_size = "many"', "acquisition.batch_size", "integer"),
        ("steps = 15", "steps = -1", "training.steps", "above 0"),
        ("steps = 15", "stepz = 15", "training.stepz", "no such setting"),
        ('name = "mlp"\n', 'name = "mlp"\n[unknown]\n', "unknown", "no such setting"),
        ('"random", {', '"randon", {', "acquisition.methods", "randon"),
        ("alpha = 2.0", "beta = 2.0", "acquisition.methods", "beta"),
        ("seeds = 2", "seeds = [1, 1]", "", "differ"),
        ("members = 3", "members = 0", "posterior.members", "greater than 0"),
        ('name = "digits"', "", "data", "either name"),
        ("labels = 25", "labels = 25\ninitial = 7", "acquisition", "not both"),
        ('["random", {', '["random", 3, {', "acquisition.methods", "a name, or a table"),
    ],
)
def test_an_error_names_the_setting_to_fix(config_file, old, new, name, words):
    config_file.write_text(TINY.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        read_config(config_file)
    message = str(caught.value)
    assert message.startswith(f"{config_file}: {name}")
    assert words in message


def test_folders_of_methods_stay_inside_and_apart(config_file):
    for label in ("..", ".", "../..", "a/../../b"):
        config = read_config(config_file, [f'acquisition.methods=[{{name="lbb", label="{label}"}}]', "seeds=1"])
        (run,) = runs_of(config, Path("out"))
        assert run.folder.parts[:2] == ("out", "tiny")
        assert len(run.folder.parts) == 4
        assert not {"..", "."} & set(run.folder.parts)
    with pytest.raises(ConfigError, match="own label"):
        read_config(config_file, ['acquisition.methods=[{name="lbb", label="a b"}, {name="lbb", label="a_b"}]'])


def test_what_is_not_toml_or_not_there_is_said(tmp_path):
    with pytest.raises(FileError, match=r"cannot read .*none\.toml"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = [")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_config(tmp_path / "bad.toml")


def test_memory_is_a_number_of_bytes_or_a_text(config_file):
    assert read_config(config_file, ["memory=1000000"]).memory == "1000000"
    assert read_config(config_file, ["memory=1.5 GB"]).memory == "1.5 GB"
    with pytest.raises(ConfigError, match="memory"):
        read_config(config_file, ["memory=much"])


def test_set_takes_precedence_and_is_checked(config_file):
    changed = read_config(config_file, ["acquisition.batch_size=20", "data.name=mnist", "training.milestones=[2, 3]"])
    assert (changed.acquisition.batch_size, changed.data.name, changed.training.milestones) == (20, "mnist", (2, 3))
    with pytest.raises(ConfigError, match=r"--set acquisition\.batch_size"):
        read_config(config_file, ["acquisition.batch_size=lots"])
    with pytest.raises(PoolwiseError, match=r"section\.key=value"):
        read_config(config_file, ["acquisition.batch_size"])


# The data of a run


def test_methods_share_the_data_and_seeds_do_not(config):
    first, again, other = (split(config.data, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.origins, again.origins)
    assert not np.array_equal(first.origins, other.origins)
    labelled = [start(config, parts, seed).labelled for parts, seed in ((first, 0), (again, 0), (other, 1))]
    np.testing.assert_array_equal(labelled[0], labelled[1])
    assert not np.array_equal(first.origins[labelled[0]], other.origins[labelled[2]])


def test_initial_sets_have_exact_counts(config):
    parts = split(config.data, 0)
    pool = start(config, parts, 0)
    assert np.bincount(pool.labels).tolist() == [1] * 10


def test_validation_is_not_in_the_pool_not_even_as_a_copy():
    parts = split(DataConfig(name="digits", pool=200, validation=50, repeats=3), 0)
    assert (len(parts.pool), len(parts.validation)) == (600, 50)
    held = {tuple(row.tolist()) for row in parts.validation.batch(np.arange(50)).flatten(1)}
    originals = {tuple(row.tolist()) for row in parts.pool.examples.batch(np.arange(200)).flatten(1)}
    assert not held & originals
    assert (np.bincount(parts.origins)[np.unique(parts.origins)] == 3).all()


def test_images_are_averaged_down():
    whole, small = (split(DataConfig(name="digits", pool=50, size=size), 0) for size in (None, 4))
    images = whole.pool.inputs.float()
    expected = images.reshape(50, 1, 4, 2, 4, 2).mean((3, 5)).round()
    np.testing.assert_array_equal(small.pool.inputs.numpy(), expected.numpy())
    assert small.pool.batch(np.arange(2)).shape == (2, 1, 4, 4)
    assert small.test.inputs.shape[2:] == (4, 4)
    with pytest.raises(ConfigError, match=r"data\.size"):
        split(DataConfig(name="digits", size=9), 0)


def test_too_much_asked_of_the_data_is_said(config_file, tmp_path):
    config = read_config(config_file, ["data.pool=1290", "data.validation=10"])
    with pytest.raises(ConfigError, match="1300"):
        split(config.data, 0)
    config = read_config(config_file, ["acquisition.labels=301"])
    with pytest.raises(ConfigError, match=r"acquisition\.labels"):
        execute(runs_of(config, tmp_path)[0])


def test_data_of_ones_own(tmp_path, config_file):
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 3
    np.savez(
        tmp_path / "mine.npz", inputs=(generator.normal(size=(120, 4)) + labels[:, None]).astype("f4"), labels=labels
    )
    changes = [f'data.path="{tmp_path / "mine.npz"}"', "data.pool=90", "data.test=20", "acquisition.labels=13"]
    text = TINY.replace('name = "digits"', "")
    config_file.write_text(text)
    config = read_config(config_file, changes)
    rounds = execute(runs_of(config, tmp_path / "runs")[0])
    assert [entry.labelled for entry in rounds] == [3, 8, 13]


# Runs


def test_records_say_what_happened(config, tmp_path):
    run = runs_of(config, tmp_path)[1]
    rounds = execute(run)
    kept = records(run.folder)
    assert [entry["labelled"] for entry in kept] == [10, 15, 20, 25]
    assert [entry["final"] for entry in kept] == [False, False, False, True]
    assert kept[-1]["indices"] == []
    assert "25 labels" in kept[-1]["stopped"]
    assert set(kept[0]["metrics"]) == {"accuracy", "nll", "brier", "ece"}
    assert set(kept[0]["seconds"]) == {"train", "predict", "select"}
    assert kept[0]["diagnostics"]["ceiling"] == pytest.approx(np.log(3))
    assert len({index for entry in kept for index in entry["indices"]}) == 15
    parts = split(config.data, run.seed)
    assert kept[0]["labels"] == parts.pool.labels[kept[0]["indices"]].tolist()
    assert rounds[0].indices == tuple(kept[0]["indices"])
    described = json.loads((run.folder / "run.json").read_text())
    assert described["versions"]["torch"]
    assert described["config"]["training"]["steps"] == 15
    assert described["label"] == "power-lbb alpha=2.0"


def test_runs_are_paired(config, tmp_path):
    first, second = (execute(run) for run in runs_of(config, tmp_path)[:2])
    assert first[0].metrics == second[0].metrics
    assert first[0].indices != second[0].indices


def test_a_finished_run_is_left_alone_and_seeds_can_be_added(config_file, tmp_path):
    config = read_config(config_file, ["seeds=[0]", 'acquisition.methods=["random"]'])
    progress = execute_all(config, tmp_path)
    before = (progress[0].run.folder / "rounds.jsonl").stat().st_mtime_ns
    more = read_config(config_file, ["seeds=[0, 5]", 'acquisition.methods=["random", "margin"]'])
    progress = execute_all(more, tmp_path)
    assert all(entry.done for entry in progress)
    assert len(progress) == 4
    assert (progress[0].run.folder / "rounds.jsonl").stat().st_mtime_ns == before


def test_another_configuration_in_the_same_folder_is_refused(config_file, config, tmp_path):
    execute(runs_of(config, tmp_path)[0])
    changed = read_config(config_file, ["training.steps=16"])
    with pytest.raises(StateError, match=r"training\.steps"):
        execute(runs_of(changed, tmp_path)[0])


def test_finished_runs_of_another_configuration_are_not_taken_for_those_of_this_one(config_file, config, tmp_path):
    execute_all(config, tmp_path)
    changed = read_config(config_file, ["training.steps=16"])
    with pytest.raises(StateError, match=r"has 4 runs with other settings: training\.steps is 15 there and 16 here"):
        execute_all(changed, tmp_path)
    other_memory = read_config(config_file, ["memory=2GB"])
    assert all(entry.done for entry in execute_all(other_memory, tmp_path))


def test_a_run_that_fails_does_not_stop_the_others(config_file, tmp_path):
    config = read_config(config_file, ["seeds=1", 'acquisition.methods=["random", "bald"]'])
    run = runs_of(config, tmp_path)[0]
    execute(run)
    (run.folder / "run.json").write_text("{")
    bad, good = execute_all(config, tmp_path)
    assert "damaged" in bad.error
    assert good.done


REFUSED = [
    "data.name=mnistt",
    "data.pool=5000",
    "model.name=mpl",
    "model.hidden=[0]",
    "acquisition.labels=301",
    "acquisition.initial_per_class=1000",
    "data.path=nowhere.csv",
]


@pytest.mark.parametrize("change", REFUSED)
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_refused_configuration_is_said_once_and_leaves_nothing(
    config_file, tmp_path, monkeypatch, capsys, change, jobs
):
    text = TINY.replace('name = "digits"\n', "") if change.startswith("data.path") else TINY
    config_file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        call(monkeypatch, "run", config_file, "-o", tmp_path / "runs", "--set", change, "--jobs", jobs)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("poolwise:") == 1
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_what_failed_before_its_first_round_does_not_block_the_corrected_run(config_file, tmp_path, monkeypatch):
    run = runs_of(read_config(config_file, ["training.steps=7"]), tmp_path)[0]

    def fails(*arguments, **named):
        raise TrainingError("no")

    with monkeypatch.context() as patch:
        patch.setattr("poolwise.posteriors.posterior.train", fails)
        with pytest.raises(TrainingError):
            execute(run)
    assert (run.folder / "run.json").exists()
    corrected = runs_of(read_config(config_file), tmp_path)[0]
    assert execute(corrected)[-1].labelled == 25
    assert json.loads((run.folder / "run.json").read_text())["config"]["training"]["steps"] == 15


def test_one_error_of_many_runs_is_said_once(config_file, tmp_path, monkeypatch, capsys):
    def fails(*arguments, **named):
        raise TrainingError("the loss is not finite.")

    monkeypatch.setattr("poolwise.posteriors.posterior.train", fails)
    with pytest.raises(SystemExit) as ended:
        call(monkeypatch, "run", config_file, "-o", tmp_path / "runs")
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("the loss is not finite.") == 1
    assert "4 of 4 runs (random, seed 0; power-lbb alpha=2.0, seed 0; random, seed 1; ...)" in error


def test_two_processes_cannot_work_on_one_run(config, tmp_path):
    run = runs_of(config, tmp_path)[0]
    seen = []

    def listener(entry):
        with pytest.raises(StateError, match="another process"):
            execute(run)
        seen.append(entry)

    execute(run, listener=listener)
    assert seen


def test_a_full_disk_is_said_and_nothing_is_lost(config, tmp_path, monkeypatch):
    whole, cut = (runs_of(config, tmp_path / name)[1] for name in ("whole", "cut"))
    execute(whole)
    fsync, count = os.fsync, 0

    def full(handle):
        nonlocal count
        count += 1
        if count >= 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(FileError, match="No space left"):
        execute(cut)
    monkeypatch.undo()
    execute(cut)
    assert without_times(cut.folder) == without_times(whole.folder)


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_records(config_file, tmp_path):
    config = read_config(config_file, ["seeds=1"])  # a run of each method
    for run in runs_of(config, tmp_path / "whole"):
        execute(run)
    command = ["-m", "poolwise", "run", config_file, "-o", tmp_path / "cut", "--set", "seeds=1"]
    kills, ended = 0, False
    while not ended:
        before = _progress(tmp_path / "cut")
        jobs = ["--jobs", "1" if kills else "2"]  # the first time, two other processes write
        with Program([*command, *jobs], stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:
                time.sleep(0.02)
                # Kill as soon as something new was written, and the second time a little later.
                if kills < 2 and _progress(tmp_path / "cut") > before:
                    time.sleep(0.1 * kills)
                    process.kill()
                    kills += 1
                    break
            ended = process.wait() == 0
        if ended and kills < 2:  # it was done before it could be killed, which is not this test
            shutil.rmtree(tmp_path / "cut")
            kills, ended = 0, False
    for run in runs_of(config, tmp_path / "whole"):
        other = tmp_path / "cut" / run.folder.relative_to(tmp_path / "whole")
        assert without_times(other) == without_times(run.folder)


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_no_process_behind(config_file, tmp_path):
    """One of its two processes has nothing left to do by then, the other is in the middle of a selection."""
    (tmp_path / "sleepy.py").write_text("import time\n\ndef pick(task):\n    time.sleep(600)\n")
    methods = 'acquisition.methods=["random", "sleepy:pick"]'
    command = ["-m", "poolwise", "run", config_file, "-o", "runs", "--set", "seeds=1", "--set", methods, "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with Program(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as process:
        random = runs_of(read_config(config_file, ["seeds=1"]), tmp_path / "runs")[0]
        wait_until(lambda: finished(random) or process.poll() is not None)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    wait_until(lambda: not _group_lives(process.pid), 60)


def _group_lives(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def _progress(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*.json*") if folder.exists() else ():
        with suppress(FileNotFoundError):  # files that are not finished come and go
            size += path.stat().st_size
    return size


@pytest.mark.thorough
def test_interrupted_from_the_keyboard_it_says_how_to_go_on(config_file, tmp_path):
    command = ["-m", "poolwise", "run", config_file, "-o", tmp_path / "runs", "--jobs", "2"]
    command += ["--set", "acquisition.labels=290"]  # far more than it does before it is stopped
    with Program(command, stderr=subprocess.PIPE, text=True) as process:
        while _progress(tmp_path / "runs") == 0:
            time.sleep(0.02)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 130
        assert "same command resumes" in process.stderr.read()


# Commands


def call(monkeypatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["poolwise", *map(str, arguments)])
    main()


def test_run_and_report_commands(config_file, tmp_path, monkeypatch, capsys, unrendered):
    with pytest.raises(SystemExit) as ended:
        call(monkeypatch, "run", config_file, "-o", tmp_path / "runs", "--set", "seeds=1")
    assert ended.value.code in (0, None)
    assert "[2/2]" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        call(monkeypatch, "report", tmp_path / "runs", "-o", tmp_path / "report")
    *verdicts, last = capsys.readouterr().out.splitlines()
    page = Path(last.removeprefix("The report is "))
    assert page.read_text().count("power-lbb alpha=2.0") > 1
    assert any(line.startswith("No verdict, with only one seed") for line in verdicts)


@pytest.mark.parametrize("change", ["data.name=mnistt", "model.name=mpl", "acquisition.batch_size=0"])
def test_bad_settings_end_with_one_message(config_file, run, change):
    message = run("run", config_file, "-o", "runs", "--set", change, "--quiet", code=2).err
    assert "poolwise:" in message
    assert "Traceback" not in message


def test_a_method_without_its_embeddings_is_said(config_file, tmp_path):
    lines = "\n".join(f'"{word} {word}",{label}' for label, word in enumerate(["ab", "cd", "ef"]) for _ in range(20))
    (tmp_path / "texts.csv").write_text("text,label\n" + lines + "\n")
    config_file.write_text(TINY.replace('name = "digits"', f'path = "{tmp_path / "texts.csv"}"'))
    config = read_config(config_file, ["data.pool=40", "data.test=12", "acquisition.labels=8"])
    with pytest.raises(ConfigError, match=r'mlp needs numbers.*data.encoder = "minilm".*"transformer"'):
        execute(runs_of(config, tmp_path / "runs")[0])


@pytest.mark.parametrize("classifier", ["logistic-regression", "random-forest"])
def test_committees_on_texts_and_on_numbers(config_file, tmp_path, classifier):
    lines = "\n".join(f'"{word} {n}",{label}' for label, word in enumerate(["ab", "cd", "ef"]) for n in range(20))
    (tmp_path / "texts.csv").write_text("text,label\n" + lines + "\n")
    changes = ["posterior.kind=committee", f"posterior.classifier={classifier}", 'acquisition.methods=["bald"]']
    numbers = read_config(config_file, [*changes, "acquisition.labels=15"])
    assert execute(runs_of(numbers, tmp_path / "numbers")[0])[-1].labelled == 15
    config_file.write_text(TINY.replace('name = "digits"', f'path = "{tmp_path / "texts.csv"}"'))
    texts = read_config(config_file, [*changes, "data.pool=40", "data.test=12", "acquisition.labels=13"])
    rounds = execute(runs_of(texts, tmp_path / "texts")[0])
    assert rounds[-1].metrics["accuracy"] > 0.5


def test_datasets_command_lists_all(run):
    output = run("datasets").out
    for name in ("mnist", "emnist", "cifar-100", "ag-news", "digits"):
        assert name in output
    assert "scikit-learn" in output


def test_every_configuration_of_the_project_is_valid():
    root = Path(__file__).parents[1]
    files = [*root.glob("configs/*.toml"), *root.glob("paper/configs/*/*.toml")]
    assert len(files) > 90
    for file in files:
        assert isinstance(read_config(file), Config)


def test_reports_name_what_was_left_out(config_file, tmp_path, monkeypatch, capsys, unrendered):
    config = read_config(config_file, ["seeds=1"])
    execute_all(config, tmp_path / "runs")
    damaged = runs_of(config, tmp_path / "runs")[1].folder / "rounds.jsonl"
    damaged.write_text("[]\n")
    with pytest.raises(SystemExit) as ended:
        call(monkeypatch, "report", tmp_path / "runs", "-o", tmp_path / "report")
    assert ended.value.code in (0, None)
    assert f"left out: {damaged} is damaged" in capsys.readouterr().err
    for accuracy in ("90", "0", "nan"):
        with pytest.raises(SystemExit) as ended:
            call(monkeypatch, "report", tmp_path / "runs", "-o", tmp_path / "report", "--accuracy", accuracy)
        assert ended.value.code == 2
        assert "--accuracy" in capsys.readouterr().err


def test_picked_texts_are_kept(config_file, tmp_path):
    lines = "\n".join(
        f'"{word} {n}  {"x" * n * 20}",{label}' for label, word in enumerate(["ab", "cd"]) for n in range(30)
    )
    (tmp_path / "texts.csv").write_text("text,label\n" + lines + "\n")
    config_file.write_text(TINY.replace('name = "digits"', f'path = "{tmp_path / "texts.csv"}"'))
    changes = ["posterior.kind=committee", "data.pool=40", "data.test=10", "acquisition.labels=12", "data.repeats=1"]
    run = runs_of(read_config(config_file, changes), tmp_path / "runs")[0]
    rounds = execute(run)
    kept = json.loads((run.folder / "texts.json").read_text())
    assert list(kept) == ["round-0", "round-1"]
    parts = split(run.config.data, 0)
    whole = parts.pool.batch(np.array(rounds[0].indices))
    assert len(kept["round-0"]) == 5
    for text, full in zip(kept["round-0"], whole, strict=True):
        assert len(text) <= 160
        assert " ".join(full.split()).startswith(text.rstrip("…"))


# Damage and absurd numbers


def test_a_damaged_run_folder_ends_in_the_right_records_or_in_a_message(config_file, tmp_path):
    small = ["seeds=1", 'acquisition.methods=["margin"]', "acquisition.labels=20", "training.steps=3"]
    config = read_config(config_file, [*small, "posterior.members=2", "data.pool=60", "data.test=50"])
    (run,) = runs_of(config, tmp_path)
    execute(run)
    right = without_times(run.folder)
    files = {path: path.read_bytes() for path in sorted(run.folder.rglob("*")) if path.is_file()}
    generator = np.random.default_rng(0)
    stopped = 0
    for path, whole in files.items():
        for number in range(14):
            _restore(files, run.folder)
            if number == 0:
                path.unlink()
            elif number == 1:
                path.unlink()
                path.mkdir()
            else:
                path.write_bytes(damage(whole, generator))
            try:
                (entry,) = execute_all(config, tmp_path)
                error = entry.error
            except StateError as caught:  # a setting in run.json is another one now
                error = str(caught)
            if error is not None:
                assert str(run.folder) in error
                stopped += 1
            elif "checkpoint" not in path.parts:
                assert without_times(run.folder) == right
    assert stopped


def _restore(files: dict[Path, bytes], folder: Path) -> None:
    shutil.rmtree(folder)
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


ABSURD = [
    "9" * 5000, "0x" + "f" * 5000, "1e400", "nan", "-inf", "-1", "0", "10000000000000", "1979-05-27", "07:32:00", "[]",
    "{}", "true", '""', '"x"', '"' + "9" * 5000 + '"', "[[[[]]]]", "[" * 5000, "[nan]", "[100000000000]",
    "{ a = { b = 1 } }", "[1979-05-27]",
]  # fmt: skip
SETTINGS = [
    "name", "seeds", "threads", "memory", "data", "data.name", "data.path", "data.size", "data.repeats", "data.noise",
    "data.pool", "data.validation", "data.test", "data.root", "model", "model.name", "model.hidden", "model.dropout",
    "model.glorot", "posterior.kind", "posterior.members", "posterior.samples", "training.steps", "training.batch_size",
    "training.learning_rate", "training.milestones", "training.class_weights", "training.weight_decay",
    "acquisition.methods", "acquisition.batch_size", "acquisition.labels", "acquisition.initial",
    "acquisition.initial_per_class",
]  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
def test_absurd_settings_end_in_one_message(config_file, setting, monkeypatch, tmp_path):
    """Everything up to the first training, which is what a run checks before it writes anything."""
    monkeypatch.chdir(tmp_path)
    for value in ABSURD:
        try:
            build_parts(read_config(config_file, [f"{setting}={value}"]), 0)
        except PoolwiseError as error:
            assert len(str(error)) < 1000  # noqa: PT017
    _only_if_plain(config_file, f"{setting}=10000000000000")


def _only_if_plain(config_file: Path, change: str) -> None:
    """The same through the file instead of the command line."""
    name, value = change.split("=")
    section, _, key = name.rpartition(".")
    text = f"[{section}]\n{key} = {value}\n" if section else f"{key} = {value}\n"
    lines = [line for line in TINY.splitlines() if not line.startswith((f"{key} =", "name ="))]
    config_file.write_text(text + "\n".join(lines))
    with pytest.raises(PoolwiseError):
        read_config(config_file)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("seeds=1000000000000", "at most 10,000 seeds"),
        ("threads=100000", "threads"),
        ("memory=" + "9" * 5000, "memory"),
        ("model.hidden=[100000000000]", r"\[model\]: mlp would take"),
        ("data.repeats=100000000000", r"data\.repeats"),
        ("posterior.members=100000000", r"posterior\.members"),
        ("posterior.samples=100000000", r"posterior\.samples"),
        ('acquisition.methods=[{name="lbb", candidates=1979-05-27}]', "candidates"),
        ('acquisition.methods=[{name="posterior-coverage", filter=1e308}]', r"acquisition\.methods\.filter: a number"),
        ("training.class_weights=[1.0]", r"training\.class_weights has 1"),
        ("model.dropout=1.0", r"\[model\]: dropout"),
        ("acquisition.initial_per_class=1000", r"acquisition\.initial_per_class"),
    ],
)
def test_absurd_numbers_are_refused_by_name(config_file, change, words):
    with pytest.raises(PoolwiseError, match=words):
        build_parts(read_config(config_file, [change]), 0)
