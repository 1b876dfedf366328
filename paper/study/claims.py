"""What the paper claims, and what the records say of it: on the paper's own data, and on other data."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from paper.study.areas import area_above, by_data
from paper.study.compare import (
    MEASURES,
    Answer,
    Comparison,
    Measure,
    Records,
    Unit,
    answered,
    by_data_set,
    compare,
    dropout,
    in_paper,
    over,
    repeated,
    verdict_alone,
    versus,
)
from paper.timings.durations import AUTHORS_CONFIGURATIONS
from poolwise.experiments.records import Setting
from poolwise.reports.numbers import signed
from poolwise.reports.paired import EQUIVALENT, Difference
from poolwise.reports.profiles import Problems, profiles

Finding = Literal["holds", "does not hold", "equivalent", "inconclusive"]

OURS, RELEASED, PRINTED = "this library's forms", "the authors' program", "the formula as printed"
# Every reading of LBB, PLBB and PBALD. The program draws with exponent 5, this library with 1.
LBB = {"lbb": OURS, "lbb-released": RELEASED, "lbb-printed": PRINTED}
PLBB = {"power-lbb": OURS, "power-lbb-released": RELEASED}
PBALD = {"power-bald": OURS, "power-bald-5": RELEASED}
READINGS: Mapping[str, str] = {**LBB, **PLBB, **PBALD}
"""Which reading of the paper a method is."""

# The leaders of the paper's performance profiles, and the others there, in each reading.
_OTHERS = ("bald", "random", "least-confidence")
PROFILES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    OURS: (("power-lbb", "power-bald"), ("lbb", *_OTHERS)),
    RELEASED: (("power-lbb-released", "power-bald-5"), ("lbb-released", *_OTHERS)),
}

# How many times faster LBB is than BatchBALD, at least: with batches of up to 10, and of more.
MULTIPLE = "LBB is multiple times faster than BatchBALD", 2
TENS = "LBB is tens of times faster than BatchBALD, with larger batches", 10

SCOPES: Mapping[str, Callable[[Setting], bool]] = {
    "the paper's data": in_paper,
    "other data": lambda setting: not in_paper(setting),
}
COLUMNS: tuple[tuple[Measure, Unit], ...] = tuple(
    (measure, unit) for measure in MEASURES for unit in ("data sets", "settings")
)
ENSEMBLES, DROPOUT = "ensembles", "MC dropout"


@dataclass(frozen=True)
class RunTimes:
    """The paper's Table 2, measured here.

    Attributes:
        seconds: mean time, by the paper's name of an algorithm and the batch size.
        configurations: how many BatchBALD drew.
    """

    seconds: Mapping[tuple[str, int], float]
    configurations: int = 0


def _any(setting: Setting) -> bool:
    return True


def _of_size(size: int, setting: Setting) -> bool:
    return setting.batch_size == size


class Claimed(NamedTuple):
    """A claim about the accuracy of two methods.

    Attributes:
        text: what the paper says.
        first: the one.
        second: the other.
        kind: whether the first is said to be above the second, below it, or close to it.
        where: on which settings, in words.
        wanted: on which settings.
    """

    text: str
    first: str
    second: str
    kind: Literal["above", "below", "close"] = "above"
    where: str = "all"
    wanted: Callable[[Setting], bool] = _any

    @property
    def reading(self) -> str | None:
        """In which reading of the paper it is tested; None if there is one only."""
        return READINGS.get(self.first)


class Cell(NamedTuple):
    """What the records say of a claim.

    Attributes:
        finding: the verdict.
        found: the difference that it rests on.
        p_value: adjusted for the number of claims; NaN for claims of closeness, which no such test can support.
    """

    finding: Finding
    found: Difference
    p_value: float


@dataclass(frozen=True)
class Tested:
    """A claim and its tests on one kind of data.

    Attributes:
        claimed: the claim.
        cells: the findings, by what was measured and what was counted.
        settings: how many settings.
        ahead: in how many of them the first is ahead, by the mean over the curve.
    """

    claimed: Claimed
    cells: Mapping[tuple[Measure, Unit], Cell]
    settings: int
    ahead: int


def all_claims() -> Iterator[Claimed]:
    """All claims about accuracies, in the order of the paper, in every reading of its methods."""
    for form in LBB:
        yield Claimed("LBB beats BALD on repeated data", form, "bald", where="repeated", wanted=repeated)
    for form in LBB:
        yield Claimed("LBB beats BALD", form, "bald")
    for form in LBB:
        yield Claimed("LBB beats random", form, "random")
    yield Claimed("BALD falls below random on repeated data", "bald", "random", "below", "repeated", repeated)
    yield Claimed(
        "BALD falls below random under MC dropout (RMNIST, FMNIST)", "bald", "random", "below",
        "MC dropout, RMNIST and FMNIST", lambda s: dropout(s) and s.experiment.startswith(("rmnist", "fashion")),
    )  # fmt: skip
    for form in PLBB:
        yield Claimed("Power sampling improves LBB", form, form.removeprefix("power-"))
    for form in PBALD:
        yield Claimed("Power sampling improves BALD", form, "bald")
    for form in (*PLBB, *PBALD):
        for other in ("random", "least-confidence", "batchbald"):
            name = "PLBB" if form in PLBB else "PBALD"
            yield Claimed(f"{name} is among the leaders: ahead of {other}", form, other)
    for form, other in zip(PLBB, PBALD, strict=True):
        yield Claimed("PLBB beats PBALD", form, other)
    for form in LBB:
        for size in (10, 50):
            yield Claimed(
                "LBB is close to BatchBALD in accuracy", form, "batchbald", "close", f"batches of {size}",
                partial(_of_size, size),
            )  # fmt: skip
    for form in PLBB:
        yield Claimed(
            "PLBB and BADGE are comparable on AG News", form, "badge", "close", "AG News",
            lambda s: s.data == "ag-news",
        )  # fmt: skip
    yield Claimed("Ensembles beat MC dropout", ENSEMBLES, DROPOUT, "above", "not repeated", lambda s: not repeated(s))
    yield Claimed("Ensembles beat MC dropout", ENSEMBLES, DROPOUT, "above", "repeated", repeated)


def judged_claims(records: Records) -> list[Tested]:
    """Test the claims on some records: those that have settings there.

    Each column is one question, so p-values are adjusted for the number of claims in it.
    """
    compared = {
        claimed: {measure: comparison(records.where(claimed.wanted), claimed, measure) for measure in MEASURES}
        for claimed in all_claims()
    }
    kept = {claimed: found for claimed, found in compared.items() if found["curve"].each}
    cells: dict[Claimed, dict[tuple[Measure, Unit], Cell]] = {claimed: {} for claimed in kept}
    for measure, unit in COLUMNS:
        differences = {claimed: found[measure].over(unit) for claimed, found in kept.items()}
        answers = answered({claimed: found for claimed, found in differences.items() if claimed.kind != "close"})
        for claimed, found in differences.items():
            answer = answers.get(claimed, Answer(found, verdict_alone(found), math.nan))
            cells[claimed][measure, unit] = Cell(_finding(claimed, answer), found, answer.p_value)
    return [
        Tested(claimed, cells[claimed], len(found["curve"].each), found["curve"].ahead)
        for claimed, found in kept.items()
    ]


def comparison(records: Records, claimed: Claimed, measure: Measure) -> Comparison:
    """The two that a claim is about, in the settings of some records that have both."""
    if claimed.first == ENSEMBLES:
        return _twins(records, measure)
    return versus(records, claimed.first, claimed.second, measure)


def _finding(claimed: Claimed, answer: Answer) -> Finding:
    """From what the records say of a difference to what they say of a claim."""
    found, verdict = answer.found, answer.verdict
    if claimed.kind == "close":
        if verdict == "equivalent":
            return "holds"
        return "does not hold" if found.low > EQUIVALENT or found.high < -EQUIVALENT else "inconclusive"
    if verdict in ("better", "worse"):
        return "holds" if (verdict == "better") == (claimed.kind == "above") else "does not hold"
    return "equivalent" if verdict == "equivalent" else "inconclusive"


def spelled(found: Difference) -> str:
    """A difference in points with its interval."""
    return f"{signed(found.mean)} [{signed(found.low)}, {signed(found.high)}]"


def verdict_cell(answer: Answer) -> str:
    """A verdict in the words of the page, and what it rests on."""
    return f"**{answer.verdict}** {spelled(answer.found)}"


def _twins(records: Records, measure: Measure) -> Comparison:
    """Ensembles against dropout with the same data, batch size and seed, the mean over all methods."""
    by_name = {setting.experiment: setting for setting in records.groups}
    pairs: dict[Setting, tuple[dict[int, float], dict[int, float]]] = {}
    for name, setting in by_name.items():
        twin = by_name.get(name.replace("-ensemble-", "-dropout-"))
        if twin is not None and twin != setting:
            pairs[setting] = (_mean_of_methods(records, setting, measure), _mean_of_methods(records, twin, measure))
    return compare(pairs)


def _mean_of_methods(records: Records, setting: Setting, measure: Measure) -> dict[int, float]:
    """Mean accuracy of all methods, for the seeds that all have."""
    by_label = [records.values(setting, label, measure) for label in records.labels]
    seeds = set.intersection(*(set(values) for values in by_label))
    return {seed: float(np.mean([values[seed] for values in by_label])) for seed in sorted(seeds)}


class Other(NamedTuple):
    """A claim about something else than the accuracies of two methods.

    Attributes:
        text: what the paper says.
        where: where it was tested.
        form: what was tested.
        finding: the verdict.
        numbers: what it rests on.
    """

    text: str
    where: str
    form: str
    finding: Finding
    numbers: str


def other_claims(records: Records, times: RunTimes) -> Iterator[Other]:
    """Claims about performance profiles and times."""
    for scope, wanted in SCOPES.items():
        part = records.where(wanted)
        for reading, (leaders, others) in PROFILES.items():
            if {*leaders, *others} <= set(part.labels) and len(part.groups) > 1:
                yield _leaders(part, f"{scope}, {reading}", leaders, others)
    for size in sorted({size for _, size in times.seconds}):
        yield _faster_in_table(times, size)
    for size in (10, 50):
        part = records.where(partial(_of_size, size))
        if part.groups:
            yield _faster(size, part)


def _judge(low: float, high: float, least: float) -> Finding:
    """Whether a number whose interval is known is above a limit: surely, surely not, or perhaps."""
    if low > least:
        return "holds"
    return "does not hold" if high < least else "inconclusive"


def _faster_in_table(times: RunTimes, size: int) -> Other:
    """By the means of the paper's Table 2, measured here."""
    slow, fast = (times.seconds[name, size] for name in ("BatchBALD", "Large BB"))
    drawn = f"{times.configurations:,} configurations"
    if times.configurations != AUTHORS_CONFIGURATIONS:
        drawn += f"; the authors' program draws {AUTHORS_CONFIGURATIONS:,}"
    numbers = f"{slow / fast:.1f} times: batchbald ({drawn}) {slow:.2f} s, lbb {fast:.3f} s"
    text, least = TENS if size > 10 else MULTIPLE
    where = f"the paper's Table 2, batch of {size}"
    return Other(text, where, f"at least {least} times", _judge(slow / fast, slow / fast, least), numbers)


