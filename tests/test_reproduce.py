"""Figures of the paper: every configuration is complete and used, and a command leads from it to the figure."""

import dataclasses
import inspect
import json
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from paper import cost, experiments, figure_1c
from paper.command import main
from paper.draw import Drawn, curves_so_far, draw
from paper.targets import TARGETS, find_targets
from poolwise.data.specs import find_spec
from poolwise.errors import FileError, ParameterError
from poolwise.experiments import Config, read_config
from poolwise.experiments.build import split
from poolwise.experiments.config import DataConfig
from poolwise.experiments.records import RoundRecord, RunRecord, Setting
from poolwise.models.registry import _find
from poolwise.reports.comparable import Comparable
from poolwise.selection import registry
from poolwise.training import Training

CONFIGS = Path(__file__).parents[1] / "paper" / "configs"
PAPER, QUICK = (sorted((CONFIGS / scale).glob("*.toml")) for scale in ("paper", "quick"))
FIGURES = [target for target in TARGETS if target.kind != "table"]

# The paper's two batch sizes for every data set, and which sets are copies of which.
SIZES = {
    **dict.fromkeys(("mnist", "rmnist", "fmnist"), (10, 20)),
    **dict.fromkeys(("emnist", "kmnist", "svhn"), (50, 100)),
    **dict.fromkeys(("cifar-10", "cifar-100", "rcifar-10"), (100, 200)),
    "rcifar-100": (200, 500),
    "ag-news": (10, 50),
}
# Labels at the start and at the end where the authors' commands and notebooks have them; RCIFAR-100 and CIFAR-10 follow
# the data that is closest to them.
LABELS = {
    **dict.fromkeys(("mnist", "rmnist", "fmnist"), (20, 500)),
    **dict.fromkeys(("rcifar-10", "cifar-10"), (2_000, 10_000)),
    **dict.fromkeys(("rcifar-100", "cifar-100"), (5_000, 10_400)),
    "svhn": (200, 4_200),
}
SOURCE = {"rmnist": "mnist", "fmnist": "fashion-mnist", "rcifar-10": "cifar-10", "rcifar-100": "cifar-100"}
NETWORK = {"emnist": "emnist-cnn", "svhn": "resnet-18", "ag-news": "transformer"}


def parts(name: str) -> tuple[str, str, int]:
    """Data, posterior and batch size in the name of an experiment."""
    found = re.fullmatch(r"figure-\d+[abc]?-(.+?)(-exact)?-(ensemble|dropout)-(\d+)", name)
    assert found, name
    return found[1], found[3], int(found[4])


# Configurations


def test_files_and_targets_are_the_same_experiments():
    used = {name for target in FIGURES for name in target.experiments("paper")}
    assert used == {file.stem for file in PAPER}
    quick = {name for target in FIGURES for name in target.experiments("quick")}
    assert quick <= {file.stem for file in QUICK}


def test_the_paper_has_both_batch_sizes_of_every_data_set():
    found = {}
    for file in PAPER:
        data, posterior, batch_size = parts(file.stem)
        found.setdefault((data, posterior), set()).add(batch_size)
    assert {data for data, _ in found} == set(SIZES)
    for (data, _), sizes in found.items():
        assert sizes == set(SIZES[data]), data


