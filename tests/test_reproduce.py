"""Figures of the paper: every configuration is complete and used, and a command leads from it to the figure."""

import dataclasses
import inspect
import json
import re
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from paper import cost, experiments
from paper.command import main
from paper.draw import Drawn, draw
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
PAPER = sorted((CONFIGS / "paper").glob("*.toml"))
FIGURES = [target for target in TARGETS if target.kind != "table"]

# The paper's two batch sizes for every data set, and which sets are copies of which.
SIZES = {
    **dict.fromkeys(("mnist", "rmnist", "fmnist"), (10, 20)),
    **dict.fromkeys(("emnist", "kmnist", "svhn"), (50, 100)),
    **dict.fromkeys(("cifar-10", "cifar-100", "rcifar-10"), (100, 200)),
    "rcifar-100": (200, 500),
    "ag-news": (10, 50),
}
SOURCE = {"rmnist": "mnist", "fmnist": "fashion-mnist", "rcifar-10": "cifar-10", "rcifar-100": "cifar-100"}
NETWORK = {"emnist": "emnist-cnn", "svhn": "resnet-18", "ag-news": "transformer"}


def parts(name: str) -> tuple[str, str, int]:
    """Data, posterior and batch size in the name of an experiment."""
    found = re.fullmatch(r"figure-\d+[abc]?-(.+)-(ensemble|dropout)-(\d+)", name)
    assert found, name
    return found[1], found[2], int(found[3])


# Configurations


def test_files_and_targets_are_the_same_experiments():
    used = {name for target in FIGURES for name in target.experiments("paper")}
    assert used == {file.stem for file in PAPER}
    quick = {name for target in FIGURES for name in target.experiments("quick")}
    assert quick <= {file.stem for file in (CONFIGS / "quick").glob("*.toml")}


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
    assert config.acquisition.batch_size == batch_size
    assert config.posterior.kind == {"ensemble": "deep-ensemble", "dropout": "mc-dropout"}[posterior]
    assert config.posterior.members == 5
    network = "resnet-18" if "cifar" in data else NETWORK.get(data, "batchbald-cnn")
    assert config.model.name == network
    assert config.model.glorot == (network != "transformer")
    assert config.data.validation == (5000 if network == "resnet-18" else 0)
    if network == "resnet-18":
        augment = None if data == "svhn" else "crop-flip"
        assert config.training == dataclasses.replace(Training.resnet(), batch_size=50, augment=augment)
    elif network != "transformer":
        rates, drop = config.model.parameters["dropout"], config.model.parameters["drop"]
        if posterior == "dropout":
            assert (rates, drop) == (0.5, "channels")
        else:  # as the network of ensembles was released
            assert (set(rates[:-1]), rates[-1], drop) == ({0.25}, 0.5, "elements")
        assert (config.training.optimiser, config.training.learning_rate) == ("adam", 1e-3)
        assert posterior == "ensemble" or config.posterior.samples == 100


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
        # The evaluation changes no pick, and pairs are for the sum only.
        needless = {"evaluation"} | (set() if method.get("redundancy") == "sum" else {"pairs"})
        assert {"name", "label", *registry.find(method["name"]).parameters} - needless <= set(method)


@pytest.mark.parametrize("file", PAPER, ids=lambda file: file.stem)
def test_rounds_come_out_even(file):
    config = read_config(file)
    counts = list(cost._counts(config))
    assert set(np.diff(counts)) == {config.acquisition.batch_size}


@pytest.mark.parametrize("target", FIGURES, ids=lambda target: target.name)
def test_experiments_have_the_methods_that_a_figure_shows(target):
    for scale, missing in (("paper", {"batchbald"}), ("quick", {"power-bald-5", "power-lbb-printed"})):
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
    assert cost.hours([config], "quick") == pytest.approx(4 * cost.SECONDS_A_RUN / 3600)
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


def test_mistakes_are_said_in_one_line(configs, tmp_path, call):
    for arguments, words in (
        ((), "say what to reproduce"),
        (("figure-11",), "figure-10, table-1"),
        (("figure-1", "--configs", tmp_path / "none"), "name it with --configs"),
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
