"""Parts of the pages of the study that take any records: every method against random, and method against method."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, median

from paper.study.areas import by_data
from paper.study.claims import verdict_cell
from paper.study.compare import (
    ENOUGH,
    RANDOM,
    Answer,
    Measure,
    Records,
    against_random,
    answered,
    icc,
    never_reached,
    saved_over_data,
    seeds_of,
    versus,
    wins,
)
from paper.study.markdown import listed, table
from poolwise.reports.numbers import UNKNOWN, seconds, signed
from poolwise.reports.paired import Difference
from poolwise.reports.profiles import Profile, profiles

# More methods than this are not named one by one where they are inconclusive.
_MANY = 8
# Nor more than this where they begin apart.
_FEW = 3


class Standing:
    """How every method of some records compares with random.

    Args:
        records: the runs.
        largest: the ratio of error rates up to which performance profiles are looked at; the largest that occurs if it
            is not given, which a single run almost without errors can make very large.

    Attributes:
        records: the runs.
        saved: share of labels saved over the data sets, by method; the most first.
        answers: accuracy above random over the data sets, by what was measured and method.
        by_setting: accuracy over the curve above random, over the settings, by method.
        profiles: performance profiles, drawn again by data set.
    """

    def __init__(self, records: Records, largest: float | None = None) -> None:
        self.records = records
        self.saved: dict[str, Answer] = answered(saved_over_data(records, records.labels))
        self.answers: dict[Measure, dict[str, Answer]] = {
            "curve": against_random(records), "end": against_random(records, "end")
        }  # fmt: skip
        self.by_setting = against_random(records, unit="settings")
        self.profiles: Sequence[Profile] = profiles(by_data(records), largest)

    def named(self, answers: Mapping[str, Answer]) -> str:
        """Which methods have which verdict, in the order of labels saved."""
        words = {
            verdict: [f"`{label}`" for label in self.saved if answers[label].verdict == verdict]
            for verdict in ("better", "worse", "equivalent", "inconclusive")
        }
        found = {verdict: labels for verdict, labels in words.items() if labels}
        if list(found) == ["inconclusive"]:
            return "no method can be told from random"
        if len(found.get("inconclusive", ())) > _MANY:
            found["inconclusive"] = [f"the other {len(found['inconclusive'])}"]
        return "; ".join(f"{verdict}: {listed(labels)}" for verdict, labels in found.items())


def summary(standing: Standing) -> str:
    """Who saves labels, who is better than random, who is worse, and what cannot be told."""
    records = standing.records
    runs = sum(len(group.runs[label]) for group in records.groups.values() for label in records.labels)
    best = list(standing.saved.items())[:3]
    sentences = [
        f"{len(records.labels)} methods on {len(records.groups)} settings of {len(records.data_sets)} data sets "
        f"({listed(records.data_sets)}), {seeds_of(records)[1]} each: {runs:,} runs.",
        "Labels saved against random, in percent, mean over the data sets: "
        + listed([f"`{label}` {whole_percent(answer.found)}" for label, answer in best]) + ". These intervals are not "
        f"corrected. After correction for all methods, {standing.named(standing.saved)}.",
    ]  # fmt: skip
    sentences += [
        "Verdicts on accuracy over the learning curve, compared with random: if data sets are counted, "
        f"{standing.named(standing.answers['curve'])}.",
        f"If settings are counted, which is weaker evidence, {standing.named(standing.by_setting)}.",
    ]
    return " ".join(sentences)


def standing_table(standing: Standing) -> str:
    """Every method against random, the most labels saved first."""
    records = standing.records
    area = {profile.label: profile for profile in standing.profiles}
    rows: list[tuple[str, ...]] = []
    for label, answer in standing.saved.items():
        each = versus(records, label, RANDOM)
        unclear = each.count("inconclusive", "equivalent", "no verdict")
        rows.append(
            (
                f"`{label}`",
                f"**{answer.verdict}** {whole_percent(answer.found)}",
                f"{never_reached(records, label)} of {len(records.groups)}",
                verdict_cell(standing.answers["curve"][label]),
                verdict_cell(standing.answers["end"][label]),
                verdict_cell(standing.by_setting[label]),
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


def columns(standing: Standing) -> str:
    """Where the columns of another table than the first are explained, and what is different about its areas."""
    return (
        f"The columns are those of the first table on this page. Areas are for τ up to {_largest_ratio(standing):.2f} "
        "here, so they cannot be compared with those there."
    )


def _largest_ratio(standing: Standing) -> float:
    return float(standing.profiles[0].tau_T[-1]) if standing.profiles else math.nan


def reading(standing: Standing) -> str:
    """How to read the tables, with the numbers that it takes."""
    records = standing.records
    alike = [
        icc({s: found.mean for s, found in versus(records, label, RANDOM).each.items()}) for label in standing.saved
    ]
    known = sorted(value for value in alike if value == value)
    middle = (
        f" The intraclass correlation of the settings of one data set is {median(known):.2f} for the median method, "
        f"and {known[0]:.2f} to {known[-1]:.2f} over all methods."
        if known
        else ""
    )
    return (
        "*Labels saved* compares how many labels the method and random need for the accuracy that random ends with; "
        "25 is a quarter fewer. The initial labels count. Curves are means over the seeds, made monotone by isotonic "
        "regression. A method that never reaches that accuracy is compared at the accuracy where it ends itself. If "
        "random needs fewer labels, the number is negative: the share that random saves. If random does not get above "
        "the accuracy at the first labels, which all methods share, there is nothing to save, and the share is 0. If "
        "only the method does not, it needs all its labels. Where curves are flat, a small gain saves a large share. "
        "*Curve* and *end* are accuracies above random in percentage points: averaged over the numbers of labels from "
        "the first to the last, with straight lines between the measurements, and at the last. *Never reached* counts "
        "settings.\n\n*By data set* is the stronger evidence. Settings are averaged within a data set, and brackets "
        "are 95 % intervals (Student's t) over the data sets. Copies of a data set count as the same data set. "
        f"Settings of one data set are alike, so intervals by setting are too narrow.{middle}\n\n*Verdicts*: a method "
        f"is **equivalent** if the interval is within ±0.5 point, over {ENOUGH} data sets or settings at least, also "
        "if that interval leaves out 0; over fewer, such an interval is **inconclusive**. Otherwise it is "
        "**better** or **worse** if its difference is significant at the 5 % level after Holm's correction (1979) for "
        "all methods of the column, and **inconclusive** if not: "
        "these runs cannot tell. Intervals are not corrected, so one may exclude 0 although the verdict is "
        "inconclusive. In a single setting the interval is over the seeds, and nothing is corrected.\n\n*Area*: a "
        "performance profile shows, for each τ, the share of problems on which the final error rate of a method is at "
        "most τ times that of the best method (Dolan and Moré 2002, as in the paper's appendix). A problem is one "
        f"seed of a setting. The area is the mean of that share over τ from 1 to {_largest_ratio(standing):.2f}, the "
        "largest ratio that occurs. Its interval is bootstrapped over data sets, then problems. *Per query*: "
        "seconds per selection, the median over rounds and seeds, averaged over the settings, on one processor core "
        "that was also used for other work. Runs were made on different days, so times of different tables cannot be "
        "compared, and small differences within a table say nothing."
    )


def unlike_starts(records: Records) -> str:
    """Which methods' runs do not begin with the accuracy of random's of the same seed, which has the same labels."""
    apart: dict[str, float] = {}
    for group in records.groups.values():
        begun = {label: group.values(label, "accuracy") for label in records.labels}
        for label, curves in begun.items():
            for seed in curves.keys() & begun[RANDOM].keys():
                distance = abs(float(curves[seed][0] - begun[RANDOM][seed][0]))
                apart[label] = max(apart.get(label, 0.0), distance)
    named = {label: distance for label, distance in apart.items() if distance > 1e-9}
    if not named:
        return ""
    said = f"{len(named)} variants here (up to {100 * max(named.values()):.1f} points)"
    if len(named) <= _FEW:
        said = listed([f"`{label}` (up to {100 * distance:.1f} points)" for label, distance in named.items()])
    return (
        " Runs of one seed have the same first labels and begin with the same accuracy, but not those of other "
        f"versions of the program: {said}. There pairing by seed helps less, and times may be of another machine."
    )


def wins_table(records: Records) -> str:
    """How often each method has the higher mean over the curve than each other: data sets, and settings."""
    explained = (
        "Each cell counts where the method of the row has a higher mean over the curve than the method of the column: "
        f"in how many of the {len(records.data_sets)} data sets, and of the {len(records.groups)} settings. These "
        "counts are not tested."
    )
    labels = list(records.labels)
    rows = [
        (f"`{first}`", *(UNKNOWN if first == second else "{} · {}".format(*wins(records, first, second))
                         for second in labels))
        for first in labels
    ]  # fmt: skip
    return explained + "\n\n" + table(("ahead of", *(f"`{label}`" for label in labels)), rows)


def whole_percent(found: Difference) -> str:
    """A share of labels in percent, with its interval."""
    return f"{signed(found.mean, 0)} [{signed(found.low, 0)}, {signed(found.high, 0)}]"


def _area(profile: Profile | None) -> str:
    return UNKNOWN if profile is None else f"{profile.area:.3f} [{profile.area_low:.3f}, {profile.area_high:.3f}]"


def _seconds(records: Records, label: str) -> str:
    return seconds(mean(records.seconds(setting, label) for setting in records.groups))


def conditions_table(records: Records, parts: Mapping[str, Records]) -> str:
    """Labels saved by condition, averaged over the data sets of each; the best of a column is bold."""
    columns = {
        name: {label: found.mean for label, found in saved_over_data(part, records.labels).items()}
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
