"""Figure 1 (c) at the paper's scale, as far as it has been run: records, and a page with the authors' values.

The runs take long on a few processor cores, so their records are collected again and again while they are being made.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paper import figure_1c_claims
from paper.places import CONFIGS, DOCS, RECORDS, must_exist
from poolwise.errors import FileError
from poolwise.experiments import Config, read_config
from poolwise.experiments.records import RunRecord
from poolwise.experiments.search import read_runs
from poolwise.reports.archive import SUFFIX, read_archive, write_archive
from poolwise.reports.comparable import Comparable
from poolwise.reports.numbers import UNKNOWN, percent, signed
from poolwise.reports.tables import Curve, curves
from poolwise.storage import replacing

NAME, EXPERIMENT = "figure-1c", "figure-1c-fmnist-ensemble-10"


@dataclass(frozen=True)
class Published:
    """What the authors' picture shows of a method.

    Attributes:
        name: as they call it.
        final: accuracy at 500 labels, read off the picture.
    """

    name: str
    final: float


AUTHORS = {
    "power-lbb-released": Published("PLBB", 0.829),
    "lbb-released": Published("LBB", 0.813),
    "power-bald-5": Published("PBALD", 0.806),
    "random": Published("random", 0.797),
    "batchbald": Published("BatchBALD", 0.775),
    "bald": Published("BALD", 0.773),
}
# Methods of the paper that are drawn beside the others too.
REFERENCES = ("random", "power-lbb-released")
# Accuracies that differ by less are the same in print.
_VISIBLE = 0.0005
# In the authors' picture, LBB is below random until about this many labels.
CROSSING = 185


def collect(folder: Path) -> Path:
    """Add the runs of a folder to the records, also those that are not finished.

    A run replaces an older record of itself, and never one that had come further. Records of other runs are kept.

    Args:
        folder: what `poolwise run` wrote to.
    """
    path = must_exist(RECORDS) / f"{NAME}{SUFFIX}"
    known = {(run.label, run.seed): run for run in read_archive(path)} if path.exists() else {}
    found = [run for group in read_runs(folder).values() for run in group if run.setting.experiment == EXPERIMENT]
    if not found:
        raise FileError(f"{folder}: no runs of {EXPERIMENT} here. Give the folder that this experiment wrote to.")
    for run in found:
        before = known.get((run.label, run.seed))
        if run.rounds and (before is None or len(run.rounds) >= len(before.rounds)):
            known[run.label, run.seed] = run
    write_archive([known[key] for key in sorted(known)], path)
    return path


def recorded() -> list[RunRecord]:
    """The runs in the records, or none if there is no such file."""
    path = must_exist(RECORDS) / f"{NAME}{SUFFIX}"
    return list(read_archive(path)) if path.exists() else []


def write_page() -> tuple[Path, Path]:
    """Make docs/figure-1c.md and docs/figure-1c.png from the records."""
    runs = recorded()
    if not runs:
        raise FileError(f"{RECORDS}: no records of {NAME}. First put runs into it: python -m paper collect RUNS.")
    config = read_config(must_exist(CONFIGS) / "paper" / f"{EXPERIMENT}.toml")
    return write_files(runs, config, must_exist(DOCS))


def write_files(runs: Sequence[RunRecord], config: Config, docs: Path) -> tuple[Path, Path]:
    """The page and its figure.

    Args:
        runs: what was run so far.
        config: the experiment, which says what is wanted.
        docs: where the files go.
    """
    from paper.draw import curves_so_far  # needs Matplotlib

    labels = _labels(config)
    drawn = {curve.label: curve for label in labels for curve in _curve(runs, label)}
    finals = {label: value.final for label, value in AUTHORS.items()}
    panels = {
        "methods of the paper": [label for label in labels if label in AUTHORS],
        "other methods": [label for label in labels if label in REFERENCES or label in drawn.keys() - AUTHORS.keys()],
    }
    content = io.BytesIO()
    curves_so_far(panels, drawn, finals, config.acquisition.labels).savefig(content, format="png", dpi=150)
    page, picture = docs / f"{NAME}.md", docs / f"{NAME}.png"
    for path, data in ((picture, content.getvalue()), (page, _page(runs, config, drawn).encode())):
        with replacing(path) as file:
            file.write(data)
    return page, picture


def _labels(config: Config) -> list[str]:
    return [method.label for method in config.acquisition.methods]


def _curve(runs: Iterable[RunRecord], label: str) -> list[Curve]:
    """The mean over a method's finished runs, or, while there are none, over all as far as they go together."""
    return curves(Comparable(tuple(run for run in runs if run.label == label)), "accuracy")


