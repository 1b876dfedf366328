"""Tables of a comparison, as plain data: curves, differences from random along them, and a summary of each method."""

import math
from dataclasses import dataclass
from statistics import mean, median

import numpy as np

from poolwise.arrays import Array
from poolwise.experiments.records import RunRecord
from poolwise.reports.comparable import Comparable
from poolwise.reports.paired import Difference, difference, interval

STAGES = ("train", "predict", "select")


@dataclass(frozen=True)
class Curve:
    """A metric of one method against the number of labels.

    Attributes:
        label: the method.
        metric: what was measured.
        seeds: how many runs it is the mean of.
        labelled_L: `[L]` numbers of labels.
        mean_L: `[L]` mean over the seeds.
        sd_L: `[L]` standard deviation over the seeds; NaN with one seed.
    """

    label: str
    metric: str
    seeds: int
    labelled_L: Array
    mean_L: Array
    sd_L: Array


@dataclass(frozen=True)
class DifferenceCurve:
    """Paired difference in accuracy from random against the number of labels, with its confidence interval.

    Attributes:
        label: the method.
        seeds: how many seeds it has in common with random.
        labelled_L: `[L]` numbers of labels.
        mean_L: `[L]` mean difference.
        low_L: `[L]` lower end of the interval; NaN with fewer than two seeds.
        high_L: `[L]` upper end.
        whole: the difference of the mean accuracies over the curve.
    """

    label: str
    seeds: int
    labelled_L: Array
    mean_L: Array
    low_L: Array
    high_L: Array
    whole: Difference


@dataclass(frozen=True)
class Spread:
    """A mean over seeds and its standard deviation, NaN with one seed."""

    mean: float
    sd: float


@dataclass(frozen=True)
class Summary:
    """One method in numbers.

    Attributes:
        label: the method.
        seeds: how many runs.
        final: accuracy at the last number of labels.
        area: mean accuracy over the curve.
        final_difference: of `final` from random, or None without random and for random itself.
        area_difference: of `area`.
        seconds: mean wall time per round of `train`, `predict` and `select`.
        batches: how many batches were picked.
        saturated: how many of them saturated.
        saturated_at: median number of picks after which those did, or None.
        classes: mean number of classes in a batch.
        distinct: share of the picks that were different originals.
    """

    label: str
    seeds: int
    final: Spread
    area: Spread
    final_difference: Difference | None
    area_difference: Difference | None
    seconds: dict[str, float]
    batches: int
    saturated: int
    saturated_at: float | None
    classes: float
    distinct: float


def curves(group: Comparable, metric: str) -> list[Curve]:
    """The curve of every method, for one metric."""
    made = []
    for label in group.runs:
        values_S_L = np.stack(list(group.values(label, metric).values()))
        mean_L, sd_L = values_S_L.mean(0), _deviation(values_S_L)
        made.append(Curve(label, metric, len(values_S_L), np.array(group.labelled), mean_L, sd_L))
    return made


def difference_curves(group: Comparable) -> list[DifferenceCurve]:
    """The difference from random of every other method, the best first; nothing without random."""
    if group.baseline is None:
        return []
    baseline = group.values(group.baseline, "accuracy")
    made = []
    for label in group.runs:
        values = group.values(label, "accuracy")
        seeds = sorted(values.keys() & baseline.keys())
        if label != group.baseline and seeds:
            band = interval(np.stack([values[seed] - baseline[seed] for seed in seeds]))
            whole = difference(areas(group, values), areas(group, baseline))
            made.append(DifferenceCurve(label, len(seeds), np.array(group.labelled), *band, whole))
    return sorted(made, key=lambda curve: _best_first(curve.whole.mean))


def summaries(group: Comparable) -> list[Summary]:
    """A row for every method, the highest mean accuracy over the curve first."""
    made = []
    baseline = group.values(group.baseline, "accuracy") if group.baseline is not None else None
    for label, runs in group.runs.items():
        values = group.values(label, "accuracy")
        compared = baseline if label != group.baseline else None
        ends, means = finals(values), areas(group, values)
        picked = [round for run in runs.values() for round in run.rounds if round.picks]
        saturated = [round.saturated_at for round in picked if round.saturated_at is not None]
        made.append(
            Summary(
                label=label,
                seeds=len(runs),
                final=_spread(ends),
                area=_spread(means),
                final_difference=difference(ends, finals(compared)) if compared else None,
                area_difference=difference(means, areas(group, compared)) if compared else None,
                seconds={stage: _seconds(list(runs.values()), stage) for stage in STAGES},
                batches=len(picked),
                saturated=len(saturated),
                saturated_at=median(saturated) if saturated else None,
                classes=mean(round.classes for round in picked) if picked else math.nan,
                distinct=sum(r.distinct for r in picked) / sum(r.picks for r in picked) if picked else math.nan,
            )
        )
    return sorted(made, key=lambda row: _best_first(row.area.mean))


def _best_first(value: float) -> tuple[bool, float]:
    """Sorts large before small before NaN."""
    return math.isnan(value), -value


def finals(values: dict[int, Array]) -> dict[int, float]:
    """The end of each curve."""
    return {seed: float(values_L[-1]) for seed, values_L in values.items()}


def areas(group: Comparable, values: dict[int, Array]) -> dict[int, float]:
    """The area under each curve over its width: its mean, also where the steps between the counts differ."""
    x_L = np.array(group.labelled)
    if len(x_L) == 1:
        return finals(values)
    return {seed: float(np.average((y_L[1:] + y_L[:-1]) / 2, weights=np.diff(x_L))) for seed, y_L in values.items()}


def _spread(values: dict[int, float]) -> Spread:
    values_S = np.array(list(values.values()))
    return Spread(float(values_S.mean()), float(_deviation(values_S)))


def _deviation(values_S: Array) -> Array:
    """Standard deviation over the seeds, the first axis; NaN with one seed."""
    if len(values_S) == 1:
        return np.full(values_S.shape[1:], np.nan)
    return np.asarray(values_S.std(0, ddof=1))


def _seconds(runs: list[RunRecord], stage: str) -> float:
    """Mean wall time of a stage over the rounds that had it; the last round of a run selects nothing."""
    rounds = [round for run in runs for round in run.rounds if round.picks or stage != "select"]
    times = [round.seconds[stage] for round in rounds if stage in round.seconds]
    return mean(times) if times else math.nan
