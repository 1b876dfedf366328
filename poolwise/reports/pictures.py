"""The figures of a section: which there are, what their captions say, and their drawings for page and file."""

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from poolwise.reports import figures
from poolwise.reports.comparable import Comparable
from poolwise.reports.line_styles import LineStyle, choose_line_styles
from poolwise.reports.numbers import points
from poolwise.reports.paired import LEVEL
from poolwise.reports.profiles import Profile
from poolwise.reports.svg import inline_svg
from poolwise.reports.tables import STAGES, Curve, DifferenceCurve, Summary, curves, difference_curves

# Inches: the text column of the page, on a screen and on a telephone, so that letters have the size of small print.
_WIDE, _NARROW = 7.2, 3.7
_DPI = 200
# Names of methods are plain text: a dollar sign in them begins no formula. Text stays text, in the font of the page.
STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.titlesize": 9, "axes.linewidth": 0.7, "text.parse_math": False, "text.usetex": False,
    "svg.fonttype": "none", "svg.hashsalt": "poolwise",
    "text.color": figures.INK, "axes.labelcolor": figures.INK, "axes.edgecolor": figures.SOFT,
    "xtick.color": figures.SOFT, "ytick.color": figures.SOFT,
    "xtick.labelcolor": figures.INK, "ytick.labelcolor": figures.INK,
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A figure and its text.

    Attributes:
        name: of its file, without the ending.
        title: what it shows.
        caption: how to read it.
        wide: an `<svg>` element for screens.
        narrow: one for telephones.
        png: an image for a file.
    """

    name: str
    title: str
    caption: str
    wide: str
    narrow: str
    png: bytes


Draw = Callable[[bool], Figure]
"""Draws a figure, for a telephone if True."""


def pictures(group: Comparable, rows: list[Summary], section: int) -> list[Picture]:
    """All figures of a section, in the order of the page; those for which there are no data are missing.

    Args:
        group: the runs.
        rows: their summaries.
        section: the number of the section, which is part of the ids on the page.
    """
    styles = choose_line_styles({label: group.method(label) for label in group.runs})
    drawn = [*_accuracy(group, styles), *_differences(group, styles), *_loss(group, styles), *_times(rows)]
    return [_picture(f"s{section}", *parts) for parts in drawn]


def profile_picture(found: Sequence[Profile], methods: Mapping[str, str], problems: int, settings: int) -> Picture:
    """Performance profiles over all settings.

    Args:
        found: the profiles, at least two.
        methods: the method behind each label.
        problems: how many problems they are made of.
        settings: how many settings those belong to.
    """

    def draw(narrow: bool) -> Figure:
        figure = Figure((_NARROW, 3.0 + 0.17 * len(found)) if narrow else (_WIDE, 3.6), layout="constrained")
        axes = figure.subplots()
        figures.draw_profiles(axes, found, choose_line_styles(methods))
        _legend(figure, narrow, 1)
        return figure

    text = (
        f"Share of {problems} problems ({settings} groups, each with its seeds) on which a method's final error rate "
        "is at most τ times that of the best. Higher is better. In brackets: the mean of the curve. "
        f"Bands: {LEVEL} bootstrap intervals over groups and seeds."
    )
    return _picture("all", "profiles", "Performance profiles", text, draw)


Parts = tuple[str, str, str, Draw]
"""Name, title, caption and drawing of a picture."""


def _accuracy(group: Comparable, styles: Mapping[str, LineStyle]) -> Iterator[Parts]:
    table = curves(group, "accuracy")
    if _drawable(table):
        text = "Accuracy on the test set, mean over the seeds."
        text += " Bands: one standard deviation either way." if any(curve.seeds > 1 for curve in table) else ""
        yield "accuracy", "Learning curves", text, _curves("accuracy, %", table, styles, 3.9)


def _loss(group: Comparable, styles: Mapping[str, LineStyle]) -> Iterator[Parts]:
    table = curves(group, "nll")
    if _drawable(table):
        text = "Mean negative log-likelihood of the test labels, in nats. Lower is better."
        yield "nll", "Negative log-likelihood", text, _curves("nats", table, styles, 2.8)


def _curves(unit: str, table: list[Curve], styles: Mapping[str, LineStyle], height: float) -> Draw:
    def draw(narrow: bool) -> Figure:
        lines = _lines(table)
        if narrow:
            size = (_NARROW, 2.9 + 0.17 * lines * -(-len(table) // 2))
        else:
            size = (_WIDE, max(height, 0.9 + 0.155 * len(table) * lines))
        figure = Figure(size, layout="constrained")
        axes = figure.subplots()
        ends = figures.plot_curves(axes, table, styles)
        axes.set_xlabel("labels")
        axes.set_ylabel(unit)
        if narrow:
            _legend(figure, narrow, 2)
        else:
            figures.name_ends(axes, ends, styles)
        return figure

    return draw


def _legend(figure: Figure, narrow: bool, columns: int) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    where: dict[str, Any] = (
        {"loc": "outside lower left", "ncols": columns} if narrow else {"loc": "outside right upper"}
    )
    figure.legend(handles, [figures.fold(label) for label in labels], frameon=False, fontsize="small", **where)


def _differences(group: Comparable, styles: Mapping[str, LineStyle]) -> Iterator[Parts]:
    table = [curve for curve in difference_curves(group) if np.isfinite(curve.mean_L).any()]
    if not table:
        return

    def draw(narrow: bool) -> Figure:
        across = min(2 if narrow else 3, len(table))
        down = -(-len(table) // across)
        figure = Figure((_NARROW if narrow else _WIDE, 0.6 + (1.5 + 0.15 * _lines(table)) * down), layout="constrained")
        panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, curve in zip(panels, table, strict=False):
            figures.draw_difference(axes, curve, styles[curve.label])
            axes.set_title(f"{figures.fold(curve.label)}\n{_in_short(curve)}", loc="left")
            axes.tick_params(labelbottom=True)
        for axes in panels[len(table) :]:
            axes.remove()
        figure.supxlabel("labels", fontsize="medium")
        figure.supylabel("points above random" if narrow else "percentage points above random", fontsize="medium")
        return figure

    text = "Accuracy minus that of random (dashed), paired by seed. The largest mean difference comes first."
    text += (
        f" Band: {LEVEL} confidence interval at each number of labels. The verdict is about the mean over the curve."
        if any(curve.seeds > 1 for curve in table)
        else " One seed: no interval."
    )
    yield "difference", "Difference from random", text, draw


def _in_short(curve: DifferenceCurve) -> str:
    mean = points(curve.whole.mean, curve.whole)
    return f"{mean}, {curve.whole.verdict}" if curve.whole.verdict != "no verdict" else mean


def _times(rows: list[Summary]) -> Iterator[Parts]:
    if not np.isfinite([row.seconds[stage] for row in rows for stage in STAGES]).any():
        return

    def draw(narrow: bool) -> Figure:
        height = 1.1 + (0.12 + 0.12 * _lines(rows)) * len(rows)
        figure = Figure((_NARROW, 2 * height) if narrow else (_WIDE, height), layout="constrained")
        total, selection = figure.subplots(2, 1) if narrow else figure.subplots(1, 2)
        figures.draw_times(total, selection, rows)
        if not narrow:
            selection.tick_params(labelleft=False)
        total.set_title("all stages", loc="left")
        selection.set_title("selection alone", loc="left")
        figure.legend(*total.get_legend_handles_labels(), loc="outside upper left", ncols=len(STAGES), frameon=False)
        return figure

    yield "times", "Time per round", "Mean wall time of a round, over all rounds and seeds.", draw


def _lines(table: Sequence[Curve | DifferenceCurve | Summary]) -> int:
    return figures.lines(row.label for row in table)


def _drawable(table: list[Curve]) -> bool:
    return any(np.isfinite(curve.mean_L).any() for curve in table)


def _picture(section: str, name: str, title: str, caption: str, draw: Draw) -> Picture:
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # The page writes every name in full; a font without its letters must not stop the report.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        wide, narrow, file = draw(False), draw(True), io.BytesIO()
        text = f"{title}. {caption}"
        shown = inline_svg(wide, f"{section}-{name}-w", text), inline_svg(narrow, f"{section}-{name}-n", text)
        wide.set_layout_engine(None)  # everything is in its place, and to find that takes as long as to draw it
        wide.savefig(file, format="png", dpi=_DPI)
    return Picture(name, title, caption, *shown, file.getvalue())
