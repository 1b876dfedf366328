"""The parts of docs/results.md on rules that were tuned here, judged on data that had no part in their design."""

from collections.abc import Callable, Mapping, Sequence

from paper.study.areas import area_above, by_data
from paper.study.claims import spelled
from paper.study.claims_table import adjusted
from paper.study.compare import RANDOM, Answer, Records, answered, by_data_set, over, saved, versus, wins
from paper.study.markdown import listed, table
from paper.study.overall import Standing, conditions_table, standing_table
from poolwise.experiments.records import Setting
from poolwise.reports.paired import Difference

_RIVALS = ("uherding", "margin-herding", "max-herding", "bait", "margin", "posterior-coverage")
RIVALS: Mapping[str, tuple[str, ...]] = {
    "mutual-herding": ("local-herding", *_RIVALS),
    "local-herding": _RIVALS,
}
"""Each rule that was tuned here, with the rules that it is judged against."""

_TUNED = {
    "mutual-herding": "`mutual-herding` was chosen on Banking77, R8, Fashion-MNIST and CIFAR-10, and on the questions "
    "of Banking77 with their first word as the label. It is the second rule of ours that is judged on the same other "
    "data: the plan, `paper/judging/PLAN.md`, was amended before its own runs, when some results of the older rules on "
    "this data were known. Each rule is a question of its own, and nothing is corrected for there being two. ",
    "local-herding": "`local-herding` was tuned on Banking77, R8, Fashion-MNIST and CIFAR-10. The plan for judging it "
    "on other data, `paper/judging/PLAN.md`, was written before the runs. ",
}
# Seeds that the plan asks for.
PLANNED = 3
# Profiles of single budgets are compared up to this ratio; else the worst run of all would set the scale.
TAU = 2.0
# Tags of the files of paper/configs/judging.
BUDGETS = ("low", "middle", "high")


def judging(records: Records) -> str:
    """A section for each rule that has been run with all its rivals in some setting.

    Args:
        records: the runs of paper/configs/judging.
    """
    return "\n\n".join(filter(None, (_section(records, rule) for rule in RIVALS)))


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
    found = (balanced(records, rule) for rule in RIVALS)
    return next((kept for kept in found if len(kept.data_sets) >= 3), Records([]))


def _section(records: Records, rule: str) -> str:
    kept = balanced(records, rule)
    if not kept.groups:
        return ""
    standing = Standing(kept)
    counts, seeds = seeds_of(kept)
    run = {name: kept.where(_of_budget(name)) for name in BUDGETS}
    names = [name.removesuffix(".npz") for name in kept.data_sets]
    missing = [name for name in BUDGETS if not run[name].groups]
    left_out = (
        "" if counts[0] >= PLANNED else f" The plan asks for {PLANNED} seeds at least; the others are still to be run."
    )
    if missing:
        left_out += f" Not run so far: the {listed(missing)} {'budget' if len(missing) == 1 else 'budgets'}."
    return "\n\n".join(
        [
            f"## {rule.replace('-', ' ').capitalize()}, judged on other data",
            f"{_TUNED[rule]}These are {len(kept.groups)} settings of {len(kept.data_sets)} data sets "
            f"({listed(names)}), {seeds} per setting, with ensembles of five networks on fixed features and pools of "
            f"3,000 (splice: 2,000).{left_out}",
            standing_table(standing),
            "The columns are those of the first table on this page.",
            f"### `{rule}` against each rival",
            rivals_table(kept, rule, RIVALS[rule]),
            _verdict(kept, rule),
            f"### Labels saved by budget: `{rule}` and its rivals",
            conditions_table(kept, {"all": kept, **{name: part for name, part in run.items() if part.groups}}),
            _at_each_budget({name: part for name, part in run.items() if part.groups}, rule),
        ]
    )


def seeds_of(records: Records) -> tuple[list[int], str]:
    """How many seeds settings have, the fewest first, and the same in words."""
    counts = sorted({len(group.runs[RANDOM]) for group in records.groups.values()})
    words = " to ".join(str(count) for count in (counts[0], counts[-1])[: len(counts)])
    return counts, "1 seed" if counts == [1] else f"{words} seeds"


def _of_budget(name: str) -> Callable[[Setting], bool]:
    return lambda setting: setting.experiment.endswith(f"-{name}")


def against_rivals(records: Records, rule: str, rivals: Sequence[str]) -> dict[str, Mapping[str, Answer]]:
    """A rule less each rival with data sets as the unit, by what is counted: each is one question."""

    return {
        "labels saved, %": answered({rival: _fewer(records, rule, rival) for rival in rivals}),
        "curve": answered({rival: versus(records, rule, rival).over_data for rival in rivals}),
        "end": answered({rival: versus(records, rule, rival, "end").over_data for rival in rivals}),
    }


def _fewer(records: Records, rule: str, rival: str) -> Difference:
    """Labels saved by a rule less those saved by a rival, with data sets as the unit."""
    ours, theirs = saved(records, rule), saved(records, rival)
    return over(by_data_set({s: ours[s] - theirs[s] for s in ours}).values())


def _at_each_budget(parts: Mapping[str, Records], rule: str) -> str:
    """A rule less each rival at each budget: labels saved, and area of the performance profile.

    Args:
        parts: the records of each budget that was run.
        rule: one of `RIVALS`.
    """
    rivals = RIVALS[rule]
    each = [(name, rival) for rival in rivals for name in parts]
    tables = {name: by_data(part) for name, part in parts.items()}
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
    return f"**{answer.verdict}** {spelled(answer.found)}{adjusted(answer.p_value)}"


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


def _verdict(records: Records, rule: str) -> str:
    """What the plan asked, in a few sentences."""
    each = versus(records, rule, RANDOM)
    bad = [s.experiment.removeprefix("judging-") for s, d in each.each.items() if d.verdict == "worse"]
    nowhere = "in no setting" if not bad else f"in {listed(bad)}"
    alone = sum(found.seeds < 2 for found in each.each.values())
    unknown = f" Settings with one seed cannot show that: {alone} of {len(each.each)}." * bool(alone)
    said = in_words(records, rule, RIVALS[rule])
    return (
        f"The plan asks about labels saved, averaged over the budgets: {said['labels saved, %']}. Of the two other "
        f"things that it counts: over the curve, {said['curve']}; at the end, {said['end']}. `{rule}` is clearly worse "
        f"than random {nowhere}, and its mean over the curve is above that of random in {each.ahead} of "
        f"{len(each.each)}.{unknown}"
    )