@pytest.mark.parametrize("file", PAPER, ids=lambda file: file.stem)
def test_a_file_is_what_its_name_says_at_the_paper_s_settings(file):
    config = read_config(file)
    data, posterior, batch_size = parts(file.stem)
    assert config.name == file.stem
    assert config.seeds == (0, 1, 2, 3, 4)
    assert config.data.name == SOURCE.get(data, data)
    assert config.data.repeats == (4 if data.startswith("r") else 1)
    if data.startswith("r"):
        assert config.data.noise == (0.0 if "-exact-" in file.stem else 0.1)
    assert config.acquisition.batch_size == batch_size
    assert config.posterior.kind == {"ensemble": "deep-ensemble", "dropout": "mc-dropout"}[posterior]
    assert config.posterior.members == 5
    network = "resnet-18" if "cifar" in data else NETWORK.get(data, "batchbald-cnn")
    assert config.model.name == network
    assert config.model.glorot == (network != "transformer")
    assert config.data.validation == (5000 if network == "resnet-18" else 0)
    if network == "resnet-18":
        augment = None if data == "svhn" else "crop-flip"
        size = 100 if data == "rcifar-10" else 50  # as in the released command, and its default
        assert config.training == dataclasses.replace(Training.resnet(), batch_size=size, augment=augment)
        assert config.model.parameters["stem"] == "small"
    elif network != "transformer":
        rates, drop = config.model.parameters["dropout"], config.model.parameters["drop"]
        if posterior == "dropout":
            assert (rates, drop) == (0.5, "channels")
        else:  # as the network of ensembles was released
            assert (set(rates[:-1]), rates[-1], drop) == ({0.25}, 0.5, "elements")
        assert (config.training.optimiser, config.training.learning_rate) == ("adam", 1e-3)
        assert posterior == "ensemble" or config.posterior.samples == 100
    if data in LABELS:
        first, last = LABELS[data]
        assert config.acquisition.initial_per_class * find_spec(config.data.name).class_count == first
        assert last <= config.acquisition.labels <= last + 100
        assert f"{first:,} labels to {config.acquisition.labels:,} in" in file.read_text().splitlines()[0]
    for method in config.acquisition.methods:
        assert method.name != "batchbald" or method.parameters["configurations"] == 100_000


def test_repeated_data_is_there_with_noise_and_without():
    exact_files = [file for file in (*PAPER, *QUICK) if "-exact-" in file.stem]
    assert len(exact_files) == 8 + 6
    for file in exact_files:
        with_noise, exact = (
            tomllib.loads(path.read_text()) for path in (file.with_stem(file.stem.replace("-exact", "")), file)
        )
        assert (with_noise["data"].pop("noise"), exact["data"].pop("noise")) == (0.1, 0.0)
        assert {**with_noise, "name": ""} == {**exact, "name": ""}


@pytest.mark.parametrize("file", PAPER, ids=lambda file: file.stem)
def test_nothing_about_a_run_is_left_to_defaults(file):
    values, config = tomllib.loads(file.read_text()), read_config(file)
    count = find_spec(config.data.name).count
    assert {"name", "seeds", "threads", "memory"} <= set(values)
    data = {"name", "pool", "validation", "test", "repeats"} | ({"noise"} if config.data.repeats > 1 else set())
    assert data <= set(values["data"])
    assert config.data.pool + config.data.validation <= count[0]
    assert config.data.test == count[1]
    network = inspect.signature(_find(config.model.name)).parameters.values()
    assert {"name", "glorot", *(p.name for p in network if p.kind is p.KEYWORD_ONLY)} <= set(values["model"])
    assert {"kind", "members" if "ensemble" in file.stem else "samples", "warm_start"} <= set(values["posterior"])
    training = {"optimiser", "learning_rate", "weight_decay", "batch_size", "milestones", "label_smoothing"}
    training |= {"steps"} if config.training.steps else {"epochs", "min_steps"}
    training |= {"momentum", "gamma"} if config.training.optimiser == "sgd" else set()
    training |= {"monitor"} if config.data.validation else set()
    assert training <= set(values["training"])
    assert set(values["acquisition"]) == {"methods", "initial_per_class", "batch_size", "labels"}
    for method in values["acquisition"]["methods"]:
        # How gains are evaluated changes no pick, and pairs are for the sum only. Labelled points cover nothing unless
        # told to, and all targets are covered unless there is a sample, which no file here has: the runs were made
        # before there was a choice.
        needless = {"engine", "evaluation", "labelled", "sample"}
        needless |= set() if method.get("redundancy") == "sum" else {"pairs"}
        assert {"name", "label", *registry.find(method["name"]).parameters} - needless <= set(method)


