"""From the description of an experiment to its parts: data, network, posterior."""

import copy
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from poolwise import data as sources
from poolwise import models
from poolwise.arrays import Array
from poolwise.data.encoding import ENCODED_LENGTH, default_cache, encoded
from poolwise.data.examples import Examples, Subset, TensorExamples, TextExamples
from poolwise.data.image_examples import EFFICIENTNET, encoded_images
from poolwise.data.patches import Patches
from poolwise.data.pool import Pool
from poolwise.data.repeats import Repeated
from poolwise.data.tokens import tokenise
from poolwise.errors import ConfigError
from poolwise.experiments.config import INITIAL_PER_CLASS, Config, DataConfig, ModelConfig
from poolwise.models.inputs import network_inputs
from poolwise.posteriors import Posterior, registry
from poolwise.progress import Report, silent
from poolwise.seeding import stream

PATCHES = "patches"
IMAGE_ENCODERS = (PATCHES, EFFICIENTNET)
"""The encoders of images, among those of texts."""


@dataclass(frozen=True)
class Split:
    """The data of one seed.

    Attributes:
        pool: what can be asked for.
        validation: examples for early stopping, or None.
        test: examples to judge on.
        origins: `[N]` for each example of the pool, its position in the training set before it was repeated.
        classes: the number of classes.
    """

    pool: Examples
    validation: Examples | None
    test: Examples
    origins: Array
    classes: int


@cache
def source(config: DataConfig, tokens: tuple[str, int] | None = None) -> tuple[Examples, Examples, int]:
    """Training set, test set and number of classes; read once per process.

    Args:
        config: which data.
        tokens: for texts that a transformer reads: its checkpoint, and how many tokens of a text are kept.
    """
    if tokens is None:
        return _read(config)
    train, test, classes = source(config)
    return tokenise(train, *tokens), tokenise(test, *tokens), classes


def _read(config: DataConfig) -> tuple[Examples, Examples, int]:
    if config.name is not None:
        loaded = sources.load(config.name, config.root, check=config.check, hub=config.hub)
        return _resized(loaded.train, config.size), _resized(loaded.test, config.size), len(loaded.class_names)
    opened = sources.open_data(config.path or "", size=config.size, **config.opening)
    examples, labels = opened.examples, opened.labels
    if config.labelled_only and labels is not None and (labels >= 0).any():
        kept = np.flatnonzero(labels >= 0)
        examples, labels = _labelled(examples, kept, labels), labels[kept]
    if labels is None or (labels < 0).any():
        without = len(opened) if labels is None else int((labels < 0).sum())
        column = "" if "label" in opened.columns else " Name the column of labels with data.label."
        raise ConfigError(
            f"data.path: {without:,} of the {len(opened):,} examples in {config.path} have no label. An experiment "
            f"needs all labels.{column if opened.columns else ''}"
        )
    order = stream(0, "test set").permutation(len(labels))
    count = round(config.test_share * len(labels))
    if not 0 < count < len(labels):
        raise ConfigError(
            f"data.test_share = {config.test_share:g} of {len(labels)} examples leaves {count} to test on and "
            f"{len(labels) - count} to train on. Change it, or use more data."
        )
    train, test = (_part(examples, np.sort(part)) for part in np.split(order, [-count]))
    return _resized(train, config.size), _resized(test, config.size), len(opened.class_names or np.unique(labels))


def _labelled(examples: Examples, kept_n: Array, labels_N: Array) -> Examples:
    """The examples that have a label, with their labels."""
    if len(kept_n) == len(examples):
        return examples
    if isinstance(examples, TensorExamples):
        part = examples.take(kept_n)
        part.labels = labels_N[kept_n]
        return part
    if not isinstance(examples, TextExamples):
        raise ConfigError("data.labelled_only is for texts, images and arrays. Give data of which all is labelled.")
    return TextExamples(examples.batch(kept_n), labels_N[kept_n], examples.class_names)


def _resized(examples: Examples, size: int | None) -> Examples:
    """Images averaged down to `size` pixels each way."""
    if size is None:
        return examples
    images = examples if isinstance(examples, TensorExamples) and examples.inputs.dtype == torch.uint8 else None
    if images is None or size > min(images.inputs.shape[2:]):
        raise ConfigError(
            f"data.size = {size} is for images that are at least {size} pixels high and wide. Lower it, or drop it."
        )
    small = copy.copy(images)
    small.inputs = F.adaptive_avg_pool2d(images.inputs.float(), size).round_().byte()
    return small


def split(config: DataConfig, seed: int, tokens: tuple[str, int] | None = None, report: Report = silent) -> Split:
    """The data of one seed: methods and posteriors on one seed get the same.

    The last one is remembered, since a process does the runs of a seed in a row.

    Args:
        config: which data.
        seed: where the draws come from.
        tokens: for texts that a transformer reads, see `source`.
        report: told about progress.
    """
    wanted = (config, seed, tokens)
    if wanted not in _remembered:
        made = _split(config, seed, tokens, report)
        _remembered.clear()
        _remembered[wanted] = made
    return _remembered[wanted]


_remembered: dict[object, Split] = {}


def forget() -> None:
    """Give back the memory of all data that were read."""
    source.cache_clear()
    _patches.cache_clear()
    _remembered.clear()


