"""Figures: each plot takes a table and an Axes. Needs Matplotlib, whose global state is left alone."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from sklearn.isotonic import isotonic_regression

from poolwise.arrays import Array
from poolwise.reports.line_styles import LineStyle
from poolwise.reports.numbers import seconds
from poolwise.reports.profiles import Profile
from poolwise.reports.tables import STAGES, Curve, DifferenceCurve, Summary

# Text and axes, and three fainter tones. A page with a dark mode replaces them, see `svg.py`.
INK, SOFT, FAINT, GRID = "#1c1f23", "#5b636d", "#a3a9b0", "#e3e6ea"
STAGE_COLOURS = ("#0077ab", "#9fd0ee", "#d55e00")

# How dark the bands of standard deviations are together, and one at most: many of them would hide the curves.
_BANDS, _BAND = 0.6, 0.13
# Letters in a line of a name, and points from one line to the next beside a figure.
_LINE, _LEADING = 22, 10.5


def plot_curves(axes: Axes, curves: Sequence[Curve], styles: Mapping[str, LineStyle]) -> dict[str, float]:
    """Mean curves with bands of one standard deviation; accuracy in percent. Each line is labelled for a legend.

    Returns:
        The last value of each curve, as drawn.
    """
    unit = 100 if curves[0].metric == "accuracy" else 1
    ends = {}
    for curve in curves:
        style, mean_L, sd_L = styles[curve.label], unit * curve.mean_L, unit * curve.sd_L
        marker = style.marker or ("o" if len(mean_L) == 1 else "")
        every = max(1, len(mean_L) // 12)
        line = {**_line(style), "marker": marker, "markevery": every}
        axes.plot(curve.labelled_L, mean_L, **line, clip_on=False, label=curve.label)
        shade = min(_BAND, _BANDS / len(curves))
        axes.fill_between(curve.labelled_L, mean_L - sd_L, mean_L + sd_L, color=style.colour, alpha=shade, linewidth=0)
        ends[curve.label] = float(mean_L[-1])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(curves[0].labelled_L) > 1:
        axes.set_xlim(right=curves[0].labelled_L[-1])
    _tidy(axes)
    return ends


def draw_profiles(axes: Axes, profiles: Sequence[Profile], styles: Mapping[str, LineStyle]) -> None:
    """Performance profiles, the largest area first in the legend."""
    for profile in profiles:
        style = styles[profile.label]
        axes.plot(profile.tau_T, profile.share_T, **_line(style), label=f"{profile.label} ({profile.area:.2f})")
        shade = min(_BAND, _BANDS / len(profiles))
        axes.fill_between(profile.tau_T, profile.low_T, profile.high_T, color=style.colour, alpha=shade, linewidth=0)
    axes.set_xlim(1, profiles[0].tau_T[-1])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("τ: times the error rate of the best")
    axes.set_ylabel("share of problems")
    _tidy(axes)


def draw_difference(axes: Axes, curve: DifferenceCurve, style: LineStyle) -> None:
    """The difference of one method from random in percentage points, with its confidence band."""
    axes.axhline(0, color=SOFT, linestyle="--", linewidth=1)
    mean_L, low_L, high_L = 100 * curve.mean_L, 100 * curve.low_L, 100 * curve.high_L
    if len(mean_L) == 1:
        axes.errorbar(curve.labelled_L, mean_L, high_L - mean_L, color=style.colour, marker=style.marker, capsize=3)
    else:
        axes.fill_between(curve.labelled_L, low_L, high_L, color=style.colour, alpha=0.22, linewidth=0)
        axes.plot(curve.labelled_L, mean_L, **_line(style))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    _tidy(axes)


def draw_times(total: Axes, selection: Axes, rows: Sequence[Summary]) -> None:
    """Wall time per round as bars: all stages on one Axes, selection alone on the other."""
    y = np.arange(len(rows))[::-1]
    left = np.zeros(len(rows))
    for stage, colour in zip(STAGES, STAGE_COLOURS, strict=True):
        width = _known([row.seconds[stage] for row in rows])
        total.barh(y, width, left=left, height=0.7, color=colour, label=stage)
        left += width
    select = [row.seconds["select"] for row in rows]
    selection.barh(y, _known(select), height=0.7, color=STAGE_COLOURS[-1])
    for axes, values in ((total, left.tolist()), (selection, select)):
        for at, value in zip(y, values, strict=True):
            axes.annotate(
                seconds(value), (max(np.nan_to_num(value), 0), at), (3, 0), textcoords="offset points", va="center"
            )
        axes.set_yticks(y, [fold(row.label) for row in rows])
        axes.set_xlim(0, 1.3 * max(_known(values)) or 1)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.set_xlabel("seconds per round")
        _tidy(axes)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)


def fold(name: str) -> str:
    """A name on at most two short lines, which leave room for the figure; of a longer one the middle is left out."""
    lines = textwrap.wrap(name, _LINE)
    if len(lines) <= 2:
        return "\n".join(lines)
    name = " ".join(lines)
    return f"{name[: _LINE - 1].strip()}…\n{name[-_LINE:].strip()}"


def lines(names: Iterable[str]) -> int:
    """How many lines the longest of these names takes."""
    return max(fold(name).count("\n") + 1 for name in names)


def spread(heights: Array, gap: float) -> Array:
    """Move sorted heights in [0, 1] as little as possible so that they stand at least `gap` apart and stay inside."""
    steps = gap * np.arange(len(heights))
    moved = np.asarray(isotonic_regression(heights - steps))
    return np.asarray(moved.clip(0, max(0.0, 1 - steps[-1])) + steps)


def name_ends(axes: Axes, ends: Mapping[str, float], styles: Mapping[str, LineStyle]) -> None:
    """Write names to the right of the Axes, in the order of the curves' ends, each tied to its end by a thin line."""
    low, high = axes.get_ylim()
    labels = sorted(ends, key=lambda label: (np.nan_to_num(ends[label], nan=-np.inf), label))
    heights = np.nan_to_num([(ends[label] - low) / (high - low) for label in labels])  # a curve without an end: below
    points_high = 72 * axes.get_window_extent().height / axes.figure.dpi
    gap = min(_LEADING * lines(labels) / points_high, 1 / len(labels))
    places = low + (high - low) * spread(heights, gap)
    for label, place in zip(labels, places, strict=True):
        beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "clip_on": False}
        axes.plot([1.01, 1.05], [ends[label], place], color=FAINT, linewidth=0.6, **beside)
        style = styles[label]
        axes.plot([1.055, 1.085, 1.115], [place] * 3, **_line(style), marker=style.marker, markevery=[1], **beside)
        axes.text(1.13, place, fold(label), va="center", fontsize="small", linespacing=1, **beside)
    axes.set_ylim(low, high)


def _line(style: LineStyle) -> dict[str, Any]:
    return {"color": style.colour, "linestyle": style.dashes, "linewidth": 1.6, "markersize": 4}


def _tidy(axes: Axes) -> None:
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _known(values: Sequence[float]) -> Array:
    return np.nan_to_num(np.array(values, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