@pytest.mark.parametrize("file", PAPER, ids=lambda file: file.stem)
def test_rounds_come_out_even(file):
    config = read_config(file)
    counts = list(cost._counts(config))
    assert set(np.diff(counts)) == {config.acquisition.batch_size}


@pytest.mark.parametrize("target", FIGURES, ids=lambda target: target.name)
def test_experiments_have_the_methods_that_a_figure_shows(target):
    for scale, missing in (("paper", {"batchbald"}), ("quick", {"power-lbb-printed"})):
        for name in target.experiments(scale):
            config = read_config(CONFIGS / scale / f"{name}.toml")
            assert set(target.methods) - missing <= {method.label for method in config.acquisition.methods}, name


def test_batchbald_is_where_the_paper_has_it():
    having = {file.stem for file in PAPER if '"batchbald"' in file.read_text()}
    assert {parts(name)[0] for name in having} == {"mnist", "fmnist", "ag-news"}
    assert len(having) == 10


def test_features_are_made_of_noisy_images_not_noise_added_to_features():
    plain, exact, noisy = (
        split(DataConfig(name="digits", encoder="patches", pool=60, test=10, repeats=repeats, noise=noise), 0)
        for repeats, noise in ((1, 0.0), (3, 0.0), (3, 0.1))
    )
    assert len(noisy.pool) == len(noisy.origins) == 180
    np.testing.assert_array_equal(noisy.pool.labels, np.tile(plain.pool.labels, 3))
    np.testing.assert_allclose(exact.pool.inputs, plain.pool.inputs.repeat(3, 1), atol=1e-5)
    moved = (noisy.pool.inputs - exact.pool.inputs).abs()
    assert moved.max() > 0.01
    # A little noise on pixels leaves a feature that is an average over patches almost where it was.
    assert moved.mean() < 0.3 * exact.pool.inputs.abs().mean()
    assert not noisy.pool.inputs[:60].equal(noisy.pool.inputs[60:120])


# Drawing


def fake(experiment: str, label: str, seed: int, accuracies: dict[int, float]) -> RunRecord:
    rounds = [
        RoundRecord(n, labelled, {"accuracy": accuracy}, {}, 0, 0, 0, None, n == len(accuracies) - 1)
        for n, (labelled, accuracy) in enumerate(accuracies.items())
    ]
    setting = Setting(experiment, "digits", "deep-ensemble", 10)
    return RunRecord(Path("none"), setting, label, label, seed, {}, tuple(rounds))


def group(experiment: str, ends: dict[str, float]) -> Comparable:
    return Comparable(
        tuple(
            fake(experiment, label, seed, {20: 0.5, 30: end + 0.02 * seed})
            for label, end in ends.items()
            for seed in (0, 1)
        )
    )


def test_curves_are_means_with_deviations_and_missing_panels_say_so(tmp_path):
    target = find_targets("figure-1")[0]
    ends = {"posterior-coverage": 0.8, "bald": 0.6, "random": 0.7}
    panels = [Drawn("one", "a", group("a", ends)), Drawn("two", "b", None), Drawn("three", "c", group("c", ends))]
    png, pdf, numbers = draw(target, panels, tmp_path / "new" / "figure-1-quick")
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert pdf.read_bytes()[:4] == b"%PDF"
    content = json.loads(numbers.read_text())
    assert content["not run"] == ["b"]
    assert [len(panel["curves"]) for panel in content["panels"]] == [3, 0, 3]
    first = content["panels"][0]["curves"]
    assert [curve["method"] for curve in first] == ["random", "bald", "posterior-coverage"]
    assert first[1]["labelled"] == [20, 30]
    np.testing.assert_allclose(first[1]["mean"], [0.5, 0.61])
    np.testing.assert_allclose(first[1]["sd"], [0, 0.02 / np.sqrt(2)], atol=1e-12)
    before = pdf.read_bytes()
    draw(target, panels, tmp_path / "new" / "figure-1-quick")
    assert pdf.read_bytes() == before


