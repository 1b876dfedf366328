"""The verdicts in words: which methods beat random, what that is based on, what is missing, what does not follow."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from poolwise.experiments.records import RunRecord
from poolwise.reports.comparable import BASELINE, Comparable
from poolwise.reports.labels import LabelsSaved
from poolwise.reports.numbers import percent, points, signed
from poolwise.reports.paired import CONFIDENCE, LEVEL, Difference, Verdict, reach
from poolwise.reports.tables import Summary

# From this many seeds on, an interval is narrower than one standard deviation either way.
_MANY_SEEDS = 8
# More methods than this are not named one by one in a sentence.
_MOST_NAMES = 6
# A percent sign stays with its number.
_PERCENT = "\N{NO-BREAK SPACE}%"
# From this many comparisons on, a false alarm among them is no longer unlikely: 5 × 5 % is a quarter.
_MANY_COMPARISONS = 5


@dataclass(frozen=True)
class Statement:
    """A sentence and the few words that lead it.

    Attributes:
        lead: the first words.
        text: the rest.
        verdict: whether it is a result, and not a remark on how the result was found.
    """

    lead: str
    text: str
    verdict: bool = False


def statements(group: Comparable, rows: list[Summary], saved: list[LabelsSaved]) -> list[Statement]:
    """Everything a reader must know before the figures, the most important first.

    Args:
        group: the runs.
        rows: their summaries.
        saved: labels saved against random.
    """
    said = _unfinished(group) + _counts(group)
    if not rows:
        return [Statement("Nothing to compare.", _nothing(group), verdict=True), *said]
    found = [replace(statement, verdict=True) for statement in _verdicts(group, rows) + _saved(saved)]
    return found + _basis(group, rows) + said + _not_numbers(group) + _cautions(rows, saved)


def headline(rows: list[Summary], saved: list[LabelsSaved]) -> str:
    """The most important result in one sentence; nothing without a comparison with random."""
    compared = [row for row in rows if row.area_difference is not None]
    better = [row for row in compared if row.area_difference is not None and row.area_difference.verdict == "better"]
    if not any(row.area_difference.verdict != "no verdict" for row in compared if row.area_difference is not None):
        return ""
    if not better:
        return "These runs do not show that any method is better than random."
    best, gain = better[0].label, better[0].area_difference
    found = next((s for s in saved if s.label == best), None)
    if found is not None and found.sure:
        return (
            f"{best} reached random’s final accuracy, {percent(found.accuracy)}{_PERCENT}, with "
            f"{found.labels:,.0f} labels instead of {found.random_labels:,.0f}: "
            f"{percent(found.share, 0)}{_PERCENT} fewer{_range(found)}."
        )
    assert gain is not None, "a verdict needs a difference"
    return (
        f"{best} was better than random, by {points(gain.mean, gain)} points on average over the curve. "
        "These runs do not show that it saved labels on the way to random’s final accuracy."
    )


def _saved(saved: list[LabelsSaved]) -> list[Statement]:
    """Labels saved by each method, those that never got there last."""
    known = [found for found in saved if not math.isnan(found.share)]
    if not known:
        return []
    said = [f"{found.label} {_share(found)}{_range(found)}" for found in known if found.reached]
    never = [found.label for found in known if not found.reached]
    said, never = _few(said), _few(never)
    text = (
        f"{listing(said)}, on the way to random’s final accuracy, {percent(known[0].accuracy)}{_PERCENT}."
        if said
        else ""
    )
    if never:
        text += f" {listing(never)} never reached {'it' if said else 'the final accuracy of random'}."
    return [Statement("Labels saved against random:", text.strip())]


def _few(names: list[str]) -> list[str]:
    """The first of many; the table has all of them."""
    left = len(names) - _MOST_NAMES
    return names if left <= 1 else [*names[:_MOST_NAMES], f"{left} others (see the table)"]


def _share(found: LabelsSaved) -> str:
    if round(100 * found.share) == 0:
        return "none"
    part = f"{percent(abs(found.share), 0)}{_PERCENT}"
    return part if found.share > 0 else f"none ({part} more needed)"


def _range(found: LabelsSaved) -> str:
    """The interval in brackets, nothing if there is none."""
    return "" if math.isnan(found.low) else f" ({saved_range(found)})"


def saved_range(found: LabelsSaved) -> str:
    """The interval of the labels saved, in percent."""
    high = f"{signed(found.high, 0).removeprefix('+')}{_PERCENT}"
    if math.isinf(found.low):  # some draws never reached it
        return f"at most {high}" if math.isfinite(found.high) else "never reached"
    return f"{signed(found.low, 0).removeprefix('+')} to {high}"


def listing(items: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def counted(number: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _nothing(group: Comparable) -> str:
    if not group.runs:
        return "No run has recorded a round yet."
    return (
        "The runs share no number of labels at which all were measured. "
        "Give runs that begin with different numbers of labels different names of experiments."
    )


def _verdicts(group: Comparable, rows: list[Summary]) -> list[Statement]:
    if group.baseline is None:
        return [_no_baseline(group, rows)]
    compared = [(row.label, row.area_difference) for row in rows if row.area_difference is not None]
    if not compared:
        return [Statement("Only random was run,", "so there is nothing to compare it with.")]
    found: dict[Verdict, list[tuple[str, Difference]]] = {}
    for label, difference in compared:
        found.setdefault(difference.verdict, []).append((label, difference))
    said = []
    if worse := found.get("worse"):
        said.append(Statement("Worse than random:", _with_intervals(reversed(worse))))
    if better := found.get("better"):
        said.append(Statement("Better than random:", _with_intervals(better)))
    elif worse or "inconclusive" in found or "equivalent" in found:
        said.append(Statement("Better than random:", "none that these runs can show."))
    if alike := found.get("equivalent"):
        said.append(Statement("As good as random, within half a point:", _with_intervals(alike)))
    if unclear := found.get("inconclusive"):
        said.append(Statement("Inconclusive:", _with_intervals(unclear)))
    unknown = found.get("no verdict", [])
    once = [(label, d) for label, d in unknown if not math.isnan(d.mean)]
    if once:
        said.append(
            Statement(
                "No verdict, with only one seed in common with random:",
                listing(f"{label} {points(d.mean, d)}" for label, d in once) + ".",
            )
        )
    if blank := [(label, d) for label, d in unknown if math.isnan(d.mean)]:
        said.append(Statement("No verdict:", listing(f"{label} ({_why(d)})" for label, d in blank) + "."))
    return said


def _with_intervals(found: Iterable[tuple[str, Difference]]) -> str:
    return (
        listing(f"{label} {points(d.mean, d)} ({points(d.low, d)} to {points(d.high, d)})" for label, d in found) + "."
    )


def _why(difference: Difference) -> str:
    return "no seed in common with random" if difference.seeds == 0 else "an accuracy is not a number"


def _no_baseline(group: Comparable, rows: list[Summary]) -> Statement:
    started = any(run.method == BASELINE for run in group.everything)
    why = "its runs have not finished" if started else f"no run of this group uses the method {BASELINE!r}"
    how = "Let them finish" if started else f"Run {BASELINE!r} in the same experiment with the same seeds"
    best = f" Highest mean accuracy over the curve: {rows[0].label}, {percent(rows[0].area.mean)} %."
    return Statement(
        "No comparison with random is possible:",
        f"{why}. {how}, then write the report again.{'' if math.isnan(rows[0].area.mean) else best}",
    )


def _basis(group: Comparable, rows: list[Summary]) -> list[Statement]:
    counts = sorted({row.seeds for row in rows})
    seeds = (
        counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counted(counts[-1], 'seed')} per method"
    )
    first, last = group.labelled[0], group.labelled[-1]
    labels = f"at {first:,} labels" if first == last else f"averaged over the curve from {first:,} to {last:,} labels"
    text = f"accuracy on the test set, {labels} ({counted(len(group.labelled), 'measurement')}), {seeds}."
    differences = [row.area_difference for row in rows if row.area_difference is not None]
    if differences:
        text += " Differences are in percentage points, between runs of the same seed."
        text += f" In brackets: {LEVEL} confidence intervals." if any(d.seeds > 1 for d in differences) else ""
    return [*_start(group), Statement("What was measured:", text)]


def _start(group: Comparable) -> list[Statement]:
    """How the runs began."""
    starts = sorted({run.start for run in group.everything if run.start})
    if not starts:
        return []
    drawn = "" if all(start.startswith("no labels") for start in starts) else ", drawn at random"
    same = " On one seed, all methods begin with the same labels." if len(starts) == 1 else ""
    text = f"{listing(starts)}{drawn}.{same}"
    return [Statement("Start:", text)]


def _unfinished(group: Comparable) -> list[Statement]:
    if not group.unfinished:
        return []
    longest = max((run for run in group.everything if run.finished), key=lambda run: run.reached, default=None)
    fate = "compared as far as all have come" if longest is None else "left out of all figures and tables"
    named = listing(f"{run.label} seed {run.seed} ({_missing(run, longest)})" for run in group.unfinished)
    number = f"{len(group.unfinished)} of {counted(len(group.everything), 'run')}"
    return [Statement("Unfinished:", f"{number}, {fate}: {named}.")]


def _missing(run: RunRecord, longest: RunRecord | None) -> str:
    reached = f"stopped at {run.reached:,}" if run.rounds else "stopped before its first record; 0"
    if longest is None:
        return f"{reached} labels"
    rounds = len(longest.rounds)
    missing = max(rounds - len(run.rounds), 0)
    return f"{reached} of {longest.reached:,} labels, {missing} of {counted(rounds, 'round')} missing"


def _counts(group: Comparable) -> list[Statement]:
    if len(group.labelled) == len(group.seen):
        return []
    return [
        Statement(
            "Different numbers of labels:",
            f"the runs were measured at {len(group.seen)} numbers of labels, but only {len(group.labelled)} of them "
            "are common to all runs. Everything below uses only those.",
        )
    ]


def _not_numbers(group: Comparable) -> list[Statement]:
    found = [
        f"{metric} of {label} seed {seed}"
        for metric in group.metrics
        for label in group.runs
        for seed, values_L in group.values(label, metric).items()
        if np.isnan(values_L).any()
    ]
    if not found:
        return []
    return [
        Statement(
            "Not a finite number:",
            f"in at least one round, the {listing(found)}. What depends on it is left blank.",
        )
    ]


def _cautions(rows: list[Summary], saved: list[LabelsSaved]) -> list[Statement]:
    said = []
    compared = [row.area_difference for row in rows if row.area_difference is not None]
    verdicts = [difference.verdict for difference in compared]
    seeds = [difference.seeds for difference in compared] or [row.seeds for row in rows]
    fewest = min((n for n in seeds if n > 1), default=None)
    if 1 in seeds:
        said.append("One seed shows what happened once: any difference may be chance, in either direction.")
    if compared and fewest is not None and fewest < _MANY_SEEDS:
        said.append(f"With {fewest} seeds an interval reaches {reach(fewest):.1f} standard deviations either way.")
        if any(not math.isnan(found.low) for found in saved):
            said.append(
                "Intervals of labels saved come from the bootstrap and are a little too narrow for few seeds; those "
                "that a pilot prints come from the jackknife and are wider."
            )
    if "inconclusive" in verdicts:
        said.append("“Inconclusive” means that these runs cannot tell, not that the methods are equally good.")
    tested = len(verdicts) - verdicts.count("no verdict")
    if tested >= _MANY_COMPARISONS:
        by_chance = tested * (1 - CONFIDENCE)
        said.append(
            f"Of {tested} such intervals about {by_chance:.1f} would miss zero by chance alone, even if every method "
            "were as good as random."
        )
    if verdicts.count("better") > 1 or tested > 1:
        said.append("The best of several methods looks a little better in the runs that chose it than in new ones.")
    said.append("One data set and one kind of model say little about others.")
    return [Statement("What does not follow:", " ".join(said))]
