"""Table 2 of the paper: seconds that a selection takes, on the predictions of an ensemble."""

from dataclasses import dataclass

import numpy as np

from paper.timings.stopwatch import Show, Timed, time_selection
from poolwise.arrays import Array
from poolwise.reports.numbers import seconds as short

BATCHES = (10, 20)
AUTHORS_CONFIGURATIONS = 100_000
"""How many label configurations BatchBALD draws in the authors' program."""

# The paper's name, the method of Poolwise, its parameters. The last three are not in the paper's table.
TIMED: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("BALD", "bald", {}),
    ("PowerBALD", "power-bald", {}),
    ("BatchBALD", "batchbald", {}),
    ("Large BB", "lbb", {}),
    ("Power LBB", "power-lbb", {}),
    ("Large BB, every pair", "lbb", {"evaluation": "full"}),
    ("Large BB, as released", "lbb-released", {}),
    ("Power LBB, as released", "power-lbb-released", {}),
)
# The paper's Table 2: mean and standard deviation in seconds, by batch size. Its caption has a pool of 49,980 images,
# which are the 50,000 of MNIST without the 20 that are labelled; its text has 49,880.
PAPER_SECONDS = {
    10: {
        "BALD": (5.04, 0.51),
        "PowerBALD": (5.29, 0.49),
        "BatchBALD": (268.9, 10.37),
        "Large BB": (18.18, 1.22),
        "Power LBB": (20.13, 2.61),
    },
    20: {
        "BALD": (5.13, 0.43),
        "PowerBALD": (5.93, 1.43),
        "BatchBALD": (838.85, 98.22),
        "Large BB": (20.06, 5.31),
        "Power LBB": (18.56, 2.27),
    },
}


@dataclass(frozen=True)
class PoolSizes:
    """What Table 2 is measured on.

    Attributes:
        N: size of the pool.
        mnist: whether to take MNIST, where it is on this machine.
        steps: of training.
        repeats: over which mean and standard deviation are taken, each with a seed of its own.
        configurations: of BatchBALD.
    """

    N: int
    mnist: bool
    steps: int = 300
    repeats: int = 5
    configurations: int = 10_000


POOL_SCALES = {
    "quick": PoolSizes(10_000, mnist=False),
    "paper": PoolSizes(49_980, mnist=True, repeats=10, configurations=AUTHORS_CONFIGURATIONS),
}


@dataclass(frozen=True)
class Duration:
    """Seconds of one contender at one batch size: mean and standard deviation, and all runs."""

    name: str
    b: int
    mean: float
    sd: float
    run: Timed


def measure_durations(log_probs_N_K_C: Array, sizes: PoolSizes, show: Show) -> list[Duration]:
    """Every contender at every batch size."""
    durations = []
    for b in BATCHES:
        for name, method, fixed in TIMED:
            parameters = fixed | ({"configurations": sizes.configurations} if method == "batchbald" else {})
            seeds = [0, *range(sizes.repeats)]  # the first run, which finds everything cold, is not counted
            timed = time_selection(log_probs_N_K_C, b, method, parameters, seeds)
            counted = np.array(timed.seconds[1:])
            durations.append(Duration(name, b, float(counted.mean()), float(counted.std(ddof=1)), timed))
            show(f"b = {b}: {name} {short(durations[-1].mean)}")
    return durations
