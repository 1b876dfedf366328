"""Two methods on many settings: paired by seed inside a setting, then averaged by data set, and by setting.

Settings of a data set are alike (see `icc`), so data sets are what is counted first. An interval over settings is
narrower, and too narrow.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, median
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from poolwise.errors import ParameterError
from poolwise.experiments.records import RunRecord, Setting
from poolwise.experiments.search import by_setting
from poolwise.reports.comparable import Comparable
from poolwise.reports.paired import CONFIDENCE, Difference, Verdict, difference, holm, interval
from poolwise.reports.savings import saving_in
from poolwise.reports.tables import areas, finals

RANDOM = "random"
"""The method that all others are compared with."""

Measure = Literal["curve", "end"]
MEASURES: Mapping[Measure, str] = {"curve": "mean over the curve", "end": "at the end"}

Unit = Literal["data sets", "settings"]
Name = TypeVar("Name", bound=Hashable)


class Records:
    """All runs of the study, by setting."""

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        self.groups = {setting: Comparable(tuple(found)) for setting, found in by_setting(runs).items()}
        self._values: dict[tuple[Setting, str, Measure], dict[int, float]] = {}  # every method is compared with all

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The methods that every setting has."""
        by_setting = [set(group.runs) for group in self.groups.values()]
        return tuple(sorted(set.intersection(*by_setting))) if by_setting else ()

    @cached_property
    def data_sets(self) -> list[str]:
        """The data sets; copies of one are the same data set."""
        return sorted({setting.data for setting in self.groups})

    def where(self, wanted: Callable[[Setting], bool]) -> "Records":
        """The settings for which something is true."""
        return Records(run for s, group in self.groups.items() if wanted(s) for run in group.everything)

    def with_all(self, labels: Collection[str]) -> "Records":
        """The settings that have all of these methods."""
        return self.where(lambda setting: set(labels) <= self.groups[setting].runs.keys())

    def values(self, setting: Setting, label: str, measure: Measure = "curve") -> dict[int, float]:
        """Accuracy by seed: the mean over the curve, or at the last number of labels."""
        key = setting, label, measure
        if key not in self._values:
            group = self.groups[setting]
            found = group.values(label, "accuracy")
            self._values[key] = areas(group, found) if measure == "curve" else finals(found)
        return self._values[key]

    def seconds(self, setting: Setting, label: str) -> float:
        """Median seconds of a selection: a process that was suspended for minutes must not decide."""
        runs = self.groups[setting].runs[label].values()
        return median(r.seconds["select"] for run in runs for r in run.rounds if r.picks and "select" in r.seconds)


def joined(*parts: Records) -> Records:
    """The runs of several records."""
    return Records(run for part in parts for group in part.groups.values() for run in group.everything)


def seeds_of(records: Records) -> tuple[list[int], str]:
    """How many seeds settings have, the fewest first, and the same in words."""
    counts = sorted({len(group.runs[RANDOM]) for group in records.groups.values()})
    words = " to ".join(str(count) for count in (counts[0], counts[-1])[: len(counts)])
    return counts, "1 seed" if counts == [1] else f"{words} seeds"


def repeated(setting: Setting) -> bool:
    """Whether the pool holds copies, noisy or exact."""
    return setting.experiment.startswith("r") and not setting.experiment.startswith("r8")


def exact(setting: Setting) -> bool:
    """Whether the pool holds exact copies, as in the authors' program and not in their text."""
    return "-exact-" in setting.experiment


def texts(setting: Setting) -> bool:
    """Whether the examples are texts."""
    return setting.data in ("ag-news", "banking77", "20news", "r8")


def dropout(setting: Setting) -> bool:
    """Whether the posterior is Monte Carlo dropout."""
    return setting.posterior == "mc-dropout"


# MNIST, RMNIST, FMNIST, (R)CIFAR-10, (R)CIFAR-100, SVHN and AG News in the text; EMNIST and KMNIST in its supplement.
_PAPERS_DATA = ("mnist", "fashion-mnist", "cifar-10", "cifar-100", "svhn", "ag-news", "emnist", "kmnist")


def in_paper(setting: Setting) -> bool:
    """Whether the paper has experiments on this data; it has no repeated Fashion-MNIST."""
    return setting.data in _PAPERS_DATA and not setting.experiment.startswith("rfashion")


@dataclass(frozen=True)
class Comparison:
    """A method against another over several settings.

    Attributes:
        each: the difference in each setting, over its seeds.
    """

    each: Mapping[Setting, Difference]

    def count(self, *verdicts: Verdict) -> int:
        """In how many settings the seeds give one of some verdicts."""
        return sum(found.verdict in verdicts for found in self.each.values())

    @property
    def ahead(self) -> int:
        """In how many settings the mean difference is above 0."""
        return sum(found.mean > 0 for found in self.each.values())

    @property
    def by_data(self) -> dict[str, float]:
        """The mean over the settings of each data set."""
        return by_data_set({setting: found.mean for setting, found in self.each.items()})

    @property
    def over_data(self) -> Difference:
        """Mean over the data sets, with an interval from how they differ; `seeds` counts the data sets."""
        return over(self.by_data.values())

    @property
    def over_settings(self) -> Difference:
        """Mean over the settings, with an interval from how they differ; `seeds` counts the settings."""
        return over([found.mean for found in self.each.values()])

    def over(self, unit: Unit) -> Difference:
        """Mean over the data sets or over the settings."""
        return self.over_data if unit == "data sets" else self.over_settings


def data_name(data: str) -> str:
    """What data is called: a set of the catalogue, or a file of the judging data."""
    return data.removesuffix(".npz")


