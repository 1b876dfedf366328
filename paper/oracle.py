"""How much room is left: the best of many random batches, judged with true labels that no method has.

In every round, random batches are drawn. For each, the model is trained with its labels added, and judged on one half
of the test set; the best batch is taken. Accuracy is reported on the other half, so that luck on the first does not
count. It is no upper limit: the best of a few batches is far from the best of all.
"""

import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from paper.places import CONFIGS, RECORDS, must_exist
from poolwise.data.examples import Subset
from poolwise.data.pool import Pool
from poolwise.experiments import Config, read_config
from poolwise.experiments.build import posterior, split, start
from poolwise.experiments.records import RoundRecord, RunRecord, Setting, versions
from poolwise.metrics import evaluate
from poolwise.parallel import threads_an_operation
from poolwise.reports.archive import SUFFIX, read_archive, write_archive
from poolwise.seeding import stream

NAME = "oracle"
EXPERIMENTS = ("texture-low", "20news-low")
"""Files of paper/configs/judging: small ones, since each round trains once per batch."""


def run_oracle(config: Config, seed: int, tries: int) -> RunRecord:
    """One run.

    Args:
        config: the experiment; its methods are not used.
        seed: the same seed begins with the same pool and labels as the runs of methods.
        tries: how many random batches are judged in each round; with 1 it is random, measured on the same examples.
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
            for _ in range(tries if left > 0 else 0):
                batch = np.sort(draw.choice(pool.unlabelled, left, replace=False))
                trial = Pool(data.pool, data.classes)
                positions = np.concatenate([pool.labelled, batch])
                trial.label(positions, data.pool.labels[positions])  # type: ignore[index]
                found.append((accuracies(trial, seed), batch, trial))
            seconds = {"select": time.perf_counter() - began}
            metrics = {"accuracy": accuracy}
            entry = RoundRecord(len(rounds), labelled, metrics, seconds, left, 0, left, None, final=left <= 0)
            rounds.append(entry)
            if left <= 0:
                break
            (_, accuracy), _, pool = max(found, key=lambda trial: trial[0][0])
    name = config.data.name or Path(config.data.path or "").name
    setting = Setting(config.name, name, config.posterior.kind, config.acquisition.batch_size)
    return RunRecord(Path(), setting, NAME, _label(tries), seed, versions(), tuple(rounds))


def _label(tries: int) -> str:
    return "random" if tries == 1 else f"best of {tries} random batches"


def add_runs(seeds: int, tries: int) -> Path:
    """Run what is missing, and keep it in paper/records/oracle.csv.gz, run by run."""
    path = must_exist(RECORDS) / f"{NAME}{SUFFIX}"
    for seed, name, count in product(range(seeds), EXPERIMENTS, (1, tries)):
        runs = read_archive(path) if path.exists() else []
        config = read_config(must_exist(CONFIGS) / "judging" / f"{name}.toml")
        wanted = config.name, _label(count), seed
        if all((run.setting.experiment, run.label, run.seed) != wanted for run in runs):
            write_archive([*runs, replace(run_oracle(config, seed, count), folder=path)], path)
    return path
