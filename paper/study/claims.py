"""What the paper claims, and what the records say of it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from paper.study.compare import Comparison, Records, compare, dropout, repeated, versus
from poolwise.experiments.records import Setting
from poolwise.reports.numbers import signed
from poolwise.reports.paired import CONFIDENCE, Difference, holm, interval
from poolwise.reports.profiles import Problems, lead, problems, profiles

Finding = Literal["holds", "does not hold", "within noise"]

# The six algorithms of the paper's performance profiles.
PAPER = ("bald", "power-bald", "lbb", "power-lbb", "random", "least-confidence")

# Every reading of the paper's two methods: this library's, what its program computes, and for LBB the printed formula.
LBB = ("lbb", "lbb-released", "lbb-printed")
PLBB = ("power-lbb", "power-lbb-released")

# Two methods are close where the interval of their difference lies within this much accuracy.
CLOSE = 0.01

# "Tens of times" is at least this.
TENS = 10
_SPEED, _TENS = "LBB is tens of times faster than BatchBALD", f"at least {TENS} times"


@dataclass(frozen=True)
class RunTimes:
    """The paper's Table 2, measured here.

    Attributes:
        seconds: mean time, by the paper's name of an algorithm and the batch size.
        configurations: how many BatchBALD drew.
    """

    seconds: Mapping[tuple[str, int], float]
    configurations: int = 0


@dataclass(frozen=True)
class Claim:
    """A claim and its test.

    Attributes:
        text: what the paper says.
        where: on which settings it was tested.
        form: which form of the method.
        finding: the verdict.
        numbers: what it rests on.
        p_value: of the paired test over the settings; NaN where there is none.
    """

    text: str
    where: str
    form: str
    finding: Finding
    numbers: str
    p_value: float = math.nan


def claims(records: Records, times: RunTimes) -> list[Claim]:
    """All claims, in the order of the paper; p-values are adjusted for their number, and findings follow them."""
    found = list(_claims(records, times))
    adjusted = holm([claim.p_value for claim in found])
    return [
        replace(claim, p_value=p, finding="within noise" if p >= 1 - CONFIDENCE else claim.finding)
        for claim, p in zip(found, adjusted, strict=True)
    ]


def _claims(records: Records, times: RunTimes) -> Iterator[Claim]:
    copies = records.where(repeated)
    plain = records.where(lambda s: not repeated(s))
    for form in LBB:
        yield _ahead("LBB beats BALD on repeated data", "repeated", copies, form, "bald")
    for form in LBB:
        yield _ahead("LBB beats BALD", "all", records, form, "bald")
    for form in LBB:
        yield _ahead("LBB beats random", "all", records, form, "random")
    yield _behind("BALD falls below random on repeated data", "repeated", copies, "bald", "random")
    yield _behind(
        "BALD falls below random under MC dropout (RMNIST, FMNIST)",
        "MC dropout, RMNIST and FMNIST",
        records.where(lambda s: dropout(s) and s.experiment.startswith(("rmnist", "fashion"))),
        "bald",
        "random",
    )
    for form in PLBB:
        yield _ahead("Power sampling improves LBB", "all", records, form, form.removeprefix("power-"))
    yield _ahead("Power sampling improves BALD", "all", records, "power-bald", "bald")
    for form in (*PLBB, "power-bald"):
        for other in ("random", "least-confidence", "batchbald"):
            name = "PLBB" if form in PLBB else "PBALD"
            yield _ahead(f"{name} is among the leaders: ahead of {other}", "all", records, form, other)
    yield _profile_claim(records)
    for form in PLBB:
        yield _ahead("PLBB beats PBALD", "all", records, form, "power-bald")
    for form in LBB:
        for size in (10, 50):
            some = _batches(records, size)
            yield _close("LBB is close to BatchBALD in accuracy", f"batches of {size}", some, form, "batchbald")
    for size in sorted({size for _, size in times.seconds}):
        yield _faster_in_table(times, size)
    for size in (10, 50):
        yield _faster(f"batches of {size}", _batches(records, size))
    news = records.where(lambda s: s.data == "ag-news")
    for form in PLBB:
        yield _close("PLBB and BADGE are comparable on AG News", "AG News", news, form, "badge")
    yield _ensembles(plain, "not repeated")
    yield _ensembles(copies, "repeated")


def _batches(records: Records, size: int) -> Records:
    return records.where(lambda s: s.batch_size == size)


def spelled(found: Difference) -> str:
    """A difference in points with its interval."""
    return f"{signed(found.mean)} [{signed(found.low)}, {signed(found.high)}]"


def counts(comparison: Comparison) -> str:
    """In how many settings the seeds say what."""
    total = len(comparison.each)
    return (
        f"ahead in {comparison.ahead} of {total} settings "
        f"({comparison.count('better')} clearly better, {comparison.count('worse')} clearly worse)"
    )


def _judge(low: float, high: float, least: float, most: float = math.inf) -> Finding:
    """Whether a number whose interval is known lies between two limits: surely, surely not, or perhaps."""
    if low > least and high < most:
        return "holds"
    return "does not hold" if high < least or low > most else "within noise"


def _ahead(text: str, where: str, records: Records, form: str, other: str) -> Claim:
    return _directed(text, where, f"{form} − {other}", versus(records, form, other))


def _behind(text: str, where: str, records: Records, form: str, other: str) -> Claim:
    return _directed(text, where, f"{form} − {other}", versus(records, form, other), -1)


def _directed(text: str, where: str, form: str, found: Comparison, sign: int = 1) -> Claim:
    """A claim that a difference is above 0, or with `sign=-1` below."""
    overall = found.overall
    low, high = sorted((sign * overall.low, sign * overall.high))
    numbers = f"{spelled(overall)}; {counts(found)}"
    return Claim(text, where, form, _judge(low, high, 0.0), numbers, overall.p_value)


def _close(text: str, where: str, records: Records, form: str, other: str) -> Claim:
    """A claim that two methods are alike, which a test of no difference cannot support: it has no p-value."""
    found = versus(records, form, other)
    finding = _judge(found.overall.low, found.overall.high, -CLOSE, CLOSE)
    return Claim(text, where, f"{form} − {other}", finding, f"{spelled(found.overall)}; {counts(found)}")


def _faster_in_table(times: RunTimes, size: int) -> Claim:
    """By the means of the paper's Table 2, measured here."""
    slow, fast = (times.seconds[name, size] for name in ("BatchBALD", "Large BB"))
    drawn = f"{times.configurations:,} configurations"
    numbers = f"{slow / fast:.1f} times: batchbald ({drawn}) {slow:.2f} s, lbb {fast:.3f} s"
    return Claim(
        _SPEED, f"the paper's Table 2, batch of {size}", _TENS, _judge(slow / fast, slow / fast, TENS), numbers
    )


