"""What experiments cost, before they are run.

At quick scale, a run takes the mean time of runs that were measured on one core. At paper scale, operations are counted
from the configuration, for an assumed graphics card. Both are rough. Neither counts the reading of data, and the second
leaves out the selection of batches, which is done on the processor.
"""

import math
from collections.abc import Iterable, Iterator

from paper.targets import Scale
from poolwise.data.specs import find_spec
from poolwise.experiments import Config
from poolwise.posteriors import registry

# The mean of 170 runs of five experiments of paper/configs/quick on one core of an AMD EPYC; their own means are 2.4 to
# 5.6.
SECONDS_PER_RUN = 4.0

# Multiplications and additions of one example on its way forward. Those of the transformer are of DistilBERT's six
# layers on a text of 64 tokens, about the mean of AG News.
_OPERATIONS = {
    "batchbald-cnn": 2 * 3.9e6,
    "emnist-cnn": 2 * 9.4e6,
    "resnet-18": 2 * 556e6,
    "transformer": 2 * 64 * 43e6,
}

# The assumed graphics card: operations per second in practice, and the least time of a training step, however small
# the network.
_SPEED, _STEP = 10e12, 0.002

# A training step is one forward pass and one backward pass, which costs twice as much.
_TRAINING = 3

ASSUMPTIONS = (
    f"Quick: about {SECONDS_PER_RUN:g} s per run on one core, as measured on an AMD EPYC; --jobs divides it. Paper: "
    f"counted from each configuration, for one GPU that does {_SPEED / 1e12:g} TFLOP/s in practice and no training "
    f"step in less than {1000 * _STEP:g} ms, one run after another."
)


def runs(configs: Iterable[Config]) -> int:
    """How many runs experiments have."""
    return sum(len(config.seeds) * len(config.acquisition.methods) for config in configs)


def hours(configs: Iterable[Config], scale: Scale) -> float:
    """Hours on one core (quick) or one graphics card (paper)."""
    configs = list(configs)
    if scale == "quick":
        return runs(configs) * SECONDS_PER_RUN / 3600
    return sum(runs([config]) * gpu_seconds(config) for config in configs) / 3600


def gpu_seconds(config: Config) -> float:
    """Training and prediction of one run on the assumed graphics card."""
    training, data = config.training, config.data
    posterior = registry.find(config.posterior.kind).cost(config.posterior.parameters)
    each = _OPERATIONS.get(config.model.name, 0.0) / _SPEED
    predicted = posterior.passes * ((data.pool or 0) * data.repeats + (data.test or 0))
    total = 0.0
    for labelled in _counts(config):
        an_epoch = math.ceil(labelled / training.batch_size)
        steps = training.steps or max(training.epochs * an_epoch, training.min_steps)
        validations = steps / (training.validate_every or max(20, an_epoch)) if data.validation else 0
        step = max(_STEP, _TRAINING * min(labelled, training.batch_size) * each)
        total += posterior.trainings * (steps * step + validations * data.validation * each) + predicted * each
    return total


def _counts(config: Config) -> Iterator[int]:
    """The numbers of labels at which a network is trained."""
    wanted = config.acquisition
    labelled = wanted.initial or 2
    if wanted.initial is None and config.data.name is not None:
        labelled = (wanted.initial_per_class or 2) * find_spec(config.data.name).class_count
    while labelled < wanted.labels:
        yield labelled
        labelled += wanted.batch_size
    yield wanted.labels