def _page(runs: Sequence[RunRecord], config: Config, drawn: Mapping[str, Curve]) -> str:
    labels, seeds = _labels(config), len(config.seeds)
    finished = sum(run.finished for run in runs)
    total = len(labels) * seeds
    versions = sorted({f"{name} {version}" for run in runs for name, version in run.versions.items()})
    return "\n\n".join(
        [
            "# Figure 1 (c) at the paper's scale",
            f"Fashion-MNIST, the CNN of BatchBALD, an ensemble of 5, batches of {config.acquisition.batch_size}, up to "
            f"{config.acquisition.labels} labels from a pool of {config.data.pool:,}. Finished "
            f"runs: {finished} of {total}; under way: {len(runs) - finished}.",
            f"![Test accuracy against labels, with the authors' values]({NAME}.png)",
            "Lines are means over a method's finished runs, with a band of one standard deviation, which ± stands for "
            "in the table too. While a method has none, its unfinished runs are drawn as far as they go together. "
            "Diamonds are the authors' values.",
            _table(runs, drawn, config),
            _crossing(runs),
            figure_1c_claims.section(runs),
            _not_run(runs, config),
            "## What differs from the authors' runs\n\n"
            "Their values were read off the picture in their repository, so the last digit is uncertain. Each of our "
            "seeds draws its own 20 initial labels; theirs share one set. Their program takes all 60,000 training "
            "images as the pool and has 10 networks by default; their text has 5. Everything else is in "
            f"`paper/configs/paper/{EXPERIMENT}.toml`, with the source of each setting.",
            _dip(runs, config),
            _starts(runs),
            "## How this page was made\n\n"
            "`poolwise run` on that file, on one processor core; `python -m paper collect RUNS` put the records into "
            f"`paper/records/{NAME}{SUFFIX}` and made this page. The first three runs (seed 0 of `random`, "
            "`power-lbb-released` and `lbb-released`) have the network of the package, the others the same network "
            "with its convolutions compiled from C (`paper/compiled_cnn.py`): the same function up to rounding, in "
            "less than half of the time. From `lbb-printed`, seed 0, on, what dropout drops was drawn in another way. "
            f"Versions: {', '.join(versions)}.",
        ]
    ) + "\n"  # fmt: skip


def _table(runs: Sequence[RunRecord], drawn: Mapping[str, Curve], config: Config) -> str:
    """A row for each method that has been run, or that the authors have."""
    last = config.acquisition.labels
    rows = []
    for label in _labels(config):
        author, curve = AUTHORS.get(label), drawn.get(label)
        if author is None and curve is None:
            continue
        here = difference = UNKNOWN
        if curve is not None:
            here, reached = _accuracy(curve), int(curve.labelled_L[-1])
            if reached < last:
                here += f" (at {reached})"
            elif author is not None:
                difference = signed(float(curve.mean_L[-1]) - author.final)
        name, final = (UNKNOWN, UNKNOWN) if author is None else (author.name, percent(author.final))
        finished = sum(run.finished for run in runs if run.label == label)
        rows.append((f"`{label}`", name, f"{finished} of {len(config.seeds)}", here, final, difference))
    head = ("method", "in the paper", "finished seeds", f"accuracy at {last}, %", "authors'", "difference")
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines)


def _accuracy(curve: Curve) -> str:
    """The last mean of a curve, with its standard deviation if there are several seeds."""
    mean, sd = percent(float(curve.mean_L[-1])), percent(float(curve.sd_L[-1]))
    return mean if sd == UNKNOWN else f"{mean} ± {sd}"


