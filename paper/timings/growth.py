"""Table 1 of the paper: how the time of a selection grows with N, b, C and K."""

from dataclasses import asdict, dataclass, field
from typing import Literal

from paper.timings.pools import synthetic
from paper.timings.stopwatch import Exponent, Show, Timed, fit_exponent, time_selection
from poolwise.reports.numbers import seconds as short

Algorithm = Literal["BALD", "BatchBALD", "LBB"]
VARIABLES = ("N", "b", "C", "K")


@dataclass(frozen=True)
class Shape:
    """The sizes of one selection: N points, a batch of b, C classes, K posterior samples."""

    N: int
    b: int
    C: int
    K: int


def paper_cost(algorithm: Algorithm, shape: Shape, configurations: int) -> int:
    """The paper's Table 1: how many steps an algorithm takes, up to a factor; m is `configurations`."""
    N, b, C, K = shape.N, shape.b, shape.C, shape.K
    if algorithm == "BALD":
        return (b + K) * N
    if algorithm == "BatchBALD":
        exact: int = C**b
        return b * C * min(exact, configurations) * N * K
    return N**2 * K * C + N * (b + K)


@dataclass(frozen=True)
class Contender:
    """A method under the name it has in the tables.

    Attributes:
        name: what it is called.
        method: the method of Poolwise.
        parameters: its parameters.
        algorithm: the algorithm of the paper's Table 1 that it is a form of.
    """

    name: str
    method: str
    algorithm: Algorithm
    parameters: dict[str, object] = field(default_factory=dict)


ALL_POINTS, ALL_PAIRS, RELEASED = "batchbald, every point", "lbb, every pair", "lbb-released"
GROWING = (
    Contender("bald", "bald", "BALD"),
    Contender("batchbald", "batchbald", "BatchBALD"),
    Contender(ALL_POINTS, "batchbald", "BatchBALD", {"evaluation": "full"}),
    Contender("lbb", "lbb", "LBB"),
    Contender(ALL_PAIRS, "lbb", "LBB", {"evaluation": "full"}),
    Contender("power-lbb", "power-lbb", "LBB"),
    Contender(RELEASED, "lbb-released", "LBB"),
)


@dataclass(frozen=True)
class GrowthSizes:
    """What Table 1 is measured on.

    Attributes:
        base: the sizes that stay fixed while one grows.
        sizes: of each variable, ascending.
        most: the largest size of a variable that a slow contender is measured on.
        configurations: the most label configurations of BatchBALD, the paper's m.
        repeats: of which the best counts.
        budget: seconds after which a measurement is not repeated.
    """

    base: Shape
    sizes: dict[str, tuple[int, ...]]
    most: dict[str, dict[str, int]]
    configurations: int = 1_000
    repeats: int = 5
    budget: float = 0.5


def _doubling(first: int, last: int) -> tuple[int, ...]:
    return tuple(first << i for i in range((last // first).bit_length()))


GROWTH_SCALES = {
    "quick": GrowthSizes(
        Shape(N=4_000, b=10, C=10, K=10),
        {"N": _doubling(1_000, 128_000), "b": _doubling(2, 256), "C": _doubling(2, 128), "K": _doubling(2, 128)},
        {
            "batchbald": {"N": 32_000, "b": 64, "C": 64},
            ALL_POINTS: {"N": 8_000, "b": 32, "C": 32, "K": 64},
            ALL_PAIRS: {"N": 32_000},
        },
    ),
    "paper": GrowthSizes(
        Shape(N=20_000, b=10, C=10, K=10),
        {"N": _doubling(1_000, 1_024_000), "b": _doubling(2, 1_024), "C": _doubling(2, 256), "K": _doubling(2, 256)},
        {
            "batchbald": {"N": 256_000, "b": 128},
            ALL_POINTS: {"N": 32_000, "b": 64, "C": 64, "K": 128},
            ALL_PAIRS: {"N": 256_000},
        },
        repeats=7,
        budget=8.0,
    ),
}


@dataclass(frozen=True)
class Line:
    """The times of one contender as one variable grows.

    Attributes:
        name: of the contender.
        variable: what grows: N, b, C or K.
        sizes: its values.
        runs: what was measured at each.
        exponent: of the best times.
        paper: the exponent of the paper's formula, fitted to the same sizes.
        costs: the formula at each size.
    """

    name: str
    variable: str
    sizes: tuple[int, ...]
    runs: tuple[Timed, ...]
    exponent: Exponent
    paper: float
    costs: tuple[int, ...]

    @property
    def seconds(self) -> tuple[float, ...]:
        """The best time at each size."""
        return tuple(min(run.seconds) for run in self.runs)


def measure_growth(sizes: GrowthSizes, show: Show) -> list[Line]:
    """A line for every variable and contender."""
    lines = []
    for variable in VARIABLES:
        runs: dict[str, dict[int, Timed]] = {contender.name: {} for contender in GROWING}
        for size in sizes.sizes[variable]:
            shape = Shape(**{**asdict(sizes.base), variable: size})
            log_probs = synthetic(shape.N, shape.K, shape.C)
            for contender in GROWING:
                if size > sizes.most.get(contender.name, {}).get(variable, size):
                    continue
                parameters = dict(contender.parameters)
                if contender.method == "batchbald":
                    parameters["configurations"] = sizes.configurations
                seeds = [0] * sizes.repeats
                timed = time_selection(log_probs, shape.b, contender.method, parameters, seeds, sizes.budget)
                runs[contender.name][size] = timed
            best = [f"{name} {short(min(found[size].seconds))}" for name, found in runs.items() if size in found]
            show(f"{variable} = {size:,}: {', '.join(best)}")
        lines += [_line(contender, variable, runs[contender.name], sizes) for contender in GROWING]
    return lines


def _line(contender: Contender, variable: str, runs: dict[int, Timed], sizes: GrowthSizes) -> Line:
    measured = tuple(runs)
    shapes = [Shape(**{**asdict(sizes.base), variable: size}) for size in measured]
    costs = tuple(paper_cost(contender.algorithm, shape, sizes.configurations) for shape in shapes)
    exponent = fit_exponent(measured, [min(run.seconds) for run in runs.values()])
    paper = fit_exponent(measured, costs).value
    return Line(contender.name, variable, measured, tuple(runs.values()), exponent, paper, costs)
