"""The sentences of `poolwise advise`: short, with the figures that they rest on."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from poolwise.reports.evidence import BUDGETS, LARGE_BATCH, VERY_LARGE, First, Row, Scope
from poolwise.reports.numbers import seconds, signed

if TYPE_CHECKING:
    from poolwise.reports.advice import Against

PAGE = "docs/results.md"
_FIRST = "The first batch"
# The part of the page that has every number of every condition.
ROWS = "What advise reads"
FAR = 20
"""Pools of the study were this much smaller than what a user has, where ranks may well be others."""


class Case(NamedTuple):
    """What the user has, and which part of the study is like it.

    Attributes:
        points: N.
        classes: C.
        batch_size: b.
        samples: K.
        labels: how many labels there are.
        features: whether there are fixed features.
        kind: of features in that part of the study, `"fixed"` or `"network"`.
        condition: of the study.
        scope: what its settings were like.
        measured: all batch sizes of the study with such features.
    """

    points: int
    classes: int
    batch_size: int
    samples: int
    labels: int
    features: bool
    kind: str
    condition: str
    scope: Scope
    measured: Sequence[int] = ()

    @property
    def condition_in_words(self) -> str:
        """The features and the condition."""
        condition = f"the {self.condition} budget" if self.condition in BUDGETS else self.condition
        beyond = f", batches of at most {max(self.scope.batches):,}" if self.beyond else ""
        return f"{'fixed features' if self.kind == 'fixed' else 'features of the network'}, {condition}{beyond}"

    @property
    def beyond(self) -> bool:
        """Whether the batch is larger than any of the condition."""
        return bool(self.scope.batches) and self.batch_size > max(self.scope.batches)


def call(method: str, batch_size: int, inputs: Iterable[str], parameters: Mapping[str, object]) -> str:
    """The call that selects a batch.

    Args:
        method: the method.
        batch_size: b.
        inputs: what it needs beside predictions.
        parameters: of the method.
    """
    given = [f"{name}={name}" for name in sorted(inputs) if name != "predictions"]
    given += [f"{name}={_literal(value)}" for name, value in parameters.items()]
    return f"pw.select({', '.join(['predictions', str(batch_size), _literal(method), *given])})"


def _literal(value: object) -> str:
    """A value as in a program."""
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


# Why

_COMPARED = {
    "better": "was better than random's",
    "worse": "was worse than random's",
    "equivalent": "was equivalent to random's",
    "inconclusive": "cannot be told from random's",
    "no verdict": "cannot be told from random's",
}


def reasons(
    case: Case, best: Row, against: Sequence["Against"], overall: Row | None, *, sampled: bool
) -> Iterator[str]:
    """Why a method: what it saved, whether accuracies agree, which others it beat, and how long it took.

    Args:
        case: what the user has.
        best: what was measured of the method.
        against: the method against each other.
        overall: what was measured of it over all conditions; None where that is not known.
        sampled: whether the call covers a random sample of the points.
    """
    compared = _COMPARED[best.verdict]
    if overall is not None and overall.verdict != best.verdict and case.condition != VERY_LARGE:
        compared += f" there, but over all {counted(overall.settings, 'setting')} it {_COMPARED[overall.verdict]}"
    ahead = all(other.row.saved <= best.saved for other in against)
    most = (
        "it saved the most labels,"
        if ahead
        else "it saved the most labels if all budgets are averaged. At this one it saved"
    )
    among = ", of the methods for which one posterior sample is enough," if ahead and case.samples == 1 else ""
    yield (
        f"in the study ({case.condition_in_words}){among} {most} {_saved(best)} of those that random needs, over "
        f"{counted(best.data_sets, 'data set')}. Its accuracy over the learning curve {compared}."
    )
    if best.worse:
        yield f"It was worse than random in {best.worse} of {best.settings} settings there."
    beaten = [other for other in against if other.told]
    if beaten:
        where = (
            " (paired over the data sets, averaged over the budgets or at this one)"
            if case.condition in BUDGETS
            else " (paired)"
        )
        yield f"It saved clearly more than {listed([named(other.row) for other in beaten])}{where}."
    alike = [_beside(other) for other in beaten if other.alike and case.condition in BUDGETS]
    if alike:
        yield f"At this budget alone, about as many labels were saved by {listed(alike)}."
    if not sampled and not case.beyond and best.scope.pools and case.points <= FAR * max(best.scope.pools):
        yield f"A selection took {seconds(best.seconds)}, from pools of {ranged(best.scope.pools)}."


def nothing_shown(case: Case, found: Sequence[Row], usable: Sequence[Row]) -> Iterator[str]:
    """Why random: nothing was shown to be better."""
    if case.condition != VERY_LARGE or not found:
        yield f"in the study no method was shown to save labels here ({case.condition_in_words})."
        return
    yield (
        f"in the study, with batches of {ranged(case.scope.batches)}, no method was clearly better than random in any "
        f"of {counted(found[0].settings, 'setting')} of {counted(found[0].data_sets, 'data set')}."
    )
    ahead = [f"{named(row)} ({_saved(row)})" for row in found if row.saved > 0]
    if ahead:
        yield f"On average these saved labels, but that may be chance: {listed(ahead)}."
    smaller = max((r for r in usable if r.condition == "large batches"), key=lambda row: row.saved, default=None)
    if smaller is not None and smaller.low is not None and smaller.low > 0:
        yield (
            f"Smaller batches did save labels: with at most {LARGE_BATCH} labels per round, {named(smaller)} saved "
            f"{_saved(smaller)}, over {counted(smaller.data_sets, 'data set')}."
        )


def named(row: Row) -> str:
    """A method, with the parameters that make it another rule than its defaults."""
    if not row.parameters:
        return row.method
    given = ", ".join(f"{name}={_literal(value)}" for name, value in row.parameters.items())
    also = f", called {row.label}" if row.label and not row.label.startswith(row.method) else ""
    return f"{row.method} with {given}{also}"


def alternatives(rivals: Sequence["Against"]) -> list[str]:
    """The methods that cannot be told from the advised one, and by how much they differ here."""
    if not rivals:
        return []
    each = listed([_beside(other) for other in rivals])
    return [f"corrected for the number of methods, the records cannot tell it from {each}."]


def _beside(other: "Against") -> str:
    """Another method, what it saved, and how much more that is than the advised one saved."""
    row, found = other.row, other.found
    if not found.seeds:
        return f"{named(row)} ({signed(row.saved, 0)} %)"
    span = f" [{signed(-found.high, 0)}, {signed(-found.low, 0)}]" if math.isfinite(found.low) else ""
    return f"{named(row)} ({signed(row.saved, 0)} %, difference {signed(-found.mean, 0)}{span})"


# First batch


class Learner(NamedTuple):
    """A learner that selects as advised.

    Attributes:
        method: the method.
        batch_size: b.
        features: whether there are fixed features.
        parameters: of the method.
    """

    method: str
    batch_size: int
    features: bool
    parameters: Mapping[str, object]

    def call(self, first: str = "") -> str:
        """The call that makes it.

        Args:
            first: the method for the first batch; empty to draw it at random, as learners do.
        """
        given = ["posterior", "pool", _literal(self.method), str(self.batch_size)]
        given += ["features=embeddings"] if self.features else []
        given += [f"first={_literal(first)}"] if first else []
        given += [f"{name}={_literal(value)}" for name, value in self.parameters.items()]
        return f"pw.ActiveLearner({', '.join(given)})"


def first_batch(known: Sequence[First], learner: Learner) -> str:
    """What to do while nothing is labelled: a call of a learner, since `select` needs predictions.

    Args:
        known: what was measured of first batches; empty if there are no fixed features to select one by.
        learner: one that selects later batches as advised.
    """
    drawn = f"so draw it at random, as {learner.call()} does."
    random = 'draw it at random (first="random")'
    if not known:
        return f"there is no model yet, {drawn}"
    encoded = sorted((row for row in known if row.kind != "tables"), key=lambda row: -row.points)
    fit = [row for row in encoded if row.verdict == "better" and not row.worse]
    tables = {row.method: row for row in known if row.kind == "tables"}
    if not fit:
        return f"no selection was shown to be safe, {drawn}"
    best, *others = fit
    same = f" Also {listed([f'{row.method} ({signed(row.points, 0)})' for row in others])}." if others else ""
    said = (
        f"with features of an encoder, by {best.method}: {learner.call(best.method)}. That gave "
        f"{signed(best.points, 0)} points of accuracy{_span(best)} above a random one on "
        f"{counted(best.data_sets, 'data set')} of {best.kind}.{same}"
    )
    of_tables = [tables[row.method] for row in fit if row.method in tables]
    lost = sorted({name for row in of_tables for name in row.worse})
    safe = [row for row in of_tables if row.verdict == "better" and not row.worse]
    if safe:
        gain = f"{signed(safe[0].points, 0)}{_span(safe[0])}"
        return f'{said} With a table, first="{safe[0].method}" was better too ({gain}).'
    losses = [value for row in of_tables for value in row.worse.values()]
    if not losses:
        return f"{said} With a table, {random}: none was shown to be better."
    least, most = (f"{-100 * value:.0f}" for value in (max(losses), min(losses)))
    worse = least if least == most else f"{least} to {most}"
    return f"{said} With a table, {random}: on {listed(lost)} these were {worse} points worse."


# Evidence


def source(case: Case, found: Sequence[Row], beyond: Sequence[Row]) -> Iterator[str]:
    """Where the numbers are, and which data they are of."""
    scope = case.scope
    if not found or not scope.section:
        return
    kinds = [*scope.kinds.values()]
    by_kind = [f"{kinds.count(kind)} of {kind}" for kind in ("texts", "images", "tables") if kind in kinds]
    data = f"{counted(len(kinds), 'data set')} ({listed(sorted(scope.kinds))}; {', '.join(by_kind)})"
    facts = [f"{ranged(sorted({*scope.classes.values()}), 'to')} classes"]
    facts += [f"pools of {ranged(scope.pools)}"] if scope.pools else []
    facts += [f"K = {ranged(scope.samples)}"] if scope.samples else []
    facts += [f"batches of {ranged(scope.batches)}", f"{scope.labels[0]:,} to {scope.labels[1]:,} labels"]
    yield f'{PAGE}, "{scope.section}" and "{ROWS}": {data}, {", ".join(facts)}.'
    if case.features and not case.labels:
        yield f'For the first batch, "{_FIRST}".'
    if beyond and beyond[0].scope.section:
        yield f'For very large batches, "{beyond[0].scope.section}".'


# Numbers and lists


def _saved(row: Row) -> str:
    """The share of labels saved, with its interval."""
    return f"{signed(row.saved, 0).lstrip('+')} %{_span(row, '')}"


def _span(found: Row | First, plus: str = "+") -> str:
    """An interval in points, or nothing where there is none."""
    if found.low is None or found.high is None:
        return ""
    low, high = (signed(value, 0) for value in (found.low, found.high))
    return f" [{low}, {high}]" if plus else f" [{low.lstrip('+')}, {high.lstrip('+')}]"


def counted(number: int, thing: str) -> str:
    """A number of things."""
    return f"{number:,} {thing}" + "s" * (number != 1)


def ranged(numbers: Sequence[int], word: str = "") -> str:
    """All numbers, or only the ends of many."""
    if word and len(numbers) > 1:
        return f"{numbers[0]:,} {word} {numbers[-1]:,}"
    return listed([f"{number:,}" for number in numbers])


def listed(names: Sequence[str]) -> str:
    """Names with commas and, before the last, "and"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
