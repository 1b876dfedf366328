"""docs/results.md: what the records say, in words, tables and figures. Every number on it comes from the records."""

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from pathlib import Path

from matplotlib.figure import Figure

from paper.study.ablations import ablations, posterior_coverage
from paper.study.claims import RunTimes, claims, spelled
from paper.study.compare import RANDOM, Comparison, Records, dropout, repeated, texts, told_apart, versus
from paper.study.figures import curve_figure, map_figure, profile_figure
from paper.study.files import Done, in_words
from paper.study.markdown import listed, table
from poolwise.experiments.records import Setting
from poolwise.reports.numbers import UNKNOWN, signed
from poolwise.reports.profiles import Profile, lead, problems, profiles
from poolwise.storage import replacing

# Methods drawn in the learning curves: all of them would hide each other.
SHOWN = (RANDOM, "margin", "bald", "batchbald", "lbb", "power-bald", "power-lbb", "badge", "posterior-coverage")

CONDITIONS: Mapping[str, Callable[[Setting], bool]] = {
    "all": lambda s: True,
    "b = 10": lambda s: s.batch_size == 10,
    "b = 50": lambda s: s.batch_size == 50,
    "b = 100": lambda s: s.batch_size == 100,
    "repeated": repeated,
    "not repeated": lambda s: not repeated(s),
    "ensembles": lambda s: not dropout(s),
    "MC dropout": dropout,
    "images": lambda s: not texts(s),
    "texts": texts,
}


def write_page(
    quick: Records,
    ablation: Records,
    coverage: Records,
    times: RunTimes,
    files: Mapping[str, Sequence[Done]],
    docs: Path,
) -> Path:
    """Write the page and its figures.

    Args:
        quick: the runs of paper/configs/quick, with those of paper/configs/ablation on the same settings.
        ablation: the other runs of paper/configs/ablation.
        coverage: the runs of paper/configs/coverage.
        times: seconds of the paper's Table 2, as they were measured here.
        files: how much of each experiment was run, by folder.
        docs: where the page goes; figures go into its folder results/.
    """
    against = {label: versus(quick, label, RANDOM) for label in quick.labels if label != RANDOM}
    ranked = dict(sorted(against.items(), key=lambda item: -item[1].overall.mean))
    found = profiles(problems(quick.groups.values()))
    methods = {label: next(iter(quick.groups.values())).method(label) for label in quick.labels}
    main = {setting: group for setting, group in quick.groups.items() if setting.batch_size < 100}
    _save(profile_figure(found, methods), docs / "results" / "profiles.png")
    _save(map_figure(ranked), docs / "results" / "differences.png")
    _save(curve_figure(main, SHOWN), docs / "results" / "curves.png")
    parts = [
        "# Results",
        _summary(quick, ranked, found),
        _overall(quick, ranked, found),
        _claims(quick, times),
        _conditions(quick),
        ablations(quick, ablation),
        posterior_coverage(quick, coverage),
        _made(files, quick, ablation, coverage),
    ]
    path = docs / "results.md"
    with replacing(path) as file:
        file.write(("\n\n".join(parts) + "\n").encode())
    return path


def _summary(quick: Records, ranked: Mapping[str, Comparison], found: Sequence[Profile]) -> str:
    counts = {len(group.runs[label]) for group in quick.groups.values() for label in quick.labels}
    seeds = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    runs = sum(len(group.runs[label]) for group in quick.groups.values() for label in quick.labels)
    verdicts = told_apart(ranked)
    losers, unclear, winners = (
        [f"`{label}`" for label, verdict in verdicts.items() if verdict == wanted]
        for wanted in ("worse", "within noise", "better")
    )
    best, second = found[:2]
    ahead, low, high = lead([best], [second])
    sentences = [
        f"{len(quick.labels)} methods on {len(quick.groups)} settings of real data, {seeds} seeds each: "
        f"{runs:,} runs. Averaged over the settings, {listed(losers)} {'do' if len(losers) > 1 else 'does'} worse "
        "than labelling at random."
        if losers
        else f"{len(quick.labels)} methods on {len(quick.groups)} settings, {runs:,} runs. None loses to random.",
        f"{listed(unclear)} cannot be told from it." if unclear else "",
        f"{listed(winners)} {'do' if len(winners) > 1 else 'does'} better." if winners else "",
        f"`{best.label}` has the largest area under the performance profile, {best.area:.3f} "
        f"[{best.area_low:.3f}, {best.area_high:.3f}], before `{second.label}` with {second.area:.3f} "
        f"[{second.area_low:.3f}, {second.area_high:.3f}]; problem by problem, that is {ahead:.3f} [{low:.3f}, "
        f"{high:.3f}] ahead.",
    ]
    note = (
        "Accuracies are means over the learning curve, unless something else is stated. Differences are in percentage "
        "points. Brackets hold 95 % confidence intervals: over seeds within a setting, and over settings where there "
        "are several. Statements about several methods, here and on the paper's claims, are those that remain at the "
        "5 % level after the p-values of the paired t-tests over settings are adjusted for their number (Holm 1979). "
        "Settings that share a data set are not independent, so intervals over settings are too narrow. "
        "Networks are small (one hidden layer of 128 units on 14×14 pixels, on fixed features or on embeddings), and "
        "pools have 5,000 examples: large networks and pools may rank methods in another order. With 47 classes and "
        "more, `batchbald` and `epig` choose from a random fifth of the pool in each round, to save time."
    )
    return " ".join(filter(None, sentences)) + "\n\n" + note


