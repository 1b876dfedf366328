"""The parts of docs/results.md on rules that were tuned here, judged on data that had no part in their design."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import mean, median

from paper.study.areas import area_above
from paper.study.areas import by_data as areas_by_data
from paper.study.claims import spelled
from paper.study.compare import (
    RANDOM,
    Answer,
    Comparison,
    Records,
    answered,
    by_data_set,
    data_name,
    over,
    saved,
    seeds_of,
    versus,
    wins,
)
from paper.study.markdown import listed, table
from paper.study.overall import Standing, columns, conditions_table, standing_table
from poolwise.experiments.records import Setting
from poolwise.reports.numbers import p_value, signed
from poolwise.reports.paired import Difference

_PLANNED_RIVALS = ("uherding", "max-herding", "bait", "margin")
_RIVALS = ("uherding", "margin-herding", "max-herding", "bait", "margin", "posterior-coverage")
RIVALS: Mapping[str, tuple[str, ...]] = {
    "mutual-herding": ("local-herding", *_RIVALS),
    "local-herding": _RIVALS,
}
"""Each rule that was tuned here, with the rules that it is judged against."""
RULE = "mutual-herding"
"""The newest of them, of which further questions are asked."""

_TUNED = {
    "mutual-herding": "`mutual-herding` was chosen on Banking77, R8, Fashion-MNIST and CIFAR-10, and on the questions "
    "of Banking77 with their first word as the label. It is the second rule of ours that is judged on the same other "
    "data: the plan, `paper/judging/PLAN.md`, was amended before its own runs, when some results of the older rules "
    "on this data were known. Each rule is a question of its own, and so is each of three things that are counted; "
    "nothing is corrected for that. Results were looked at with one, two, three and more seeds, and nothing said when "
    "to stop. So a p-value near 0.05 says little here, and the question was [asked once "
    "more](#mutual-herding-judged-once-more). ",
    "local-herding": "`local-herding` was tuned on Banking77, R8, Fashion-MNIST and CIFAR-10. The plan for judging it "
    "on other data, `paper/judging/PLAN.md`, was written before the runs. Its results too were looked at while seeds "
    "were added. ",
}
_SETTING = (
    "The first labels are drawn at random, the same for all rules. The low budget is from 20 labels to 120 in batches "
    "of 10; the middle one from 20 to 520 in batches of 50; the high one from 500 to 1,500 in batches of 100 (splice: "
    "1,000), so no rule can save more than two thirds there. `bait` has its binary form, which is its default here."
)
# Data sets that are much alike count as one where `robustness` says so.
_ALIKE = {
    **dict.fromkeys(("mnist", "optdigits", "penbased"), "handwritten digits"),
    **dict.fromkeys(("20news", "ag-news"), "news"),
    **dict.fromkeys(
        ("amazon-sentiment", "movie-sentiment", "editorial-sentiment", "tweet-sentiment"), "rated sentences"
    ),
    **dict.fromkeys(("banana", "ring", "twonorm"), "artificial data"),
}
# Seeds that the plan asks for.
PLANNED = 3
# Profiles of judged rules are looked at up to this ratio; else the worst run of all would set the scale.
TAU = 2.0
# Tags of the files of paper/configs/judging.
BUDGETS = ("low", "middle", "high")


def judging(records: Records) -> str:
    """A section for each rule that has been run with all its rivals in some setting.

    Args:
        records: the runs of paper/configs/judging.
    """
    return "\n\n".join(_section(kept, rule) for rule, kept in judged_rules(records).items())


def judged_rules(records: Records) -> dict[str, Records]:
    """The rules that have been run with all their rivals, the newest first, each with what `balanced` leaves."""
    found = {rule: balanced(records, rule) for rule in RIVALS}
    return {rule: kept for rule, kept in found.items() if kept.groups}


def balanced(records: Records, rule: str) -> Records:
    """The settings that were run with a rule, all its rivals and random; of each the seeds that all of them have."""
    return paired(records, (RANDOM, rule, *RIVALS[rule]))


def paired(records: Records, labels: Sequence[str]) -> Records:
    """The settings that were run with some methods, without others; of each the seeds that all of them have."""
    kept = []
    for group in records.with_all(labels).groups.values():
        seeds = set.intersection(*(set(group.runs[label]) for label in labels))
        kept += [group.runs[label][seed] for label in labels for seed in sorted(seeds)]
    return Records(kept)


def with_rivals(records: Records) -> Records:
    """What `balanced` leaves for the newest rule that has been run on three data sets; nothing if none has."""
    return next((kept for kept in judged_rules(records).values() if len(kept.data_sets) >= 3), Records([]))


def _section(kept: Records, rule: str) -> str:
    standing = Standing(kept, TAU)
    return "\n\n".join(
        [
            f"## {rule.replace('-', ' ').capitalize()}, judged on other data",
            f"{_TUNED[rule]}{settings_of(kept)}, with ensembles of five networks on fixed features and pools of 3,000 "
            f"(splice: 2,000). {_SETTING}{still_to_run(kept)}",
            standing_table(standing),
            columns(standing),
            f"### `{rule}` against each rival",
            rivals_table(kept, rule, RIVALS[rule]),
            verdict(kept, rule),
            robustness(kept, rule),
            f"![Labels saved by budget](results/{rule}.png)",
            f"### Labels saved by budget: `{rule}` and its rivals",
            conditions_table(kept, {"all": kept, **by_budget(kept)}),
            at_each_budget(by_budget(kept), rule),
            f"### Labels saved by data set: `{rule}` and its rivals",
            conditions_table(kept, by_data(kept)),
            where_behind(kept, rule),
        ]
    )


def settings_of(kept: Records) -> str:
    """How many settings, data sets and seeds there are."""
    return (
        f"These are {len(kept.groups)} settings of {len(kept.data_sets)} data sets "
        f"({listed([*map(data_name, kept.data_sets)])}), {seeds_of(kept)[1]} per setting"
    )


def still_to_run(kept: Records) -> str:
    """What the plan asks for and has not been run."""
    missing = [name for name in BUDGETS if name not in by_budget(kept)]
    few = seeds_of(kept)[0][0] < PLANNED
    said = f" The plan asks for {PLANNED} seeds at least; the others are still to be run." if few else ""
    if missing:
        said += f" Not run so far: the {listed(missing)} {'budget' if len(missing) == 1 else 'budgets'}."
    return said


def robustness(records: Records, rule: str, rival: str = "uherding") -> str:
    """What is left of a rule's lead over a rival if choices were others: data sets, and how labels are counted."""
    leads = _leads(records, rule, rival)
    grouped: dict[str, list[float]] = {}
    for data, lead in leads.items():
        grouped.setdefault(_ALIKE.get(data, data), []).append(lead)
    kinds = [f"{name} ({len(values)})" for name, values in grouped.items() if len(values) > 1]
    sentences = [
        f"How much the lead over `{rival}` depends on choices, in points of labels saved, not corrected: it is "
        f"{_lead(leads.values())}."
    ]
    if len(leads) > 2:
        middle = mean(leads.values())
        most = max(leads, key=lambda data: abs(leads[data] - middle))
        rest = [lead for data, lead in leads.items() if data != most]
        sentences.append(f"Without {most}, which says most ({signed(leads[most])}), it is {_lead(rest)}.")
    if kinds:
        sentences.append(
            f"If data sets that are much alike count as one, {listed(kinds)}, it is "
            f"{_lead(map(mean, grouped.values()))}; they were grouped after results were known."
        )
    sentences += [
        f"If curves are not made monotone before labels are counted, it is "
        f"{_lead(_leads(records, rule, rival, smooth=False).values())}.",
        "If curves that do not rise are counted like others, as they were when the plan was written, it is "
        f"{_lead(_leads(records, rule, rival, flat=False).values())}.",
    ]
    return " ".join(sentences)


