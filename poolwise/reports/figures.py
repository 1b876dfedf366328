"""Figures: each plot takes a table and an Axes. Needs Matplotlib, whose global state is left alone."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from sklearn.isotonic import isotonic_regression

from poolwise.arrays import Array
from poolwise.reports.line_styles import Look
from poolwise.reports.numbers import seconds
from poolwise.reports.profiles import Profile
from poolwise.reports.tables import STAGES, Curve, DifferenceCurve, Summary

# How dark the bands of standard deviations are together, and one at most: many of them would hide the curves.
_BANDS, _BAND = 0.6, 0.13
# Images in a row of a batch, and how many of a batch are shown.
ACROSS, MOST_IMAGES = 10, 20

# Letters in a line of a name, and points from one line to the next beside a figure.
_LINE, _LEADING = 22, 10.5
_STAGE_COLOURS = ("#0072B2", "#9fd0ee", "#D55E00")


def draw_curves(axes: Axes, curves: Sequence[Curve], looks: Mapping[str, Look]) -> None:
    """Mean curves, each named at its end, with bands of one standard deviation; accuracy in percent."""
    ends = plot_curves(axes, curves, looks)
    axes.set_xlabel("labels")
    _name_ends(axes, ends, looks)


def plot_curves(axes: Axes, curves: Sequence[Curve], looks: Mapping[str, Look]) -> dict[str, float]:
    """The curves and bands alone; the last value of each, as drawn. Each line is labelled for a legend."""
    unit = 100 if curves[0].metric == "accuracy" else 1
    ends = {}
    for curve in curves:
        look, mean_L, sd_L = looks[curve.label], unit * curve.mean_L, unit * curve.sd_L
        marker = look.marker or ("o" if len(mean_L) == 1 else "")
        axes.plot(curve.labelled_L, mean_L, **_line(look), marker=marker, clip_on=False, label=curve.label)
        shade = min(_BAND, _BANDS / len(curves))
        axes.fill_between(curve.labelled_L, mean_L - sd_L, mean_L + sd_L, color=look.colour, alpha=shade, linewidth=0)
        ends[curve.label] = float(mean_L[-1])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(curves[0].labelled_L) > 1:
        axes.set_xlim(right=curves[0].labelled_L[-1])
    _tidy(axes)
    return ends


def draw_profiles(axes: Axes, profiles: Sequence[Profile], looks: Mapping[str, Look]) -> None:
    """Performance profiles, the largest area first in the legend."""
    for profile in profiles:
        look = looks[profile.label]
        axes.plot(profile.tau_T, profile.share_T, **_line(look), label=f"{profile.label} ({profile.area:.2f})")
        shade = min(_BAND, _BANDS / len(profiles))
        axes.fill_between(profile.tau_T, profile.low_T, profile.high_T, color=look.colour, alpha=shade, linewidth=0)
    axes.set_xlim(1, profiles[0].tau_T[-1])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("τ: times the error rate of the best")
    axes.set_ylabel("share of problems")
    _tidy(axes)


def draw_difference(axes: Axes, curve: DifferenceCurve, look: Look) -> None:
    """The difference of one method from random in percentage points, with its confidence band."""
    axes.axhline(0, color="#4d4d4d", linestyle="--", linewidth=1)
    mean_L, low_L, high_L = 100 * curve.mean_L, 100 * curve.low_L, 100 * curve.high_L
    if len(mean_L) == 1:
        axes.errorbar(curve.labelled_L, mean_L, high_L - mean_L, color=look.colour, marker=look.marker, capsize=3)
    else:
        axes.fill_between(curve.labelled_L, low_L, high_L, color=look.colour, alpha=0.22, linewidth=0)
        axes.plot(curve.labelled_L, mean_L, **_line(look))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    _tidy(axes)


def draw_times(total: Axes, selection: Axes, rows: Sequence[Summary]) -> None:
    """Wall time a round as bars: all stages on one Axes, selection alone on the other."""
    y = np.arange(len(rows))[::-1]
    left = np.zeros(len(rows))
    for stage, colour in zip(STAGES, _STAGE_COLOURS, strict=True):
        width = _known([row.seconds[stage] for row in rows])
        total.barh(y, width, left=left, height=0.7, color=colour, edgecolor="white", linewidth=0.5, label=stage)
        left += width
    select = [row.seconds["select"] for row in rows]
    selection.barh(y, _known(select), height=0.7, color=_STAGE_COLOURS[-1])
    for axes, values in ((total, left.tolist()), (selection, select)):
        for at, value in zip(y, values, strict=True):
            axes.annotate(
                seconds(value), (max(np.nan_to_num(value), 0), at), (3, 0), textcoords="offset points", va="center"
            )
        axes.set_yticks(y, [fold(row.label) for row in rows])
        axes.set_xlim(0, 1.3 * max(_known(values)) or 1)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.set_xlabel("seconds a round")
        _tidy(axes)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
    selection.tick_params(labelleft=False)


def draw_batches(axes: Axes, batches: Mapping[str, Array]) -> None:
    """The images `[n, H, W, channels]` that each method picked, in picking order; names to the left of the Axes."""
    sheets = [tile(images[:MOST_IMAGES]) for images in batches.values()]
    edges = np.cumsum([0] + [len(sheet) for sheet in sheets])
    width = max(sheet.shape[1] for sheet in sheets)
    padded = [np.pad(sheet, ((0, 0), (0, width - sheet.shape[1]), (0, 0)), constant_values=255) for sheet in sheets]
    axes.imshow(np.concatenate(padded))
    axes.set_yticks((edges[1:] + edges[:-1] - 1) / 2, [fold(label) for label in batches])
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def tile(images: Array) -> Array:
    """Lay images `[n, H, W, channels]` out in rows on a white sheet with three channels."""
    n, H, W, _ = images.shape
    gap = max(1, W // 12)
    rows = -(-n // ACROSS)
    sheet = np.full((rows * (H + gap) + gap, ACROSS * (W + gap) - gap, 3), 255, np.uint8)
    for i, image in enumerate(images):
        top, left = gap + i // ACROSS * (H + gap), i % ACROSS * (W + gap)
        sheet[top : top + H, left : left + W] = image
    return sheet


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


def _name_ends(axes: Axes, ends: Mapping[str, float], looks: Mapping[str, Look]) -> None:
    """Names to the right of the Axes, in the order of the curves' ends, each tied to its end by a thin line."""
    low, high = axes.get_ylim()
    labels = sorted(ends, key=lambda label: (np.nan_to_num(ends[label], nan=-np.inf), label))
    heights = np.nan_to_num([(ends[label] - low) / (high - low) for label in labels])  # a curve without an end: below
    points_high = 72 * axes.get_window_extent().height / axes.figure.dpi
    gap = min(_LEADING * lines(labels) / points_high, 1 / len(labels))
    places = low + (high - low) * spread(heights, gap)
    for label, place in zip(labels, places, strict=True):
        beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "clip_on": False}
        axes.plot([1.01, 1.05], [ends[label], place], color="0.65", linewidth=0.6, **beside)
        look = looks[label]
        axes.plot([1.055, 1.085, 1.115], [place] * 3, **_line(look), marker=look.marker, markevery=[1], **beside)
        axes.text(1.13, place, fold(label), va="center", fontsize="small", linespacing=1, **beside)
    axes.set_ylim(low, high)


def _line(look: Look) -> dict[str, Any]:
    return {"color": look.colour, "linestyle": look.dashes, "linewidth": 1.6, "markersize": 4}


def _tidy(axes: Axes) -> None:
    axes.grid(color="0.88", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _known(values: Sequence[float]) -> Array:
    return np.nan_to_num(np.array(values, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
