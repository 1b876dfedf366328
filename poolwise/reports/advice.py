"""Which method to use, from what the study measured: see `evidence`.

Nothing here is written by hand about how good a method is. A method is advised because it saved the most labels under
conditions like the user's, among those whose inputs there are. Others are named beside it if a paired test over the
data sets cannot tell them from it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from poolwise.errors import ParameterError
from poolwise.reports import advice_limits
from poolwise.reports import advice_words as words
from poolwise.reports.evidence import (
    BUDGETS,
    EVIDENCE,
    FEW_CLASSES,
    LARGE_BATCH,
    SMALL_BATCH,
    VERY_LARGE,
    First,
    Row,
    Scope,
    evidence,
    first_batches,
)
from poolwise.reports.paired import CONFIDENCE, Difference, difference, holm
from poolwise.selection.catalogue import built_in
from poolwise.selection.registry import find

__all__ = [
    "BUDGETS", "EVIDENCE", "FEW_CLASSES", "LARGE_BATCH", "SMALL_BATCH", "VERY_LARGE", "Advice", "Against", "First",
    "Row", "Scope", "advise", "evidence", "first_batches",
]  # fmt: skip

MANY_POINTS, COVERED, COVERED_PER_PICK = 10_000, 5_000, 3
"""Above the first number of points, methods that compare all pairs cover a random sample: of the second number, or of
the third for each pick, since a batch about as large as the sample runs dry before it is full."""

_ALL_PAIRS = ("mutual-herding", "local-herding", "uherding", "max-herding")
# Fewer data sets than this are hardly evidence.
_FEW = 3
# Shares of labels saved whose difference is surely within this much are about the same.
_ALIKE = 0.05
# Conditions by batch size, which the nearest measured size decides.
_BY_SIZE = ("small batches", "large batches", VERY_LARGE)
# Methods that only look at how samples differ say nothing with one sample.
_NEED_SAMPLES = (
    *("bald", "batchbald", "lbb", "lbb-released", "power-bald", "power-lbb", "power-lbb-released", "softmax-bald"),
    *("softrank-bald", "epig", "smocu", "gp-variance", "gp-look-ahead", "lcmd", "posterior-coverage", "drop-query"),
)


class Against(NamedTuple):
    """The advised method against another, by labels saved, paired over the data sets.

    Attributes:
        row: the other method.
        found: share saved by the advised method less that of the other, under the user's condition.
        told: whether the other clearly saved less, by p-values adjusted for the number of others (Holm 1979).
    """

    row: Row
    found: Difference
    told: bool

    @property
    def alike(self) -> bool:
        """Whether they surely save about as many labels."""
        return max(-self.found.low, self.found.high) <= _ALIKE  # False without an interval, which is NaN


@dataclass(frozen=True)
class Advice:
    """A method, and why.

    Attributes:
        method: the method to use; `"random"` if nothing is known to be better.
        condition: under which conditions of the study it was chosen, in words; empty if it had no part.
        evidence: what was measured of it; None for random.
        rivals: methods that save labels too and cannot be told from it, the best first.
        notes: what limits the advice, in sentences.
        call: the call that selects a batch with it.
        why: the reasons, in sentences.
        against: all others whose inputs there are, the best first.
        first: what to do while nothing is labelled; empty if there are labels.
        source: where the numbers are and what they are of, in sentences.
    """

    method: str
    condition: str
    evidence: Row | None
    rivals: tuple[Row, ...]
    notes: tuple[str, ...]
    call: str = ""
    why: tuple[str, ...] = ()
    against: tuple[Against, ...] = ()
    first: str = ""
    source: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The advice in sentences: what to do, why, what else, what limits it, and where that is from."""
        alternatives = words.alternatives([found for found in self.against if found.row in self.rivals])
        parts = {"Why": self.why, "Alternatives": alternatives, "Limits": self.notes, "Evidence": self.source}
        said = [f"Use {self.method}: {self.call}", *([f"First batch: {self.first}"] if self.first else [])]
        return said + [f"{name}: {' '.join(sentences)}" for name, sentences in parts.items() if sentences]