def _leads(records: Records, rule: str, rival: str, *, smooth: bool = True, flat: bool = True) -> dict[str, float]:
    """Labels saved by a rule less those saved by a rival, by the name of the data set."""
    ours, theirs = (by_data_set(saved(records, label, smooth=smooth, flat=flat)) for label in (rule, rival))
    return {data_name(data): ours[data] - theirs[data] for data in records.data_sets}


def _lead(leads: Iterable[float]) -> str:
    found = over(leads)
    return f"{spelled(found)}{p_value(found.p_value)}"


def where_behind(records: Records, rule: str) -> str:
    """On which data sets each rival saved more labels than a rule, by the means over the budgets."""
    ours = by_data_set(saved(records, rule))
    behind = {}
    for rival in RIVALS[rule]:
        theirs = by_data_set(saved(records, rival))
        behind[rival] = [data_name(data) for data in records.data_sets if theirs[data] > ours[data]]
    parts = [f"`{rival}` on {listed(found)}" for rival, found in behind.items() if found]
    return "In percent, averaged over the budgets; this is not a test. " + (
        f"More labels than `{rule}` were saved by {'; by '.join(parts)}." if parts else "No rival saved more."
    )


def by_budget(records: Records) -> dict[str, Records]:
    """The settings of each budget that was run."""
    parts = {name: records.where(_of_budget(name)) for name in BUDGETS}
    return {name: part for name, part in parts.items() if part.groups}


