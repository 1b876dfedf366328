"""The part of docs/results.md on fixed features: newer rivals, low to high budgets, a cold start, a long tail."""

from collections.abc import Callable, Mapping

from paper.study.claims import spelled
from paper.study.compare import MEASURES, RANDOM, Records, answered, versus
from paper.study.markdown import listed, table
from paper.study.overall import Standing, conditions_table, reading, standing_table, summary, wins_table
from poolwise.experiments.records import Setting
from poolwise.reports.paired import difference

# What every finished setting of paper/configs/fixed has.
RIVALS = (
    *(RANDOM, "margin", "badge", "posterior-coverage", "bald", "power-lbb", "falcun", "lcmd", "uherding"),
    *("local-herding", "max-herding", "typiclust", "typiclust-then-margin", "k-means", "drop-query", "bait"),
)


def cold(setting: Setting) -> bool:
    """Whether runs start without labels."""
    return "-cold-" in setting.experiment


_CONDITIONS: Mapping[str, Callable[[Setting], bool]] = {
    "all": lambda s: True,
    "b = 10": lambda s: s.batch_size == 10,
    "b = 50": lambda s: s.batch_size == 50,
    "b = 100": lambda s: s.batch_size == 100,
    "b = 500": lambda s: s.batch_size == 500,
    "long tail": lambda s: "-tail-" in s.experiment,
}


def with_rivals(records: Records) -> Records:
    """The settings that start with labels and have been run with all rivals; none while that is one data set only."""
    found = records.where(lambda s: not cold(s)).with_all(RIVALS)
    return found if len(found.data_sets) > 1 else Records([])


def fixed_features(records: Records, oracle: Records) -> str:
    """The section, or nothing while no setting has been run with all rivals.

    Args:
        records: the runs of paper/configs/fixed.
        oracle: the runs of `python -m paper study oracle`.
    """
    warm = with_rivals(records)
    if not warm.groups:
        return ""
    standing = Standing(warm)
    parts = [
        "## Fixed features",
        "An ensemble of five networks with one hidden layer of 64 units on features that never change: MiniLM "
        "embeddings of texts (the first 64 tokens), EfficientNet-Lite0 features of CIFAR-10 (a network trained on "
        "ImageNet *with labels*), features of patches of Fashion-MNIST (no labels used), 14×14 pixels of MNIST. Pools "
        "of 5,000; 10,000 for batches of 500. `uherding`, `max-herding`, `typiclust`, `k-means`, `drop-query` and "
        "`bait` get these features, `badge` those of the networks. `posterior-coverage` was found on Fashion-MNIST and "
        "first judged on MNIST, both as pixels; `local-herding` was tuned on Banking77, R8, and pixels of "
        "Fashion-MNIST and CIFAR-10 (see `paper/judging/PLAN.md`), so these data sets flatter it; no rival was tuned.",
        summary(standing),
        standing_table(standing),
        reading(standing),
        "### Method against method, on fixed features",
        wins_table(warm),
        "### Labels saved by batch size, on fixed features",
        conditions_table(warm, {name: warm.where(wanted) for name, wanted in _CONDITIONS.items()}),
        _cold(records.where(cold)),
        _oracle(warm, oracle),
    ]
    return "\n\n".join(filter(None, parts))


def _cold(records: Records) -> str:
    """Methods that start without labels, against random that does too."""
    kept = records.with_all((RANDOM, "margin after random", "max-herding"))
    if not kept.groups:
        return ""
    asked = {label: versus(kept, label, RANDOM) for label in kept.labels if label != RANDOM}
    answers = answered({label: found.over_data for label, found in asked.items()})
    order = sorted(asked, key=lambda label: -answers[label].found.mean)
    names = [s.experiment.removeprefix("fixed-") for s in kept.groups]
    rows = [
        (f"`{label}`", f"**{answers[label].verdict}** {spelled(answers[label].found)}",
         *(spelled(asked[label].each[s]) for s in kept.groups))
        for label in order
    ]  # fmt: skip
    return (
        "### A cold start\n\n"
        f"No labels at the start: the first batch is drawn at random, or selected by features alone (*after*). "
        f"{len(kept.groups)} settings of {listed(kept.data_sets)}; points above random over the curve.\n\n"
        + table(("method", "by data set", *names), rows)
    )


def _oracle(records: Records, oracle: Records) -> str:
    """The best of many random batches beside random and the best method, on the settings that have all of them."""
    rows = []
    for setting, group in oracle.groups.items():
        for label in group.runs if setting in records.groups else ():
            methods = [other for other in records.labels if other != RANDOM]
            against = {other: versus(records, other, RANDOM).each[setting] for other in methods}
            best = max(methods, key=lambda other: against[other].mean)
            for measure in MEASURES:
                base = records.values(setting, RANDOM, measure)
                room = difference(oracle.values(setting, label, measure), base)
                found = difference(records.values(setting, best, measure), base)
                rows.append((setting.experiment.removeprefix("fixed-"), MEASURES[measure], label, spelled(room),
                             f"`{best}`", spelled(found), str(room.seeds)))  # fmt: skip
    if not rows:
        return ""
    head = (
        "setting",
        "accuracy",
        "oracle",
        "− random",
        "best method over the curve",
        "− random",
        "seeds of the oracle",
    )
    return (
        "### How much room is left\n\n"
        "In every round, the oracle draws random batches and trains the model with the true labels of each. It takes "
        "the batch that does best on one half of the test set; accuracy is measured on the other half. No method has "
        "these labels. The oracle is not an upper limit: the best of a few batches is far from the best of all. The "
        "best method of a row was chosen by these runs, which flatters it.\n\n" + table(head, rows)
    )
