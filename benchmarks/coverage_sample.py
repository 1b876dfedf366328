"""`posterior-coverage` with b = 5,000: what a sample of the targets saves, and what it costs; prints a table.

    POOLWISE_DATA=... python -m benchmarks.coverage_sample [--quick] [--only fashion|synthetic]

50,000 points, so the filter keeps all of them. `auto`, the default, chooses the first picks by a sample and all others
exactly; a number is a sample that chooses all picks. Coverage is `Σ_j u_j max_i r_ij` over all 50,000 targets, as a
share of what the exact batch covers. Processor time on one thread, one run each.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

import poolwise as pw
from benchmarks import coverage_before, coverage_tasks, rules
from benchmarks.machine import cores, processor
from poolwise.selection.posterior_coverage import _correlations

POOLS: dict[str, tuple[str, Callable[[int], torch.Tensor]]] = {
    "fashion": (
        "Fashion-MNIST, ensemble of 5",
        lambda n: rules.of_an_ensemble("fashion-mnist", n, members=5, labels=1000),
    ),
    "synthetic": ("synthetic, 10×10", lambda n: rules.predictions(n, 10, 10)),
}
SAMPLES = ("all", "auto", 20_000, 10_000)


def covered(x: torch.Tensor, picks: np.ndarray) -> float:
    """The coverage of all points by some."""
    predictions = pw.Predictions.from_log_probs(x)
    rows = _correlations(predictions, np.arange(len(x)), 1 << 60).part(0, len(x))
    weights = torch.from_numpy(pw.scores.margin(predictions))
    chosen = rows[torch.from_numpy(picks)].T.contiguous()
    best = torch.cat([(rows[start : start + 1000] @ chosen).amax(1) for start in range(0, len(rows), 1000)])
    return float(weights @ best.clamp_min(0).double())


def timed(select: Callable[[], pw.Batch]) -> tuple[float, pw.Batch]:
    """Seconds of the processor, and the batch."""
    started = time.process_time()
    batch = select()
    return time.process_time() - started, batch


def asked(description: str | None) -> tuple[int, list[tuple[str, Callable[[int], torch.Tensor]]]]:
    """What the command line asks for: how many points, and a title and a maker of each kind of predictions."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the points")
    parser.add_argument("--only", choices=POOLS, help="these predictions")
    options = parser.parse_args()
    torch.set_num_threads(1)
    return 5_000 if options.quick else 50_000, [POOLS[name] for name in ([options.only] if options.only else POOLS)]


def main() -> None:
    n, pools = asked(__doc__)
    print(f"{processor()}, {cores()} cores, one thread, seconds of the processor; b = {n // 10:,} of {n:,}\n")
    print("| predictions | sample | seconds | × version 0.1 | coverage | standard error of the sum |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for title, make in pools:
        x = make(n)
        coverage_tasks.ready(x)
        before, _ = timed(lambda x=x: pw.select(x, n // 10, coverage_before.before, information=False))
        print(f"| {title} | version 0.1 | {before:.1f} | 1.0 | | |", flush=True)
        most = 0.0
        for sample in SAMPLES:
            size = sample * n // 50_000 if isinstance(sample, int) else sample
            seconds, batch = timed(
                lambda x=x, size=size: pw.select(x, n // 10, "posterior-coverage", sample=size, information=False)
            )
            reached = covered(x, batch.indices)
            most = most or reached
            errors = batch.diagnostics.standard_error
            error = "" if errors is None else f"{np.sqrt(np.square(errors).sum()) / most:.2%}"
            label = f"{size:,}" if isinstance(size, int) else size
            times = f"{seconds:.1f} | {before / seconds:.1f}"
            print(f"| {title} | {label} | {times} | {reached / most:.2%} | {error} |", flush=True)


if __name__ == "__main__":
    main()
