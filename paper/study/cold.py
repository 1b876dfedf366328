"""The part of docs/results.md on the first batch, selected by fixed features before anything is labelled."""

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

from paper.cold_start import TABLES
from paper.study.claims import verdict_cell
from paper.study.compare import RANDOM, Answer, Comparison, Records, answered, compare, seeds_of
from paper.study.markdown import listed, table
from poolwise.experiments.records import Setting
from poolwise.reports.numbers import UNKNOWN, percent, seconds, signed


def cold_start(records: Records) -> str:
    """The section, or nothing while there are no records.

    Args:
        records: the runs of `python -m paper study cold-start`.
    """
    if not records.groups:
        return ""
    asked, sizes = against_random(records), next(iter(records.groups.values())).labelled
    order = sorted(asked, key=lambda label: -asked[label].found.mean)
    parts = {f"{name} ({len(part.groups)})": against_random(part) for name, part in kinds(records).items()}
    parts |= {f"{size} labels": against_random(records, size) for size in sizes}
    rows = []
    for label in order:
        each = first_less(records, label, RANDOM)
        unclear = each.count("inconclusive", "equivalent", "no verdict")
        rows.append(
            (f"`{label}`", verdict_cell(asked[label]), *(verdict_cell(found[label]) for found in parts.values()),
             f"{each.count('better')} / {unclear} / {each.count('worse')}", _classes(records, label),
             _seconds(records, label))
        )  # fmt: skip
    rows.append((f"`{RANDOM}`", *[UNKNOWN] * (len(parts) + 2), _classes(records, RANDOM), _seconds(records, RANDOM)))
    head = (
        "first batch by", f"all data sets ({len(records.groups)})", *parts,
        "data sets better / unclear / worse", f"classes in {sizes[0]} labels", "per query",
    )  # fmt: skip
    return "\n\n".join(
        [
            "## The first batch",
            "Nothing is labelled, and there is no model. A first batch is drawn at random, or selected by fixed "
            f"features alone, and an ensemble of five networks is trained on it. {len(records.groups)} data sets "
            f"({listed(records.data_sets)}), {seeds_of(records)[1]} each, pools of 2,000. Features are "
            "MiniLM embeddings of texts, EfficientNet-Lite0 features of CIFAR-10 (a network trained on ImageNet *with "
            "labels*), features of patches of Fashion-MNIST, 14×14 pixels of MNIST, and the columns of tables. No "
            "parameter was tuned.",
            table(head, rows),
            "Points of accuracy above a random first batch, with 95 % intervals over the data sets. Columns that name "
            "no size are means over all sizes, each of which counts the same. Verdicts are corrected for the number of "
            "methods in a column. In a single data set the interval is over the seeds, and nothing is corrected. The "
            "share of classes is of those that any first batch of a data set has, and a mean over the data sets. "
            "Texts and images were parted from tables after the first results had been seen.",
            verdict(records),
            "### The first batch by data set",
            _each(records, order),
            "Mean accuracy over all sizes of a random first batch, and points above it, each ± its standard error "
            "over the seeds.",
        ]
    )


def kinds(records: Records) -> dict[str, Records]:
    """The data sets of each kind."""
    parts = {
        "texts and images": records.where(lambda s: s.data not in TABLES),
        "tables": records.where(lambda s: s.data in TABLES),
    }
    return {name: part for name, part in parts.items() if part.groups}


def first_less(records: Records, first: str, second: str, size: int | None = None) -> Comparison:
    """The difference of two methods in every data set: at one size of the batch, or the mean over all sizes."""
    return compare({s: (_values(records, s, first, size), _values(records, s, second, size)) for s in records.groups})


def _values(records: Records, setting: Setting, label: str, size: int | None = None) -> dict[int, float]:
    """Accuracy by seed."""
    group = records.groups[setting]
    found = group.values(label, "accuracy")
    if size is None:
        return {seed: float(values.mean()) for seed, values in found.items()}
    column = group.labelled.index(size)
    return {seed: float(values[column]) for seed, values in found.items()}


