"""The figures of the two tables of times. Needs Matplotlib, whose global state is left alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from paper.timings.durations import BATCHES, PAPER_SECONDS, TIMED, Duration
from paper.timings.growth import ALL_PAIRS, ALL_POINTS, GROWING, VARIABLES, GrowthSizes, Line
from paper.timings.stopwatch import signed
from poolwise.reports.line_styles import LineStyle, choose_line_styles
from poolwise.reports.numbers import seconds as short

_STYLE: dict[Any, Any] = {"font.size": 9, "axes.titlesize": 9, "axes.linewidth": 0.7, "text.usetex": False}
_DPI = 200
# Methods that evaluate everything have the colour of those that do not, and hollow markers.
_LIKE = {ALL_POINTS: "batchbald", ALL_PAIRS: "lbb"}
# Whose line the paper's formula is laid through, one for each of its three.
_GUIDED = ("bald", ALL_POINTS, ALL_PAIRS)
_WORDS = {"N": "pool size N", "b": "batch size b", "C": "classes C", "K": "posterior samples K"}
_HERE, _PAPER = "#0072B2", "#b5b5b5"


def draw_growth(lines: Sequence[Line], sizes: GrowthSizes, path: Path) -> None:
    """One panel per variable and one line per method; the paper's formula is dashed, through the last point."""
    looks = choose_line_styles(
        {contender.name: contender.method for contender in GROWING if contender.name not in _LIKE}
    )
    looks |= {name: looks[like] for name, like in _LIKE.items()}
    with matplotlib.rc_context(_STYLE):
        figure = Figure((10, 7), layout="constrained")
        panels = figure.subplots(2, 2, sharey=True)
        times = [time for line in lines for time in line.seconds]
        # What was measured fills the panels; a steep formula leaves them.
        panels[0, 0].set(yscale="log", ylim=(min(times) / 2, 2 * max(times)))
        for axes, variable in zip(panels.ravel(), VARIABLES, strict=True):
            _draw_panel(axes, [line for line in lines if line.variable == variable], looks)
            fixed = [f"{name} = {getattr(sizes.base, name):,}" for name in VARIABLES if name != variable]
            axes.set_title(", ".join(fixed), loc="left")
            axes.set_xlabel(_WORDS[variable])
            axes.tick_params(labelleft=True)
        for axes in panels[:, 0]:
            axes.set_ylabel("seconds, one thread")
        figure.savefig(path, dpi=_DPI)


def _draw_panel(axes: Axes, lines: Sequence[Line], looks: dict[str, LineStyle]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    for line in lines:
        look = looks[line.name]
        face = "white" if line.name in _LIKE else look.colour
        style: dict[str, Any] = {"color": look.colour, "linewidth": 1.4, "markersize": 4}
        label = f"{line.name}: {signed(line.exponent.value)}"
        axes.plot(line.sizes, line.seconds, **style, marker=look.marker, markerfacecolor=face, label=label)
    for line in lines:
        if line.name in _GUIDED:
            guide = [line.seconds[-1] * (cost / line.costs[-1]) for cost in line.costs]
            axes.plot(line.sizes, guide, color=looks[line.name].colour, linestyle="--", linewidth=0.9, zorder=1)
    axes.plot([], [], color="0.3", linestyle="--", linewidth=0.9, label="the paper's formula")
    _tidy(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small", title="exponent")


def draw_durations(durations: Sequence[Duration], path: Path) -> None:
    """One panel per batch size: bars of seconds, here and in the paper, on a logarithmic axis."""
    names = [name for name, *_ in TIMED]
    with matplotlib.rc_context(_STYLE):
        figure = Figure((8.5, 3.6), layout="constrained")
        panels = figure.subplots(1, len(BATCHES), sharex=True, sharey=True)
        for axes, b in zip(panels, BATCHES, strict=True):
            here = {duration.name: duration.mean for duration in durations if duration.b == b}
            paper = {name: mean for name, (mean, _) in PAPER_SECONDS[b].items()}
            axes.set_xscale("log")
            for values, colour, offset, label in ((here, _HERE, 0.2, "here"), (paper, _PAPER, -0.2, "the paper")):
                places = [len(names) - 1 - names.index(name) + offset for name in values]
                axes.barh(places, list(values.values()), height=0.38, color=colour, label=label)
                for place, value in zip(places, values.values(), strict=True):
                    axes.annotate(
                        short(value), (value, place), (3, 0), textcoords="offset points", va="center", fontsize="small"
                    )
            axes.set_title(f"b = {b}", loc="left")
            axes.set_xlabel("seconds")
            _tidy(axes)
            axes.grid(axis="y", visible=False)
            axes.tick_params(axis="y", length=0)
        smallest = min(duration.mean for duration in durations)
        largest = max(mean for table in PAPER_SECONDS.values() for mean, _ in table.values())
        panels[0].set_xlim(smallest / 3, 12 * largest)
        panels[0].set_yticks(np.arange(len(names))[::-1], names)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False)
        figure.savefig(path, dpi=_DPI)


def _tidy(axes: Axes) -> None:
    axes.grid(color="0.88", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
