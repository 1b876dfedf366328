"""Parts of docs/results.md: variants of the methods, and posterior coverage against the others."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

from paper.study.claims import spelled, verdict_cell
from paper.study.compare import RANDOM, Answer, Measure, Records, against_random, answered, versus
from paper.study.judging import paired
from paper.study.markdown import listed, table
from paper.study.overall import unlike_starts
from poolwise.experiments.records import Setting
from poolwise.reports.numbers import signed


def _above(records: Records, settings: Sequence[Setting], labels: Iterable[str]) -> list[tuple[str, ...]]:
    """Points above random of some methods: one column per setting, and their mean."""
    records = paired(records.where(lambda setting: setting in settings), [*labels, RANDOM])  # the seeds that all have
    rows = []
    for label in labels:
        each = versus(records, label, RANDOM).each
        rows.append((f"`{label}`", *(spelled(each[s]) for s in settings), signed(mean(each[s].mean for s in settings))))
    return rows


_FAMILIES: Mapping[str, Sequence[str]] = {
    "Exponent α of power sampling": (
        "power-bald alpha=0.5", "power-bald", "power-bald alpha=2.0", "power-bald-5", "bald",
        "power-lbb alpha=0.5", "power-lbb", "power-lbb alpha=2.0", "power-lbb alpha=5.0",
    ),
    "Redundancy": (
        "lbb", "lbb redundancy=max", "lbb redundancy=mean", "lbb redundancy=sum", "lbb-printed",
        "power-lbb", "power-lbb redundancy=max", "power-lbb redundancy=mean",
    ),
    "Candidates: the whole pool, or a random tenth drawn anew each round": (
        "bald", "bald candidates=10%", "lbb", "lbb candidates=10%", "margin", "margin candidates=10%",
        "badge", "badge candidates=10%", "posterior-coverage", "posterior-coverage candidates=10%",
    ),
    "Posterior coverage: how many low-margin points, in batches, and which kernel": (
        "posterior-coverage filter=3.0", "posterior-coverage", "posterior-coverage filter=30.0",
        "posterior-coverage filter=100.0", "posterior-coverage kernel=embeddings",
    ),
}  # fmt: skip


def ablations(quick: Records, ablation: Records) -> str:
    """Variants on the settings that have them, then the number of samples and the batch size."""
    wanted = {label for family in _FAMILIES.values() for label in family}
    variants = quick.where(lambda s: wanted <= set(quick.groups[s].runs))
    parts = [
        "## Ablations\n\nPoints above random, with intervals over the seeds that all variants of a table have. "
        f"Differences between variants are not tested.{unlike_starts(variants)}"
    ]
    names = [s.experiment for s in variants.groups]
    parts += [_ablation(title, variants, list(variants.groups), family, names) for title, family in _FAMILIES.items()]
    for title, name, symbol in (
        ("Posterior samples K, from a dropout ensemble of 5 on Fashion-MNIST", "-samples-", "K"),
        ("Large batches, Fashion-MNIST, pool of 20,000", "-large-", "b"),
    ):
        part = ablation.where(lambda s, name=name: name in s.experiment)  # type: ignore[misc]
        settings = sorted(part.groups, key=_size)
        labels = [label for label in part.labels if label != RANDOM]
        parts.append(_ablation(title, part, settings, labels, [f"{symbol} = {_size(s)}" for s in settings]))
    return "\n\n".join(filter(None, parts))


def _ablation(
    title: str, records: Records, settings: Sequence[Setting], labels: Sequence[str], names: Sequence[str]
) -> str:
    """A table of an ablation, or nothing if it has not been run."""
    if not settings:
        return ""
    return f"### {title}\n\n" + table(("variant", *names, "mean"), _above(records, settings, labels))


def _size(setting: Setting) -> int:
    """The number at the end of an experiment's name."""
    return int(setting.experiment.rsplit("-", 1)[1])


def rivals(records: Records, name: str, measure: Measure = "curve") -> dict[str, Answer]:
    """The question: is a method better than each other? Against random, it is the answer that is given above."""
    others = [label for label in records.labels if label not in (name, RANDOM)]
    found = answered({other: versus(records, name, other, measure).over_data for other in others})
    return {**found, RANDOM: against_random(records, measure)[name]}


def posterior_coverage(quick: Records, coverage: Records) -> str:
    """Posterior coverage against every other method."""
    name = "posterior-coverage"
    curve, end = rivals(quick, name), rivals(quick, name, "end")
    beaten = []
    for other in sorted(curve, key=lambda other: curve[other].found.mean):
        found = versus(quick, name, other)
        beaten.append(
            (f"`{other}`", verdict_cell(curve[other]), verdict_cell(end[other]), spelled(found.over_settings),
             f"{found.count('better')} / {found.count('inconclusive', 'equivalent', 'no verdict')} / "
             f"{found.count('worse')}", f"{found.ahead} of {len(found.each)}")
        )  # fmt: skip
    return "\n\n".join(
        [
            "## Posterior coverage against the others\n\n"
            "[posterior-coverage.md](posterior-coverage.md) explains the method. The table has the points of "
            "`posterior-coverage` above each other method, the closest first. Verdicts are by data set, "
            "corrected for all rivals except random; the verdict against random is that of the first table.",
            table(
                ("against", "curve, by data set", "end, by data set", "curve, by setting",
                 "settings better / unclear / worse", "ahead in"), beaten,
            ),
            *_fresh(quick, name),
            *_harder(coverage, name),
        ]
    )  # fmt: skip


# Data on which posterior coverage was found, first judged, or varied.
SEEN = ("fashion-mnist", "mnist", "kmnist", "20news")


def _fresh(quick: Records, name: str) -> list[str]:
    """Posterior coverage on data that had no part in its making, if there is any."""
    fresh = quick.where(lambda s: s.data not in SEEN)
    if not fresh.groups:
        return []
    others = [o for o in ("margin", "badge", "power-bald", "power-lbb", "cluster-margin", RANDOM) if o in fresh.labels]
    asked = {other: versus(fresh, name, other) for other in others}
    answers = answered({other: found.over_data for other, found in asked.items()})
    return [
        "The method was developed on Fashion-MNIST and first judged on MNIST and KMNIST. Variants were tried on "
        "Fashion-MNIST and 20 Newsgroups, with other seeds than here, and none was adopted. On data that was used for "
        f"none of this ({listed(fresh.data_sets)}), the means over the curve are:",
        table(
            ("against", "fresh data, by data set", "by setting"),
            [(f"`{o}`", verdict_cell(answers[o]), spelled(found.over_settings)) for o, found in asked.items()],
        ),
    ]


def _harder(coverage: Records, name: str) -> list[str]:
    """Posterior coverage on the settings made to be hard for it, as far as they were run."""
    if not coverage.groups:
        return []
    others = [label for label in coverage.labels if label != name]
    against = {other: versus(coverage, name, other).each for other in others}
    return [
        "Harder settings (`paper/configs/coverage`): unbalanced classes, 77 classes with 100 samples, large "
        "batches, and the paper's network under MC dropout:",
        table(
            ("setting", *(f"− `{o}`" for o in others)),
            [(s.experiment, *(spelled(against[other][s]) for other in others)) for s in coverage.groups],
        ),
    ]
