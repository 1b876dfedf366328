"""The figures of the paper, drawn again from runs: the same panels with the same axes. Needs Matplotlib."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper.targets import TARGETS, Target, labels_of
from poolwise.reports import figures
from poolwise.reports.comparable import Comparable
from poolwise.reports.line_styles import LineStyle, choose_line_styles
from poolwise.reports.pictures import STYLE
from poolwise.reports.profiles import Profile, problems, profiles
from poolwise.reports.tables import Curve, curves
from poolwise.storage import make_folder, replacing, write_json

# Inches of a panel. The legend is below several panels, or to the right of one, which is a little larger.
_WIDTH, _HEIGHT = 3.4, 2.9
_DPI = 200


@dataclass(frozen=True)
class Drawn:
    """What a panel shows.

    Attributes:
        title: above it.
        experiment: the name of the experiment.
        group: its runs, or None if there are none.
    """

    title: str
    experiment: str
    group: Comparable | None


def draw(target: Target, panels: Sequence[Drawn], stem: Path) -> list[Path]:
    """Draw a figure and write it as `.png` and `.pdf`, and the numbers in it as `.json`.

    Args:
        target: the figure.
        panels: its panels, in order.
        stem: where to, without the ending; its folder is made.
    Returns:
        The files.
    """
    # Every method looks the same in all figures.
    looks = choose_line_styles({label: label for label in sorted(labels_of(TARGETS))})
    with matplotlib.rc_context(STYLE):
        figure, numbers = (_profiles if target.kind == "profiles" else _panels)(target, panels, looks)
        make_folder(stem.parent)
        paths = [stem.parent / f"{stem.name}.{ending}" for ending in ("png", "pdf", "json")]
        for path in paths[:2]:
            content = io.BytesIO()
            figure.savefig(content, format=path.suffix[1:], dpi=_DPI, metadata=_undated(path))
            figure.set_layout_engine(None)  # everything is in its place now
            with replacing(path) as file:
                file.write(content.getvalue())
    missing = [panel.experiment for panel in panels if panel.group is None]
    write_json(paths[2], {"figure": target.name, "title": target.title, **numbers, "not run": missing})
    return paths


def curves_so_far(
    panels: Mapping[str, Sequence[str]], drawn: Mapping[str, Curve], finals: Mapping[str, float], labels: int
) -> Figure:
    """Curves of methods that need not end at the same number of labels, and published accuracies at the last one.

    Args:
        panels: the methods of each panel, by its title. A method may be in several, and looks the same in all.
        drawn: the curve of each method that has one.
        finals: published accuracies, by method.
        labels: the number of labels that they belong to.
    """
    looks = choose_line_styles({label: label for methods in panels.values() for label in methods})
    with matplotlib.rc_context(STYLE):
        figure = Figure((10, 5), layout="constrained")
        for axes, (title, methods) in zip(figure.subplots(1, len(panels), sharey=True), panels.items(), strict=True):
            for label in methods:
                colour = looks[label].colour
                if label in drawn:
                    curve = drawn[label]
                    mean_L, sd_L = 100 * curve.mean_L, 100 * curve.sd_L
                    seeds = f"{label} ({curve.seeds} seed{'s' if curve.seeds > 1 else ''})"
                    axes.plot(
                        curve.labelled_L, mean_L, looks[label].dashes, color=colour, linewidth=1.4, label=seeds
                    )  # fmt: skip
                    axes.fill_between(
                        curve.labelled_L, mean_L - sd_L, mean_L + sd_L, color=colour, alpha=0.08, linewidth=0
                    )  # fmt: skip
                if label in finals:
                    axes.plot(
                        [labels], [100 * finals[label]], "D", color=colour, markerfacecolor="white", clip_on=False,
                        zorder=3,
                    )  # fmt: skip
            axes.plot([], [], "D", color="0.4", markerfacecolor="white", label="the authors, same colours")
            axes.set_title(title)
            axes.set(xlabel="number of labelled examples", xlim=(0, labels))
            axes.grid(color="0.9", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(loc="lower right", frameon=False, fontsize="small")
        figure.axes[0].set_ylabel("test accuracy, %")
    return figure


def _panels(target: Target, panels: Sequence[Drawn], looks: Mapping[str, LineStyle]) -> tuple[Figure, dict[str, Any]]:
    """Learning curves side by side."""
    alone = len(panels) == 1
    size = (_WIDTH + 3, _HEIGHT + 0.5) if alone else (_WIDTH * len(panels) + 0.3, _HEIGHT + 0.9)
    figure = Figure(size, layout="constrained")
    numbers = []
    legend: dict[str, Any] = {}
    for axes, letter, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], "abc", panels, strict=False):
        axes.set_title(panel.title if alone else f"({letter}) {panel.title}")
        axes.set_xlabel("number of labelled examples")
        axes.set_ylabel("test accuracy, %")
        shown = _in_order(target, panel.group)
        numbers.append({"title": panel.title, "experiment": panel.experiment, "curves": [_numbers(c) for c in shown]})
        if not shown:
            _not_run(axes, "not run")
            continue
        figures.plot_curves(axes, shown, looks)
        handles, labels = axes.get_legend_handles_labels()
        legend |= dict(zip(labels, handles, strict=True))
    if legend:
        ordered = [label for label in target.methods if label in legend]
        figure.legend(
            [legend[label] for label in ordered],
            ordered,
            loc="outside right upper" if alone else "outside lower center",
            ncols=1 if alone else 2 * len(panels),
            frameon=False,
        )
    return figure, {"panels": numbers}


def _profiles(target: Target, panels: Sequence[Drawn], looks: Mapping[str, LineStyle]) -> tuple[Figure, dict[str, Any]]:
    """Performance profiles over all panels."""
    figure = Figure((6.6, 3.6), layout="constrained")
    axes = figure.subplots()
    groups = {panel.experiment: panel.group for panel in panels if panel.group is not None}
    table = problems(groups.values())
    found = profiles(table)
    axes.set_title(f"{len(table.errors_P_S)} problems: {len(groups)} of {len(panels)} experiments, each with its seeds")
    if found:
        figures.draw_profiles(axes, found, looks)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize="small")
    else:
        _not_run(axes, "too few runs: a profile needs two methods and two problems")
    return figure, {"experiments": list(groups), "profiles": [_profile(profile) for profile in found]}


def _in_order(target: Target, group: Comparable | None) -> list[Curve]:
    """The curves of a panel in the order of the figure's methods."""
    by_label = {} if group is None else {curve.label: curve for curve in curves(group, "accuracy")}
    return [by_label[label] for label in target.methods if label in by_label]


def _numbers(curve: Curve) -> dict[str, Any]:
    return {
        "method": curve.label,
        "seeds": curve.seeds,
        "labelled": curve.labelled_L.tolist(),
        "mean": [_known(value) for value in curve.mean_L.tolist()],
        "sd": [_known(value) for value in curve.sd_L.tolist()],
    }


def _profile(profile: Profile) -> dict[str, Any]:
    return {
        "method": profile.label,
        "area": profile.area,
        "tau": profile.tau_T.tolist(),
        "share": profile.share_T.tolist(),
    }


def _known(value: float) -> float | None:
    """The number, or None for NaN, which JSON does not have."""
    return value if math.isfinite(value) else None


def _not_run(axes: Axes, why: str) -> None:
    axes.text(0.5, 0.5, why, ha="center", va="center", color="0.4", transform=axes.transAxes)
    axes.set_xticks([])
    axes.set_yticks([])


def _undated(path: Path) -> dict[str, Any] | None:
    """No date inside the file: the same runs give the same bytes."""
    return {"CreationDate": None} if path.suffix == ".pdf" else None
