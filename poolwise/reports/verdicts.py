"""What came out, in words: the verdicts, on what they rest, what is missing, and what does not follow."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from poolwise.reports.comparable import BASELINE, Comparable
from poolwise.reports.numbers import percent, points
from poolwise.reports.paired import CONFIDENCE, LEVEL, Difference, Verdict, reach
from poolwise.reports.records import Run
from poolwise.reports.tables import Summary

# From this many seeds on, an interval is narrower than one standard deviation either way.
_MANY_SEEDS = 8
# From this many comparisons on, a false alarm among them is no longer unlikely: 5 × 5 % is a quarter.
_MANY_COMPARISONS = 5


@dataclass(frozen=True)
class Statement:
    """A sentence and the few words that lead it."""

    lead: str
    text: str


def statements(group: Comparable, rows: list[Summary]) -> list[Statement]:
    """Everything a reader must know before the figures, the most important first."""
    said = _unfinished(group) + _counts(group)
    if not rows:
        return [Statement("Nothing to compare.", _nothing(group)), *said]
    return _verdicts(group, rows) + _basis(group, rows) + said + _not_numbers(group) + _cautions(rows)


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
        "Give runs that begin with different numbers of labels different experiment names."
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
    elif worse or "within noise" in found:
        said.append(Statement("Better than random:", "none beyond noise."))
    if noise := found.get("within noise"):
        said.append(Statement("Within noise of random:", _with_intervals(noise)))
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
    seeds = counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counted(counts[-1], 'seed')} a method"
    first, last = group.labelled[0], group.labelled[-1]
    labels = f"at {first:,} labels" if first == last else f"averaged over the curve from {first:,} to {last:,} labels"
    text = f"accuracy on the test set, {labels} ({counted(len(group.labelled), 'measurement')}), {seeds}."
    differences = [row.area_difference for row in rows if row.area_difference is not None]
    if differences:
        text += " A difference is in percentage points, between runs of the same seed, which began with the same labels"
        text += " and the same network"
        text += f"; in brackets its {LEVEL} confidence interval." if any(d.seeds > 1 for d in differences) else "."
    return [Statement("What was measured:", text)]


def _unfinished(group: Comparable) -> list[Statement]:
    if not group.unfinished:
        return []
    longest = max((run for run in group.everything if run.finished), key=lambda run: run.reached, default=None)
    fate = "compared as far as all have come" if longest is None else "left out of all figures and tables"
    named = listing(f"{run.label} seed {run.seed} ({_missing(run, longest)})" for run in group.unfinished)
    number = f"{len(group.unfinished)} of {counted(len(group.everything), 'run')}"
    return [Statement("Unfinished:", f"{number}, {fate}: {named}.")]


def _missing(run: Run, longest: Run | None) -> str:
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
            "are common to all runs. Everything below uses those only.",
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
            f"in at least one round, the {listing(found)}. What would be computed from it is left blank, not guessed.",
        )
    ]


def _cautions(rows: list[Summary]) -> list[Statement]:
    said = []
    compared = [row.area_difference for row in rows if row.area_difference is not None]
    verdicts = [difference.verdict for difference in compared]
    seeds = [difference.seeds for difference in compared] or [row.seeds for row in rows]
    fewest = min((n for n in seeds if n > 1), default=None)
    if 1 in seeds:
        said.append("One seed shows what happened once: any difference there may be chance, in either direction.")
    if compared and fewest is not None and fewest < _MANY_SEEDS:
        said.append(f"With {fewest} seeds an interval reaches {reach(fewest):.1f} standard deviations either way.")
    if "within noise" in verdicts:
        said.append("“Within noise” means that these runs cannot tell, not that the methods are equally good.")
    tested = len(verdicts) - verdicts.count("no verdict")
    if tested >= _MANY_COMPARISONS:
        by_chance = tested * (1 - CONFIDENCE)
        said.append(
            f"Of {tested} such intervals about {by_chance:.1f} would miss zero by chance alone, even if every method "
            "were as good as random."
        )
    said.append("One data set and one kind of model say nothing certain about others.")
    return [Statement("What does not follow:", " ".join(said))]