def by_data(records: Records) -> dict[str, Records]:
    """The settings of each data set, by its name."""
    return {data_name(data): records.where(partial(_of_data, data)) for data in records.data_sets}


def _of_data(data: str, setting: Setting) -> bool:
    return setting.data == data


def _of_budget(name: str) -> Callable[[Setting], bool]:
    return lambda setting: setting.experiment.endswith(f"-{name}")


def against_rivals(records: Records, rule: str, rivals: Sequence[str]) -> dict[str, Mapping[str, Answer]]:
    """A rule less each rival with data sets as the unit, by what is counted: each is one question."""

    return {
        "labels saved, %": answered({rival: _fewer(records, rule, rival) for rival in rivals}),
        "curve": answered({rival: versus(records, rule, rival).over_data for rival in rivals}),
        "end": answered({rival: versus(records, rule, rival, "end").over_data for rival in rivals}),
    }


def at_every_budget(fewer: Mapping[tuple[str, str], Answer], rule: str) -> str:
    """The plan's question: is one rule ahead of four rivals at every budget?

    Args:
        fewer: labels saved, by budget and rival.
        rule: one of `RIVALS`.
    """
    asked = [fewer[budget, rival].found for budget in BUDGETS for rival in _PLANNED_RIVALS if (budget, rival) in fewer]
    if len(asked) < len(BUDGETS) * len(_PLANNED_RIVALS):
        return ""
    won = sum(found.sign == "better" for found in asked)  # all have to hold, so each is tested alone
    ahead = sum(found.mean > 0 for found in asked)
    said = "This is shown." if won == len(asked) else "That is not shown."
    return (
        f"The plan asks whether one rule saves more labels than {listed([f'`{rival}`' for rival in _PLANNED_RIVALS])} "
        f"at low, middle and high budgets. {said} Of these {len(asked)} comparisons, the mean of `{rule}` is ahead in "
        f"{ahead}, and beyond chance in {won}, each tested alone, since all would have to hold."
    )


def _fewer(records: Records, rule: str, rival: str) -> Difference:
    """Labels saved by a rule less those saved by a rival, with data sets as the unit."""
    ours, theirs = saved(records, rule), saved(records, rival)
    return over(by_data_set({s: ours[s] - theirs[s] for s in ours}).values())