def advise(
    points: int,
    classes: int,
    batch_size: int,
    samples: int,
    *,
    features: bool = False,
    labels: int = 0,
    known: Sequence[Row] | None = None,
    known_first: Sequence[First] | None = None,
) -> Advice:
    """Which method to use.

    Args:
        points: N, how many examples there are.
        classes: C, how many classes.
        batch_size: b, labels per round.
        samples: K, how many posterior samples.
        features: whether there are fixed features.
        labels: how many labels there are.
        known: what was measured; by default what comes with the package.
        known_first: what was measured of first batches; by default what comes with the package.

    Example:
        >>> advise(50_000, 10, 50, samples=5).method in ("random", "margin", "badge", "posterior-coverage")
        True
    """
    _check(points, batch_size, labels)
    if batch_size == points - labels:
        why = "the batch takes every point that has no label, whatever the method, so nothing can be saved."
        return Advice("random", "", None, (), (), words.call("random", batch_size, (), {}), (why,))
    rows = evidence() if known is None else tuple(known)
    firsts = first_batches() if known_first is None else tuple(known_first)
    kind = "fixed" if features and any(row.features == "fixed" for row in rows) else "network"
    usable = [row for row in rows if row.features == kind and _usable(row.method, samples, features)]
    condition = _condition(usable, kind, classes, batch_size, labels)
    found = sorted((row for row in usable if row.condition == condition), key=lambda row: -row.saved)
    best = _best(usable, found, condition)
    against = () if best is None else tuple(_against(usable, found, best, condition))
    rivals = tuple(other.row for other in against if not other.told and other.row.saved > 0)
    scope = (best or found[0]).scope if found else Scope()
    measured = sorted({size for row in rows if row.features == kind for size in row.scope.batches})
    case = words.Case(points, classes, batch_size, samples, labels, features, kind, condition, scope, measured)
    method = "random" if best is None else best.method
    parameters = {} if best is None else dict(best.parameters)
    sample = _sample(method, points, points - labels, batch_size)
    if sample is not None:
        parameters["sample"] = sample
    few = bool(found) and (best or found[0]).data_sets < _FEW
    overall = next((row for row in usable if best and row.name == best.name and row.condition == "all"), None)
    other = {row.condition: row.scope.batches for row in rows if kind == "fixed" and row.condition == VERY_LARGE}
    is_beyond = _nearest({"": measured, **other}, batch_size) == VERY_LARGE
    beyond = [row for row in rows if is_beyond and row.condition == VERY_LARGE]
    limits = advice_limits.limits(case, best, overall, sample=sample, covered=COVERED, few=few, beyond=beyond)
    learner = words.Learner(method, batch_size, features, parameters)
    return Advice(
        method,
        case.condition_in_words,
        best,
        rivals,
        tuple(limits),
        words.call(method, batch_size, find(method).inputs(parameters), parameters),
        tuple(
            words.reasons(case, best, against, overall, sampled=sample is not None)
            if best
            else words.nothing_shown(case, found, usable)
        ),
        against,
        words.first_batch(firsts if features else (), learner) if not labels else "",
        tuple(words.source(case, found, beyond)),
    )


def _sample(method: str, points: int, unlabelled: int, batch_size: int) -> int | None:
    """How many points to cover; None for all."""
    if method not in _ALL_PAIRS or points <= MANY_POINTS:
        return None
    covered = max(COVERED, math.ceil(COVERED_PER_PICK * batch_size / 1000) * 1000)
    return covered if covered < unlabelled else None


def _check(points: int, batch_size: int, labels: int) -> None:
    if batch_size > points:
        raise ParameterError(f"batch_size must be at most the number of points, {points:,}, not {batch_size:,}.")
    if labels > points:
        raise ParameterError(
            f"labels must be at most the number of points, {points:,}, not {labels:,}: points counts all examples, "
            "those with a label too."
        )
    if batch_size > points - labels:
        raise ParameterError(
            f"batch_size must be at most the number of points without a label, {points - labels:,}, not {batch_size:,}."
        )


