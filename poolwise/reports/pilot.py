"""The answer of a pilot in a sentence: is a method better than random on these data, and does it save labels?

A method is better than random if its accuracy over the curve is, after Holm's correction for all methods that were
compared. Among those that are better, the one that saves the most labels is chosen, since labels are what a user pays
for. Intervals of labels saved come from the jackknife over the seeds (Tukey 1958; Efron and Stein 1981), which for a
mean is the interval of the t-test. Two methods are compared on the same seeds in the same way.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from poolwise.arrays import Array
from poolwise.experiments.records import RunRecord
from poolwise.reports.comparable import Comparable
from poolwise.reports.labels import MIN_SEEDS
from poolwise.reports.numbers import percent, points, signed
from poolwise.reports.paired import CONFIDENCE, LEVEL, Difference, Verdict, holm, reach
from poolwise.reports.savings import Saving, saving
from poolwise.reports.tables import summaries
from poolwise.reports.verdicts import counted, listing


@dataclass(frozen=True)
class MethodAnswer:
    """What a pilot says of one method.

    Attributes:
        label: the method.
        verdict: whether it is better than random, by `difference`, corrected for the number of methods.
        difference: accuracy above random, mean over the curve.
        saving: labels saved on the way to the accuracy that random ends with, on mean curves made monotone.
        share: the share of labels saved, with its interval.
        methods: how many methods were compared with random.
        alike: methods whose labels saved cannot be told from its own.
    """

    label: str
    verdict: Verdict
    difference: Difference
    saving: Saving
    share: Difference
    methods: int = 1
    alike: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The answer in a sentence or two."""
        found = self.difference
        much = f"{points(found.mean, found)} points over the curve"
        seeds = counted(found.seeds, "seed")
        if self.verdict == "no verdict":
            return f"{self.label}: one seed cannot tell ({much}). Run at least three, better five."
        span = f"{much}, {LEVEL} interval {points(found.low, found)} to {points(found.high, found)}, {seeds}"
        if self.verdict == "inconclusive":
            chance = ""
            if found.verdict != "inconclusive":
                chance = f" Among {self.methods} methods, one may look {found.verdict} than random by chance."
            saved = ""
            if not math.isnan(self.share.low):
                share = signed(self.share.mean, 0).removeprefix("+")
                saved = f" Labels saved in these runs: {share} %{self.interval(' ({})')}."
            more = "More seeds make the intervals narrower."
            return f"{self.label}: cannot tell with {seeds} ({span}).{chance}{saved} {more}"
        if self.verdict == "equivalent":
            return f"{self.label}: as good as random, within half a point ({span})."
        return f"{self.label}: {self.verdict} than random ({span}). {self._labels()}"

    def _labels(self) -> str:
        saved, accuracy = self.saving, percent(self.saving.accuracy)
        if not saved.reached:
            return (
                f"It never reaches the accuracy that random ends with; random has its {accuracy} % with fewer labels."
            )
        if saved.share <= 0:
            return f"It saves no labels on the way to the accuracy that random ends with, {accuracy} %."
        return (
            f"For {accuracy} %, where random ends, it needs about {saved.labels:,.0f} labels instead of "
            f"{saved.random_labels:,.0f}: {percent(saved.share, 0)} % fewer{self.interval(' ({})')}."
        )

    def interval(self, frame: str) -> str:
        """The interval of the share of labels saved, in a frame such as `" ({})"`; empty if there is none."""
        if math.isnan(self.share.low):
            return ""
        low, high = (signed(min(1.0, max(-1.0, end)), 0) for end in (self.share.low, self.share.high))
        return frame.format(f"{LEVEL} interval {low.removeprefix('+')} to {high.removeprefix('+')} %")


