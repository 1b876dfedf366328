"""Experiments: which features methods get, and runs that start without labels."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_experiments import TINY, without_times

from poolwise.errors import ConfigError, StateError
from poolwise.experiments import execute, execute_all, read_config, runs_of
from poolwise.experiments.records import read_run
from poolwise.reports.report import write_report

SMALL = (
    TINY.replace("initial_per_class = 1\n", "")
    .replace('"random", { name = "power-lbb", alpha = 2.0 }', '"margin"')
    .replace("seeds = 2", "seeds = 1")
)


def halves(inputs):
    """Features of the left half of a digit."""
    return inputs[..., :4].reshape(len(inputs), -1)


@pytest.fixture
def configure(tmp_path):
    def make(*changes, text=SMALL):
        path = tmp_path / "tiny.toml"
        path.write_text(text)
        return read_config(path, changes)

    return make


def test_a_run_may_start_without_labels(configure, tmp_path):
    config = configure("acquisition.first=coreset", "acquisition.labels=15")
    (run,) = runs_of(config, tmp_path)
    rounds = execute(run)
    assert [(entry.labelled, entry.origin) for entry in rounds] == [
        (0, "first"),
        (5, "method"),
        (10, "method"),
        (15, "method"),
    ]
    record = read_run(run.folder)
    assert record.start == "no labels; coreset chooses the first batch"
    assert not record.rounds[0].at_random
    assert without_times(run.folder)[0]["diagnostics"]["features"] == "fixed"
    assert json.loads((run.folder / "run.json").read_text())["config"]["acquisition"]["first"] == "coreset"


def test_such_runs_have_a_report(configure, tmp_path, unrendered):
    config = configure('acquisition.methods=["random", "margin"]', "acquisition.first=coreset", "seeds=2")
    execute_all(config, tmp_path / "runs")
    write_report(tmp_path / "runs", tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text()
    assert "no labels; coreset chooses the first batch" in page
    assert "nan" not in page.lower().replace("finance", "")


@pytest.mark.parametrize(
    ("features", "words"),
    [("fixed", "fixed"), ("network", "network"), ("test_experiment_features:halves", "function")],
)
def test_methods_get_the_features_that_are_asked_for(features, words, configure, tmp_path):
    config = configure('acquisition.methods=["coreset"]', f"acquisition.features={features}", "acquisition.labels=30")
    (run,) = runs_of(config, tmp_path)
    execute(run)
    assert without_times(run.folder)[0]["diagnostics"]["features"] == words


def test_a_method_may_have_its_own(configure, tmp_path):
    methods = 'acquisition.methods=["coreset", { name = "coreset", features = "fixed" }]'
    config = configure(methods, "acquisition.features=network", "acquisition.labels=30")
    assert [method.label for method in config.acquisition.methods] == ["coreset", "coreset features=fixed"]
    runs = runs_of(config, tmp_path)
    for run in runs:
        execute(run)
    found = [without_times(run.folder)[0] for run in runs]
    assert [entry["diagnostics"]["features"] for entry in found] == ["network", "fixed"]
    assert found[0]["indices"] != found[1]["indices"]


def test_an_interrupted_run_gives_the_same_records(configure, tmp_path):
    changes = ('acquisition.methods=["coreset"]', "acquisition.first=coreset", "acquisition.labels=15", 'memory="20KB"')
    config = configure(*changes, "acquisition.features=test_experiment_features:halves")
    (whole,), (stopped,) = runs_of(config, tmp_path / "a"), runs_of(config, tmp_path / "b")
    execute(whole)

    class Stop(Exception):
        pass

    def stop(entry):
        raise Stop

    for _ in range(3):
        with pytest.raises(Stop):
            execute(stopped, listener=stop)
        (stopped.folder / "checkpoint" / "features.npy").unlink(missing_ok=True)
    execute(stopped)
    assert without_times(stopped.folder) == without_times(whole.folder)
    assert np.load(stopped.folder / "checkpoint" / "features.npy").shape == (300, 32)


@pytest.mark.parametrize(("change", "name"), [("features=fixed", "features"), ("first=coreset", "first")])
def test_another_choice_is_another_run(change, name, configure, tmp_path):
    execute_all(configure(), tmp_path)
    with pytest.raises(StateError, match=f"acquisition.{name} is None there"):
        execute_all(configure(f"acquisition.{change}"), tmp_path)


def test_runs_from_before_are_taken_up(configure, tmp_path):
    config = configure()
    (run,) = runs_of(config, tmp_path)
    execute(run)
    path: Path = run.folder / "run.json"
    content = json.loads(path.read_text())
    for name in ("features", "first"):
        del content["config"]["acquisition"][name]
    del content["config"]["acquisition"]["methods"][0]["features"]
    path.write_text(json.dumps(content))
    (progress,) = execute_all(config, tmp_path)
    assert progress.done


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["acquisition.first=bald"], "needs predictions"),
        (["acquisition.first=nope"], "nope"),
        (["acquisition.first=coreset", "acquisition.initial=5"], "drop initial_per_class and initial"),
        (["acquisition.features=fixd"], "'fixd'"),
        (['acquisition.methods=[{ name = "coreset", features = "fixd" }]'], "'fixd'"),
    ],
)
def test_mistakes_are_named(changes, message, configure):
    with pytest.raises(ConfigError, match=message):
        configure(*changes)


def test_test_accuracy_may_be_measured_with_fewer_samples(configure, tmp_path):
    accuracies = {}
    for samples in ("1", "2"):
        changes = ("posterior.members=2", "acquisition.labels=15", "acquisition.initial_per_class=1")
        config = configure(f"test_samples={samples}", f"name=with-{samples}", *changes)
        (run,) = runs_of(config, tmp_path)
        rounds = execute(run)
        accuracies[samples] = [entry.metrics["nll"] for entry in rounds]
        picks = rounds[0].indices
        assert accuracies.setdefault("picks", picks) == picks
    assert accuracies["1"] != accuracies["2"]
