"""Which method to use, from what the study measured: `evidence.json`, which `python -m paper study page` writes.

Nothing here is written by hand about any method: a method is advised because it saved the most labels under conditions
like the user's, among those whose inputs there are.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from poolwise.errors import ParameterError
from poolwise.reports.numbers import seconds, signed
from poolwise.selection.catalogue import built_in
from poolwise.selection.registry import find

EVIDENCE = "evidence.json"
SMALL_BATCH, FEW_CLASSES = 20, 20
"""Up to these, a batch counts as small and classes as few."""

# Pools of the study, by the features that methods got. Times and ranks may change with larger ones.
_STUDIED = {"network": 5_000, "fixed": 3_000}
# Fewer data sets than this are hardly evidence.
_FEW = 3
# Methods that only look at how samples differ say nothing with one sample.
_NEED_SAMPLES = (
    *("bald", "batchbald", "lbb", "lbb-released", "power-bald", "power-lbb", "power-lbb-released", "softmax-bald"),
    *("softrank-bald", "epig", "smocu", "gp-variance", "gp-look-ahead", "lcmd", "posterior-coverage", "drop-query"),
)


class Row(NamedTuple):
    """What the study measured of a method under some conditions.

    Attributes:
        features: `"fixed"` if networks were trained on fixed features that methods got too, else `"network"`.
        condition: `"all"`, `"small batches"`, `"large batches"`, `"few classes"` or `"many classes"`.
        method: the method.
        saved: share of labels saved against random, mean over the data sets.
        low: lower end of its interval over the data sets; None with fewer than two.
        high: upper end.
        verdict: whether it is better than random over the curve, adjusted for the number of methods.
        data_sets: how many data sets.
        settings: how many settings.
        worse: in how many settings it is worse than random, by the seeds of each.
        seconds: mean time of a selection.
    """

    features: str
    condition: str
    method: str
    saved: float
    low: float | None
    high: float | None
    verdict: str
    data_sets: int
    settings: int
    worse: int
    seconds: float


@dataclass(frozen=True)
class Advice:
    """A method, and why.

    Attributes:
        method: the method to use; `"random"` if nothing is known to be better.
        condition: under which conditions of the study it was chosen, in words.
        evidence: what was measured of it; None for random.
        rivals: methods that cannot be told from it, by their intervals.
        notes: what else is good to know.
    """

    method: str
    condition: str
    evidence: Row | None
    rivals: tuple[Row, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """The advice in sentences."""
        said = [f"Use {self.method}."]
        if self.evidence is None:
            said.append(f"Why: in the study no method was shown to save labels here ({self.condition}).")
        else:
            said.append(f"Why: in the study ({self.condition}) it saved the most labels, {_saved(self.evidence)}")
            if self.evidence.worse:
                said.append(
                    f"It was worse than random in {self.evidence.worse} of {self.evidence.settings} settings there."
                )
        if self.rivals:
            named = ", ".join(f"{row.method} ({signed(row.saved, 0)} %)" for row in self.rivals)
            said.append(f"Intervals overlap with those of: {named}.")
        return [*said, *self.notes]


def _saved(row: Row) -> str:
    """What a method saved, and whether accuracies agree."""
    span = "" if row.low is None or row.high is None else f" [{100 * row.low:.0f}, {100 * row.high:.0f}]"
    compared = {
        "better": "was better than random's",
        "worse": "was worse than random's",
        "equivalent": "was equivalent to random's",
    }.get(row.verdict, "cannot be told from random's")
    return (
        f"{100 * row.saved:.0f} %{span} of those that random needs, over {row.data_sets} data sets. "
        f"Its accuracy over the learning curve {compared}."
    )


@cache
def evidence() -> tuple[Row, ...]:
    """All that the study measured."""
    content: dict[str, Any] = json.loads((files("poolwise.reports") / EVIDENCE).read_text())
    return tuple(Row(**row) for row in content["rows"])


def advise(
    points: int,
    classes: int,
    batch_size: int,
    samples: int,
    *,
    features: bool = False,
    labels: int = 0,
    known: Sequence[Row] | None = None,
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

    Example:
        >>> advise(50_000, 10, 50, samples=5).method in ("random", "margin", "badge", "posterior-coverage")
        True
    """
    if batch_size > points:
        raise ParameterError(f"batch_size must be at most the number of points, {points:,}, not {batch_size:,}.")
    rows = evidence() if known is None else tuple(known)
    kind = "fixed" if features and any(row.features == "fixed" for row in rows) else "network"
    wanted = "many classes" if classes > FEW_CLASSES else ""
    size = "small batches" if batch_size <= SMALL_BATCH else "large batches"
    usable = [row for row in rows if row.features == kind and _usable(row.method, samples, features)]
    enough = {row.condition for row in usable if row.data_sets >= _FEW}
    condition = next((name for name in (wanted, size) if name in enough), "all")
    found = sorted((row for row in usable if row.condition == condition), key=lambda row: -row.saved)
    words = f"{'fixed features' if kind == 'fixed' else 'features of the network'}, {condition}"
    notes = tuple(_notes(points, samples, labels, features, kind))
    best = found[0] if found and found[0].saved > 0 else None
    if best is None:
        return Advice("random", words, None, (), notes)
    low = best.low
    rivals = tuple(row for row in found[1:] if low is None or (row.high is not None and row.high >= low))[:4]
    few = () if best.data_sets >= _FEW else (f"That is {best.data_sets} data set(s): hardly evidence.",)
    took = f"A selection took {seconds(best.seconds)} there, of pools of about {_STUDIED[kind]:,}."
    return Advice(best.method, words, best, rivals, (*few, took, *notes))


def _usable(method: str, samples: int, features: bool) -> bool:
    """Whether a method can be used: its inputs are available, and K samples are enough for it."""
    if method not in built_in() or method == "random":
        return False
    if samples == 1 and method in _NEED_SAMPLES:
        return False
    return features or "embeddings" not in find(method).inputs({}) or method == "badge"


def _notes(points: int, samples: int, labels: int, features: bool, kind: str) -> list[str]:
    notes = []
    if not labels:
        first = 'first="k-means" or "max-herding" selects the first batch by features' if features else (
            "without fixed features the first batch is drawn at random"
        )  # fmt: skip
        notes.append(f"There are no labels yet, so there is no model: {first}.")
    if samples == 1:
        notes.append("With one posterior sample, methods that look at how samples differ are left out.")
    if features and kind != "fixed":
        notes.append("The study has no records on fixed features yet, so this is from networks trained on raw inputs.")
    if points > 20 * _STUDIED[kind]:
        notes.append(f"The study's pools are much smaller than {points:,}: check with candidates= or a pilot.")
    notes.append("Your data may differ: poolwise pilot DATA answers for them, from the part that is labelled.")
    return notes
