"""Everything that a run is made of, built and checked before anything is written."""

import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from poolwise import models
from poolwise.data.pool import Pool
from poolwise.errors import ConfigError, ParameterError, PoolwiseError
from poolwise.experiments.build import Split, posterior, source, split, start
from poolwise.experiments.config import Config
from poolwise.models.inputs import network_inputs
from poolwise.posteriors import registry
from poolwise.posteriors.posterior import Posterior
from poolwise.progress import Report, silent

# Bytes that the bookkeeping of the pool takes per point: its origin, label and state.
_POINT_BYTES = 32
# Bytes per weight in training: the weight, its gradient and the optimiser's two averages.
_WEIGHT_BYTES = 16
# More members or samples than any posterior has use for.
_MOST_SAMPLES = 100_000
# Networks without weights of their own to count: those that are loaded from a checkpoint.
_LOADED = ("transformer",)


@dataclass(frozen=True)
class Parts:
    """What a run is made of.

    Attributes:
        split: its data.
        pool: the pool with its first labels.
        posterior: the posterior, untrained.
    """

    split: Split
    pool: Pool
    posterior: Posterior


def build_parts(config: Config, seed: int, report: Report = silent) -> Parts:
    """Read the data of a seed and build the posterior.

    Sizes that cannot fit this machine are refused before any memory is taken for them.

    Args:
        config: the experiment.
        seed: the seed.
        report: told about progress.
    """
    _check_counts(config)
    data = split(config.data, seed, config.model.tokens, report)
    with _naming("acquisition.initial_per_class" if config.acquisition.initial is None else "acquisition.initial"):
        pool = start(config, data, seed)
    _check_predictions(config, data)
    _check_class_weights(config, data)
    with _naming("[model]"):
        _check_network(config, data)
    with _naming("[posterior]"):
        return Parts(data, pool, posterior(config, data, seed))


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    """Put the name of a setting before an error about its value."""
    try:
        yield
    except ParameterError as error:
        raise ConfigError(f"{setting}: {error}") from error


def _check_counts(config: Config) -> None:
    """Check the sizes that are known before the data are split."""
    for name in ("members", "samples"):
        count = getattr(config.posterior, name, 1)
        if count > _MOST_SAMPLES:
            raise ConfigError(f"posterior.{name} must be at most {_MOST_SAMPLES:,}, not {count:,}.")
    data = config.data
    examples = len(source(data)[0])
    points = min(data.pool or examples, examples) * data.repeats
    if _POINT_BYTES * points > _memory():
        raise ConfigError(
            f"data.repeats = {data.repeats:,} makes a pool of {points:,} points, which needs more memory than the "
            f"{_gigabytes(_memory())} of this machine. Lower data.repeats or data.pool."
        )


def _check_predictions(config: Config, data: Split) -> None:
    """Check that predictions on the pool fit the memory, or the disk, where they go if they do not."""
    own = config.posterior.parameters
    count = own.get("members", 1) * own.get("samples", 1)
    needed = 4 * len(data.pool) * count * data.classes
    room = max(_memory(), shutil.disk_usage(tempfile.gettempdir()).free)
    if needed > room:
        raise ConfigError(
            f"predictions on {len(data.pool):,} points with {count:,} posterior samples and {data.classes:,} classes "
            f"take {_gigabytes(needed)}, and this machine has room for {_gigabytes(room)}. Lower posterior.members, "
            "posterior.samples, data.repeats or data.pool."
        )


def _check_class_weights(config: Config, data: Split) -> None:
    weights = config.training.class_weights
    if isinstance(weights, tuple) and len(weights) != data.classes:
        raise ConfigError(
            f"training.class_weights has {len(weights)} numbers, but there are {data.classes} classes. Give a weight "
            'per class, or "balanced".'
        )


def _check_network(config: Config, data: Split) -> None:
    """Check that the networks fit the memory, by building one without its weights."""
    kind = registry.find(config.posterior.kind)
    if not kind.trains_networks or config.model.name in _LOADED:
        return
    batch = data.pool.batch(np.arange(1))
    if isinstance(batch, list) and all(isinstance(item, str) for item in batch):
        raise ParameterError(
            f"{config.model.name} needs numbers, and the examples are texts. Encode them with data.encoder = "
            '"minilm", or choose model.name = "transformer", which reads texts.'
        )
    inputs = network_inputs(batch)
    if not isinstance(inputs, torch.Tensor):
        return
    shape = tuple(inputs.shape[1:])
    try:
        with torch.device("meta"):
            network = models.make(config.model.name, shape, data.classes, **config.model.parameters)
        weights = sum(math.prod(weight.shape) for weight in network.parameters())
    except PoolwiseError:
        raise
    except (RuntimeError, TypeError, ValueError, OverflowError, MemoryError) as error:
        reason = str(error).split("\n")[0]
        raise ParameterError(f"{config.model.name} cannot be built ({reason}). Check its sizes.") from error
    members = kind.cost(config.posterior.parameters).trainings
    if _WEIGHT_BYTES * weights * members > _memory():
        raise ParameterError(
            f"{config.model.name} has {weights:,} weights, and training {members:,} of it takes "
            f"{_gigabytes(_WEIGHT_BYTES * weights * members)}. This machine has {_gigabytes(_memory())}. Make the "
            "network smaller, or lower posterior.members."
        )


def _memory() -> int:
    """Bytes of memory of this machine; no limit where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:,.0f} GB" if count >= 1e10 else f"{count / 1e9:.1f} GB"
