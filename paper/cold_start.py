"""What a first batch is worth, selected by fixed features before there is a label or a model.

For each data set and seed, every method selects first batches of several sizes. An ensemble is trained on the labels of
each batch alone, and judged on the test set. A record has one entry per size. They are not rounds of a learning curve:
every batch is selected from the whole pool.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from paper.judging import JUDGING, tables
from paper.places import CONFIGS, RECORDS, must_exist
from poolwise.data.pool import Pool
from poolwise.experiments import Config, read_config
from poolwise.experiments.build import posterior, split
from poolwise.experiments.records import RoundRecord, RunRecord, Setting, versions
from poolwise.learning.learner import ActiveLearner
from poolwise.parallel import threads_an_operation
from poolwise.reports.archive import SUFFIX, read_archive, write_archive

NAME = "cold-start"
METHODS = ("random", "max-herding", "typiclust", "k-means", "coreset", "prob-cover")
SIZES = (10, 20, 50, 100)
POOL, TEST = 2_000, 1_000

# Files of paper/configs with the data and the model. Those of judging are named after the budget too.
TABLES = sorted(tables(JUDGING))
DATA: Mapping[str, str] = {
    **{name: f"judging/{name}-low" for name in ("20news", "ag-news", "mnist", *TABLES)},
    **{name: f"{NAME}/{name}" for name in ("banking77", "cifar-10", "fashion-mnist", "r8")},
}


def configuration(name: str) -> Config:
    """Data and model of a data set, with a small pool."""
    config = read_config(must_exist(CONFIGS) / f"{DATA[name]}.toml")
    test = {} if config.data.path else {"test": TEST}
    return config.model_copy(update={"data": config.data.model_copy(update={"pool": POOL, **test})})


def first_batches(config: Config, data: str, seed: int, method: str, sizes: Sequence[int] = SIZES) -> RunRecord:
    """First batches of one method.

    Args:
        config: data and model; its methods and numbers of labels are not used.
        data: what to call the data.
        seed: all methods of a seed get the same pool and test set, and train from the same initial weights.
        method: which selects the batch, as `first` of a learner.
        sizes: of the batches.
    """
    parts = split(config.data, seed)
    labels = parts.pool.labels
    assert labels is not None, "an experiment has labels"
    entries = []
    with threads_an_operation(config.threads):
        for number, size in enumerate(sizes):
            learner = ActiveLearner(
                posterior(config, parts, seed),
                Pool(parts.pool, parts.classes),
                "random",
                size,
                seed=seed,
                test=parts.test,
                features="fixed",
                first=method,
            )
            batch = learner.query().indices
            learner.update(batch, labels[batch])
            trained = learner.fit()
            seconds = {"select": learner.rounds[0].seconds["select"], "train": trained.seconds["train"]}
            classes = len(np.unique(labels[batch]))
            entries.append(
                RoundRecord(number, size, trained.metrics or {}, seconds, size, classes, size, None, size == sizes[-1])
            )
    setting = Setting(f"{NAME}-{data}", data, config.posterior.kind, sizes[-1])
    return RunRecord(Path(), setting, method, method, seed, versions(), tuple(entries))


def add_runs(seeds: int, names: Sequence[str] = (), say: Callable[[str], None] = lambda text: None) -> Path:
    """Run what is missing, all methods of a data set and seed together, and keep it in paper/records.

    Args:
        seeds: how many.
        names: which data sets; all by default.
        say: told what has been done.
    """
    path = must_exist(RECORDS) / f"{NAME}{SUFFIX}"
    for seed in range(seeds):
        for name in names or DATA:
            runs = read_archive(path) if path.exists() else []
            if any(run.setting.data == name and run.seed == seed for run in runs):
                continue
            config = configuration(name)
            made = [first_batches(config, name, seed, method) for method in METHODS]
            write_archive([*runs, *made], path)
            say(f"{name}, seed {seed}")
    return path
