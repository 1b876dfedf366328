"""The part of docs/results.md that asks the question of judging once more, on further data."""

from functools import partial

from paper.judging import CONFIRMATION
from paper.study.compare import Records, data_name, joined
from paper.study.judging import (
    RIVALS,
    RULE,
    TAU,
    at_each_budget,
    balanced,
    by_budget,
    by_data,
    rivals_table,
    robustness,
    settings_of,
    still_to_run,
    verdict,
    where_behind,
)
from paper.study.markdown import listed
from paper.study.overall import Standing, columns, conditions_table, standing_table, wins_table
from poolwise.experiments.records import Setting

HEADING = "Mutual herding, judged once more"
PICTURE = "confirmation"
TOGETHER = "Judging and confirmation together"
KINDS = ("texts", "images", "tables")


def confirmed_runs(confirmed: Records) -> Records:
    """The settings that have been run with all rules, or nothing while there are fewer than three data sets.

    Args:
        confirmed: the runs of paper/configs/confirmation.
    """
    kept = balanced(confirmed, RULE)
    return kept if len(kept.data_sets) >= 3 else Records(())


def confirmation(confirmed: Records, judged: Records) -> str:
    """The section, or nothing while fewer than three data sets have been run with all rules.

    Args:
        confirmed: the runs of paper/configs/confirmation.
        judged: the runs of paper/configs/judging.
    """
    kept = confirmed_runs(confirmed)
    if not kept.groups:
        return ""
    both, standing = together(confirmed, judged), Standing(kept, TAU)
    parts = [
        f"## {HEADING}",
        f"With three seeds of judging, `{RULE}` was 3.9 points of labels saved ahead of `uherding`, on the edge of "
        "chance (p = 0.048 as labels saved were counted then, 0.064 as they are counted now). So the same question "
        "was asked of the same rules on data that had no part in anything before. The amendment of the plan, "
        "`paper/judging/PLAN.md`, was written before any run on them, but for two sentences that were written while "
        "the runs went on and before any of their results was known: the one that fixes the number of seeds, and the "
        "one on curves that do not rise. Plan, configurations and records came into the repository together, so its "
        f"history does not show this order. {settings_of(kept)}, otherwise as in judging. Pools have 3,000 "
        "examples, or 2,500 (amazon-sentiment), 2,000 (chess) and 1,500 (segment); high budgets end at 1,500 labels, "
        f"or 1,200, 1,000 and 700 there.{still_to_run(kept)}",
        standing_table(standing),
        columns(standing),
        f"### Once more: `{RULE}` against each rival",
        rivals_table(kept, RULE, RIVALS[RULE]),
        verdict(kept, RULE),
        robustness(kept, RULE),
        f"![Labels saved by budget and kind of data](results/{PICTURE}.png)",
        "### Once more: labels saved by budget and kind of data",
        conditions_table(kept, {"all": kept, **by_budget(kept), **by_kind(kept)}),
        f"Columns count settings. {_kinds_said(kept)}",
        at_each_budget(by_budget(kept), RULE),
        "### Once more: labels saved by data set",
        conditions_table(kept, by_data(kept)),
        where_behind(kept, RULE),
    ]
    if len(both.data_sets) > len(kept.data_sets):
        both_standing = Standing(both, TAU)
        parts += [
            f"### {TOGETHER}",
            "The second question of the amendment. It counts the runs that prompted the first one, so its p-values are "
            f"too small. {settings_of(both)}.",
            standing_table(both_standing),
            columns(both_standing),
            rivals_table(both, RULE, RIVALS[RULE]),
            verdict(both, RULE),
            robustness(both, RULE),
            at_each_budget(by_budget(both), RULE),
            "### Together: method against method",
            wins_table(both),
        ]
    return "\n\n".join(parts)


def together(confirmed: Records, judged: Records) -> Records:
    """The runs of judging and of the confirmation."""
    return balanced(joined(judged, confirmed), RULE)


def _kinds_said(kept: Records) -> str:
    return "Data sets: " + listed([f"{len(part.data_sets)} of {kind}" for kind, part in by_kind(kept).items()]) + "."


def by_kind(confirmed: Records) -> dict[str, Records]:
    """The settings of each kind of data."""
    parts = {kind: confirmed.where(partial(_is, kind)) for kind in KINDS}
    return {kind: part for kind, part in parts.items() if part.groups}


def _is(kind: str, setting: Setting) -> bool:
    return CONFIRMATION[data_name(setting.data)].kind == kind
