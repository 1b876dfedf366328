"""Where facility location by Poolwise first differs from that by submodlib-py and apricot-select, and by how much.

    .venv-bench/bin/python -m benchmarks.coverage_peers [--only submodlib|apricot]

The tasks are those of `benchmarks.rules` in which picks differ. The gains of the two points are computed in double
precision: from the matrix that the package is given, whose values are rounded to float32, and by the formula, from the
features that the matrix is made of and from features that are not rounded.
"""

import argparse

import numpy as np
import torch

import poolwise as pw
from benchmarks import coverage_tasks, rules
from benchmarks.coverage_difference import coverage, features

# Of each package: how many points there are, and one in how many is picked.
TASKS = {"submodlib": (5_000, 10), "apricot": (20_000, 20)}


def compare(package: str, n: int, share: int) -> None:
    """Print the first difference."""
    x = rules.predictions(n, 10, 10)
    options = {"filter": float(share), "weights": "uniform", "information": False}
    ours = pw.select(x, n // share, "posterior-coverage", **options).indices
    kernel = coverage_tasks.kernel_of(x)
    theirs = np.array(getattr(coverage_tasks, package)(kernel, n // share)())
    differ = np.flatnonzero(ours != theirs)
    apart = len(set(ours.tolist()) - set(theirs.tolist()))
    print(
        f"{package}, {n // share:,} of {n:,}: {len(differ)} picks differ in their place, {apart} are others", flush=True
    )
    if not len(differ):
        return
    first = int(differ[0])
    two = (theirs[first], ours[first])
    covered = kernel[:, ours[:first]].max(1).astype(np.float64)
    gains = [float(np.maximum(kernel[:, i] - covered, 0).sum()) for i in two]
    print(f"  pick {first + 1}, the matrix: gain of theirs {gains[0]:.9f}, of ours {gains[1]:.9f}")
    for label, rows in features(x).items():
        if label != "version 0.1":
            level = coverage(rows, ours[:first])
            gains = [float((rows @ rows[i] - level).clamp_min(0).sum()) for i in two]
            print(f"  pick {first + 1}, features {label}: gain of theirs {gains[0]:.9f}, of ours {gains[1]:.9f}")
    total = [float(coverage(rows, picks).sum()) for picks in (theirs, ours)]
    print(f"  coverage by all picks: theirs {total[0]:.6f}, ours {total[1]:.6f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TASKS, help="this package")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for package, task in TASKS.items():
        if options.only in (None, package):
            compare(package, *task)


if __name__ == "__main__":
    main()