def answers(runs: Iterable[RunRecord]) -> list[MethodAnswer]:
    """What the runs of one pilot say of every method, the most labels saved first; nothing to compare, no answer.

    Args:
        runs: all runs of the pilot.
    """
    group = Comparable(tuple(runs))
    if group.baseline is None or not group.labelled:
        return []
    curves = {label: group.values(label, "accuracy") for label in group.runs}
    random, x_L = curves.pop(group.baseline), np.array(group.labelled, np.float64)
    compared = [(row.label, row.area_difference) for row in summaries(group) if row.area_difference is not None]
    adjusted = holm([difference.p_value for _, difference in compared])
    found = []
    for (label, difference), p_value in zip(compared, adjusted, strict=True):
        verdict = difference.verdict
        if verdict in ("better", "worse") and p_value > 1 - CONFIDENCE:
            verdict = "inconclusive"
        seeds = sorted(curves[label].keys() & random.keys())
        whole = _saving(curves[label], random, seeds, x_L)
        share = _jackknife(partial(_share, curves[label], random, x_L), seeds)
        alike = _alike(label, curves, random, x_L)
        found.append(MethodAnswer(label, verdict, difference, whole, share, len(compared), alike))
    return sorted(found, key=lambda answer: (math.isnan(answer.saving.share), -answer.saving.share))


def _saving(method: dict[int, Array], random: dict[int, Array], seeds: Sequence[int], x_L: Array) -> Saving:
    if not seeds:
        return Saving(math.nan, math.nan, math.nan, math.nan, False)
    means = [np.mean([values[seed] for seed in seeds], 0) for values in (method, random)]
    return saving(means[0], means[1], x_L)


def _share(method: dict[int, Array], random: dict[int, Array], x_L: Array, seeds: Sequence[int]) -> float:
    return _saving(method, random, seeds, x_L).share


def _alike(label: str, curves: dict[str, dict[int, Array]], random: dict[int, Array], x_L: Array) -> tuple[str, ...]:
    """The methods whose labels saved cannot be told from those of one, after Holm's correction."""
    others = [other for other in curves if other != label]
    p_values = []
    for other in others:

        def ahead(kept: Sequence[int], other: str = other) -> float:
            first, second = (_saving(curves[name], random, kept, x_L).share for name in (label, other))
            return first - second

        p_values.append(_jackknife(ahead, sorted(curves[label].keys() & curves[other].keys() & random.keys())).p_value)
    return tuple(other for other, p in zip(others, holm(p_values), strict=True) if math.isnan(p) or p > 1 - CONFIDENCE)


def _jackknife(value: Callable[[Sequence[int]], float], seeds: Sequence[int]) -> Difference:
    """A number that depends on the seeds, with its interval by leaving out one seed at a time."""
    whole, S = value(seeds), len(seeds)
    if S < MIN_SEEDS or math.isnan(whole):
        return Difference(whole, math.nan, math.nan, S)
    without_S = np.array([value([seed for seed in seeds if seed != left]) for left in seeds])
    half = reach(S) * float((S * whole - (S - 1) * without_S).std(ddof=1))
    return Difference(whole, whole - half, whole + half, S)


def conclusion(found: Sequence[MethodAnswer], default: str | None = None) -> str:
    """The last line of a pilot: what to do.

    Args:
        found: the answers, the most labels saved first.
        default: the method of a labelling project where none is named.
    """
    if not found:
        return "Nothing to compare yet: a method and random must both have finished on the same seed."
    better = [answer for answer in found if answer.verdict == "better"]
    if better:
        best, seeds = better[0], counted(better[0].difference.seeds, "seed")
        text = f"On these data {best.label} is better than random"
        if best.share.low > 0:
            text += f", and saves {percent(best.saving.share, 0)} % of the labels{best.interval(' ({})')}."
        else:
            text += f"; {seeds} cannot tell whether it saves labels{best.interval(' ({})')}."
        alike = [answer.label for answer in found if answer.label in best.alike and answer.verdict != "worse"]
        if alike:
            text += f" By labels saved, {seeds} cannot tell {listing(alike)} from it."
        return f"{text} {_advice(best.label, default, alike, better)}"
    if any(answer.verdict in ("inconclusive", "no verdict") for answer in found):
        return "This pilot cannot tell whether any method is better than random. Add seeds (--seeds) or labelled data."
    return "On these data no method is better than random: label at random."


def _advice(best: str, default: str | None, alike: Sequence[str], better: Sequence[MethodAnswer]) -> str:
    if best == default:
        return f"Label with {best}, the default of poolwise label."
    if default in alike and any(answer.label == default for answer in better):
        return f"Label with {default}, the default of poolwise label, or with: --method {best}"
    return f"Label with: --method {best}"
