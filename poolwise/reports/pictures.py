"""The pictures of a section: which there are, what stands beneath them, and their PNG bytes."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from poolwise.arrays import Array
from poolwise.reports import figures
from poolwise.reports.comparable import Comparable
from poolwise.reports.line_styles import Look, choose_looks
from poolwise.reports.numbers import points
from poolwise.reports.paired import LEVEL
from poolwise.reports.profiles import Profile
from poolwise.reports.records import read_thumbnails
from poolwise.reports.tables import STAGES, Curve, DifferenceCurve, Summary, curves, difference_curves

# Inches: the text column of the page, so that letters come out as large as the small print beside them.
_WIDTH = 6.0
_DPI = 200
# Names of methods are plain text: a dollar sign in them begins no formula.
STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.titlesize": 9, "axes.linewidth": 0.7, "text.parse_math": False, "text.usetex": False,
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A figure with its words.

    Attributes:
        name: of its file, without the ending.
        title: what it shows.
        caption: how to read it.
        png: the image.
        shape: width and height in pixels.
    """

    name: str
    title: str
    caption: str
    png: bytes
    shape: tuple[int, int]


def pictures(group: Comparable, rows: list[Summary]) -> list[Picture]:
    """All pictures of a section, in the order of the page; those for which there are no data are missing."""
    looks = choose_looks({label: group.method(label) for label in group.runs})
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # The page writes every name in full; a font without its letters must not stop the report.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        return [
            *_accuracy(group, looks),
            *_differences(group, looks),
            *_loss(group, looks),
            *_times(rows),
            *_batches(group, rows),
        ]


