"""Coverage in numbers: against the version before, and against packages that maximise the same sum.

The tasks are part of `python -m benchmarks.rules`. A facility-location package is given the matrix of similarities,
ready made. A row of its own adds what one product takes that makes such a matrix from predictions. What a package
compiles is compiled, or loaded, before the clock starts.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import poolwise as pw
from benchmarks import coverage_before
from poolwise.selection import coverage_loops
from poolwise.selection.coverage_early import LARGE_BATCH
from poolwise.selection.posterior_coverage import _correlations

Contender = Callable[[], Any]
Make = Callable[[int], torch.Tensor]


def ready(x: torch.Tensor) -> None:
    """Load the compiled loops of coverage, if there are any."""
    coverage_loops.loops(1 << 60)
    for count in (500, 5000):  # few points, and enough for lists that are made and indexed later
        some = x[torch.arange(count) % len(x)]
        pw.select(some, count // 10, "posterior-coverage", information=False)


def before(make: Make, size: int) -> Callable[[int], Iterator[tuple[str, Contender]]]:
    """`posterior-coverage` of today and of version 0.1 on the same predictions."""

    def contenders(n: int) -> Iterator[tuple[str, Contender]]:
        x, b = make(n), size * n // 50_000
        ready(x)
        yield "poolwise", lambda: pw.select(x, b, "posterior-coverage", information=False).indices
        if size > LARGE_BATCH:
            exact = {"sample": "all", "information": False}
            yield "poolwise, every pick exact", lambda: pw.select(x, b, "posterior-coverage", **exact).indices
        yield "before: version 0.1", lambda: pw.select(x, b, coverage_before.before, information=False).indices

    return contenders


def kernel_of(x: torch.Tensor) -> np.ndarray:
    """`[n, n]` posterior correlations of predictions `[n, K, C]`, from the very features that the method uses."""
    rows = _correlations(pw.Predictions.from_log_probs(x), np.arange(len(x)), 1 << 60).part(0, len(x))
    return np.maximum((rows @ rows.T).numpy(), 0)


def plain_kernel(x: torch.Tensor) -> np.ndarray:
    """The same up to rounding, as one would write it who needs nothing but this matrix."""
    centred = x.exp()
    centred -= centred.mean(1, keepdim=True)
    rows = torch.nn.functional.normalize(centred.flatten(1))
    return (rows @ rows.T).clamp_(min=0).numpy()


READY, KERNEL = ", from a ready kernel", "the kernel alone, by one product"


def facility_location(make: Make, share: int) -> Callable[[int], Iterator[tuple[str, Contender]]]:
    """One point in `share` of all, to cover all, each counted once."""

    def contenders(n: int) -> Iterator[tuple[str, Contender]]:
        x, b = make(n), n // share
        ready(x)
        options = {"filter": float(share), "weights": "uniform", "information": False}
        yield "poolwise, from predictions", lambda: pw.select(x, b, "posterior-coverage", **options).indices
        kernel = kernel_of(x)
        yield KERNEL, lambda: plain_kernel(x)[:0, 0]
        try:
            yield f"submodlib{READY}", submodlib(kernel, b)
        except ImportError:
            yield from ()
        yield f"apricot{READY}", apricot(kernel, b)

    return contenders


def from_predictions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a task, and before each package that was given the kernel one with the time of both together."""
    kernel = next((row for row in rows if row["contender"] == KERNEL), {})
    result = []
    for row in rows:
        if row["contender"].endswith(READY):
            both, mb = row["seconds"] + kernel["seconds"], row["mb"] + kernel["mb"]
            label = row["contender"].replace(READY, ", from predictions: the kernel and the picks")
            ours = row["seconds"] / row["ratio"]
            result.append({**row, "contender": label, "seconds": both, "ratio": both / ours, "mb": mb})
        result.append(row)
    return result


def submodlib(kernel: np.ndarray, size: int) -> Contender:
    """Lazy greedy selection by submodlib-py."""
    from submodlib import FacilityLocationFunction

    def call() -> list[int]:
        objective = FacilityLocationFunction(n=len(kernel), mode="dense", sijs=kernel, separate_rep=False)
        found = objective.maximize(budget=size, optimizer="LazyGreedy", show_progress=False)
        return [index for index, _ in found]

    return call


def apricot(kernel: np.ndarray, size: int) -> Contender:
    """Lazy greedy selection by apricot-select, compiled before the clock starts: it would compile at every call."""
    from apricot import FacilityLocationSelection
    from apricot.functions import facilityLocation as loops

    for name in ("calculate_gains", "calculate_gains_sieve"):
        setattr(loops, name, functools.cache(getattr(loops, name)))

    def call(matrix: np.ndarray = kernel, b: int = size) -> list[int]:
        selection = FacilityLocationSelection(b, metric="precomputed", optimizer="lazy").fit(matrix)
        return [int(i) for i in selection.ranking]

    call(kernel[:64, :64].copy(), 4)
    return call


def max_herding(size: int) -> Callable[[int], Iterator[tuple[str, Contender]]]:
    """`max-herding` on 384 features around 50 centres, and that of scikit-activeml."""

    def contenders(n: int) -> Iterator[tuple[str, Contender]]:
        from benchmarks.clusters import pool

        rows, log_probs = pool(n, 384)
        ready(torch.as_tensor(log_probs))
        predictions = pw.Predictions.from_log_probs(log_probs, embeddings=rows)
        yield "poolwise", lambda: pw.select(predictions, size, "max-herding", information=False).indices
        from skactiveml.pool import MaxHerding

        unlabelled = np.full(n, np.nan)
        options = {"metric": "rbf", "metric_dict": {"gamma": 1.0}}
        yield "scikit-activeml", lambda: MaxHerding(random_state=0, **options).query(rows, unlabelled, batch_size=size)

    return contenders


def prob_cover(size: int) -> Callable[[int], Iterator[tuple[str, Contender]]]:
    """`prob-cover` with a given radius, so that nothing is random, and that of scikit-activeml."""

    def contenders(n: int) -> Iterator[tuple[str, Contender]]:
        from benchmarks.clusters import pool

        rows, log_probs = pool(n, 384)
        predictions, radius = pw.Predictions.from_log_probs(log_probs, embeddings=rows), 0.5
        options = {"radius": radius, "information": False}
        yield "poolwise", lambda: pw.select(predictions, size, "prob-cover", **options).indices
        from skactiveml.pool import ProbCover, _prob_cover

        # Of equal points the first, as here; it would draw one of them.
        _prob_cover.rand_argmax = lambda values, random_state: np.array([np.nanargmax(values)])
        unlabelled = np.full(n, np.nan)
        yield "scikit-activeml", lambda: ProbCover(deltas=[radius]).query(rows, unlabelled, batch_size=size)

    return contenders
