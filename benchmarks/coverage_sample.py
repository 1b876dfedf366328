"""`posterior-coverage` of a sample of the targets: what it saves, and what it costs in coverage; prints a table.

    POOLWISE_DATA=... python -m benchmarks.coverage_sample [--quick]

50,000 points, b = 5,000, so the filter keeps all of them. Coverage is `Σ_j u_j max_i r_ij` over all 50,000 targets, as
a share of what the exact batch covers. Processor time on one thread, one run each.
"""

import argparse
import time

import numpy as np
import torch

import poolwise as pw
from benchmarks import coverage_tasks, rules
from benchmarks.machine import cores, processor
from poolwise.selection.posterior_coverage import _correlations

SAMPLES = (None, 20_000, 15_000, 10_000, 5_000)


def covered(x: torch.Tensor, picks: np.ndarray) -> float:
    """The coverage of all points by some."""
    predictions = pw.Predictions.from_log_probs(x)
    rows = _correlations(predictions, np.arange(len(x)), 1 << 60).part(0, len(x))
    weights = torch.from_numpy(pw.scores.margin(predictions))
    chosen = rows[torch.from_numpy(picks)].T.contiguous()
    best = torch.cat([(rows[start : start + 1000] @ chosen).amax(1) for start in range(0, len(rows), 1000)])
    return float(weights @ best.clamp_min(0).double())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the points")
    n = 5_000 if parser.parse_args().quick else 50_000
    torch.set_num_threads(1)
    print(f"{processor()}, {cores()} cores, one thread, seconds of the processor; b = {n // 10:,} of {n:,}\n")
    print("| predictions | sample | seconds | times as fast | coverage | standard error of the sum |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, make in (
        ("Fashion-MNIST, ensemble of 5", lambda: rules.of_an_ensemble("fashion-mnist", n, members=5, labels=1000)),
        ("synthetic, 10×10", lambda: rules.predictions(n, 10, 10)),
    ):
        x = make()
        coverage_tasks.ready(x)
        first, most = 0.0, 0.0
        for sample in SAMPLES:
            size = None if sample is None else sample * n // 50_000
            started = time.process_time()
            batch = pw.select(x, n // 10, "posterior-coverage", sample=size, information=False)
            seconds, reached = time.process_time() - started, covered(x, batch.indices)
            first, most = first or seconds, most or reached
            errors = batch.diagnostics.standard_error
            error = "" if errors is None else f"{np.sqrt(np.square(errors).sum()) / most:.2%}"
            label = "all" if size is None else f"{size:,}"
            times = f"{seconds:.1f} | {first / seconds:.1f}×"
            print(f"| {name} | {label} | {times} | {reached / most:.2%} | {error} |", flush=True)


if __name__ == "__main__":
    main()