def _crossing(runs: Iterable[RunRecord]) -> str:
    """From how many labels on LBB is ahead of random, beside what the authors' picture shows."""
    authors = f"In the authors' picture, LBB is below random until about {CROSSING} labels."
    pair = [run for run in runs if run.finished and run.label in ("lbb-released", "random")]
    both = {run.seed for run in pair if run.label == "random"} & {run.seed for run in pair if run.label != "random"}
    if not both:
        return f"{authors} Here no seed of both is finished."
    shared_seeds = [run for run in pair if run.seed in both]
    lbb, random = (
        dict(zip(curve.labelled_L.tolist(), curve.mean_L.tolist(), strict=True))
        for label in ("lbb-released", "random")
        for curve in _curve(shared_seeds, label)
    )
    shared = sorted(lbb.keys() & random.keys())
    below = [count for count in shared if lbb[count] < random[count]]
    if not below:
        return f"{authors} Here it is never below random, up to {shared[-1]} labels."
    mean = np.mean([count in below for count in shared])
    return (
        f"{authors} Here it is last below random at {below[-1]} labels, and below at {mean:.0%} of the "
        f"{len(shared)} counts up to {shared[-1]}."
    )


def _dip(runs: Iterable[RunRecord], config: Config) -> str:
    """What short batches at the end of a pass over the labels do to the curves."""
    size = config.training.batch_size
    curves = [{r.labelled: r.metrics["accuracy"] for r in run.rounds} for run in runs if run.finished]
    counts = sorted(set[int].intersection(*map(set, curves))) if curves else []
    short = min((n for n in counts[1:-1] if n % size), key=lambda n: (n % size, -n), default=None)
    said = (
        "One more difference shows in the curves. Their program repeats the labels until there are 24,576, so that "
        f"each step of training has {size} examples. Here a pass over the labels ends with what is left."
    )
    if short is None:
        return said
    place = counts.index(short)
    before, after = counts[place - 1], counts[place + 1]
    dip = np.mean([curve[short] - (curve[before] + curve[after]) / 2 for curve in curves])
    return (
        f"{said} With {short} labels that is {short % size}, and the accuracy there is {signed(float(dip))} points "
        f"from the mean of those at {before} and {after}, averaged over all finished runs."
    )


def _starts(runs: Iterable[RunRecord]) -> str:
    """How unlike the beginnings of runs of one seed are, which have the same labels."""
    by_seed: dict[int, list[float]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run.rounds[0].metrics["accuracy"])
    spreads = {seed: max(found) - min(found) for seed, found in sorted(by_seed.items())}
    unlike = {seed: spread for seed, spread in spreads.items() if spread >= _VISIBLE}
    if not unlike:
        return ""
    each = ", ".join(f"{percent(spread)} ({seed})" for seed, spread in unlike.items())
    return (
        "Runs of one seed have the same first labels, and should begin with the same accuracy. While the first of "
        "them were made, the program changed more than once: in the changes told below, and in others of which no "
        "record was kept. At the first labels, runs of a seed differ by up to "
        f"{each} points (seed in brackets). Differences between methods, paired by seed, are less certain by that."
    )


def _not_run(runs: Sequence[RunRecord], config: Config) -> str:
    """Which runs of the configuration are not finished, and which have no records."""
    begun = {(run.label, run.seed) for run in runs}
    under_way = [f"`{run.label}` seed {run.seed} at {run.reached} labels" for run in runs if not run.finished]
    missing = {
        label: [seed for seed in config.seeds if (label, seed) not in begun]
        for label in _labels(config)
    }  # fmt: skip
    some = [f"`{m}` {', '.join(map(str, left))}" for m, left in missing.items() if 0 < len(left) < len(config.seeds)]
    none = [f"`{label}`" for label, left in missing.items() if len(left) == len(config.seeds)]
    lines = [
        f"- {what}: {separator.join(found)}."
        for what, found, separator in (
            ("Under way", under_way, "; "),
            ("Seeds that have not been run", some, "; "),
            ("Methods that have not been run", none, ", "),
        )
        if found
    ]
    return "## What is missing\n\n" + ("\n".join(lines) if lines else "Nothing: every run is finished.")
