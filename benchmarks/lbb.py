"""LBB against the engine of before (`benchmarks/before`), both in one run; prints a table.

    python -m benchmarks.lbb [--only NAME ...] [--predictions KIND ...] [--quick] [--repeats 3] [--folder /tmp/lbb]
    POOLWISE_DATA=... python -m benchmarks.lbb --networks --predictions ensemble --only batch-1000 --only batch-100

Each measurement is a process of its own, on one thread. The two contenders take turns, and the best of their repeats
counts. Seconds are those of the processor, so a busy machine disturbs both alike. They include reading or opening the
predictions and the first pass, which validates them as in `poolwise select`, and not the loading of modules, for which
a small selection is made first. Peak memory is the largest resident size of the process, input included.
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import KINDS, REAL, Pool, describe, materialise, origin
from benchmarks.machine import processor
from benchmarks.measure import status_mb

ROOT = Path(__file__).resolve().parent.parent
# A contender that takes longer than this runs once.
LONG = 60.0


@dataclass(frozen=True)
class Task:
    """One row of the table: the pool, the batch, the method, and how many times as fast it must be."""

    pool: Pool
    batch: int
    method: str
    factor: float
    mapped: bool = False

    def smaller(self) -> "Task":
        """The same in small, to see that everything runs."""
        pool = Pool(self.pool.n // 50, self.pool.k, min(self.pool.c, 100), self.pool.source, self.pool.dtype)
        return Task(pool, max(5, self.batch // 20), self.method, 0.0, self.mapped)


TASKS = {
    "classes-100": Task(Pool(50_000, 5, 100, "synthetic"), 200, "lbb", 8),
    "power-100": Task(Pool(50_000, 5, 100, "synthetic"), 200, "power-lbb", 8),
    "classes-1000": Task(Pool(20_000, 5, 1_000, "synthetic"), 20, "lbb", 20),
    "batch-1000": Task(Pool(50_000, 10, 10), 1_000, "lbb", 3),
    "batch-100": Task(Pool(50_000, 10, 10), 100, "lbb", 1),
    "mapped": Task(Pool(10_000_000, 10, 10, "synthetic"), 1_000, "lbb", 3, mapped=True),
    "samples-20": Task(Pool(50_000, 20, 10), 200, "lbb", 1),
    "samples-100": Task(Pool(20_000, 100, 10, "synthetic"), 100, "lbb", 1),
    "classes-2": Task(Pool(50_000, 10, 2, "synthetic"), 200, "lbb", 1),
}


def choose(name: str, contender: str, path: str, batch: int, mapped: bool) -> dict[str, Any]:
    """The child's work: one selection."""
    import torch

    import poolwise as pw
    from benchmarks import before

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    method: Any = name
    if contender == "before":
        method = {"lbb": before.lbb, "power-lbb": before.power_lbb}[name]
    small = np.full((8, 2, 2), np.log(0.5), np.float32)
    pw.select(small, 2, method, seed=0, information=False)
    started = time.process_time()
    source = pw.Predictions.open(path, validate=False) if mapped else np.load(path)
    result = pw.select(source, batch, method, seed=0, information=False)
    seconds = time.process_time() - started
    picks = [int(i) for i in result.indices]
    return {
        "seconds": seconds,
        "pairs": result.diagnostics.pairs,
        "peak": status_mb("VmHWM"),
        "picks": picks,
        "gains": [float(g) for g in result.scores],
    }


def apart(task: Task, contender: str, path: str) -> dict[str, Any]:
    """One measurement in a separate process."""
    one = json.dumps([task.method, contender, path, task.batch, task.mapped])
    command = [sys.executable, "-m", "benchmarks.lbb", "--one", one]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode:
        sys.exit(f"{contender} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(task: Task, path: str, repeats: int) -> dict[str, dict[str, Any]]:
    """Both contenders in turn; the best run of each."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for contender in ("before", "now"):
            if contender == "before" and best.get("before", {"seconds": 0})["seconds"] > LONG:
                continue
            found = apart(task, contender, path)
            if contender not in best or found["seconds"] < best[contender]["seconds"]:
                best[contender] = found
    return best


def agreement(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Whether the picks are the same, and if not, whether only points within rounding have changed places."""
    differ = [i for i, (a, b) in enumerate(zip(before["picks"], now["picks"], strict=True)) if a != b]
    if not differ:
        return "same"
    gap = max(abs(before["gains"][i] - now["gains"][i]) for i in differ)
    return f"{len(differ)} differ, gains within {gap:.0e}"


def row(name: str, task: Task, predictions: str, best: dict[str, dict[str, Any]]) -> str:
    """A row of the table."""
    before, now = best["before"], best["now"]
    what = f"`{task.method}` {'mapped ' if task.mapped else ''}{task.pool.shape}, b = {task.batch:,}"
    return (
        f"| {name} | {what} | {predictions} | {before['seconds']:.2f} s | {now['seconds']:.2f} s | "
        f"{before['seconds'] / now['seconds']:.1f}× | {task.factor:g}× | {before['pairs']:,} | {now['pairs']:,} | "
        f"{before['peak']:,.0f} / {now['peak']:,.0f} MB | {agreement(before, now)} |"
    )


def by_networks(path: Path) -> None:
    """Real predictions of 50,000 images of Fashion-MNIST, by ten networks that saw 100 labels; needs POOLWISE_DATA."""
    from benchmarks.rules import of_an_ensemble

    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        np.save(path, of_an_ensemble("fashion-mnist", 50_000).numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=list(TASKS), help="only this row (repeatable)")
    parser.add_argument(
        "--predictions", action="append", default=[], choices=(*REAL, *KINDS), help="of this kind (repeatable)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/lbb"), help="where pools are written (4 GB)")
    parser.add_argument("--real", type=Path, default=ROOT / "benchmarks" / "predictions", help="real predictions")
    parser.add_argument("--networks", action="store_true", help="make real predictions by ten small networks first")
    parser.add_argument("--keep", action="store_true", help="leave the pools for another time")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(choose(*json.loads(given.one))))
        return
    if given.networks:
        given.real = given.folder / "networks"
        by_networks(given.real / REAL["ensemble"])
    with suppress(ImportError):  # without Numba there is nothing to compile
        for name, loop in (("raced", "race"), ("proposals", "propose")):  # compiled once on a machine, then loaded
            getattr(importlib.import_module(f"poolwise.selection.{name}_compiled"), loop).load()
    print(f"{processor()}, one thread, seconds of the processor, best of {given.repeats}\n")
    head = ("row", "task", "predictions", "before", "now", "ratio", "must reach")
    head += ("pairs before", "pairs now", "peak memory", "picks")
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}", flush=True)
    for name, planned in TASKS.items():
        if given.only and name not in given.only:
            continue
        for kind in given.predictions or [planned.pool.source]:
            task = replace(planned, pool=replace(planned.pool, source=kind))
            if given.quick:
                task = task.smaller()
            path = materialise(task.pool, given.folder, given.real)["log_probs"]
            best = compare(task, path, 1 if given.quick else given.repeats)
            print(row(name, task, describe(origin(task.pool, given.real)), best), flush=True)
            if task.mapped and not given.keep:
                Path(path).unlink()
    if not given.keep:
        shutil.rmtree(given.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
