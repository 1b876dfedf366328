"""Parts of docs/results.md beside the plan of judging: further rivals, a long tail, encoded images, room left."""

from collections.abc import Mapping, Sequence

from paper.study.claims import spelled
from paper.study.compare import MEASURES, RANDOM, Records, data_name, seeds_of, versus
from paper.study.judging import BUDGETS, RIVALS, RULE, TAU, in_words, paired, rivals_table
from paper.study.markdown import listed, table
from paper.study.overall import Standing, columns, standing_table
from poolwise.experiments.records import Setting
from poolwise.reports.numbers import signed
from poolwise.reports.paired import difference
from poolwise.reports.savings import saving_in

TAILS = {"mnist": 50, "letter": 20}
"""The imbalance of the files of paper/configs/tail."""
FURTHER = ("badge", "falcun", "lcmd", "typiclust", "typiclust-then-margin", "drop-query")
"""Rivals that an amendment to the plan of judging names."""


def further_rivals(records: Records) -> str:
    """The section, or nothing while fewer than three data sets have been run with all of them.

    Args:
        records: the runs of paper/configs/judging.
    """
    kept = paired(records, (RANDOM, RULE, *RIVALS[RULE], *FURTHER))
    if len(kept.data_sets) < 3:
        return ""
    names = [data_name(data) for data in kept.data_sets]
    said, standing = in_words(kept, RULE, FURTHER), Standing(kept, TAU)
    return "\n\n".join(
        [
            "## Further rivals",
            f"Rules of an amendment to the plan, at the middle budget: {len(kept.groups)} settings of "
            f"{len(kept.data_sets)} data sets ({listed(names)}), {seeds_of(kept)[1]} per setting, paired with the runs "
            "above. `badge` gets the networks' features; `typiclust`, `typiclust-then-margin` and `drop-query` get the "
            "fixed ones; `falcun` and `lcmd` take predictions. Some runs of those three that get fixed features are "
            "older than the present k-means. Its clusters are others, but as tight where both were tried.",
            standing_table(standing),
            columns(standing),
            rivals_table(kept, RULE, FURTHER),
            f"By labels saved, {said['labels saved, %']}; over the curve, {said['curve']}; at the end, {said['end']}.",
        ]
    )


def long_tail(records: Records) -> str:
    """Methods where classes are of very different sizes, by setting; nothing while no setting has two seeds.

    Args:
        records: the runs of paper/configs/tail.
    """
    kept = _with_two_seeds(records)
    if not kept.groups:
        return ""
    names = {setting: setting.experiment.removeprefix("tail-") for setting in kept.groups}
    return (
        "## A long tail\n\n"
        "The middle budget again, on pools in which class c of C keeps a share of r^(−c/(C−1)) of its examples: "
        f"{listed([f'r = {TAILS[name]} for {name}' for name in names.values()])}. Test sets stay as they are. Points "
        f"above random over the curve, with 95 % intervals over the seeds ({seeds_of(kept)[1]} per setting). This says "
        "nothing of other data sets, and nothing is corrected for the number of methods.\n\n" + by_setting(kept, names)
    )


def pretrained(records: Records) -> str:
    """Methods on images that a pretrained network encoded, by setting; nothing while no setting has two seeds.

    Args:
        records: the runs of paper/configs/encoder.
    """
    kept = _with_two_seeds(records)
    if not kept.groups:
        return ""
    further = _with_two_seeds(records, (*RIVALS[RULE], *FURTHER))
    parts = [
        "## Images by a pretrained encoder",
        "CIFAR-10 with features of EfficientNet-Lite0, a network that was trained on ImageNet *with labels*; otherwise "
        f"as in judging, {seeds_of(kept)[1]} per setting. The images had a part in tuning `local-herding` and "
        "`mutual-herding`, by their pixels; these features had none. Points above random over the curve, with 95 % "
        "intervals over the seeds. This says nothing of other data sets, and nothing is corrected for the number of "
        "methods.",
        by_setting(kept, _budgets(kept)),
    ]
    if further.groups:
        parts += ["With the further rivals:", by_setting(further, _budgets(further))]
    return "\n\n".join(parts)


def _budgets(kept: Records) -> dict[Setting, str]:
    """The settings with their budgets, in the order of these."""
    found = {setting: setting.experiment.rpartition("-")[2] for setting in kept.groups}
    return dict(sorted(found.items(), key=lambda item: BUDGETS.index(item[1])))


def _with_two_seeds(records: Records, rivals: Sequence[str] = RIVALS[RULE]) -> Records:
    """The settings that all of some methods have been run on, with two seeds at least."""
    kept = paired(records, (RANDOM, RULE, *rivals))
    return kept.where(lambda s: len(kept.groups[s].runs[RANDOM]) > 1)


def by_setting(kept: Records, names: Mapping[Setting, str]) -> str:
    """Every method against random in each setting, the best on average first.

    Args:
        kept: the runs.
        names: the settings in the order of their columns, with what these are called.
    """
    asked = {label: versus(kept, label, RANDOM).each for label in kept.labels if label != RANDOM}
    order = sorted(asked, key=lambda label: -sum(found.mean for found in asked[label].values()))
    rows = []
    for label in order:
        cells = []
        for setting in names:
            found, group = asked[label][setting], kept.groups[setting]
            verdict = "inconclusive" if found.verdict == "no verdict" else found.verdict
            cells += [f"**{verdict}** {spelled(found)}", signed(saving_in(group, label).share, 0)]
        rows.append((f"`{label}`", *cells))
    head = [f"{name}: {what}" for name in names.values() for what in ("curve", "labels saved, %")]
    return table(("method", *head), rows)


def room(judged: Records, oracle: Records) -> str:
    """The best of many batches beside the best method, on the settings that have both.

    Args:
        judged: the runs of paper/configs/judging.
        oracle: the runs of `python -m paper study oracle`.
    """
    rows, ahead = [], 0
    for setting, group in oracle.groups.items():
        for label in (label for label in group.runs if label != RANDOM and RANDOM in group.runs):
            if setting not in judged.groups:
                continue
            methods = [other for other in judged.groups[setting].runs if other != RANDOM]
            against = {other: versus(judged, other, RANDOM).each[setting] for other in methods}
            best = max(methods, key=lambda other: against[other].mean)
            for measure in MEASURES:
                above = difference(oracle.values(setting, label, measure), oracle.values(setting, RANDOM, measure))
                found = versus(judged, best, RANDOM, measure).each[setting]
                ahead += above.mean > found.mean
                rows.append((setting.experiment.removeprefix("judging-"), MEASURES[measure], label, spelled(above),
                             str(above.seeds), f"`{best}`", spelled(found), str(found.seeds)))  # fmt: skip
    if not rows:
        return ""
    head = ("setting", "accuracy", "oracle", "− random", "seeds", "best method over the curve", "− random", "seeds")
    return (
        "## How much room is left\n\nIn every round, an oracle trains the model with the true labels of several "
        "batches, and takes the one that does best on one half of the test set. Its accuracy, and that of random "
        "beside it, is measured on the other half. No method has these labels. One oracle draws its batches at "
        "random. The other one lets every method of the setting select a batch, and so changes between methods from "
        "round to round. Neither is an upper limit: the best of a few batches is far from the best of all, and the "
        "best for the next round need not be the best in the end. The best method of a row was chosen by these runs, "
        "which flatters it. Points above random, with 95 % intervals over the seeds. An oracle's lead over random is "
        f"larger than that of the best method in {ahead} of {len(rows)} "
        f"rows{'' if ahead else ': these oracles cannot say how much room there is'}.\n\n" + table(head, rows)
    )