def _condition(usable: Sequence[Row], kind: str, classes: int, batch_size: int, labels: int) -> str:
    """The condition of the study that is most like the user's."""
    scopes = {row.condition: row.scope for row in usable}
    if kind == "fixed":
        budgets = [name for name in BUDGETS if name in scopes and scopes[name].labels]
        begun = max(labels, min((scopes[name].labels[0] for name in budgets), default=0))  # what runs began with
        return min(budgets, key=lambda name: _distance(scopes[name], batch_size, begun), default="all")
    size = _nearest({name: scopes[name].batches for name in _BY_SIZE if name in scopes}, batch_size)
    if size == VERY_LARGE:
        return VERY_LARGE
    wanted = "many classes" if classes > FEW_CLASSES else ""
    enough = {row.condition for row in usable if row.data_sets >= _FEW}
    return next((name for name in (wanted, size) if name in enough), "all")


def _distance(scope: Scope, batch_size: int, labels: int) -> tuple[bool, bool, int, float]:
    """How unlike a budget is: its runs began with more labels, ended with fewer, began earlier, had other batches."""
    begin, end = scope.labels
    return begin > labels, end <= labels, -begin, _far(scope.batches, batch_size)


def _nearest(sizes: Mapping[str, Sequence[int]], batch_size: int) -> str:
    """The condition that measured the nearest batch size, by ratio; the first of two that are as near."""
    return min(sizes, key=lambda name: _far(sizes[name], batch_size), default="")


def _far(sizes: Sequence[int], batch_size: int) -> float:
    """The logarithm of the ratio to the nearest of some batch sizes."""
    return min((abs(math.log(size / batch_size)) for size in sizes), default=math.inf)


def _best(usable: Sequence[Row], found: Sequence[Row], condition: str) -> Row | None:
    """The method to use; None if none was shown to save labels.

    Of those that did not clearly save less than the first one at a budget, the one that saved the most over all
    budgets: one budget alone is little evidence.
    """
    if condition == VERY_LARGE:
        found = [row for row in found if row.better or row.verdict == "better"]
    if not found or found[0].saved <= 0:
        return None
    if condition not in BUDGETS:
        return found[0]
    overall = {row.name: row.saved for row in usable if row.condition == "all"}
    level = [found[0], *(other.row for other in _against(usable, found, found[0], condition) if not other.told)]
    return max(level, key=lambda row: overall.get(row.name, -math.inf))


def _against(usable: Sequence[Row], found: Sequence[Row], best: Row, condition: str) -> list[Against]:
    """A method against all others of a condition.

    At a budget, all budgets are one question, as in docs/results.md. A method that clearly saved less over all budgets
    together clearly saved less: that is what the study asked.
    """
    behind = _behind(usable, best, (condition,)) if condition not in BUDGETS else (
        _behind(usable, best, BUDGETS) | {(condition, name) for _, name in _behind(usable, best, ("all",))}
    )  # fmt: skip
    others = [row for row in found if row.name != best.name]
    return [Against(row, _less(best, row), (condition, row.name) in behind) for row in others]


def _behind(usable: Sequence[Row], best: Row, conditions: Sequence[str]) -> set[tuple[str, str]]:
    """The conditions and names of others that clearly saved less, with some conditions as one question."""
    base = {row.condition: row for row in usable if row.name == best.name}
    others = [row for row in usable if row.condition in conditions and row.condition in base and row.name != best.name]
    leads = [_less(base[row.condition], row) for row in others]
    adjusted = holm([lead.p_value for lead in leads])
    return {
        (row.condition, row.name)
        for row, lead, p in zip(others, leads, adjusted, strict=True)
        if lead.mean > 0 and p < 1 - CONFIDENCE
    }


def _less(first: Row, second: Row) -> Difference:
    """Share of labels saved, first less second, over the data sets."""
    names = sorted({*first.each, *second.each})
    ours, theirs = ({names.index(name): share for name, share in row.each.items()} for row in (first, second))
    return difference(ours, theirs)


def _usable(method: str, samples: int, features: bool) -> bool:
    """Whether a method can be used: its inputs are available, and K samples are enough for it."""
    if method not in built_in() or method == "random":
        return False
    if samples == 1 and method in _NEED_SAMPLES:
        return False
    return features or "embeddings" not in find(method).inputs({}) or method == "badge"