def by_data_set(values: Mapping[Setting, float]) -> dict[str, float]:
    """The mean of a number over the settings of each data set."""
    data_sets = sorted({setting.data for setting in values})
    return {data: mean(value for s, value in values.items() if s.data == data) for data in data_sets}


def over(means: Iterable[float]) -> Difference:
    """The mean of several numbers, with an interval from how they differ (Student's t)."""
    values = [*means]
    middle, low, high = (float(column[0]) for column in interval(np.array(values).reshape(-1, 1)))
    return Difference(middle, low, high, len(values))


def versus(records: Records, first: str, second: str, measure: Measure = "curve") -> Comparison:
    """The difference in accuracy, first less second, in the settings that have both."""
    both = [s for s, group in records.groups.items() if {first, second} <= group.runs.keys()]
    return compare({s: (records.values(s, first, measure), records.values(s, second, measure)) for s in both})


def compare(pairs: Mapping[Setting, tuple[dict[int, float], dict[int, float]]]) -> Comparison:
    """Compare two numbers per seed in every setting.

    Raises:
        ParameterError: if there is a setting in which the two have no seed in common.
    """
    apart = [setting.experiment for setting, (first, second) in pairs.items() if not first.keys() & second.keys()]
    if apart:
        raise ParameterError(
            f"{', '.join(apart)}: the methods that are compared have no seed in common there. Run them with the same "
            "seeds, or leave the setting out."
        )
    return Comparison({setting: difference(*pair) for setting, pair in pairs.items()})


def saved_over_data(records: Records, labels: Iterable[str]) -> dict[str, Difference]:
    """The share of labels that methods save against random, over the data sets; the most first."""
    found = {label: over(by_data_set(saved(records, label)).values()) for label in labels if label != RANDOM}
    return dict(sorted(found.items(), key=lambda item: -item[1].mean))


def saved(records: Records, label: str, *, smooth: bool = True, flat: bool = True) -> dict[Setting, float]:
    """The share of labels that a method saves against random, in each setting.

    Args:
        records: the runs.
        label: the method.
        smooth: whether curves are made monotone first, as everywhere but where it is asked what that does.
        flat: whether curves that do not rise are a case of their own, as everywhere but there.
    """
    groups = records.groups.items()
    return {setting: saving_in(group, label, smooth=smooth, flat=flat).share for setting, group in groups}


def never_reached(records: Records, label: str) -> int:
    """In how many settings a method never reaches the accuracy that random ends with."""
    return sum(not saving_in(group, label).reached for group in records.groups.values())


# Fewer data sets or settings may lie close to each other by chance, and their interval then says too much.
ENOUGH = 6


def verdict_alone(found: Difference) -> Verdict:
    """The verdict of an interval over data sets or settings, as the only one that is asked about.

    Without an interval it is inconclusive. `"equivalent"` needs `ENOUGH` data sets or settings; of fewer, an interval
    within half a point is inconclusive, since such a small difference would not count with more of them either.
    """
    if found.verdict == "equivalent":
        return "equivalent" if found.seeds >= ENOUGH else "inconclusive"
    return found.sign


class Answer(NamedTuple):
    """What the records say of a difference.

    Attributes:
        found: the difference.
        verdict: of its interval; `"inconclusive"` where the adjusted p-value is not small.
        p_value: adjusted for the number of differences that the question asks about.
    """

    found: Difference
    verdict: Verdict
    p_value: float


def answered(family: Mapping[Name, Difference]) -> dict[Name, Answer]:
    """All differences that one question asks about, with p-values adjusted for their number (Holm 1979).

    A difference without an interval, from fewer than two data sets or settings, is inconclusive. That two are
    equivalent is not corrected: it is said of small differences, and with few data sets not at all.
    """
    adjusted = holm([found.p_value for found in family.values()])
    made = {}
    for (name, found), p in zip(family.items(), adjusted, strict=True):
        verdict = verdict_alone(found)
        unsure = verdict in ("better", "worse") and p >= 1 - CONFIDENCE
        made[name] = Answer(found, "inconclusive" if unsure else verdict, p)
    return made


def against_random(records: Records, measure: Measure = "curve", unit: Unit = "data sets") -> dict[str, Answer]:
    """The question: is a method better than random? One family for all methods that every setting has."""
    others = [label for label in records.labels if label != RANDOM]
    return answered({label: versus(records, label, RANDOM, measure).over(unit) for label in others})


def icc(values: Mapping[Setting, float]) -> float:
    """How alike settings of a data set are: the intraclass correlation of one-way analysis of variance, ICC(1).

    0 if settings of one data set differ as much as those of several, 1 if they do not differ at all; NaN if there is
    one data set, no data set with two settings, or one value everywhere.
    """
    groups = [[value for s, value in values.items() if s.data == data] for data in {s.data for s in values}]
    sizes, total = [len(group) for group in groups], len(values)
    if len(groups) < 2 or total == len(groups):
        return float("nan")
    middle = mean(values.values())
    between = sum(len(g) * (mean(g) - middle) ** 2 for g in groups) / (len(groups) - 1)
    within = sum((value - mean(g)) ** 2 for g in groups for value in g) / (total - len(groups))
    size = (total - sum(n * n for n in sizes) / total) / (len(groups) - 1)  # a mean size, of groups that differ in it
    spread = between + (size - 1) * within
    return (between - within) / spread if spread else float("nan")


def wins(records: Records, first: str, second: str) -> tuple[int, int]:
    """In how many data sets, and in how many settings, a method has the higher mean over the curve."""
    found = versus(records, first, second)
    return sum(value > 0 for value in found.by_data.values()), found.ahead
