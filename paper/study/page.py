"""docs/results.md: what the records say, in words, tables and figures. Every number on it comes from the records."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from paper import figure_1c_claims
from paper.study.ablations import ablations, posterior_coverage
from paper.study.archives import Archives
from paper.study.claims import SCOPES, RunTimes, judged_claims, other_claims
from paper.study.claims_table import claims_table
from paper.study.cold import cold_start
from paper.study.compare import ENOUGH, RANDOM, Records, dropout, in_paper, repeated, saved_over_data, texts, versus
from paper.study.confirmation import PICTURE, by_kind, confirmation, confirmed_runs
from paper.study.copies import exact_copies
from paper.study.figures import curve_figure, map_figure, profile_figure, saved_figure
from paper.study.files import Done, in_words
from paper.study.further import further_rivals, long_tail, pretrained, room
from paper.study.judging import by_budget, judged_rules, judging
from paper.study.longer import longer_curves
from paper.study.markdown import listed, table
from paper.study.overall import Standing, conditions_table, reading, standing_table, summary, unlike_starts, wins_table
from paper.study.short import in_short
from poolwise.experiments.records import RunRecord, Setting
from poolwise.storage import replacing

# Methods drawn in the learning curves: all of them would hide each other.
SHOWN = (RANDOM, "margin", "bald", "batchbald", "lbb", "power-bald", "power-lbb", "badge", "posterior-coverage")

CONDITIONS: Mapping[str, Callable[[Setting], bool]] = {
    "all": lambda s: True,
    "the paper's data": in_paper,
    "other data": lambda s: not in_paper(s),
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
    archives: Archives,
    large: Sequence[RunRecord],
    times: RunTimes,
    files: Mapping[str, Sequence[Done]],
    docs: Path,
    *,
    advice: str = "",
) -> Path:
    """Write the page and its figures.

    Args:
        archives: the records of the study.
        large: the runs of Figure 1 (c) at the paper's scale.
        times: seconds of the paper's Table 2, as they were measured here.
        files: how much of each experiment was run, by folder.
        docs: where the page goes; figures go into its folder results/.
        advice: the section on what `poolwise advise` reads.
    """
    quick, judged = archives.quick, archives.judging
    standing = Standing(quick)
    methods = {label: next(iter(quick.groups.values())).method(label) for label in quick.labels}
    main = {setting: group for setting, group in quick.groups.items() if setting.batch_size < 100}
    _save(profile_figure(standing.profiles, methods), docs / "results" / "profiles.png")
    against = {label: versus(quick, label, RANDOM) for label in standing.saved}
    _save(map_figure(against), docs / "results" / "differences.png")
    _save(curve_figure(main, SHOWN), docs / "results" / "curves.png")
    for rule, records in judged_rules(judged).items():
        order = list(saved_over_data(records, records.labels))
        figure = saved_figure({f"{name} budget": part for name, part in by_budget(records).items()}, order)
        _save(figure, docs / "results" / f"{rule}.png")
    if (confirmed := confirmed_runs(archives.confirmation)).groups:
        parts = {f"{name} budget": part for name, part in by_budget(confirmed).items()} | by_kind(confirmed)
        figure = saved_figure(parts, list(saved_over_data(confirmed, confirmed.labels)))
        _save(figure, docs / "results" / f"{PICTURE}.png")
    beside = {
        "the confirmation of judging": confirmation(archives.confirmation, judged),
        "longer curves": longer_curves(archives.long),
        "further rivals at the middle budget": further_rivals(judged),
        "a long tail": long_tail(archives.tail),
        "images by a pretrained encoder": pretrained(archives.encoder),
        "the oracle": room(judged, archives.oracle),
        "first batches": cold_start(archives.cold_start),
    }
    sections = [
        "# Results",
        in_short(standing, archives, large),
        _overall(standing),
        judging(judged),
        *beside.values(),
        _claims(archives, times, large),
        _conditions(quick),
        advice,
        ablations(quick, archives.ablation),
        posterior_coverage(quick, archives.coverage),
        _made(files, archives.all),
        _missing([name for name, text in beside.items() if not text]),
    ]
    path = docs / "results.md"
    with replacing(path) as file:
        file.write(("\n\n".join(filter(None, sections)) + "\n").encode())
    return path


def _summary(standing: Standing) -> str:
    note = (
        "Networks are small (one hidden layer of 128 units on 14×14 pixels, on fixed features or on embeddings), and "
        "pools have 5,000 examples. With large networks and pools, the ranking may differ. All runs begin with one to "
        "five labels of each class, drawn with the true labels, which a labelling project does not have. With 47 or "
        "more classes, `batchbald` and `epig` choose from a random fifth of the pool in each round, to save time."
    )
    return f"{summary(standing)}\n\n{note} {_lengths(standing.records)}{unlike_starts(standing.records)}"


def _lengths(records: Records) -> str:
    """How far the curves go, by batch size."""
    ends: dict[int, set[int]] = {}
    for setting, group in records.groups.items():
        ends.setdefault(setting.batch_size, set()).add(group.labelled[-1])
    said = [
        f"{' to '.join(map(str, sorted({min(found), max(found)})))} with batches of {size}"
        for size, found in sorted(ends.items())
    ]
    return (
        f"The curves here are short. Labels at their ends: {listed(said)}. Longer ones are in the sections on judging "
        "and on [longer curves](#longer-curves), and in [Figure 1 (c)](figure-1c.md), which goes to 500 labels in "
        "batches of 10."
    )


def _overall(standing: Standing) -> str:
    return (
        f"## All settings together\n\n{_summary(standing)}\n\n{standing_table(standing)}\n\n{reading(standing)}\n\n"
        "![Performance profiles](results/profiles.png)\n\n"
        "![Difference from random by setting](results/differences.png)\n\n"
        "Points above random in each setting; bold where the seeds say better or worse: "
        "the interval leaves out 0, and is not within half a point.\n\n"
        "![Learning curves](results/curves.png)\n\n"
        "Test accuracy with batches of 10 and 50; bands are one standard deviation over the seeds.\n\n"
        f"### Method against method\n\n{wins_table(standing.records)}"
    )


def _claims(archives: Archives, times: RunTimes, large: Sequence[RunRecord]) -> str:
    quick = archives.quick
    parts = [
        "## The paper's claims\n\n"
        "`lbb` and `power-lbb` are this library's forms (normalised redundancy, exponent 1). `lbb-printed` is the "
        "formula as printed (every pair counted twice). `lbb-released` and `power-lbb-released` are what the authors' "
        "program computes (exponent 5). `power-bald` has exponent 1, `power-bald-5` that of the program.",
        "A claim *holds* or *does not hold* if the difference is significant at the 5 % level after Holm's correction "
        "(1979) for all claims of the column that have an interval, but those of closeness. It is *equivalent* if the "
        f"interval is within ±0.5 point, over {ENOUGH} data sets or settings at least, whatever the claim says, and "
        "*inconclusive* otherwise, also if such an interval is over fewer. A claim that two methods are close "
        "holds if it is equivalent, and does not hold if the interval is outside ±0.5 point, *ahead* if the first is "
        "the better one; nothing is corrected there. "
        "Findings by data set are the stronger evidence, but few data sets and many claims can hardly show anything: "
        "there, inconclusive says little. Findings by setting alone are weaker. Numbers come from "
        "`paper/records/quick.csv.gz`, and times of the paper's pool from [run-time.md](run-time.md).",
        "Two more readings have no row here. The printed formula counts every pair twice. If each is counted once, it "
        "is 2-BALD, a member of the k-BALD family (Kirsch 2023, *Speeding Up BatchBALD*): `lbb` with "
        '`redundancy="sum"` and `pairs="unordered"`, which is among the ablations below. The other is the paper\'s '
        "Table 1, which counts N² pairs, as if a point were compared with the whole pool and not with the batch. No "
        "formula of the paper says so. The nearest method is `lbb-released` with the whole pool as its `reference`, "
        "which was not run.",
    ]
    finished = sum(run.finished for run in large)
    if finished:
        parts.append(
            f"### At the paper's scale\n\n[Figure 1 (c)](figure-1c.md), {finished} finished runs. Points of accuracy, "
            "with intervals over seeds. Verdicts are of the curve and need three seeds. LBB, PLBB and PBALD are those "
            f"of the authors' program.\n\n{figure_1c_claims.claims_table(large)}\n\n"
            "Everything below is at a small scale."
        )
    for scope, wanted in SCOPES.items():
        part = quick.where(wanted)
        if part.groups:
            copies = any(map(repeated, part.groups)) and scope != next(iter(SCOPES))
            parts.append(
                f"### On {scope}\n\n{len(part.groups)} settings of {listed(part.data_sets)}."
                + " Fashion-MNIST is here with noisy copies, which the paper does not have." * copies
            )
            parts.append(claims_table(judged_claims(part)))
    parts.append(exact_copies(archives.copies))
    others = [(c.text, c.where, f"`{c.form}`", f"**{c.finding}**", c.numbers) for c in other_claims(quick, times)]
    head = ("claim", "where", "tested", "finding", "what it rests on")
    return "\n\n".join([*filter(None, parts), "### Profiles and times", table(head, others)])


def _conditions(quick: Records) -> str:
    """Labels saved by condition, best first."""
    return (
        "## Which method where\n\n"
        "Labels saved, in percent, averaged over the data sets of each column. The number of settings is in brackets, "
        "and the best of a column is bold; this is not a test. [guide.md](guide.md) says what to choose for your data."
        "\n\n" + conditions_table(quick, {name: quick.where(wanted) for name, wanted in CONDITIONS.items()})
    )


def _made(files: Mapping[str, Sequence[Done]], archives: Sequence[Records]) -> str:
    versions: dict[str, set[str]] = {}
    for records in archives:
        for group in records.groups.values():
            for run in group.everything:
                for package, version in run.versions.items():
                    versions.setdefault(package, set()).add(version)
    used = ", ".join(f"{name} {listed(sorted(found))}" for name, found in sorted(versions.items()))
    return (
        "## How this page was made\n\n"
        "`poolwise run` ran files of `paper/configs` on two processor cores without a graphics card. "
        "`python -m paper study collect` put the records (without the picks) into `paper/records`, and "
        "`python -m paper study page` made this page from them. `poolwise report paper/records/quick.csv.gz` makes "
        f"the full report with every table and curve. Versions: {used}.\n\n"
        "CIFAR-100, EMNIST, KMNIST, RCIFAR-100 and SVHN, which the paper has too, could not be had for this study. "
        "Their experiments are in `paper/configs/paper`.\n\n"
        "According to the records, this much of each folder was run:\n\n" + in_words(files)
    )


def _missing(names: Sequence[str]) -> str:
    return f"Planned, but not run so far, or on too little to show: {listed(names)}." if names else ""


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110)
