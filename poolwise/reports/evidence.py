"""What the study measured, as `evidence.json` has it: `python -m paper study page` writes that, `advice` reads it."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

EVIDENCE = "evidence.json"
SMALL_BATCH, LARGE_BATCH, FEW_CLASSES = 20, 100, 20
"""Up to these, a batch counts as small or as large, and classes as few; a batch above the second as very large."""

VERY_LARGE = "very large batches"
"""The condition with batches above `LARGE_BATCH`."""

BUDGETS = ("low", "middle", "high")
"""The conditions on fixed features: labels and batch size grow together."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Scope(NamedTuple):
    """What the settings of a condition were like; empty where that is not known.

    Attributes:
        section: the heading of docs/results.md that has the numbers.
        kinds: `"texts"`, `"images"` or `"tables"` by data set.
        classes: how many classes by data set.
        batches: the batch sizes.
        labels: the fewest labels at the start of a run, and the most at its end.
        pools: how many points there were to select from.
        samples: K, how many posterior samples.
    """

    section: str = ""
    kinds: Mapping[str, str] = _NOTHING
    classes: Mapping[str, int] = _NOTHING
    batches: Sequence[int] = ()
    labels: Sequence[int] = ()
    pools: Sequence[int] = ()
    samples: Sequence[int] = ()


class Row(NamedTuple):
    """What the study measured of a method under some conditions.

    Attributes:
        features: `"fixed"` if networks were trained on fixed features that methods got too, else `"network"`.
        condition: `"all"`; with features of the network also `"small batches"`, `"large batches"`, `VERY_LARGE`,
            `"few classes"` or `"many classes"`; with fixed features one of `BUDGETS`.
        method: the method.
        saved: share of labels saved against random, mean over the data sets.
        low: lower end of its interval over the data sets; None with fewer than two.
        high: upper end.
        verdict: whether it is better than random over the curve, adjusted for the number of methods.
        data_sets: how many data sets.
        settings: how many settings.
        worse: in how many settings it is worse than random, by the seeds of each.
        seconds: mean time of a selection.
        better: in how many settings it is better than random, by the seeds of each.
        label: what the study calls the method with its parameters; empty if that is its name.
        parameters: those that make it another rule than its defaults.
        each: share of labels saved by data set, by which two methods are compared.
        scope: what the settings were like.
    """

    features: str
    condition: str
    method: str
    saved: float
    low: float | None
    high: float | None
    verdict: str
    data_sets: int
    settings: int
    worse: int
    seconds: float
    better: int = 0
    label: str = ""
    parameters: Mapping[str, Any] = _NOTHING
    each: Mapping[str, float] = _NOTHING
    scope: Scope = Scope()

    @property
    def name(self) -> str:
        """What the study calls it."""
        return self.label or self.method


class First(NamedTuple):
    """What the study measured of a first batch, selected by fixed features before anything is labelled.

    Attributes:
        kind: of the data, `"texts and images"` or `"tables"`.
        method: the method.
        points: accuracy above that after a random first batch, as a share, mean over the data sets.
        low: lower end of its interval over the data sets; None with fewer than two.
        high: upper end.
        verdict: adjusted for the number of methods.
        data_sets: how many data sets.
        worse: the same difference on data sets where it is clearly below 0, by the seeds of each.
    """

    kind: str
    method: str
    points: float
    low: float | None
    high: float | None
    verdict: str
    data_sets: int
    worse: Mapping[str, float] = _NOTHING


@cache
def evidence() -> tuple[Row, ...]:
    """All that the study measured of methods."""
    return tuple(
        Row(group["features"], group["condition"], scope=Scope(**group["scope"]), **row)
        for group in _content()["groups"]
        for row in group["rows"]
    )


@cache
def first_batches() -> tuple[First, ...]:
    """All that the study measured of first batches."""
    return tuple(First(**row) for row in _content()["first batches"])


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((files("poolwise.reports") / EVIDENCE).read_text())
    return content
