"""Parts of the pages of the study that take any records: every method against random, and method against method."""

from collections.abc import Mapping, Sequence
from statistics import mean, median

from paper.study.claims import by_data, spelled
from paper.study.compare import (
    RANDOM,
    Answer,
    Measure,
    Records,
    against_random,
    by_data_set,
    icc,
    never_reached,
    over,
    saved,
    versus,
    wins,
)
from paper.study.markdown import listed, table
from poolwise.reports.numbers import UNKNOWN, seconds, signed
from poolwise.reports.paired import Difference
from poolwise.reports.profiles import Profile, profiles


class Standing:
    """How every method of some records compares with random.

    Args:
        records: the runs.

    Attributes:
        records: the runs.
        saved: share of labels saved, mean over the data sets, by method; the most first.
        answers: accuracy above random over the data sets, by what was measured and method.
        by_setting: accuracy over the curve above random, over the settings, by method.
        profiles: performance profiles, drawn again by data set.
    """

    def __init__(self, records: Records) -> None:
        self.records = records
        others = [label for label in records.labels if label != RANDOM]
        found = {label: over(by_data_set(saved(records, label)).values()) for label in others}
        self.saved: dict[str, Difference] = dict(sorted(found.items(), key=lambda item: -item[1].mean))
        self.answers: dict[Measure, dict[str, Answer]] = {
            "curve": against_random(records), "end": against_random(records, "end")
        }  # fmt: skip
        self.by_setting = against_random(records, unit="settings")
        self.profiles: Sequence[Profile] = profiles(by_data(records))

    def named(self, answers: Mapping[str, Answer]) -> str:
        """Which methods have which verdict, in the order of labels saved."""
        words = {
            verdict: [f"`{label}`" for label in self.saved if answers[label].verdict == verdict]
            for verdict in ("better", "worse", "equivalent", "inconclusive")
        }
        return "; ".join(f"{verdict}: {listed(labels)}" for verdict, labels in words.items() if labels)


def summary(standing: Standing) -> str:
    """Who saves labels, who is better than random, who is worse, and what cannot be told."""
    records = standing.records
    counts = {len(group.runs[label]) for group in records.groups.values() for label in records.labels}
    seeds = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    runs = sum(len(group.runs[label]) for group in records.groups.values() for label in records.labels)
    best = list(standing.saved.items())[:3]
    sentences = [
        f"{len(records.labels)} methods on {len(records.groups)} settings of {len(records.data_sets)} data sets "
        f"({listed(records.data_sets)}), {seeds} seeds each: {runs:,} runs.",
        "Labels saved against random, mean over the data sets: "
        + listed([f"`{label}` {_percent(found)}" for label, found in best]) + ".",
    ]  # fmt: skip
    sentences += [
        "Accuracy over the curve against random, with data sets as the unit: "
        f"{standing.named(standing.answers['curve'])}.",
        f"With settings as the unit, which is weaker evidence: {standing.named(standing.by_setting)}.",
    ]
    return " ".join(sentences)


def standing_table(standing: Standing) -> str:
    """Every method against random, the most labels saved first."""
    records = standing.records
    area = {profile.label: profile for profile in standing.profiles}
    rows: list[tuple[str, ...]] = []
    for label, found in standing.saved.items():
        each = versus(records, label, RANDOM)
        unclear = each.count("inconclusive", "equivalent", "no verdict")
        rows.append(
            (
                f"`{label}`",
                _percent(found),
                f"{never_reached(records, label)} of {len(records.groups)}",
                _answer(standing.answers["curve"][label]),
                _answer(standing.answers["end"][label]),
                _answer(standing.by_setting[label]),
                f"{each.count('better')} / {unclear} / {each.count('worse')}",
                _area(area.get(label)),
                _seconds(records, label),
            )
        )
    rows.append((f"`{RANDOM}`", *[UNKNOWN] * 6, _area(area.get(RANDOM)), _seconds(records, RANDOM)))
    head = (
        "method", "labels saved, %", "never reached", "curve, by data set", "end, by data set", "curve, by setting",
        "settings better / unclear / worse", "area of the profile", "per query",
    )  # fmt: skip
    return table(head, rows)


