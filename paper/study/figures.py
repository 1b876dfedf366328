"""Figures of the study; each takes tables and returns a Figure."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from paper.study.compare import Comparison, Records, saved_over_data
from poolwise.experiments.records import Setting
from poolwise.reports.comparable import Comparable
from poolwise.reports.figures import draw_profiles
from poolwise.reports.line_styles import choose_line_styles
from poolwise.reports.profiles import Profile
from poolwise.reports.tables import curves

# Points of accuracy at which the colours of the heat map end.
_SCALE = 8.0


def profile_figure(profiles: Sequence[Profile], methods: Mapping[str, str]) -> Figure:
    """Performance profiles with their bands."""
    figure = Figure(figsize=(9, max(5.0, 0.2 * len(profiles) + 1)), layout="constrained")
    axes = figure.subplots()
    draw_profiles(axes, profiles, choose_line_styles(methods))
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize="small", title="area")
    return figure


def map_figure(rows: Mapping[str, Comparison]) -> Figure:
    """The difference from random of every method in every setting, in points of accuracy; framed where clear."""
    settings = list(next(iter(rows.values())).each)
    values = np.array([[100 * row.each[setting].mean for setting in settings] for row in rows.values()])
    figure = Figure(figsize=(0.36 * len(settings) + 2.4, 0.32 * len(rows) + 2.2), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, cmap="RdBu", vmin=-_SCALE, vmax=_SCALE, aspect="auto")
    for y, row in enumerate(rows.values()):
        for x, setting in enumerate(settings):
            clear = row.each[setting].verdict in ("better", "worse")
            shade = "white" if abs(values[y, x]) > 0.7 * _SCALE else "black"
            weight = "bold" if clear else "normal"
            axes.text(
                x, y, f"{round(values[y, x])}", ha="center", va="center", fontsize=7, color=shade, fontweight=weight
            )
    axes.set_xticks(range(len(settings)), [setting.experiment for setting in settings], rotation=90, fontsize=8)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    figure.colorbar(image, label="points of accuracy above random, mean over the curve", shrink=0.8)
    return figure


def saved_figure(parts: Mapping[str, Records], labels: Sequence[str], across: int = 3) -> Figure:
    """Labels saved by every method in several parts of the records, with intervals over the data sets.

    Args:
        parts: the records of each part, each with all methods.
        labels: the methods, the first on top.
        across: how many panels stand beside each other.
    """
    rows, across = -(-len(parts) // across), min(across, len(parts))
    figure = Figure(figsize=(3.4 * across, rows * (0.32 * len(labels) + 1)), layout="constrained")
    panels = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels[len(parts) :]:
        axes.set_visible(False)
    looks = choose_line_styles({label: label for label in labels})
    for axes, (name, part) in zip(panels, parts.items(), strict=False):
        for y, (label, found) in enumerate((label, saved_over_data(part, [label])[label]) for label in labels):
            axes.plot([100 * found.low, 100 * found.high], [y, y], color=looks[label].colour, linewidth=2.5, alpha=0.4)
            axes.plot(100 * found.mean, y, "o", color=looks[label].colour, markersize=5)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(axis="x", color="0.9", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(labels)), labels)
    panels[0].invert_yaxis()
    figure.supxlabel("labels saved against random, %", fontsize=9)
    return figure


def curve_figure(groups: Mapping[Setting, Comparable], labels: Sequence[str], across: int = 4) -> Figure:
    """Learning curves of some methods, one panel per setting, with bands of one standard deviation."""
    rows = -(-len(groups) // across)
    figure = Figure(figsize=(3.4 * across, 2.5 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, across, squeeze=False).ravel()
    for axes in panels[len(groups) :]:
        axes.set_visible(False)
    for axes, (setting, group) in zip(panels, groups.items(), strict=False):
        looks = choose_line_styles({label: group.method(label) for label in labels})
        for curve in curves(group, "accuracy"):
            if curve.label in labels:
                look, mean_L, sd_L = looks[curve.label], 100 * curve.mean_L, 100 * curve.sd_L
                axes.plot(curve.labelled_L, mean_L, look.dashes, color=look.colour, linewidth=1.5, label=curve.label)
                band = (mean_L - sd_L, mean_L + sd_L)
                axes.fill_between(curve.labelled_L, *band, color=look.colour, alpha=0.08, linewidth=0)
        axes.set_title(setting.experiment, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(color="0.9", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("labels", fontsize=9)
    figure.supylabel("test accuracy, %", fontsize=9)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=9)
    return figure