def profile_picture(found: Sequence[Profile], methods: Mapping[str, str], problems: int, settings: int) -> Picture:
    """Performance profiles over all settings.

    Args:
        found: the profiles, at least two.
        methods: the method behind each label.
        problems: how many problems they are made of.
        settings: how many settings those belong to.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure((_WIDTH, 3.4), layout="constrained")
        axes = figure.subplots()
        figures.draw_profiles(axes, found, choose_looks(methods))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize="small")
        text = (
            f"Share of {problems} problems ({settings} groups, each with its seeds) on which a method's error rate at "
            "the end is at most τ times that of the best; higher is better. In brackets: the mean of the curve. "
            f"Bands: {LEVEL} bootstrap intervals over groups and seeds."
        )
        return _picture("profiles", "Performance profiles", text, figure)


def _accuracy(group: Comparable, looks: Mapping[str, Look]) -> Iterator[Picture]:
    table = curves(group, "accuracy")
    if _drawable(table):
        bands = any(curve.seeds > 1 for curve in table)
        text = "Mean over the seeds; names in the order of the final accuracy."
        text += " Bands: one standard deviation over the seeds either way." if bands else ""
        yield _curves("accuracy", "Accuracy", "accuracy, %", text, table, looks, 3.8)


def _loss(group: Comparable, looks: Mapping[str, Look]) -> Iterator[Picture]:
    table = curves(group, "nll")
    if _drawable(table):
        text = "Mean negative log-likelihood of the test labels, in nats; lower is better."
        yield _curves("nll", "Negative log-likelihood", "nats", text, table, looks, 2.6)


def _curves(
    name: str, title: str, unit: str, caption: str, table: list[Curve], looks: Mapping[str, Look], height: float
) -> Picture:
    figure = Figure((_WIDTH, max(height, 0.9 + 0.155 * len(table) * _lines(table))), layout="constrained")
    axes = figure.subplots()
    figures.draw_curves(axes, table, looks)
    axes.set_ylabel(unit)
    return _picture(name, title, caption, figure)


def _differences(group: Comparable, looks: Mapping[str, Look]) -> Iterator[Picture]:
    table = [curve for curve in difference_curves(group) if np.isfinite(curve.mean_L).any()]
    if not table:
        return
    across = min(3, len(table))
    down = -(-len(table) // across)
    figure = Figure((_WIDTH, 0.6 + (1.5 + 0.15 * _lines(table)) * down), layout="constrained")
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, curve in zip(panels, table, strict=False):
        figures.draw_difference(axes, curve, looks[curve.label])
        axes.set_title(f"{figures.fold(curve.label)}\n{_in_short(curve)}", loc="left")
        axes.tick_params(labelbottom=True)
    for axes in panels[len(table) :]:
        axes.remove()
    figure.supxlabel("labels", fontsize="medium")
    figure.supylabel("percentage points above random", fontsize="medium")
    bands = any(curve.seeds > 1 for curve in table)
    text = "Accuracy minus that of random (dashed), paired by seed; the largest mean difference over the curve first."
    text += (
        f" Band: {LEVEL} confidence interval at each number of labels; the verdict is on the mean over the whole curve."
        if bands
        else " One seed: no interval."
    )
    yield _picture("difference", "Difference from random", text, figure)


def _in_short(curve: DifferenceCurve) -> str:
    mean = points(curve.whole.mean, curve.whole)
    return f"{mean}, {curve.whole.verdict}" if curve.whole.verdict != "no verdict" else mean


def _times(rows: list[Summary]) -> Iterator[Picture]:
    if not np.isfinite([row.seconds[stage] for row in rows for stage in STAGES]).any():
        return
    figure = Figure((_WIDTH, 1.1 + (0.12 + 0.12 * _lines(rows)) * len(rows)), layout="constrained")
    total, selection = figure.subplots(1, 2)
    figures.draw_times(total, selection, rows)
    total.set_title("all stages", loc="left")
    selection.set_title("selection alone", loc="left")
    figure.legend(*total.get_legend_handles_labels(), loc="outside upper left", ncols=len(STAGES), frameon=False)
    yield _picture("times", "Time a round", "Mean wall time of a round over all rounds and seeds.", figure)


def _batches(group: Comparable, rows: list[Summary]) -> Iterator[Picture]:
    """The first and the last batch of every method, from the lowest seed that has images."""
    first, last = {}, {}
    for row in rows:
        runs = group.runs[row.label]
        batches = next(filter(None, (read_thumbnails(runs[seed]) for seed in sorted(runs))), [])
        if batches:
            first[row.label] = batches[0]
        if len(batches) > 1:
            last[row.label] = batches[-1]
    for which, chosen in (("first", first), ("last", last)):
        if chosen:
            yield _sheet(which, chosen)


def _sheet(which: str, chosen: dict[str, tuple[int, Array]]) -> Picture:
    rounds = sorted({number for number, _ in chosen.values()})
    images = {label: images for label, (_, images) in chosen.items()}
    figure = Figure((_WIDTH, _WIDTH))
    letters = max(len(line) for label in images for line in figures.fold(label).split("\n"))
    left = 0.1 + 0.072 * letters  # inches
    axes = figure.add_axes((left / _WIDTH, 0, 1 - left / _WIDTH, 1))
    figures.draw_batches(axes, images)
    across, down = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    figure.set_figheight((_WIDTH - left) * down / across)
    longest = max(len(batch) for batch in images.values())
    text = f"What each method picked in round {rounds[0]}" + (f" to {rounds[-1]}" if len(rounds) > 1 else "")
    text += " of its lowest seed, in the order of picking"
    text += f"; the first {figures.MOST_IMAGES} of {longest:,} picks." if longest > figures.MOST_IMAGES else "."
    return _picture(f"{which}-batches", f"The {which} batches", text, figure)


def _lines(table: Sequence[Curve | DifferenceCurve | Summary]) -> int:
    return figures.lines(row.label for row in table)


def _drawable(table: list[Curve]) -> bool:
    return any(np.isfinite(curve.mean_L).any() for curve in table)


def _picture(name: str, title: str, caption: str, figure: Figure) -> Picture:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI)
    width, height = (round(_DPI * inches) for inches in figure.get_size_inches())
    return Picture(name, title, caption, file.getvalue(), (width, height))
