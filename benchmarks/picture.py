"""The log-log picture: time against the size of the pool, and against the size of the batch."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from benchmarks.cases import ONE, Case, Task
from benchmarks.checks import Record

# Okabe and Ito's colours, told apart by colour-blind readers; peers and full evaluation are also dashed.
LOOKS = {
    "bald": ("#000000", "o", "-"),
    "lbb": ("#0072B2", "s", "-"),
    "power-lbb": ("#56B4E9", "^", "-"),
    "posterior-coverage": ("#009E73", "D", "-"),
    "batchbald": ("#E69F00", "v", "-"),
    "lbb (full evaluation)": ("#0072B2", "s", "--"),
    "batchbald (batchbald_redux)": ("#D55E00", "X", "--"),
}


def size_of(task: Task, case: Case) -> int:
    """The abscissa of a case: N, or b where the task varies b."""
    return case.batch if len({other.pool.n for other in task.cases}) == 1 else case.pool.n


def panel(axes: Axes, task: Task, found: dict[tuple[str, str, int], Record]) -> None:
    """One task as lines."""
    for series in dict.fromkeys(case.series for case in task.cases):
        points = []
        for case in task.cases:
            record = found.get((task.name, case.label, ONE))
            if case.series == series and record is not None and "error" not in record:
                points.append((size_of(task, case), record["seconds"]))
        if points:
            colour, marker, style = LOOKS[series]
            hollow = "white" if style == "--" else colour
            axes.plot(
                *zip(*sorted(points), strict=True),
                color=colour, marker=marker, linestyle=style, markerfacecolor=hollow, label=series,
            )  # fmt: skip
    varies_b = len({case.pool.n for case in task.cases}) == 1
    pool, batch = task.cases[0].pool, task.cases[0].batch
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("batch size b" if varies_b else "pool size N")
    axes.set_title(
        f"N = {pool.n:,}, K = {pool.k}, C = {pool.c}" if varies_b else f"K = {pool.k}, C = {pool.c}, b = {batch}"
    )
    axes.grid(which="major", color="0.85", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw(tasks: list[Task], found: dict[tuple[str, str, int], Record], path: Path) -> None:
    """Draw all curve tasks side by side, one legend for all."""
    with plt.rc_context({"font.size": 11}):
        figure, panels = plt.subplots(
            1, len(tasks), figsize=(11, 5.2), sharey=True, squeeze=False, layout="constrained"
        )
        handles: dict[str, Artist] = {}
        for axes, task in zip(panels[0], tasks, strict=True):
            panel(axes, task, found)
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        panels[0][0].set_ylabel("seconds, one thread")
        if handles:
            figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, dpi=150)
        plt.close(figure)