def _faster(where: str, records: Records) -> Claim:
    """How much longer BatchBALD took to select in the runs, as a geometric mean over the settings."""
    ratios = []
    for group in records.groups.values():
        slow, fast = (
            np.mean([r.seconds["select"] for run in group.runs[label].values() for r in run.rounds if r.picks])
            for label in ("batchbald", "lbb")
        )
        ratios.append(slow / fast)
    middle, low, high = (float(np.exp(column[0])) for column in interval(np.log(ratios).reshape(-1, 1)))
    numbers = (
        f"batchbald (1,000 configurations) took {middle:.1f} [{low:.1f}, {high:.1f}] times as long in these runs, "
        f"{min(ratios, default=math.nan):.1f} to {max(ratios, default=math.nan):.0f} by setting, with this library's "
        "engine for both"
    )
    return Claim(_SPEED, where, _TENS, _judge(low, high, TENS), numbers)


def _profile_claim(records: Records) -> Claim:
    table = problems(records.groups.values())
    kept = [table.labels.index(label) for label in PAPER]
    found = profiles(Problems(PAPER, table.errors_P_S[:, kept], table.setting_P))
    order = ", ".join(f"{p.label} {p.area:.3f} [{p.area_low:.3f}, {p.area_high:.3f}]" for p in found)
    leaders = [p for p in found if p.label in ("power-lbb", "power-bald")]
    ahead, low, high = lead(leaders, [p for p in found if p not in leaders])
    return Claim(
        "PLBB and PBALD lead the performance profiles of the paper's six algorithms",
        "all",
        "area",
        _judge(low, high, 0.0),
        f"the second leads the best other by {ahead:.3f} [{low:.3f}, {high:.3f}]; {order}",
    )


def _ensembles(records: Records, where: str) -> Claim:
    """Ensembles against dropout with the same data, batch size and seed, the mean over all methods."""
    by_name = {setting.experiment: setting for setting in records.groups}
    pairs: dict[Setting, tuple[dict[int, float], dict[int, float]]] = {}
    for name, setting in by_name.items():
        twin = by_name.get(name.replace("-ensemble-", "-dropout-"))
        if twin is not None and twin != setting:
            pairs[setting] = (_mean_of_methods(records, setting), _mean_of_methods(records, twin))
    return _directed("Ensembles beat MC dropout", where, "mean over all methods", compare(pairs))


def _mean_of_methods(records: Records, setting: Setting) -> dict[int, float]:
    """Mean accuracy over the curves of all methods, for the seeds that all have."""
    by_label = [records.means(setting, label) for label in records.labels]
    seeds = set.intersection(*(set(values) for values in by_label))
    return {seed: float(np.mean([values[seed] for values in by_label])) for seed in sorted(seeds)}
