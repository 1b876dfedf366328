"""Two methods on many settings: paired by seed inside a setting, and by setting over all of them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import mean

import numpy as np

from poolwise.experiments.records import RunRecord, Setting
from poolwise.experiments.search import by_setting
from poolwise.reports.comparable import Comparable
from poolwise.reports.paired import CONFIDENCE, Difference, Verdict, difference, holm, interval
from poolwise.reports.tables import areas, finals

RANDOM = "random"
"""The method that all others are compared with."""


class Records:
    """All runs of the study, by setting."""

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        self.groups = {setting: Comparable(tuple(found)) for setting, found in by_setting(runs).items()}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The methods that every setting has."""
        by_setting = [set(group.runs) for group in self.groups.values()]
        return tuple(sorted(set.intersection(*by_setting))) if by_setting else ()

    def where(self, wanted: Callable[[Setting], bool]) -> "Records":
        """The settings for which something is true."""
        return Records(run for s, group in self.groups.items() if wanted(s) for run in group.everything)

    def means(self, setting: Setting, label: str) -> dict[int, float]:
        """Mean accuracy over the curve, by seed."""
        group = self.groups[setting]
        return areas(group, group.values(label, "accuracy"))

    def ends(self, setting: Setting, label: str) -> dict[int, float]:
        """Accuracy at the last number of labels, by seed."""
        return finals(self.groups[setting].values(label, "accuracy"))


def repeated(setting: Setting) -> bool:
    """Whether the pool holds noisy copies."""
    return setting.experiment.startswith("r") and not setting.experiment.startswith("r8")


def texts(setting: Setting) -> bool:
    """Whether the examples are texts."""
    return setting.data in ("ag-news", "banking77", "20news", "r8")


def dropout(setting: Setting) -> bool:
    """Whether the posterior is Monte Carlo dropout."""
    return setting.posterior == "mc-dropout"


@dataclass(frozen=True)
class Comparison:
    """A method against another over several settings.

    Attributes:
        overall: mean over the settings, with an interval from how the settings differ; `seeds` counts the settings.
        each: the difference in each setting, over its seeds.
    """

    overall: Difference
    each: Mapping[Setting, Difference]

    def count(self, verdict: Verdict) -> int:
        """In how many settings the seeds give a verdict."""
        return sum(found.verdict == verdict for found in self.each.values())

    @property
    def ahead(self) -> int:
        """In how many settings the mean difference is above 0."""
        return sum(found.mean > 0 for found in self.each.values())

    @property
    def by_data(self) -> Difference:
        """Mean over the data sets, the mean of whose settings each counts once; `seeds` counts the data sets."""
        data_sets = sorted({setting.data for setting in self.each})
        return _over([mean(found.mean for s, found in self.each.items() if s.data == data) for data in data_sets])


def versus(records: Records, first: str, second: str) -> Comparison:
    """The difference of mean accuracy over the curve, first less second, in the settings that have both."""
    both = [s for s, group in records.groups.items() if {first, second} <= group.runs.keys()]
    return compare({s: (records.means(s, first), records.means(s, second)) for s in both})


def told_apart(rows: Mapping[str, Comparison]) -> dict[str, Verdict]:
    """The verdict of each of several comparisons, once p-values are adjusted for their number."""
    adjusted = holm([row.overall.p_value for row in rows.values()])
    return {
        label: "within noise" if p >= 1 - CONFIDENCE else row.overall.verdict
        for (label, row), p in zip(rows.items(), adjusted, strict=True)
    }


def compare(pairs: Mapping[Setting, tuple[dict[int, float], dict[int, float]]]) -> Comparison:
    """Compare two numbers per seed in every setting.

    Settings are the units of the overall interval: seeds of one setting are alike, and counting them one by one would
    make the interval too narrow. Settings that share a data set are not independent either, so it is still optimistic.
    """
    each = {setting: difference(*pair) for setting, pair in pairs.items()}
    return Comparison(_over([found.mean for found in each.values()]), each)


def _over(means: Collection[float]) -> Difference:
    """The mean of several differences, with an interval from how they differ."""
    middle, low, high = (float(column[0]) for column in interval(np.array([*means]).reshape(-1, 1)))
    return Difference(middle, low, high, len(means))
