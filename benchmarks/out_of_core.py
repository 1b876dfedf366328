"""Exact selection from predictions larger than the memory it may take; prints a table.

    .venv/bin/python -m benchmarks.out_of_core [--points 10000000] [--folder /tmp/ooc] [--keep]

Makes a folder of float16 shards, `points` × 10 samples × 10 classes (2 GB for ten million), with the synthetic
predictions of `data.py`. Then, each in a separate process: one sequential read of the files, and the
selection of a batch by several methods. The system is asked to forget the files before each, so that all start alike.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from benchmarks.data import ROWS_AT_ONCE, synthetic
from benchmarks.machine import cores, processor
from poolwise.predictions import Predictions, ShardWriter
from poolwise.selection.select import select

K, C = 10, 10
SHARD = 15 * ROWS_AT_ONCE  # 60 MB
METHODS = ("bald", "lbb", "power-lbb")


def make(folder: Path, points: int) -> None:
    """The synthetic pool of the other benchmarks, larger; what is there already is kept."""
    with ShardWriter(folder, (points, K, C), dtype="float16", rows_per_shard=SHARD) as writer:
        for number in writer.missing:
            rows = writer.rows(number)
            parts = [synthetic(K, C, start) for start in range(rows.start, rows.stop, ROWS_AT_ONCE)]
            writer.put(number, np.concatenate(parts)[: rows.stop - rows.start])


def forget(folder: Path) -> None:
    """Ask the system to drop the files from its cache."""
    for path in folder.glob("part-*.npy"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(folder: Path) -> dict[str, float]:
    """One sequential read of all files."""
    buffer = bytearray(1 << 21)
    started = time.perf_counter()
    for path in sorted(folder.glob("part-*.npy")):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return {"seconds": time.perf_counter() - started}


def choose(folder: Path, method: str, batch_size: int) -> dict[str, float]:
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    passed = started

    def report(stage: str, done: int, total: int) -> None:
        nonlocal passed
        if stage == "scoring the pool":
            passed = time.perf_counter()

    pool = Predictions.open(folder, validate=False)
    batch = select(pool, batch_size, method, information=False, report=report)
    return {
        "seconds": time.perf_counter() - started,
        "pass": passed - started,
        "rows": batch.diagnostics.rows / len(pool),
        "pairs": batch.diagnostics.pairs,
        "processor": time.process_time(),
    }


def peak() -> int:
    """The most that was resident at a time, in bytes; `ru_maxrss` would count the parent process in."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def apart(folder: Path, what: str, batch_size: int) -> dict[str, float]:
    """One measurement in a separate process."""
    forget(folder)
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--folder", folder, "--one", what, "-b", str(batch_size)]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/ooc"))
    parser.add_argument("-b", "--batch-size", type=int, default=1_000)
    parser.add_argument("--keep", action="store_true", help="leave the folder for another time")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        result = read(given.folder) if given.one == "read" else choose(given.folder, given.one, given.batch_size)
        result["peak"] = peak()
        print(json.dumps(result))
        return
    started = time.perf_counter()
    make(given.folder, given.points)
    size = sum(path.stat().st_size for path in given.folder.glob("part-*.npy"))
    print(f"{given.points:,} points × {K} × {C}, {size / 1e9:.2f} GB, in {time.perf_counter() - started:.0f} s")
    print(f"{processor()}, {cores()} cores, PyTorch {torch.__version__}; b = {given.batch_size}\n")
    once = apart(given.folder, "read", given.batch_size)["seconds"]
    head = (
        "what",
        "seconds",
        "first pass",
        "times one read",
        "processor seconds",
        "peak memory",
        "rows read again",
        "pairs",
    )
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    print(f"| one sequential read | {once:.2f} | | | | | | |")
    for method in METHODS:
        found = apart(given.folder, method, given.batch_size)
        print(
            f"| {method} | {found['seconds']:.2f} | {found['pass']:.2f} | {found['pass'] / once:.1f} | "
            f"{found['processor']:.1f} | {found['peak'] / 1e9:.2f} GB | {found['rows']:.3%} | {found['pairs']:,.0f} |",
            flush=True,
        )
    if not given.keep:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