def against_random(records: Records, size: int | None = None) -> dict[str, Answer]:
    """The question: is a first batch better than a random one? One family for all methods."""
    others = [label for label in records.labels if label != RANDOM]
    return answered({label: first_less(records, label, RANDOM, size).over_data for label in others})


def chosen(records: Records) -> str:
    """The first batch that the records support.

    Of the methods that are better than random over the data sets, and clearly worse in none of them, the one with the
    highest mean; random if there is none.
    """
    asked = against_random(records)
    fit = [
        label
        for label, answer in asked.items()
        if answer.verdict == "better" and not first_less(records, label, RANDOM).count("worse")
    ]
    return max(fit, key=lambda label: asked[label].found.mean, default=RANDOM)


def verdict(records: Records) -> str:
    """What the table says, in a few sentences, and what follows for the default."""
    best, rule = chosen(records), "A default should be better over the data sets and clearly worse in none."
    if best == RANDOM:
        by_kind = {name: chosen(part) for name, part in kinds(records).items()}
        alone = "".join(
            f" On {name} alone, of those that are, `{label}` has the highest mean."
            for name, label in by_kind.items()
            if label != RANDOM
        )
        return (
            f"{compared(records)} {rule} No method is, so a learner draws its first batch at random unless it is told "
            f"otherwise.{alone}{' A labelling project knows which kind it has, and chooses by that.' if alone else ''}"
        )
    return f"{compared(records)} {rule} Of the methods that are, `{best}` has the highest mean."


def compared(records: Records) -> str:
    """Which first batches are better than a random one, where they are worse, and which cannot be told apart."""
    asked = against_random(records)
    named = [
        f"{word}: {listed(labels)}"
        for word in ("better", "worse", "equivalent", "inconclusive")
        if (labels := [f"`{label}`" for label, answer in asked.items() if answer.verdict == word])
    ]
    said = [f"Compared with a random first batch, over all sizes and data sets, {'; '.join(named)}."]
    better = [label for label, answer in asked.items() if answer.verdict == "better"]
    losses: dict[str, list[str]] = {}
    for label in better:
        bad = sorted(s.data for s, found in first_less(records, label, RANDOM).each.items() if found.verdict == "worse")
        losses.setdefault(listed(bad) if bad else "", []).append(f"`{label}`")
    said += [
        f"Clearly worse on {where}, though better over all: {listed(labels)}."
        for where, labels in losses.items()
        if where
    ]
    if len(better) > 1:
        first, *others = sorted(better, key=lambda label: -asked[label].found.mean)
        rivals = answered({label: first_less(records, first, label).over_data for label in others})
        close = [f"`{label}`" for label in others if rivals[label].verdict in ("inconclusive", "equivalent")]
        said += [f"`{first}` has the highest mean; these runs cannot tell it from {listed(close)}."] if close else []
    return " ".join(said)


def _each(records: Records, order: Sequence[str]) -> str:
    """Every data set: the accuracy of random, and points above it."""
    rows = []
    for setting in sorted(records.groups, key=lambda s: s.data):
        base = _values(records, setting, RANDOM)
        cells = []
        for label in order:
            found = _values(records, setting, label)
            above = [found[seed] - base[seed] for seed in sorted(found.keys() & base.keys())]
            cells.append(f"{signed(mean(above))} ± {_error(above)}")
        rows.append((setting.data, f"{percent(mean(base.values()))} ± {_error([*base.values()])}", *cells))
    return table(("data set", f"`{RANDOM}`", *(f"`{label}`" for label in order)), rows)


def _error(values: Sequence[float]) -> str:
    """The standard error of a mean, in points."""
    return percent(stdev(values) / sqrt(len(values))) if len(values) > 1 else UNKNOWN


def _classes(records: Records, label: str) -> str:
    """The share of the classes that a small first batch has, of those that any batch has; mean over the data sets."""
    shares = []
    for group in records.groups.values():
        known = max(entry.classes for run in group.everything for entry in run.rounds)
        shares.append(mean(run.rounds[0].classes / known for run in group.runs[label].values()))
    return f"{percent(mean(shares), 0)} %"


def _seconds(records: Records, label: str) -> str:
    return seconds(mean(records.seconds(setting, label) for setting in records.groups))
