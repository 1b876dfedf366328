"""The answer of a pilot in a sentence: is a method better than random on these data, and does it save labels?"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from poolwise.experiments.records import RunRecord
from poolwise.reports.comparable import Comparable
from poolwise.reports.labels import LabelsSaved, labels_saved
from poolwise.reports.numbers import percent, points
from poolwise.reports.paired import Difference, Verdict
from poolwise.reports.savings import Saving, saving_in
from poolwise.reports.tables import Summary, summaries
from poolwise.reports.verdicts import counted, saved_range


@dataclass(frozen=True)
class MethodAnswer:
    """What a pilot says of one method.

    Attributes:
        label: the method.
        verdict: whether it is better than random, by the interval of `difference`.
        difference: accuracy above random, mean over the curve.
        saving: labels saved on the way to the accuracy that random ends with, on mean curves made monotone.
        interval: the same on the curves as they are, with a bootstrap interval; or None.
    """

    label: str
    verdict: Verdict
    difference: Difference
    saving: Saving
    interval: LabelsSaved | None

    def sentence(self) -> str:
        """The answer in a sentence or two."""
        found = self.difference
        much = f"{points(found.mean, found)} points over the curve"
        seeds = counted(found.seeds, "seed")
        if self.verdict == "no verdict":
            return f"{self.label}: one seed cannot tell ({much}). Run at least three, better five."
        span = f"{much}, 95 % interval {points(found.low, found)} to {points(found.high, found)}, {seeds}"
        if self.verdict == "inconclusive":
            return f"{self.label}: cannot tell with {seeds} ({span}). More seeds make the interval narrower."
        if self.verdict == "equivalent":
            return f"{self.label}: as good as random, within half a point ({span})."
        return f"{self.label}: {self.verdict} than random ({span}). {self._labels()}"

    def _labels(self) -> str:
        saving, accuracy = self.saving, percent(self.saving.accuracy)
        if not saving.reached:
            return (
                f"It never reaches the accuracy that random ends with; random has its {accuracy} % with fewer labels."
            )
        text = (
            f"For {accuracy} %, where random ends, it needs about {saving.labels:,.0f} labels instead of "
            f"{saving.random_labels:,.0f}: {percent(saving.share, 0)} % fewer"
        )
        if saving.share <= 0:
            return f"It saves no labels on the way to the accuracy that random ends with, {accuracy} %."
        known = self.interval is not None and not math.isnan(self.interval.low)
        if known and self.interval is not None:
            text += f" ({saved_range(self.interval)})"
        return f"{text}."


def answers(runs: Iterable[RunRecord]) -> list[MethodAnswer]:
    """What the runs of one pilot say of every method, the best first; nothing while there is nothing to compare.

    Args:
        runs: all runs of the pilot.
    """
    group = Comparable(tuple(runs))
    if group.baseline is None or not group.labelled:
        return []
    intervals = {found.label: found for found in labels_saved(group)}
    rows = [row for row in summaries(group) if row.area_difference is not None]
    return [_answer(group, row, intervals.get(row.label)) for row in rows]


def _answer(group: Comparable, row: Summary, interval: LabelsSaved | None) -> MethodAnswer:
    assert row.area_difference is not None, "only random has none"
    difference = row.area_difference
    return MethodAnswer(row.label, difference.verdict, difference, saving_in(group, row.label), interval)


def conclusion(found: list[MethodAnswer]) -> str:
    """The last line of a pilot: what to do."""
    if not found:
        return "Nothing to compare yet: a method and random must both have finished on the same seed."
    better = [answer for answer in found if answer.verdict == "better"]
    if better:
        best = better[0]
        share = f", and {percent(best.saving.share, 0)} % of the labels can be saved" if best.saving.share > 0 else ""
        return f"On these data {best.label} is better than random{share}. Label with: --method {best.label}"
    if any(answer.verdict in ("inconclusive", "no verdict") for answer in found):
        return "This pilot cannot tell whether any method is better than random. Add seeds (--seeds) or labelled data."
    return "On these data no method is better than random: label at random."