def test_profiles_are_over_all_experiments_that_were_run(tmp_path):
    target = find_targets("figure-10")[0]
    panels = [
        Drawn("one", "a", group("a", {"random": 0.7, "bald": 0.8})),
        Drawn("two", "b", group("b", {"random": 0.7, "bald": 0.4})),
        Drawn("three", "c", None),
    ]
    _, _, numbers = draw(target, panels, tmp_path / "figure-10-quick")
    content = json.loads(numbers.read_text())
    assert (content["experiments"], content["not run"]) == (["a", "b"], ["c"])
    shares = {profile["method"]: profile["share"] for profile in content["profiles"]}
    assert (shares["random"][0], shares["bald"][0]) == (0.5, 0.5)
    assert (shares["random"][-1], shares["bald"][-1]) == (1, 1)
    draw(target, [panels[2]], tmp_path / "none")
    assert json.loads((tmp_path / "none.json").read_text())["profiles"] == []


# Costs


def test_costs_are_counted_from_the_configuration():
    values = {
        "name": "x",
        "seeds": 2,
        "data": {"name": "mnist", "pool": 1000, "test": 500, "repeats": 2},
        "model": {"name": "batchbald-cnn"},
        "posterior": {"members": 5},
        "training": {"steps": 100},
        "acquisition": {"methods": ["random", "bald"], "initial": 20, "batch_size": 10, "labels": 40},
    }
    config = Config.model_validate(values)
    assert cost.runs([config, config]) == 8
    assert cost.hours([config], "quick") == pytest.approx(4 * cost.SECONDS_PER_RUN / 3600)
    each = 7.8e6 / 10e12
    expected = 3 * (5 * 100 * 0.002 + 5 * 2500 * each)
    assert cost.gpu_seconds(config) == pytest.approx(expected)
    assert cost.hours([config], "paper") == pytest.approx(4 * expected / 3600)
    values["data"]["validation"], values["training"] = 256, {"epochs": 2, "min_steps": 0, "batch_size": 10}
    looks = (4 + 6 + 8) / 20 * 5 * 256 * each
    steps = 5 * (4 + 6 + 8) * 0.002
    assert cost.gpu_seconds(Config.model_validate(values)) == pytest.approx(steps + looks + 3 * 5 * 2500 * each)


# The command

TINY = """
name = "NAME"
seeds = 2
[data]
name = "DATA"
pool = 200
test = 100
[model]
name = "mlp"
hidden = [8]
[posterior]
members = 2
[training]
steps = 5
[acquisition]
methods = ["random", "bald", "margin"]
initial_per_class = 1
batch_size = 5
labels = 15
"""


