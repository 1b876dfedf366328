"""A pilot: an experiment on the part of a user's data that is labelled, with settings that suit most data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poolwise.arrays import Array
from poolwise.errors import ConfigError, ParameterError, PoolwiseError
from poolwise.experiments.config import Config
from poolwise.selection import registry

BASELINE = "random"
RIVALS = ("margin", "posterior-coverage")
"""Simple methods that the default method is compared with, beside random."""

SEEDS = 5
"""Seeds by default. Fewer are quicker and seldom enough to tell."""

# Of the labelled examples: how many may be asked for, at most, and the fewest that a pilot makes sense with.
_SHARE, _LEAST = 0.5, 60
# Examples kept for testing.
_TEST_SHARE = 0.3
# Rounds that a run is cut into if no batch size is given.
_ROUNDS = 10


@dataclass(frozen=True)
class PilotData:
    """What a pilot needs to know of the data, and of how they would be labelled.

    Attributes:
        where: what errors call the data.
        total: how many examples there are.
        counts_C: `[C]` how many of them have a label, by class.
        first: how the first batch is chosen.
        default: the method and its parameters, where the user names none.
        data: the section `[data]` of the experiment, without the size of the test set.
        posterior: the section `[posterior]`.
    """

    where: str
    total: int
    counts_C: Array
    first: str
    default: Mapping[str, Any]
    data: Mapping[str, Any]
    posterior: Mapping[str, Any]


def pilot_config(
    of: PilotData,
    *,
    name: str = "pilot",
    methods: Sequence[str] = (),
    batch_size: int | None = None,
    labels: int | None = None,
    seeds: int = SEEDS,
) -> Config:
    """The experiment of a pilot.

    Labelled examples are split once, three tenths for testing. Runs begin without labels. Those of the baseline draw
    all their labels at random; the others begin with the first batch that a project would begin with.

    Args:
        of: the data, and how they would be labelled.
        name: what the experiment is called.
        methods: which methods to compare with random; the default method, margin and posterior-coverage if none are
            named.
        batch_size: labels per round; a tenth of what may be asked for by default, at most 50.
        labels: labels at the end of a run; half of the labelled examples by default, at most 500.
        seeds: how many runs of each method.
    """
    known = int(of.counts_C.sum())
    if known < _LEAST:
        raise ConfigError(
            f"{of.where}: {known:,} of its {of.total:,} examples have a label, and a pilot needs {_LEAST} or more. "
            "Label more of them at random first; or name the column of labels with label=."
        )
    if (of.counts_C > 0).sum() < 2:
        raise ConfigError(f"{of.where}: all labels are of one class. A pilot needs two classes or more.")
    pool = known - round(_TEST_SHARE * known)
    most = labels or max(20, min(500, int(_SHARE * known)))
    if most >= pool:
        raise ConfigError(f"labels={most}: {pool:,} examples are left beside those for testing. Lower it.")
    size = batch_size or max(1, min(50, most // _ROUNDS))
    if size >= most:
        raise ConfigError(f"batch_size={size}: a run ends with {most:,} labels, so it has no second batch. Lower it.")
    return Config.model_validate(
        {
            "name": name,
            "seeds": seeds,
            "data": {"test_share": _TEST_SHARE, **of.data},
            "model": {"name": "mlp"},
            "posterior": dict(of.posterior),
            "acquisition": {
                "methods": _methods(of, methods),
                "first": of.first,
                "batch_size": size,
                "labels": most,
            },
        }
    )


def _methods(of: PilotData, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Random, which is random from the first label on, and the methods to compare with it."""
    for name in wanted:
        try:
            registry.find(name).check({})
        except PoolwiseError as error:
            raise ParameterError(f"methods={name}: {error}") from error
    default = dict(of.default)
    default["name"] = default["label"] = default.pop("method")
    named = [{"name": name} for name in dict.fromkeys(wanted) if name != BASELINE]
    chosen = named or [default, *({"name": name} for name in RIVALS)]
    return [{"name": BASELINE, "first": "random", "label": BASELINE}, *chosen]
