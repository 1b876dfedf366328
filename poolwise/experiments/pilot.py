"""A pilot: an experiment on the part of a user's data that is labelled, with settings that suit most data."""

from pathlib import Path
from typing import Any

import numpy as np

from poolwise.data import open_data
from poolwise.errors import ConfigError
from poolwise.experiments.build import PATCHES
from poolwise.experiments.config import Config
from poolwise.selection import registry

BASELINE = "random"
SEEDS = 5
"""Seeds by default. Fewer are quicker and seldom enough to tell."""

# Of the labelled examples: how many may be asked for, at most, and the fewest that a pilot makes sense with.
_SHARE, _LEAST = 0.5, 60
# Examples kept for testing.
_TEST_SHARE = 0.3
# Rounds that a run is cut into if no batch size is given.
_ROUNDS = 10


def pilot_config(
    path: str | Path,
    *,
    name: str = "pilot",
    methods: tuple[str, ...] = (),
    batch_size: int | None = None,
    labels: int | None = None,
    seeds: int = SEEDS,
    encoder: str | None = None,
    **opening: Any,
) -> Config:
    """The experiment of a pilot.

    Labelled examples are split once, three tenths for testing. Runs begin with two labels of each class, or with a
    tenth of `labels` drawn at random if some class has too few. Texts without an encoder, and tables, get a committee
    of logistic regressions; images and embeddings an ensemble of small networks.

    Args:
        path: the data, see `poolwise.data.open_data`. Examples without a label are left out.
        name: what the experiment is called.
        methods: which methods to compare with random; the default method and margin if none are named.
        batch_size: labels per round; a tenth of what may be asked for by default, at most 50.
        labels: labels at the end of a run; half of the labelled examples by default, at most 500.
        seeds: how many runs of each method.
        encoder: for texts: a checkpoint that encodes them, such as `"minilm"`.
        opening: which columns to read, as in `open_data`.
    """
    opened = open_data(path, **opening)
    known = np.empty(0, np.int64) if opened.labels is None else opened.labels[opened.labels >= 0]
    if len(known) < _LEAST:
        raise ConfigError(
            f"{path}: {len(known):,} of its {len(opened):,} examples have a label, and a pilot needs {_LEAST} or more. "
            "Label more of them at random first; or name the column of labels."
        )
    counts_C = np.bincount(known, minlength=len(opened.class_names))
    if (counts_C > 0).sum() < 2:
        raise ConfigError(f"{path}: all labels are of one class. A pilot needs two classes or more.")
    pool = len(known) - round(_TEST_SHARE * len(known))
    most = labels or max(20, min(500, int(_SHARE * len(known))))
    if most >= pool:
        raise ConfigError(f"labels = {most:,}, but {pool:,} examples are left beside those for testing. Lower it.")
    # A class of fewer than 8 labels may have fewer than two left beside the test set.
    balanced = int(counts_C.min()) >= 8 and 2 * len(counts_C) <= most // 2
    start: dict[str, int] = {"initial_per_class": 2} if balanced else {"initial": max(10, most // 10)}
    first = 2 * len(counts_C) if balanced else start["initial"]
    if first >= most:
        raise ConfigError(f"labels = {most:,}, and runs begin with {first:,}. Raise it.")
    size = batch_size or max(1, min(50, (most - first) // _ROUNDS))
    chosen = dict.fromkeys((BASELINE, *(methods or (registry.DEFAULT, "margin"))))
    network = opened.kind == "images" or encoder is not None
    return Config.model_validate(
        {
            "name": name,
            "seeds": seeds,
            "data": {
                "path": str(path),
                "test_share": _TEST_SHARE,
                "labelled_only": True,
                "encoder": encoder or (PATCHES if opened.kind == "images" else None),
                **opening,
            },
            "model": {"name": "mlp", "hidden": [64], "dropout": 0.2},
            "posterior": {"kind": "deep-ensemble" if network else "committee", "members": 5},
            "training": {"steps": 100, "batch_size": 32, "learning_rate": 5e-3},
            "acquisition": {"methods": list(chosen), **start, "batch_size": size, "labels": most},
        }
    )
