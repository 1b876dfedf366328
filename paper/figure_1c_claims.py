"""What the paper says of Figure 1 (c), and what the runs at its scale say: differences of methods, paired by seed."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from poolwise.experiments.records import RunRecord
from poolwise.reports.comparable import Comparable
from poolwise.reports.numbers import p_value, signed
from poolwise.reports.paired import CONFIDENCE, Difference, difference, holm
from poolwise.reports.tables import areas, finals


class Question(NamedTuple):
    """Whether one method is above another.

    Attributes:
        text: what the paper says, or what we ask.
        first: the one.
        second: the other.
    """

    text: str
    first: str
    second: str


class Found(NamedTuple):
    """What finished runs say of a question.

    Attributes:
        text: of the question.
        curve: the difference in accuracy over the curve.
        end: the difference at the last number of labels.
        p_value: of the curve, adjusted for the number of questions; NaN without enough seeds.
        verdict: of the curve, in the words of the page.
    """

    text: str
    curve: Difference
    end: Difference
    p_value: float
    verdict: str


PAPER = (
    Question("LBB is better than BALD", "lbb-released", "bald"),
    Question("PLBB is significantly better than PBALD", "power-lbb-released", "power-bald-5"),
    Question("PLBB is better than LBB", "power-lbb-released", "lbb-released"),
    Question("PBALD is better than BALD", "power-bald-5", "bald"),
    Question("PLBB is better than random", "power-lbb-released", "random"),
    Question("PBALD is better than random", "power-bald-5", "random"),
)
OURS = (
    Question("LBB as released, against random", "lbb-released", "random"),
    Question("LBB as printed, against LBB as released", "lbb-printed", "lbb-released"),
    Question("BALD against random", "bald", "random"),
    Question("BatchBALD against random", "batchbald", "random"),
    Question("margin against PLBB", "margin", "power-lbb-released"),
    Question("posterior coverage against PLBB", "posterior-coverage", "power-lbb-released"),
    Question("mutual herding on pixels against PLBB", "mutual-herding", "power-lbb-released"),
)
# Two seeds may be close to each other by chance, and their interval then says too much.
ENOUGH = 3
# Nor can fewer than the paper's five say that two methods are alike.
ALIKE = 5
HEAD = "| | seeds | over the curve | at the end | verdict |\n| --- | ---: | ---: | ---: | --- |"


def section(runs: Sequence[RunRecord]) -> str:
    """The section of the page; only finished runs count, and only seeds that both methods have."""
    asked, others = answers(runs), answers(runs, OURS)
    most = max(found.curve.seeds for found in (*asked, *others))
    sure = f"{CONFIDENCE:.0%} confidence intervals by Student's t" if most > 1 else "one seed gives no interval"
    return "\n\n".join(
        [
            "## What the runs say",
            "Differences in accuracy between two methods, in points, from finished runs of the same seed: the mean "
            "over the curve, with straight lines between the counts of labels, and at the last count "
            f"({sure}). The verdict is of the mean over the curve, and needs {ENOUGH} seeds. Two methods are "
            f"*equivalent* if the interval is within ±0.5 point, over {ALIKE} seeds at least; over fewer, that is "
            "*inconclusive*. Otherwise a difference counts if its p-value is below 0.05 after correction for the "
            "number of rows in its table that have enough seeds (Holm), and is *inconclusive* if not: these runs "
            "cannot tell. Intervals are not corrected, so one may leave out 0 although the verdict is inconclusive. "
            "The page was made again as seeds were added, first with one, then with two, three and more; five were "
            "planned, and nothing that was seen changed that.",
            "What the paper says of this figure, by its text or its caption:",
            _table(asked),
            "Other questions:",
            _table(others),
        ]
    )


def claims_table(runs: Sequence[RunRecord]) -> str:
    """What the paper says of this figure, each with its verdict."""
    return _table(answers(runs))


def answers(runs: Sequence[RunRecord], questions: Sequence[Question] = PAPER) -> list[Found]:
    """What finished runs say of questions, corrected for the number of those that have enough seeds."""
    finished = [run for run in runs if run.finished]
    found = [_compare(finished, question) for question in questions]
    adjusted = holm([curve.p_value if curve.seeds >= ENOUGH else math.nan for curve, _ in found])
    return [
        Found(question.text, curve, end, p, _verdict(curve, p, claimed=questions is PAPER))
        for question, (curve, end), p in zip(questions, found, adjusted, strict=True)
    ]


def _table(found: Sequence[Found]) -> str:
    rows = [
        f"| {text} | {curve.seeds} | {_points(curve)}{p_value(p)} | {_points(end)} | {verdict} |"
        for text, curve, end, p, verdict in found
    ]
    return "\n".join([HEAD, *rows])


def _compare(runs: Sequence[RunRecord], question: Question) -> tuple[Difference, Difference]:
    """The difference over the curve, and at the end."""

    def values(label: str, last: bool) -> dict[int, float]:
        group = Comparable(tuple(run for run in runs if run.label == label))
        curves = group.values(label, "accuracy") if group.runs else {}
        return finals(curves) if last else areas(group, curves)

    curve, end = (difference(values(question.first, last), values(question.second, last)) for last in (False, True))
    return curve, end


def _points(found: Difference) -> str:
    if found.seeds == 0:
        return "–"
    text = signed(found.mean)
    return text if math.isnan(found.low) else f"{text} [{signed(found.low)}, {signed(found.high)}]"


def _verdict(found: Difference, p_value: float, claimed: bool) -> str:
    if found.seeds == 0:
        return "not run"
    if found.seeds < ENOUGH:
        return f"{'one seed' if found.seeds == 1 else f'{found.seeds} seeds'}: no verdict"
    if found.verdict == "equivalent" and found.seeds >= ALIKE:
        return "equivalent"
    if found.verdict in ("equivalent", "inconclusive") or p_value >= 1 - CONFIDENCE:
        return "inconclusive"
    if claimed:
        return "holds" if found.verdict == "better" else "does not hold"
    return found.verdict
