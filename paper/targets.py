"""The figures and tables of the paper, as data: which experiments each is made of, at both scales.

Figures are numbered in the order of the paper, the supplementary material included. The last one, the performance
profiles, is made of the experiments of all others and of some of its own. Repeated data has noise in the paper's text
and none in the authors' program: the figures follow the text, and `figure-1-exact` and the like follow the program.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from poolwise.errors import ParameterError

Scale = Literal["quick", "paper"]
Kind = Literal["curves", "profiles", "table"]

ALL, ALL_FIGURES = "all", "figures"
"""Names that stand for several figures and tables."""

# Labels of methods: those that the figures of the paper compare, in every reading of the paper, and the defaults of
# this library. A configuration may have more; those are not drawn.
_PAPER = (
    *("random", "bald", "batchbald", "power-bald-5"),
    *("lbb-printed", "power-lbb-printed", "lbb-released", "power-lbb-released"),
)
_OURS = ("power-bald", "lbb", "power-lbb", "posterior-coverage")
_MORE = ("least-confidence", "badge")


@dataclass(frozen=True)
class Panel:
    """One experiment of a figure.

    Attributes:
        title: the data, as the paper writes it.
        paper: name of the configuration at the paper's settings.
        quick: name of the one that stands for it at quick scale; None if there is none.
    """

    title: str
    paper: str
    quick: str | None

    def experiment(self, scale: Scale) -> str | None:
        """The name of its configuration, which is that of the file too."""
        return self.paper if scale == "paper" else self.quick


@dataclass(frozen=True)
class Target:
    """A figure or a table.

    Attributes:
        name: what to pass to `python -m paper`.
        title: what it shows.
        kind: learning curves, performance profiles, or a table of times.
        panels: what a figure is made of, in order.
        methods: labels of the methods that it shows.
    """

    name: str
    title: str
    kind: Kind
    panels: tuple[Panel, ...] = ()
    methods: tuple[str, ...] = ()

    def experiments(self, scale: Scale) -> list[str]:
        """The names of its configurations, each once; none for a table."""
        return list(dict.fromkeys(name for panel in self.panels if (name := panel.experiment(scale)) is not None))


# The paper's name for each data set in the names of files, how it is written, and its name at quick scale. Those
# without one are at the paper's scale only: files of quick scale are there to be run, and their data could not be had.
_DATA: dict[str, tuple[str, str | None]] = {
    "mnist": ("MNIST", "mnist"),
    "rmnist": ("RMNIST", "rmnist"),
    "fmnist": ("FMNIST", "fashion-mnist"),
    "kmnist": ("KMNIST", None),
    "emnist": ("EMNIST", None),
    "svhn": ("SVHN", None),
    "cifar-10": ("CIFAR-10", "cifar-10"),
    "cifar-100": ("CIFAR-100", None),
    "rcifar-10": ("RCIFAR-10", "rcifar-10"),
    "rcifar-100": ("RCIFAR-100", None),
    "ag-news": ("AG News", "ag-news"),
}
# The paper has two batch sizes for every data set; at quick scale these stand for the smaller and the larger.
_SMALL, _LARGE = 10, 50


def _panel(prefix: str, data: str, posterior: str, batch_size: int, quick_batch_size: int) -> Panel:
    title, small = _DATA[data]
    quick = None if small is None else f"{small}-{posterior}-{quick_batch_size}"
    return Panel(title, f"{prefix}-{data}-{posterior}-{batch_size}", quick)


def _row(figure: int, posterior: str, sizes: dict[str, int], quick_batch_size: int) -> tuple[Panel, ...]:
    """Panels (a), (b), (c) of a figure."""
    return tuple(
        _panel(f"figure-{figure}{letter}", data, posterior, batch_size, quick_batch_size)
        for letter, (data, batch_size) in zip("abc", sizes.items(), strict=True)
    )


def _exact(target: Target) -> Target:
    """The panels of a figure with repeated data, on exact copies."""

    def named(experiment: str) -> str:
        return re.sub("-(ensemble|dropout)-", r"-exact-\1-", experiment)

    panels = tuple(
        Panel(f"{panel.title}, exact copies", named(panel.paper), panel.quick and named(panel.quick))
        for panel in target.panels
        if panel.title.startswith("R")
    )
    names = ", ".join(panel.title.split(",")[0] for panel in panels)
    title = f"{names} of {target.name.replace('-', ' ').capitalize()} on exact copies, as released"
    return Target(f"{target.name}-exact", title, "curves", panels, target.methods)


_DIGITS_10, _DIGITS_20 = ({"mnist": b, "rmnist": b, "fmnist": b} for b in (10, 20))
_COLOUR_SMALL = {"rcifar-10": 100, "rcifar-100": 200, "svhn": 50}
_COLOUR_LARGE = {"rcifar-10": 200, "rcifar-100": 500, "svhn": 100}
_NEWS_10 = (_panel("figure-3", "ag-news", "dropout", 10, _SMALL),)
_NEWS_50 = (_panel("figure-9", "ag-news", "dropout", 50, _LARGE),)

_CURVES = (
    Target(
        "figure-1",
        "MNIST, RMNIST, FMNIST: ensembles, batches of 10",
        "curves",
        _row(1, "ensemble", _DIGITS_10, _SMALL),
        _PAPER + _OURS,
    ),
    Target(
        "figure-2",
        "RCIFAR-10, RCIFAR-100, SVHN: ensembles, the smaller batches",
        "curves",
        _row(2, "ensemble", _COLOUR_SMALL, _SMALL),
        _PAPER + _OURS,
    ),
    Target("figure-3", "AG News: MC dropout, batches of 10", "curves", _NEWS_10, _PAPER + _OURS),
    Target(
        "figure-4",
        "MNIST, RMNIST, FMNIST: MC dropout, batches of 10",
        "curves",
        _row(4, "dropout", _DIGITS_10, _SMALL),
        _PAPER + _OURS,
    ),
    Target(
        "figure-5",
        "MNIST, RMNIST, FMNIST: ensembles, batches of 20",
        "curves",
        _row(5, "ensemble", _DIGITS_20, _LARGE),
        _PAPER + _OURS,
    ),
    Target(
        "figure-6",
        "MNIST, RMNIST, FMNIST: MC dropout, batches of 20",
        "curves",
        _row(6, "dropout", _DIGITS_20, _LARGE),
        _PAPER + _OURS,
    ),
    Target(
        "figure-7",
        "RCIFAR-10, RCIFAR-100, SVHN: ensembles, the larger batches",
        "curves",
        _row(7, "ensemble", _COLOUR_LARGE, _LARGE),
        _PAPER + _OURS,
    ),
    Target("figure-8", "Figure 3 with more methods", "curves", _NEWS_10, _PAPER + _OURS + _MORE),
    Target("figure-9", "AG News: MC dropout, batches of 50, more methods", "curves", _NEWS_50, _PAPER + _OURS + _MORE),
)
_ONLY_PROFILES = tuple(
    _panel("figure-10", data, posterior, batch_size, quick_batch_size)
    for data, posteriors, sizes in (
        ("emnist", ("ensemble", "dropout"), (50, 100)),
        ("kmnist", ("ensemble", "dropout"), (50, 100)),
        ("cifar-10", ("ensemble",), (100, 200)),
        ("cifar-100", ("ensemble",), (100, 200)),
    )
    for posterior in posteriors
    for batch_size, quick_batch_size in zip(sizes, (_SMALL, _LARGE), strict=True)
)

TARGETS: tuple[Target, ...] = (
    *_CURVES,
    Target(
        "figure-10",
        "Dolan–Moré profiles over all experiments",
        "profiles",
        tuple(dict.fromkeys(panel for target in _CURVES for panel in target.panels)) + _ONLY_PROFILES,
        # BatchBALD was not run everywhere: the paper's figure is without it.
        (*(label for label in _PAPER + _OURS if label != "batchbald"), "least-confidence"),
    ),
    *(_exact(target) for target in _CURVES if any(panel.title.startswith("R") for panel in target.panels)),
    Target("table-1", "how selection time grows with N, b, C and K", "table"),
    Target("table-2", "selection times on one pool", "table"),
)


def find_targets(name: str) -> list[Target]:
    """The figure or table of that name, or all of them for `"all"`, without tables for `"figures"`."""
    if name in (ALL, ALL_FIGURES):
        return [target for target in TARGETS if name == ALL or target.kind != "table"]
    found = [target for target in TARGETS if name == target.name]
    if not found:
        names = ", ".join([*(target.name for target in TARGETS), ALL, ALL_FIGURES])
        raise ParameterError(f"there is no figure or table {name!r}. There are: {names}.")
    return found


def labels_of(targets: Iterable[Target]) -> list[str]:
    """Labels of all methods that are shown anywhere, each once."""
    return list(dict.fromkeys(label for target in targets for label in target.methods))
