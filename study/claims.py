"""What the paper claims, and what the records say of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from poolwise.reports.paired import Difference
from poolwise.reports.profiles import problems, profiles
from poolwise.reports.records import Setting
from study.compare import Comparison, Records, compare, dropout, repeated, versus

Finding = Literal["holds", "does not hold", "within noise"]

# The six algorithms of the paper's performance profiles.
PAPER = ("bald", "power-bald", "lbb", "power-lbb", "random", "least-confidence")

# Two methods are called close where the interval of their difference lies inside so many points of accuracy.
CLOSE = 0.01


@dataclass(frozen=True)
class Claim:
    """A claim and its test.

    Attributes:
        text: what the paper says.
        where: on which settings it was tested.
        form: which form of the method.
        finding: the verdict.
        numbers: what it rests on.
    """

    text: str
    where: str
    form: str
    finding: Finding
    numbers: str


def claims(records: Records) -> Iterator[Claim]:
    """All claims, in the order of the paper."""
    copies = records.where(repeated)
    plain = records.where(lambda s: not repeated(s))
    for form in ("lbb", "lbb-released", "lbb-printed"):
        yield _ahead("LBB beats BALD on repeated data", "repeated", copies, form, "bald")
    for form in ("lbb", "lbb-released", "lbb-printed"):
        yield _ahead("LBB beats BALD", "all", records, form, "bald")
    yield _ahead("LBB beats random", "all", records, "lbb", "random")
    yield _behind("BALD falls below random on repeated data", "repeated", copies, "bald", "random")
    yield _behind(
        "BALD falls below random under MC dropout (RMNIST, FMNIST)",
        "MC dropout, RMNIST and FMNIST",
        records.where(lambda s: dropout(s) and s.experiment.startswith(("rmnist", "fashion"))),
        "bald",
        "random",
    )
    for form in ("power-lbb", "power-lbb-released"):
        yield _ahead("Power sampling improves LBB", "all", records, form, form.removeprefix("power-"))
    yield _ahead("Power sampling improves BALD", "all", records, "power-bald", "bald")
    for name in ("power-lbb", "power-bald"):
        for other in ("random", "least-confidence", "batchbald"):
            yield _ahead(f"{_short(name)} is among the leaders: ahead of {other}", "all", records, name, other)
    yield _profile_claim(records)
    for form in ("power-lbb", "power-lbb-released"):
        yield _ahead("PLBB beats PBALD", "all", records, form, "power-bald")
    yield _close("LBB is close to BatchBALD in accuracy", "batches of 10", _batches(records, 10), "lbb", "batchbald")
    yield _close("LBB is close to BatchBALD in accuracy", "batches of 50", _batches(records, 50), "lbb", "batchbald")
    yield _faster(records)
    yield _close(
        "PLBB and BADGE are comparable on AG News",
        "AG News",
        records.where(lambda s: s.data == "ag-news"),
        "power-lbb",
        "badge",
    )
    yield _ensembles(plain, "not repeated")
    yield _ensembles(copies, "repeated")


def _short(name: str) -> str:
    return {"power-lbb": "PLBB", "power-bald": "PBALD"}[name]


def _batches(records: Records, size: int) -> Records:
    return records.where(lambda s: s.batch_size == size)


def signed(value: float, digits: int = 1) -> str:
    """Percentage points with a sign."""
    rounded = round(100 * value, digits)
    sign = "−" if rounded < 0 else "+" if rounded > 0 else ""
    return f"{sign}{abs(rounded):.{digits}f}"


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


def _test(text: str, where: str, records: Records, form: str, other: str, holds: Callable[[Difference], bool]) -> Claim:
    found = versus(records, form, other)
    finding: Finding = "within noise" if found.overall.verdict in ("within noise", "no verdict") else "does not hold"
    if holds(found.overall):
        finding = "holds"
    return Claim(text, where, f"{form} − {other}", finding, f"{spelled(found.overall)}; {counts(found)}")


def _ahead(text: str, where: str, records: Records, form: str, other: str) -> Claim:
    return _test(text, where, records, form, other, lambda found: found.verdict == "better")


def _behind(text: str, where: str, records: Records, form: str, other: str) -> Claim:
    return _test(text, where, records, form, other, lambda found: found.verdict == "worse")


def _close(text: str, where: str, records: Records, form: str, other: str) -> Claim:
    def inside(found: Difference) -> bool:
        return found.low > -CLOSE and found.high < CLOSE

    return _test(text, where, records, form, other, inside)


def _faster(records: Records) -> Claim:
    """The time of selection as it was in the runs."""
    ratios = []
    for group in records.groups.values():
        times = {
            label: np.mean([r.seconds["select"] for run in group.runs[label].values() for r in run.rounds if r.picks])
            for label in ("lbb", "batchbald")
        }
        ratios.append(times["batchbald"] / times["lbb"])
    low, middle, high = np.quantile(ratios, [0, 0.5, 1])
    finding: Finding = "holds" if middle >= 10 else "does not hold"
    numbers = (
        f"batchbald (1,000 configurations) took {low:.1f} to {high:.0f} times as long in these runs, "
        f"{middle:.1f} in the middle, with this library's engine for both; see complexity.md for the paper's Table 2"
    )
    return Claim("LBB is tens of times faster than BatchBALD", "all", "lbb, batchbald", finding, numbers)


def _profile_claim(records: Records) -> Claim:
    table = problems(records.groups.values())
    kept = [table.labels.index(label) for label in PAPER]
    six = type(table)(PAPER, table.errors_P_S[:, kept], table.setting_P)
    found = profiles(six)
    order = ", ".join(f"{p.label} {p.area:.3f} [{p.area_low:.3f}, {p.area_high:.3f}]" for p in found)
    leaders = {p.label for p in found[:2]}
    finding: Finding = "holds" if leaders == {"power-lbb", "power-bald"} else "does not hold"
    return Claim(
        "PLBB and PBALD lead the performance profiles of the paper's six algorithms", "all", "area", finding, order
    )


def _ensembles(records: Records, where: str) -> Claim:
    """Ensembles against dropout with the same data, batch size and seed, the mean over all methods."""
    by_name = {setting.experiment: setting for setting in records.groups}
    pairs: dict[Setting, tuple[dict[int, float], dict[int, float]]] = {}
    for name, setting in by_name.items():
        twin = by_name.get(name.replace("-ensemble-", "-dropout-"))
        if twin is not None and twin != setting:
            pairs[setting] = (_mean_of_methods(records, setting), _mean_of_methods(records, twin))
    found = compare(pairs)
    findings: dict[str, Finding] = {"better": "holds", "worse": "does not hold"}
    finding = findings.get(found.overall.verdict, "within noise")
    numbers = f"{spelled(found.overall)}; {counts(found)}"
    return Claim("Ensembles beat MC dropout", where, "mean over all methods", finding, numbers)


def _mean_of_methods(records: Records, setting: Setting) -> dict[int, float]:
    """Mean accuracy over the curves of all methods, for the seeds that all have."""
    by_label = [records.means(setting, label) for label in records.labels]
    seeds = set.intersection(*(set(values) for values in by_label))
    return {seed: float(np.mean([values[seed] for values in by_label])) for seed in sorted(seeds)}