def _overall(quick: Records, ranked: Mapping[str, Comparison], found: Sequence[Profile]) -> str:
    area = {profile.label: profile for profile in found}
    rows = [
        (
            f"`{label}`",
            f"{area[label].area:.3f} [{area[label].area_low:.3f}, {area[label].area_high:.3f}]",
            spelled(row.overall),
            f"{row.count('better')} / {row.count('within noise')} / {row.count('worse')}",
        )
        for label, row in ranked.items()
    ]
    at = area[RANDOM]
    rows.append((f"`{RANDOM}`", f"{at.area:.3f} [{at.area_low:.3f}, {at.area_high:.3f}]", "–", "–"))
    head = ("method", "area of the profile", "above random", "settings better / unclear / worse than random")
    return (
        "## All settings together\n\n" + table(head, rows) + "\n\n![Performance profiles](results/profiles.png)\n\n"
        "A point of a performance profile is the share of problems (a seed of a setting) on which the final error rate "
        "of a method is at most τ times that of the best method there (Dolan and Moré 2002, as in the paper's "
        "appendix). The area is the mean of that share over τ; bands and intervals are bootstrapped over settings, "
        "then seeds.\n\n"
        "![Difference from random by setting](results/differences.png)\n\n"
        "Points above random in each setting; bold where the interval over the seeds excludes 0.\n\n"
        "![Learning curves](results/curves.png)"
    )


def _claims(quick: Records, times: RunTimes) -> str:
    rows = [
        (c.text, c.where, f"`{c.form}`", f"**{c.finding}**", _p_value(c.p_value), c.numbers)
        for c in claims(quick, times)
    ]
    return (
        "## The paper's claims\n\n"
        "`lbb` and `power-lbb` are this library's forms (normalised redundancy, exponent 1), `lbb-printed` is the "
        "formula as printed (every pair counted twice), `lbb-released` and `power-lbb-released` are what the authors' "
        "program computes (exponent 5); `power-bald` has exponent 1. A claim *holds* if the 95 % interval "
        "over the settings is on its side of 0, *does not hold* if it is on the other side, and is *within noise* "
        "otherwise, or if p, of the paired t-test over the settings and adjusted for the number of claims, is not "
        "below 0.05. That two methods are close holds if the interval lies within ±1 point, and does not if it lies "
        "outside. Numbers come from `paper/records/quick.csv.gz`, times of the paper's pool from "
        "[run-time.md](run-time.md).\n\n"
        "Two more readings have no row here. Without its second count of every pair, the printed formula is 2-BALD, a "
        'member of the k-BALD family (Kirsch 2023, *Speeding Up BatchBALD*): `lbb` with `redundancy="sum"` and '
        '`pairs="unordered"`, which is among the ablations below. And the paper\'s Table 1 counts N² pairs, as if a '
        "point were compared with the whole pool and not with the batch. No formula of the paper says so; the nearest "
        "method is `lbb-released` with the whole pool as its `reference`, which was not run.\n\n"
        "Figure 1 (c) of the paper, at its own scale and as far as it has been run, is on [a page of its own]"
        "(figure-1c.md).\n\n"
        + table(("claim", "settings", "tested", "finding", "p", "difference in points, and what it rests on"), rows)
    )


def _p_value(p: float) -> str:
    if isnan(p):
        return UNKNOWN
    return f"{p:.2g}" if p >= 0.001 else "< 0.001"


def _conditions(quick: Records) -> str:
    """Above random by condition, best first."""
    parts = {name: quick.where(wanted) for name, wanted in CONDITIONS.items()}
    parts = {name: part for name, part in parts.items() if part.groups}
    columns = {
        name: {label: versus(part, label, RANDOM).overall.mean for label in quick.labels if label != RANDOM}
        for name, part in parts.items()
    }
    best = {name: max(values, key=lambda label: values[label]) for name, values in columns.items()}
    order = sorted(columns["all"], key=lambda label: -columns["all"][label])
    rows = [
        (
            f"`{label}`",
            *(
                f"**{signed(values[label])}**" if best[name] == label else signed(values[label])
                for name, values in columns.items()
            ),
        )
        for label in order
    ]
    header = ("method", *(f"{name} ({len(parts[name].groups)})" for name in columns))
    return (
        "## Which method where\n\n"
        "Points above random, mean over the curve. The number of settings is in brackets, and the best of a column is "
        "bold. What follows for your own data is in [guide.md](guide.md).\n\n" + table(header, rows)
    )


def _made(files: Mapping[str, Sequence[Done]], *archives: Records) -> str:
    versions: dict[str, set[str]] = {}
    for records in archives:
        for group in records.groups.values():
            for run in group.everything:
                for package, version in run.versions.items():
                    versions.setdefault(package, set()).add(version)
    used = ", ".join(f"{name} {listed(sorted(found))}" for name, found in sorted(versions.items()))
    return (
        "## How this page was made\n\n"
        "`poolwise run` on files of `paper/configs`, on two processor cores without a graphics card. "
        "`python -m paper study collect` put the records (without the picks) into `paper/records`, and "
        "`python -m paper study page` made this page from them. `poolwise report paper/records/quick.csv.gz` makes "
        f"the full report with every table and curve. Versions: {used}.\n\n"
        "By the records, this is what was run of each folder:\n\n" + in_words(files)
    )


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110)