def _split(config: DataConfig, seed: int, tokens: tuple[str, int] | None, report: Report) -> Split:
    train, test, classes = source(config, tokens)
    ready = partial(_encoded, config, report)
    wanted = (config.pool or len(train) - config.validation) + config.validation
    if not config.validation < wanted <= len(train):
        raise ConfigError(
            f"data.pool + data.validation is {wanted}, but there are {len(train)} training examples. Lower one of them."
        )
    order = stream(seed, "pool").permutation(len(train))
    held, left = np.sort(order[: config.validation]), order[config.validation :]
    if config.imbalance > 1:
        left = _long_tail(config, left, train, classes, seed)
    kept = np.sort(left[: wanted - config.validation])
    pool = _part(train, kept)
    if config.repeats > 1 and config.encoder in IMAGE_ENCODERS:
        pool = _noisy_images(config, seed, _images(pool))
    pool = ready(pool)
    if len(pool) < config.repeats * len(kept):
        if not isinstance(pool, TensorExamples):
            raise ConfigError("data.repeats is for images and other numbers, and these examples are neither. Drop it.")
        pool = Repeated(pool, config.repeats, config.noise, seed)
    origins = np.tile(kept, config.repeats)
    judged = test if config.test is None else _part(test, stream(0, "test set").permutation(len(test))[: config.test])
    validation = ready(_part(train, held)) if len(held) else None
    return Split(pool, validation, ready(judged), origins, classes)


def _long_tail(config: DataConfig, order_n: Array, train: Examples, classes: int, seed: int) -> Array:
    """What is left of some training examples once class c keeps a share of `imbalance ** (-c / (C - 1))`."""
    assert train.labels is not None, "the training set of an experiment has labels"
    share_C = config.imbalance ** (-np.arange(classes) / max(classes - 1, 1))
    kept_n = stream(seed, "imbalance").random(len(order_n)) < share_C[train.labels[order_n]]
    left = order_n[kept_n]
    if config.pool is not None and len(left) < config.pool:
        raise ConfigError(
            f"data.imbalance = {config.imbalance:g} leaves {len(left)} examples, fewer than data.pool = {config.pool}. "
            "Lower one of them."
        )
    return left


def _part(examples: Examples, indices_n: Array) -> Examples:
    """Some of the examples; tensors are cut to size, so that the rest can be forgotten."""
    if isinstance(examples, TensorExamples) and len(indices_n) < len(examples):
        return examples.take(indices_n)
    return examples if len(indices_n) == len(examples) else Subset(examples, indices_n)


def _noisy_images(config: DataConfig, seed: int, images: TensorExamples) -> TensorExamples:
    """All copies as bytes, for features: those of a noisy image, not noisy features of an image."""
    noisy = Repeated(images, config.repeats, config.noise, seed)
    every = np.arange(len(noisy))
    copies = images.take(noisy.originals(every))
    for rows in np.split(every, config.repeats):
        shown = noisy.images(rows)
        assert shown is not None, "bytes are images"
        copies.inputs[torch.from_numpy(rows)] = torch.from_numpy(shown).permute(0, 3, 1, 2)
    return copies


def _encoded(config: DataConfig, report: Report, examples: Examples) -> Examples:
    """Embeddings in place of texts, or features in place of images, if there is an encoder."""
    if config.encoder is None:
        return examples
    if config.encoder == PATCHES:
        return _patches(config)(_images(examples))
    if config.encoder == EFFICIENTNET:
        return encoded_images(_images(examples), cache=default_cache(), report=report)
    length = config.encoder_length or ENCODED_LENGTH
    return encoded(examples, config.encoder, cache=default_cache(), max_length=length, report=report, progress=False)


@cache
def _patches(config: DataConfig) -> Patches:
    """Filters from the training set; made once a process."""
    return Patches(_images(source(config)[0]))


def _images(examples: Examples) -> TensorExamples:
    if not isinstance(examples, TensorExamples) or examples.inputs.dtype != torch.uint8:
        names = " and ".join(f'"{name}"' for name in IMAGE_ENCODERS)
        raise ConfigError(f"data.encoder: {names} are for images. Name a checkpoint for texts, or drop it.")
    return examples


def start(config: Config, parts: Split, seed: int) -> Pool:
    """The pool with its first labels; without any, if a method is to select the first batch."""
    pool, acquisition = Pool(parts.pool, parts.classes), config.acquisition
    if acquisition.first is not None:
        pass
    elif acquisition.initial is not None:
        pool.start_random(acquisition.initial, seed)
    else:
        pool.start_balanced(acquisition.initial_per_class or INITIAL_PER_CLASS, seed)
    if acquisition.labels > len(pool):
        raise ConfigError(
            f"acquisition.labels is {acquisition.labels}, but the pool has {len(pool)} examples. Lower it, or raise "
            "data.pool."
        )
    return pool


def posterior(config: Config, parts: Split, seed: int) -> Posterior:
    """The posterior, untrained."""
    batch = parts.pool.batch(np.arange(1))
    texts = isinstance(batch, list)

    def make_model() -> nn.Module:
        inputs = network_inputs(batch)
        if not isinstance(inputs, torch.Tensor):
            raise ConfigError(
                "the networks of an experiment take one tensor per example, and these examples have several."
            )
        return network(config.model, tuple(inputs.shape[1:]), parts.classes)

    kind = registry.find(config.posterior.kind)
    if kind.trains_networks:
        models.build(make_model, seed)  # a wrong name or size raises now, not after hours
    setting = registry.Setting(make_model, config.training, config.threads, seed, parts.classes, texts)
    return kind.build(setting, config.posterior.parameters)


def network(config: ModelConfig, shape: tuple[int, ...], classes: int) -> nn.Module:
    """A new network; its initial weights come from PyTorch's state."""
    made = models.make(config.name, shape, classes, **config.parameters)
    pretrained = isinstance(made, models.Transformer)  # which draws its new layers itself
    return models.glorot_(made, torch.default_generator) if config.glorot and not pretrained else made