def _faster(size: int, records: Records) -> Other:
    """How much longer BatchBALD took to select in the runs, as a geometric mean over the data sets."""
    records = records.with_all(("batchbald", "lbb"))
    ratios = {s: records.seconds(s, "batchbald") / records.seconds(s, "lbb") for s in records.groups}
    found = over(by_data_set({s: math.log(ratio) for s, ratio in ratios.items()}).values())
    middle, low, high = map(math.exp, (found.mean, found.low, found.high))
    each = f"{min(ratios.values()):.1f} to {max(ratios.values()):.0f} by setting"
    numbers = (
        f"over the data sets, batchbald (1,000 configurations) took {middle:.1f} [{low:.1f}, {high:.1f}] times as long "
        f"in these runs, {each}, with this library's engine for both"
    )
    text, least = TENS if size > 10 else MULTIPLE
    return Other(text, f"batches of {size}", f"at least {least} times", _judge(low, high, least), numbers)


def _leaders(records: Records, where: str, leaders: Sequence[str], others: Sequence[str]) -> Other:
    """Every leader against every other method: the claim holds if all of them lead, and does not if one is behind."""
    table = by_data(records)
    kept = [table.labels.index(label) for label in (*leaders, *others)]
    table = Problems((*leaders, *others), table.errors_P_S[:, kept], table.setting_P)
    found = profiles(table)  # the largest area first
    order = ", ".join(f"{p.label} {p.area:.3f} [{p.area_low:.3f}, {p.area_high:.3f}]" for p in found)
    tau = float(found[0].tau_T[-1])
    pairs = list(product(leaders, others))
    answers = answered({(one, other): area_above(table, one, other, tau) for one, other in pairs})
    verdicts = {answer.verdict for answer in answers.values()}
    finding: Finding = "holds" if verdicts == {"better"} else "does not hold" if "worse" in verdicts else "inconclusive"
    (first, second), least = min(answers.items(), key=lambda item: item[1].found.mean)
    clear = sum(answer.verdict == "better" for answer in answers.values())
    return Other(
        "PLBB and PBALD lead the performance profiles of the paper's six algorithms",
        where,
        "area",
        finding,
        f"over the data sets, {clear} of {len(pairs)} leads over the others are beyond chance (Holm); the least is "
        f"that of {first} over {second}, {spelled(least.found)} hundredths; τ from 1 to {tau:.2f}; areas over all "
        f"settings: {order}",
    )