@pytest.fixture
def configs(tmp_path, monkeypatch):
    """Tiny experiments under the names of those of figures 1 and 3, on a machine without other data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("POOLWISE_DATA", raising=False)
    folder = tmp_path / "configs" / "quick"
    folder.mkdir(parents=True)
    for name in ("mnist-ensemble-10", "rmnist-ensemble-10", "fashion-mnist-ensemble-10", "ag-news-dropout-10"):
        data = "svhn" if name.startswith("rmnist") else "digits"
        (folder / f"{name}.toml").write_text(TINY.replace("NAME", name).replace("DATA", data))
    return folder.parent


@pytest.fixture
def call(run_main):
    """Run a command: its exit code, what it printed, and what it said."""
    return partial(run_main, main, "paper", code=None)


@pytest.mark.thorough
def test_from_configurations_to_a_figure_and_again(configs, tmp_path, call):
    arguments = ("figure-3", "--configs", configs, "-o", tmp_path / "runs")
    code, out, err = call(*arguments)
    assert code == 0, err
    files = [Path(line) for line in out.split()]
    assert [file.name for file in files] == ["figure-3-quick.png", "figure-3-quick.pdf", "figure-3-quick.json"]
    curves = json.loads(files[2].read_text())["panels"][0]["curves"]
    assert [(curve["method"], curve["seeds"]) for curve in curves] == [("random", 2), ("bald", 2)]
    assert curves[0]["labelled"] == [10, 15]
    records = sorted((tmp_path / "runs").rglob("rounds.jsonl"))
    assert len(records) == 6
    before = [record.stat().st_mtime_ns for record in records]
    code, out, err = call(*arguments)
    assert code == 0
    assert err.count("was finished before") == 6
    assert [record.stat().st_mtime_ns for record in records] == before


@pytest.mark.thorough
def test_missing_data_is_said_and_the_other_panels_are_drawn(configs, tmp_path, call):
    code, out, err = call("figure-1", "--configs", configs, "-o", tmp_path / "runs", "--seeds", 1, "-q")
    assert code == 2
    assert "rmnist-ensemble-10: svhn is not on this machine" in err
    assert "train_32x32.mat" in err
    assert "--set data.hub=true" in err
    assert len(err.splitlines()) == 1
    content = json.loads(Path(out.split()[-1]).read_text())
    assert content["not run"] == ["rmnist-ensemble-10"]
    assert [len(panel["curves"]) for panel in content["panels"]] == [2, 0, 2]


def test_what_fails_in_a_run_is_said_once(configs, tmp_path, call):
    code, _, err = call("figure-3", "--configs", configs, "-o", tmp_path / "runs", "-q", "--set", "data.pool=5000")
    assert code == 2
    assert err.count("data.pool + data.validation is 5000") == 1
    assert not list((tmp_path / "runs").rglob("run.json"))


def test_an_experiment_of_two_figures_is_run_once(configs, tmp_path, call, monkeypatch):
    monkeypatch.setattr("paper.command.find_targets", lambda name: [TARGETS[2], TARGETS[7]])
    code, out, err = call("all", "--configs", configs, "-o", tmp_path / "runs", "--seeds", 1)
    assert code == 0
    assert "figure-8-quick.png" in out
    assert err.count("experiment 1 of 1") == 1


def test_stopped_from_the_keyboard_it_says_how_to_go_on(configs, tmp_path, call, monkeypatch):
    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "execute_all", stopped)
    code, _, err = call("figure-3", "--configs", configs, "-o", tmp_path / "runs")
    assert code == 130
    assert "same command resumes" in err


@pytest.mark.parametrize("name", ["figure-3", "table-1", "table-2"])
def test_a_place_that_cannot_be_written_to_is_said_before_anything_is_run(configs, tmp_path, call, name):
    (tmp_path / "file").touch()
    code, out, err = call(name, "--configs", configs, "-o", tmp_path / "file" / "runs")
    assert (code, out) == (2, "")
    assert err.startswith("poolwise: cannot make the folder")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", ["table-1", "table-2"])
def test_tables_are_measured_by_their_own_module(tmp_path, call, monkeypatch, name):
    seen = []

    def measured(output, scale, show):
        seen.append((output, scale))
        show("measuring")
        return [output / "page.md"]

    monkeypatch.setattr(f"paper.timings.{name.replace('-', '_')}", measured)
    code, out, err = call(name, "--scale", "paper", "-o", tmp_path)
    assert code == 0
    assert seen == [(tmp_path / "results", "paper")]
    assert out.strip().endswith("page.md")
    assert "measuring" in err


def test_the_list_has_everything_with_its_cost(call):
    code, out, _ = call("--list")
    assert code == 0
    for target in TARGETS:
        assert f"\n{target.name} " in out
    assert "GPU hours" in out
    assert "TFLOP/s" in out
    assert call("figure-3", "--list")[1].count("figure-") == 2  # and once in the text below


def test_everything_has_a_command_with_its_own_help(call):
    code, out, _ = call("--help")
    assert code == 0
    for name in (*(target.name for target in TARGETS), "all", "figures", "collect", "study"):
        assert f" {name} " in out
    assert "MNIST, RMNIST, FMNIST: ensembles, batches of 10" in " ".join(call("figure-1", "--help")[1].split())
    assert call("study", "--help")[1].count("records") >= 2


@pytest.mark.thorough
def test_figures_can_be_drawn_from_the_records_of_the_repository(tmp_path, call):
    """Nothing is run; data that was not to be had is left out."""
    code, out, _ = call("figure-1", "--records", "-o", tmp_path, "-q")
    assert code == 0
    content = json.loads(Path(out.split()[-1]).read_text())
    assert content["not run"] == []
    assert all(len(panel["curves"]) > 8 for panel in content["panels"])
    code, out, _ = call("figure-2", "--records", "-o", tmp_path, "-q")
    assert code == 0
    content = json.loads(Path(out.split()[-1]).read_text())
    assert content["not run"] == []
    assert [panel["experiment"] for panel in content["panels"]] == ["rcifar-10-ensemble-10"]
    assert not list(tmp_path.rglob("run.json"))


def test_a_figure_says_which_panels_it_has_at_the_paper_s_scale_only(tmp_path, call):
    _, _, err = call("figure-2", "--records", "-o", tmp_path)
    assert "RCIFAR-100, SVHN: only with --scale paper" in " ".join(err.split())
    _, _, err = call("figure-1", "--records", "-o", tmp_path)
    assert "only with" not in err


def test_exact_copies_are_targets_of_their_own():
    assert find_targets("figure-2-exact")[0].experiments("paper") == [
        "figure-2a-rcifar-10-exact-ensemble-100",
        "figure-2b-rcifar-100-exact-ensemble-200",
    ]
    assert find_targets("figure-2-exact")[0].experiments("quick") == ["rcifar-10-exact-ensemble-10"]
    assert find_targets("figure-6-exact")[0].experiments("quick") == ["rmnist-exact-dropout-50"]
    assert sum("exact" in target.name for target in find_targets("all")) == 6
    profiles = find_targets("figure-10")[0]
    for scale in ("quick", "paper"):
        assert not any("exact" in name for name in profiles.experiments(scale)), "RMNIST would count twice"


def test_mistakes_are_said_in_one_line(configs, tmp_path, call):
    for arguments, words in (
        (("figure-11",), "table-1, table-2, all"),
        (("study", "collect", tmp_path, "figures"), "quick, ablation, coverage"),
        (("collect", tmp_path / "none"), "no such folder"),
        (("figure-1", "--configs", tmp_path / "none"), "name the folder with --configs"),
        (("figure-4", "--configs", configs), "mnist-dropout-10.toml"),
    ):
        code, _, err = call(*arguments)
        assert code == 2
        assert words in err
        assert "Traceback" not in err
    with pytest.raises(ParameterError):
        find_targets("figure")
    with pytest.raises(FileError):
        experiments.config_folder(tmp_path / "none")


def test_without_a_clone_of_the_repository_it_says_so(tmp_path, call, monkeypatch):
    for place in ("paper.experiments.CONFIGS", "paper.command.RECORDS", "paper.figure_1c.RECORDS"):
        monkeypatch.setattr(place, tmp_path / "none")
    for arguments in (("figure-1",), ("figure-1", "--records"), ("collect", tmp_path)):
        code, _, err = call(*arguments)
        assert code == 2
        assert "clone" in err
        assert len(err.splitlines()) == 1


def test_without_the_needed_packages_it_says_so(tmp_path):
    """As when Python is not that of the virtual environment."""
    repository = CONFIGS.parents[1]
    found = subprocess.run(
        [sys.executable, "-S", "-m", "paper", "--list"],
        cwd=repository, env={"PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 2
    assert "is not installed" in found.stderr
    assert "Traceback" not in found.stderr


# Figure 1 (c) at the paper's scale


@pytest.fixture
def records(tmp_path, monkeypatch):
    """Folders for records and pages, in place of those of the repository."""
    for name in ("RECORDS", "DOCS"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(figure_1c, name, tmp_path / name)
    return tmp_path


def write_run(folder: Path, label: str, seed: int, accuracies: dict[int, float], last: int = 500) -> None:
    """The records of a run, finished if it has the last number of labels."""
    place = folder / label / f"seed-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    about = {"experiment": figure_1c.EXPERIMENT, "data": "fashion-mnist", "posterior": "deep-ensemble"}
    about |= {"batch_size": 10, "method": label, "label": label, "seed": seed, "versions": {"poolwise": "1.0"}}
    (place / "run.json").write_text(json.dumps(about))
    rounds = [
        {"round": n, "labelled": count, "metrics": {"accuracy": value}, "final": count == last}
        for n, (count, value) in enumerate(accuracies.items())
    ]
    (place / "rounds.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rounds) + '{"round": ')


def test_records_of_unfinished_runs_are_collected_again_and_again(records, call):
    write_run(records / "runs", "random", 0, {20: 0.5, 500: 0.8})
    write_run(records / "runs", "lbb-released", 0, {20: 0.4})
    code, out, err = call("collect", records / "runs")
    assert code == 0, err
    archive, page, picture = (Path(line) for line in out.split())
    assert picture.read_bytes()[:4] == b"\x89PNG"
    text = page.read_text()
    assert "Finished runs: 1 of 75; under way: 1." in text
    assert "| `random` | random | 1 of 5 | 80.0 | 79.7 | +0.3 |" in text
    assert "| `lbb-released` | LBB | 0 of 5 | 40.0 (at 20) | 81.3 | – |" in text
    assert "| `batchbald` | BatchBALD | 0 of 5 | – | 77.5 | – |" in text
    assert "Here no seed of both is finished" in text
    assert "- Under way: `lbb-released` seed 0 at 20 labels." in text
    assert "`random` 1, 2, 3, 4" in text
    before = archive.read_bytes()

    write_run(records / "more", "lbb-released", 0, {20: 0.4, 300: 0.81, 500: 0.82})
    write_run(records / "more", "random", 1, {20: 0.6, 500: 0.7})
    assert call("collect", records / "more")[0] == 0
    text = page.read_text()
    assert "| `random` | random | 2 of 5 | 75.0 ± 7.1 | 79.7 | −4.7 |" in text
    assert "| `lbb-released` | LBB | 1 of 5 | 82.0 | 81.3 | +0.7 |" in text
    assert "| LBB as released, against random | 1 | +4.2 | +2.0 | one seed: no verdict |" in text
    assert "| LBB is better than BALD | 0 | – | – | not run |" in text
    assert "last below random at 20 labels, and below at 50% of the 2 counts" in text, "seed 0 alone, which both have"

    assert call("collect", records / "runs")[0] == 0, "an older state does not replace a newer one"
    assert page.read_text() == text
    assert archive.read_bytes() != before


def test_methods_of_the_paper_and_others_have_a_panel_each_and_one_colour_in_both(records, monkeypatch, call):
    for label in ("random", "bald", "power-lbb-released", "margin", "posterior-coverage"):
        write_run(records / "runs", label, 0, {20: 0.5, 500: 0.7})
    figures = []
    monkeypatch.setattr("paper.draw.curves_so_far", lambda *given: figures.append(curves_so_far(*given)) or figures[-1])
    assert call("collect", records / "runs")[0] == 0
    paper, others = figures[0].axes
    colours = [{line.get_label(): line.get_color() for line in axes.lines if "seed" in line.get_label()}
               for axes in (paper, others)]  # fmt: skip
    assert [*colours[0]] == ["random (1 seed)", "power-lbb-released (1 seed)", "bald (1 seed)"]
    assert [*colours[1]][2:] == ["posterior-coverage (1 seed)", "margin (1 seed)"]
    assert all(colours[0][label] == colours[1][label] for label in colours[0].keys() & colours[1].keys())
    assert len(set((colours[0] | colours[1]).values())) == 5
    diamonds = {line.get_color() for line in paper.lines if line.get_marker() == "D" and len(line.get_xdata())}
    assert set(colours[0].values()) < diamonds


def test_claims_are_judged_by_finished_runs_of_the_same_seeds(records, call):
    for seed in range(4):
        write_run(records / "runs", "bald", seed, {20: 0.5, 500: 0.7})
        write_run(records / "runs", "lbb-released", seed, {20: 0.5, 500: 0.8 + seed / 1000})
        write_run(records / "runs", "power-bald-5", seed, {20: 0.5, 500: 0.6 + seed / 1000})
        write_run(records / "runs", "batchbald", seed, {20: 0.5 + seed % 2 / 2, 500: 0.7})
        write_run(records / "runs", "random", seed, {20: 0.5, 500: 0.7 - seed / 10_000})
    write_run(records / "runs", "random", 4, {20: 0.9, 500: 0.9})  # of a seed that the others have not
    write_run(records / "runs", "bald", 4, {20: 0.1})  # not finished
    assert call("collect", records / "runs")[0] == 0
    text = (records / "DOCS" / "figure-1c.md").read_text()
    assert "| LBB is better than BALD | 4 | +5.1 [+5.0, +5.2], p < 0.001 | +10.2 [+9.9, +10.4] | holds |" in text
    assert (
        "| PBALD is better than BALD | 4 | −4.9 [−5.0, −4.8], p < 0.001 | −9.8 [−10.1, −9.6] | does not hold |" in text
    )
    assert "| BALD against random | 4 | 0.0 [0.0, 0.0], p 0.205 | 0.0 [0.0, 0.0] | inconclusive |" in text, "four seeds"
    assert "| BatchBALD against random | 4 | +12.5 [−10.5, +35.5], p 0.205 | 0.0 [0.0, 0.0] | inconclusive |" in text


def test_what_a_short_last_batch_costs_is_measured_beside_its_neighbours(records, call):
    level = {20: 0.5, 400: 0.60, 440: 0.70, 450: 0.72, 460: 0.76, 500: 0.8}  # 400 % 64 is 16, 450 % 64 is 2
    write_run(records / "runs", "random", 0, level)
    write_run(records / "runs", "bald", 0, level | {450: 0.70})
    write_run(records / "runs", "margin", 0, {20: 0.5, 450: 0.1})  # not finished
    assert call("collect", records / "runs")[0] == 0
    text = (records / "DOCS" / "figure-1c.md").read_text()
    assert "each step of training has 64 examples" in text
    assert "With 450 labels that is 2, and the accuracy there is −2.0 points from the mean of those at 440" in text


def test_runs_of_a_seed_that_begin_apart_are_named(records, call):
    write_run(records / "runs", "random", 0, {20: 0.5, 500: 0.8})
    write_run(records / "runs", "bald", 0, {20: 0.5, 500: 0.7})
    assert call("collect", records / "runs")[0] == 0
    page = records / "DOCS" / "figure-1c.md"
    assert "begin with the same accuracy" not in page.read_text()
    write_run(records / "runs", "random", 1, {20: 0.5, 500: 0.8})
    write_run(records / "runs", "bald", 1, {20: 0.53, 500: 0.7})
    assert call("collect", records / "runs")[0] == 0
    assert "runs of a seed differ by up to 3.0 (1) points" in page.read_text()


def test_two_seeds_give_no_verdict_however_close_they_are(records, call):
    for seed in range(2):
        write_run(records / "runs", "power-bald-5", seed, {20: 0.5, 500: 0.8})
        write_run(records / "runs", "random", seed, {20: 0.5, 500: 0.7 + seed / 10_000})
    assert call("collect", records / "runs")[0] == 0
    text = (records / "DOCS" / "figure-1c.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("| PBALD is better than random | 2 | +5.0 ["))
    assert row.endswith("| 2 seeds: no verdict |")


def test_a_folder_with_other_runs_is_refused(records, call):
    place = records / "runs"
    write_run(place, "random", 0, {20: 0.5})
    path = place / "random" / "seed-0" / "run.json"
    path.write_text(path.read_text().replace(figure_1c.EXPERIMENT, "another"))
    code, _, err = call("collect", place)
    assert code == 2
    assert "no runs of figure-1c" in err
    assert not list((records / "RECORDS").iterdir())
