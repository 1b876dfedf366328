"""Where the time of `posterior-coverage` goes, with b = 1,000 and b = 5,000 of 50,000; prints a table.

    POOLWISE_DATA=... python -m benchmarks.coverage_profile [--quick] [--only fashion|synthetic]

Processor time on one thread under Python's profiler, which makes calls of Python slower: a share of them is its own.
"""

import cProfile
import pstats
import time

import poolwise as pw
from benchmarks import coverage_tasks
from benchmarks.coverage_sample import asked
from benchmarks.machine import cores, processor

PRODUCTS = ("torch.mm>", "torch.bmm>", "torch.mv>")
LISTS = ("coverage_compiled.py", "coverage_lists.py", "coverage_sweeps.py", "sparsetools")


def main() -> None:
    n, pools = asked(__doc__)
    print(f"{processor()}, {cores()} cores, one thread, seconds of the processor under a profiler\n")
    print("| predictions | b | all | products of matrices | lists of pairs | the rest, per pick |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for title, make in pools:
        x = make(n)
        coverage_tasks.ready(x)
        for size in (n // 50, n // 10):
            profile = cProfile.Profile(time.process_time)
            profile.runcall(pw.select, x, size, "posterior-coverage", information=False)
            times = pstats.Stats(profile).stats  # type: ignore[attr-defined]
            own = {f"{file} {name}": entry[2] for (file, _, name), entry in times.items()}
            total = sum(own.values())
            products, lists = (
                sum(seconds for name, seconds in own.items() if any(part in name for part in parts))
                for parts in (PRODUCTS, LISTS)
            )
            rest = 1000 * (total - products - lists) / size
            print(
                f"| {title} | {size:,} | {total:.2f} | {products:.2f} | {lists:.2f} | {rest:.2f} ms |",
                flush=True,
            )


if __name__ == "__main__":
    main()
