"""Where facility location by Poolwise first differs from that by apricot-select, and by how much.

    .venv-bench/bin/python -m benchmarks.coverage_peers [--quick]

Both choose 1,000 of 20,000 points. The gains of the two points are computed in double precision: from the matrix that
apricot is given, whose values are rounded to float32, and by the formula, from the features that the matrix is made of
and from features that are not rounded.
"""

import argparse

import numpy as np
import torch

import poolwise as pw
from benchmarks import coverage_tasks, rules
from benchmarks.coverage_difference import coverage, features


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the points")
    n = 2_000 if parser.parse_args().quick else 20_000
    torch.set_num_threads(1)
    x = rules.predictions(n, 10, 10)
    options = {"filter": 20.0, "weights": "uniform", "information": False}
    ours = pw.select(x, n // 20, "posterior-coverage", **options).indices
    kernel = coverage_tasks.kernel_of(x)
    theirs = np.array(coverage_tasks.apricot(kernel, n // 20)())
    differ = np.flatnonzero(ours != theirs)
    apart = len(set(ours.tolist()) - set(theirs.tolist()))
    print(
        f"{n // 20:,} of {n:,}: {len(differ):,} picks differ in their place, {apart} of one are not among the other's"
    )
    if not len(differ):
        return
    first = int(differ[0])
    two = (theirs[first], ours[first])
    covered = kernel[:, ours[:first]].max(1).astype(np.float64)
    gains = [float(np.maximum(kernel[:, i] - covered, 0).sum()) for i in two]
    print(f"  pick {first + 1}, the matrix: gain of apricot's {gains[0]:.9f}, of ours {gains[1]:.9f}")
    for label, rows in features(x).items():
        if label == "version 0.1":
            continue
        level = coverage(rows, ours[:first])
        gains = [float((rows @ rows[i] - level).clamp_min(0).sum()) for i in two]
        print(f"  pick {first + 1}, features {label}: gain of apricot's {gains[0]:.9f}, of ours {gains[1]:.9f}")
    total = [float(coverage(rows, picks).sum()) for picks in (theirs, ours)]
    print(f"  coverage by all picks: apricot {total[0]:.6f}, ours {total[1]:.6f}")


if __name__ == "__main__":
    main()