def reading(standing: Standing) -> str:
    """How to read the tables, with the numbers that it takes."""
    records = standing.records
    alike = [
        icc({s: found.mean for s, found in versus(records, label, RANDOM).each.items()}) for label in standing.saved
    ]
    known = sorted(value for value in alike if value == value)
    middle = (
        f"The intraclass correlation of the settings of a data set is {median(known):.2f} for the method in the "
        f"middle, {known[0]:.2f} to {known[-1]:.2f} over the methods. "
        if known
        else ""
    )
    tau = standing.profiles[0].tau_T[-1] if standing.profiles else float("nan")
    return (
        "*Labels saved*: the labels that random needs for the accuracy that it ends with, the first ones included, "
        "and those that the method needs for it, on mean curves over the seeds that are made monotone (isotonic "
        "regression); 25 is a quarter fewer. A method that never gets there is compared at the accuracy where it ends, "
        "and counts below 0: the share that random saves against it. *Curve* and *end* are accuracies above random in "
        "percentage points, averaged over the learning curve and at its end.\n\n"
        "*By data set* comes first: settings are averaged within a data set, and brackets hold the 95 % interval "
        "(Student's t) over the data sets. Copies of a data set are the same data set. Settings of a data set are "
        f"alike, so intervals by setting are too narrow. {middle}\n\n"
        "*Verdicts*: all methods of a column are one question. A method is **better** or **worse** if that remains at "
        "the 5 % level after p-values are adjusted for their number (Holm 1979), **equivalent** if the interval lies "
        "within ±0.5 point, and **inconclusive** otherwise: these runs cannot tell. A bracket is that of one "
        "comparison alone, so it may leave out 0 where the verdict is inconclusive: with this many comparisons, some "
        "do so by chance. In a single setting the interval is over the seeds, and nothing is adjusted.\n\n"
        "*Area*: a point of a performance profile is the share of problems (a seed of a setting) on which the final "
        "error rate of a method is at most τ times that of the best method there (Dolan and Moré 2002, as in the "
        f"paper's appendix). The area is the mean of that share over τ from 1 to {tau:.2f}, the largest ratio that "
        "occurs. Its interval is bootstrapped over data sets, then problems. *Per query*: mean seconds of a selection, "
        "averaged over the settings, on one processor core that did other work too."
    )


def wins_table(records: Records) -> str:
    """How often each method has the higher mean over the curve than each other: data sets, and settings."""
    labels = list(records.labels)
    rows = [
        (f"`{first}`", *(UNKNOWN if first == second else "{} · {}".format(*wins(records, first, second))
                         for second in labels))
        for first in labels
    ]  # fmt: skip
    return table(("ahead of", *(f"`{label}`" for label in labels)), rows)


def _percent(found: Difference) -> str:
    return f"{signed(found.mean, 0)} [{signed(found.low, 0)}, {signed(found.high, 0)}]"


def _answer(answer: Answer) -> str:
    return f"**{answer.verdict}** {spelled(answer.found)}"


def _area(profile: Profile | None) -> str:
    return UNKNOWN if profile is None else f"{profile.area:.3f} [{profile.area_low:.3f}, {profile.area_high:.3f}]"


def _seconds(records: Records, label: str) -> str:
    return seconds(mean(records.seconds(setting, label) for setting in records.groups))


def conditions_table(records: Records, parts: Mapping[str, Records]) -> str:
    """Labels saved by condition, averaged over the data sets of each; the best of a column is bold."""
    others = [label for label in records.labels if label != RANDOM]
    columns = {
        name: {label: over(by_data_set(saved(part, label)).values()).mean for label in others}
        for name, part in parts.items()
        if part.groups
    }
    best = {name: max(values, key=lambda label: values[label]) for name, values in columns.items()}
    first = next(iter(columns.values()))
    rows = [
        (
            f"`{label}`",
            *(
                f"**{signed(values[label], 0)}**" if best[name] == label else signed(values[label], 0)
                for name, values in columns.items()
            ),
        )
        for label in sorted(first, key=lambda label: -first[label])
    ]
    return table(("method", *(f"{name} ({len(parts[name].groups)})" for name in columns)), rows)