def at_each_budget(parts: Mapping[str, Records], rule: str) -> str:
    """A rule less each rival at each budget: labels saved, and area of the performance profile.

    Args:
        parts: the records of each budget that was run.
        rule: one of `RIVALS`.
    """
    rivals = RIVALS[rule]
    each = [(name, rival) for rival in rivals for name in parts]
    tables = {name: areas_by_data(part) for name, part in parts.items()}
    fewer = answered({(name, rival): _fewer(parts[name], rule, rival) for name, rival in each})
    larger = answered({(name, rival): area_above(tables[name], rule, rival, TAU) for name, rival in each})
    rows = [
        (f"`{rival}`", *(_answer(found[name, rival]) for found in (fewer, larger) for name in parts))
        for rival in rivals
    ]
    head = ("rival", *(f"{what}: {name}" for what in ("labels saved, %", "area") for name in parts))
    alone = (_said(rule, {rival: fewer[name, rival] for rival in rivals}) for name in parts)
    return "\n\n".join(
        [
            f"`{rule}` minus the rival at each budget, with data sets as the unit. Labels saved are one question, and "
            "areas another: verdicts are corrected for all rivals and budgets of a question together. Areas are "
            "hundredths of the area of the profile of final error rates, here with τ from 1 to "
            f"{TAU:g} at every budget.",
            table(head, rows),
            " ".join(f"At the {name} budget alone, {said}." for name, said in zip(parts, alone, strict=True)),
            *filter(None, [at_every_budget(fewer, rule)]),
        ]
    )


def rivals_table(records: Records, rule: str, rivals: Sequence[str]) -> str:
    """A rule against each rival, with data sets as the unit."""
    questions = against_rivals(records, rule, rivals)
    rows = []
    for rival in rivals:
        cells = [_answer(found[rival]) for found in questions.values()]
        ahead = "{} of {} · {} of {}".format(
            *(n for pair in zip(wins(records, rule, rival), (len(records.data_sets), len(records.groups)), strict=True)
              for n in pair)
        )  # fmt: skip
        rows.append((f"`{rival}`", *cells, ahead))
    head = ("rival", *(f"{name}, by data set" for name in questions), "ahead over the curve: data sets · settings")
    return (
        f"The differences are `{rule}` minus the rival: percentage points of labels saved, and points of accuracy over "
        "the curve and at its end. Verdicts are corrected for the number of rivals in a column.\n\n" + table(head, rows)
    )


def _answer(answer: Answer) -> str:
    """A verdict, the difference it rests on, and its adjusted p-value."""
    return f"**{answer.verdict}** {spelled(answer.found)}{p_value(answer.p_value)}"


def in_words(records: Records, rule: str, rivals: Sequence[str]) -> dict[str, str]:
    """Whom a rule wins against and whom not, by what is counted."""
    return {name: _said(rule, found) for name, found in against_rivals(records, rule, rivals).items()}


def _said(rule: str, found: Mapping[str, Answer]) -> str:
    """Whom a rule wins against and whom not, by one of the things that are counted."""
    words = {
        "better": "wins against",
        "worse": "loses to",
        "equivalent": "is level with",
        "inconclusive": "cannot be told from",
    }
    named = {verdict: [f"`{rival}`" for rival in found if found[rival].verdict == verdict] for verdict in words}
    parts = [f"{words[verdict]} {listed(labels)}" for verdict, labels in named.items() if labels]
    return f"`{rule}` {'; it '.join(parts)}"


def _power(each: Comparison) -> str:
    """How wide the intervals of single settings are: what they could show."""
    halves = [(found.high - found.low) / 2 for found in each.each.values() if found.seeds > 1]
    if not halves:
        return ""
    return (
        f" The interval of a single setting reaches {100 * median(halves):.1f} points to either side in the median, "
        f"and {100 * max(halves):.1f} at most, so where a rule is a little worse than random, this would not show it."
    )


def verdict(records: Records, rule: str) -> str:
    """What the plan asked, in a few sentences."""
    each = versus(records, rule, RANDOM)
    bad = [s.experiment.split("-", 1)[1] for s, d in each.each.items() if d.verdict == "worse"]
    nowhere = "in no setting" if not bad else f"in {listed(bad)}"
    alone = sum(found.seeds < 2 for found in each.each.values())
    unknown = f" Settings with one seed cannot show that: {alone} of {len(each.each)}." * bool(alone)
    said = in_words(records, rule, RIVALS[rule])
    return (
        f"By labels saved, averaged over the budgets, which is what the plan counts first, {said['labels saved, %']}. "
        f"Of the two other things that it counts: over the curve, {said['curve']}; at the end, {said['end']}. `{rule}` "
        f"is clearly worse than random {nowhere}, and its mean over the curve is above that of random in {each.ahead} "
        f"of {len(each.each)}.{unknown}{_power(each)}"
    )
