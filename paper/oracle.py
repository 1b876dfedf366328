"""How much room is left: the best of many batches, judged with true labels that no method has.

In every round there are several batches: random ones, or those that the methods of an experiment select. For each, the
model is trained with its labels added, and judged on one half of the test set; the best batch is taken. Accuracy is
reported on the other half, so that luck on the first does not count. It is no upper limit: the best of a few batches
is far from the best of all.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from paper.places import CONFIGS, RECORDS, must_exist
from poolwise.arrays import Array
from poolwise.data.examples import Subset
from poolwise.data.pool import Pool
from poolwise.experiments import Config, read_config
from poolwise.experiments.build import Split, posterior, split, start
from poolwise.experiments.records import RoundRecord, RunRecord, Setting, versions
from poolwise.learning.learner import ActiveLearner
from poolwise.metrics import evaluate
from poolwise.parallel import threads_an_operation
from poolwise.reports.archive import SUFFIX, read_archive, write_archive
from poolwise.seeding import child_seed, stream

NAME = "oracle"
EXPERIMENTS = ("texture-low", "20news-low")
"""Files of paper/configs/judging: small ones, since each round trains once per batch."""


METHODS = "best of the methods' batches"
"""The label of runs that judge what the methods select."""


def run_oracle(config: Config, seed: int, tries: int | None) -> RunRecord:
    """One run.

    Args:
        config: the experiment.
        seed: the same seed begins with the same pool and labels as the runs of methods.
        tries: how many random batches are judged in each round; with 1 it is random, measured on the same examples.
            None judges the batches that the methods of the experiment select.
    """
    with threads_an_operation(config.threads):
        data = split(config.data, seed)
        pool, model = start(config, data, seed), posterior(config, data, seed)
        order = stream(seed, "halves of the test set").permutation(len(data.test))
        judged, reported = (Subset(data.test, np.sort(half)) for half in np.array_split(order, 2))

        def accuracies(trial: Pool, number: int) -> tuple[float, float]:
            model.fit(trial.labelled_examples(), seed=number)
            return accuracy_on(judged), accuracy_on(reported)

        def accuracy_on(half: Subset) -> float:
            assert half.labels is not None, "an experiment has labels of its test examples"
            return evaluate(model.predict(half), half.labels)["accuracy"]

        rounds: list[RoundRecord] = []
        draw, accuracy = stream(seed, "batches of the oracle"), accuracies(pool, seed)[1]
        while True:
            labelled, size = len(pool.labelled), config.acquisition.batch_size
            left = min(size, config.acquisition.labels - labelled)
            began = time.perf_counter()
            found = []
            if left <= 0:
                batches: Iterable[Array] = ()
            elif tries is None:
                batches = selected(config, data, pool.labelled, left, child_seed(seed, "oracle", len(rounds)))
            else:
                batches = (draw.choice(pool.unlabelled, left, replace=False) for _ in range(tries))
            for batch in batches:
                trial = _labelled(data, np.concatenate([pool.labelled, np.sort(batch)]))
                found.append((accuracies(trial, seed), trial))
            seconds = {"select": time.perf_counter() - began}
            metrics = {"accuracy": accuracy}
            entry = RoundRecord(len(rounds), labelled, metrics, seconds, left, 0, left, None, final=left <= 0)
            rounds.append(entry)
            if left <= 0:
                break
            (_, accuracy), pool = max(found, key=lambda trial: trial[0][0])
    name = config.data.name or Path(config.data.path or "").name
    setting = Setting(config.name, name, config.posterior.kind, config.acquisition.batch_size)
    return RunRecord(Path(), setting, NAME, _label(tries), seed, versions(), tuple(rounds))


def _labelled(data: Split, positions: Array) -> Pool:
    """The pool with some of its labels."""
    pool = Pool(data.pool, data.classes)
    pool.label(positions, data.pool.labels[positions])  # type: ignore[index]
    return pool


def selected(config: Config, data: Split, labelled: Array, size: int, seed: int) -> Iterator[Array]:
    """The batch of each method of an experiment, from what is labelled so far."""
    for method in config.acquisition.methods:
        learner = ActiveLearner(
            posterior(config, data, seed), _labelled(data, labelled), method.name, size, seed=seed,
            features=method.features or config.acquisition.features, **method.parameters,
        )  # fmt: skip
        yield learner.query().indices


def _label(tries: int | None) -> str:
    if tries is None:
        return METHODS
    return "random" if tries == 1 else f"best of {tries} random batches"


def add_runs(seeds: int, tries: int) -> Path:
    """Run what is missing, and keep it in paper/records/oracle.csv.gz, run by run."""
    path = must_exist(RECORDS) / f"{NAME}{SUFFIX}"
    for seed, name, count in product(range(seeds), EXPERIMENTS, (1, tries, None)):
        runs = read_archive(path) if path.exists() else []
        config = read_config(must_exist(CONFIGS) / "judging" / f"{name}.toml")
        wanted = config.name, _label(count), seed
        if all((run.setting.experiment, run.label, run.seed) != wanted for run in runs):
            write_archive([*runs, replace(run_oracle(config, seed, count), folder=path)], path)
    return path
