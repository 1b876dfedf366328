"""How long selection takes: the paper's Table 1 (growth with N, b, C and K) and Table 2 (seconds on one pool).

Table 1 is measured on predictions from a generator (`pools.synthetic`), since no data set comes in all sizes,
and Table 2 on those of a trained ensemble. All selections are on one thread.
"""

import importlib
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from paper.timings.durations import PAPER_SECONDS, POOL_SCALES, measure_durations
from paper.timings.growth import GROWTH_SCALES, measure_growth
from paper.timings.pages import durations_page, growth_page
from paper.timings.pools import trained
from paper.timings.stopwatch import Show, describe_machine
from poolwise.errors import MissingInputError, ParameterError
from poolwise.storage import make_folder, write_json

Sizes = TypeVar("Sizes")


def table_1(output: Path, scale: str, show: Show) -> list[Path]:
    """Measure how time grows with N, b, C and K; write `complexity.json`, `complexity.md` and `complexity.png`.

    Args:
        output: folder for the files.
        scale: `"quick"`, a few minutes, or `"paper"`, pools of up to a million points.
        show: told what is being done.
    Returns:
        The files.
    """
    sizes, figures = _at(GROWTH_SCALES, scale), _figures()
    make_folder(output)
    lines = measure_growth(sizes, show)
    machine = describe_machine()
    paths = [output / f"complexity.{ending}" for ending in ("json", "md", "png")]
    rows = [{**asdict(line), "best": line.seconds} for line in lines]
    write_json(paths[0], {"scale": scale, "machine": machine, "setup": asdict(sizes), "lines": rows})
    paths[1].write_text(growth_page(lines, sizes, scale, machine), encoding="utf-8")
    figures.draw_growth(lines, sizes, paths[2])
    return paths


def table_2(output: Path, scale: str, show: Show) -> list[Path]:
    """Time the paper's five methods at b = 10 and 20; write `run-time.json`, `run-time.md` and `run-time.png`.

    Args:
        output: folder for the files.
        scale: `"quick"`, copies of digits, or `"paper"`, 49,980 images of MNIST where it is on this machine.
        show: told what is being done.
    Returns:
        The files.
    """
    sizes, figures = _at(POOL_SCALES, scale), _figures()
    make_folder(output)
    pool = trained(sizes.N, sizes.steps, mnist=sizes.mnist, show=show)
    durations = measure_durations(pool.log_probs, sizes, show)
    machine = describe_machine()
    paths = [output / f"run-time.{ending}" for ending in ("json", "md", "png")]
    _, K, C = pool.log_probs.shape
    record = {
        "scale": scale,
        "machine": machine,
        "setup": {**asdict(sizes), "K": K, "C": C},
        "predictions": pool.origin,
        "predicting": pool.predicting,
        "durations": [asdict(duration) for duration in durations],
        "paper": PAPER_SECONDS,
    }
    write_json(paths[0], record)
    paths[1].write_text(durations_page(durations, pool, sizes, scale, machine), encoding="utf-8")
    figures.draw_durations(durations, paths[2])
    return paths


def _at(scales: dict[str, Sizes], scale: str) -> Sizes:
    if scale not in scales:
        raise ParameterError(f"scale must be one of {', '.join(scales)}, not {scale!r}.")
    return scales[scale]


def _figures() -> ModuleType:
    """What draws, or an error, before anything is measured."""
    try:
        return importlib.import_module("paper.timings.figures")
    except ImportError as error:
        raise MissingInputError(
            f"the figure needs Matplotlib, which cannot be imported ({error}). Install it: pip install 'poolwise[plot]'"
        ) from error
