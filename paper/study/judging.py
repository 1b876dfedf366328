"""The part of docs/results.md on `local-herding`, judged on data that had no part in its design."""

from collections.abc import Callable, Mapping

from paper.study.claims import spelled
from paper.study.compare import RANDOM, Answer, Records, answered, by_data_set, over, saved, versus, wins
from paper.study.markdown import listed, table
from paper.study.overall import Standing, conditions_table, standing_table
from poolwise.experiments.records import Setting
from poolwise.reports.paired import Difference

RULE = "local-herding"
RIVALS = ("uherding", "margin-herding", "max-herding", "bait", "margin", "posterior-coverage")
# Tags of the files of paper/configs/judging.
BUDGETS = ("low", "middle", "high")


def judging(records: Records) -> str:
    """The section, or nothing while no setting has been run with all rivals.

    Args:
        records: the runs of paper/configs/judging.
    """
    kept = records.with_all((RANDOM, RULE, *RIVALS))
    if not kept.groups:
        return ""
    standing = Standing(kept)
    counts = sorted({len(group.runs[label]) for group in kept.groups.values() for label in kept.labels})
    run = {name: kept.where(_of_budget(name)) for name in BUDGETS}
    names = [name.removesuffix(".npz") for name in kept.data_sets]
    missing = [name for name in BUDGETS if not run[name].groups]
    left_out = f" Not run so far: the {listed(missing)} {'budget' if len(missing) == 1 else 'budgets'}." * bool(missing)
    return "\n\n".join(
        [
            "## Local herding, judged on other data",
            f"`{RULE}` was tuned on Banking77, R8, Fashion-MNIST and CIFAR-10. The plan for judging it on other data "
            "was written before the runs: `paper/judging/PLAN.md`. These are "
            f"{len(kept.groups)} settings of {len(kept.data_sets)} data sets ({listed(names)}), "
            f"{listed([str(count) for count in counts])} seeds per setting, with ensembles of five networks on fixed "
            f"features and pools of 3,000 (splice: 2,000).{left_out} In these runs `uherding` was calibrated on the "
            "labels that its model had been trained on. It is now calibrated on held-out labels, as in its paper, so "
            "its row has to be run again.",
            standing_table(standing),
            "The columns are those of the first table on this page.",
            f"### `{RULE}` against each rival",
            _rivals(kept),
            _verdict(kept),
            "### Labels saved by budget",
            conditions_table(kept, {"all": kept, **{name: part for name, part in run.items() if part.groups}}),
        ]
    )


def _of_budget(name: str) -> Callable[[Setting], bool]:
    return lambda setting: setting.experiment.endswith(f"-{name}")


def against_rivals(records: Records) -> dict[str, Mapping[str, Answer]]:
    """`local-herding` less each rival with data sets as the unit, by what is counted: each is one question."""

    def fewer(rival: str) -> Difference:
        ours, theirs = saved(records, RULE), saved(records, rival)
        return over(by_data_set({s: ours[s] - theirs[s] for s in ours}).values())

    return {
        "labels saved, %": answered({rival: fewer(rival) for rival in RIVALS}),
        "curve": answered({rival: versus(records, RULE, rival).over_data for rival in RIVALS}),
        "end": answered({rival: versus(records, RULE, rival, "end").over_data for rival in RIVALS}),
    }


def _rivals(records: Records) -> str:
    questions = against_rivals(records)
    rows = []
    for rival in RIVALS:
        cells = [f"**{found[rival].verdict}** {spelled(found[rival].found)}" for found in questions.values()]
        ahead = "{} of {} · {} of {}".format(
            *(n for pair in zip(wins(records, RULE, rival), (len(records.data_sets), len(records.groups)), strict=True)
              for n in pair)
        )  # fmt: skip
        rows.append((f"`{rival}`", *cells, ahead))
    head = ("rival", *(f"{name}, by data set" for name in questions), "ahead over the curve: data sets · settings")
    return (
        f"The differences are `{RULE}` minus the rival: percentage points of labels saved, and points of accuracy over "
        "the curve and at its end. Verdicts are corrected for the number of rivals in a column.\n\n" + table(head, rows)
    )


def _verdict(records: Records) -> str:
    """What the plan asked, in a sentence or two."""
    found = against_rivals(records)["labels saved, %"]
    named = {
        verdict: [f"`{rival}`" for rival in RIVALS if found[rival].verdict == verdict]
        for verdict in ("better", "worse", "equivalent", "inconclusive")
    }
    words = {
        "better": "wins against",
        "worse": "loses to",
        "equivalent": "is level with",
        "inconclusive": "cannot be told from",
    }
    parts = [f"{words[verdict]} {listed(rivals)}" for verdict, rivals in named.items() if rivals]
    each = versus(records, RULE, RANDOM)
    bad = [s.experiment.removeprefix("judging-") for s, d in each.each.items() if d.verdict == "worse"]
    nowhere = "in no setting" if not bad else f"in {listed(bad)}"
    return (
        f"The plan asks about labels saved. There, `{RULE}` {'; it '.join(parts)}. It is clearly worse than random "
        f"{nowhere}."
    )
