"""Timing a selection, and how its time grows: the slope of log time on log size."""

import math
import os
import platform
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import ParameterError, SaturationWarning
from poolwise.experiments.records import versions
from poolwise.parallel import threads_an_operation
from poolwise.selection.select import select

Show = Callable[[str], None]


@dataclass(frozen=True)
class Timed:
    """Repeated runs of one selection.

    Attributes:
        seconds: wall time of each.
        pairs: how many pairs of points the first run compared.
        saturated_at: after how many picks it saturated, or None.
    """

    seconds: tuple[float, ...]
    pairs: int
    saturated_at: int | None


def time_selection(
    log_probs_N_K_C: Array,
    batch_size: int,
    method: str,
    parameters: Mapping[str, object],
    seeds: Sequence[int],
    budget: float = math.inf,
) -> Timed:
    """Select once per seed on one thread, as a user would: from an array in memory, whose validation is timed too.

    The estimate of the batch's joint information, which is no part of any method, is switched off.

    Args:
        log_probs_N_K_C: `[N, K, C]` log-probabilities.
        batch_size: b.
        method: name of the method.
        parameters: its own parameters.
        seeds: one per run.
        budget: seconds after which no other run is begun; there is always one.
    """
    seconds: list[float] = []
    pairs, saturated_at = 0, None
    with threads_an_operation(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", SaturationWarning)
        for seed in seeds:
            if seconds and sum(seconds) >= budget:
                break
            started = time.perf_counter()
            batch = select(log_probs_N_K_C, batch_size, method, seed=seed, information=False, **parameters)  # type: ignore[arg-type]
            seconds.append(time.perf_counter() - started)
            if len(seconds) == 1:
                pairs, saturated_at = batch.diagnostics.pairs, batch.diagnostics.saturated_at
    return Timed(tuple(seconds), pairs, saturated_at)


@dataclass(frozen=True)
class Exponent:
    """The power of the size that a time grows with.

    Attributes:
        value: slope of log time on log size.
        error: its standard error, from the scatter about the line.
        sizes: the sizes that the line was fitted to.
    """

    value: float
    error: float
    sizes: tuple[int, ...]


def fit_exponent(sizes: Sequence[int], seconds: Sequence[float]) -> Exponent:
    """Fit a power law by least squares to the upper half of the sizes, on a logarithmic scale, but at least to three.

    Costs that do not grow hide the power at small sizes.

    Args:
        sizes: ascending.
        seconds: the time at each.
    """
    if len(sizes) < 3:
        raise ParameterError(f"an exponent with its error takes at least 3 sizes, not {len(sizes)}.")
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(seconds, float))
    # A size in the very middle counts as upper, however it is rounded.
    used = max(3, int((x >= (x[0] + x[-1]) / 2 - 1e-9).sum()))
    x, y = x[-used:], y[-used:]
    spread = x - x.mean()
    slope = float(spread @ y / (spread @ spread))
    rest = y - y.mean() - slope * spread
    error = math.sqrt(float(rest @ rest) / (used - 2) / float(spread @ spread))
    return Exponent(slope, error, tuple(sizes[-used:]))


def signed(exponent: float) -> str:
    """Two digits, with a true minus sign."""
    return f"{exponent:.2f}".replace("-", "−")


def describe_machine() -> dict[str, object]:
    """What a time depends on besides the program: processor, versions, date."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor,
        "cores": os.cpu_count(),
        "versions": versions(),
    }
