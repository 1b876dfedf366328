"""The two panels of the picture: time against N and against b, one thread, synthetic, K = C = 10."""

from collections.abc import Iterable
from typing import Any

from benchmarks.cases import ONE, Case, Sizes, Task, select
from benchmarks.data import Pool

LIMIT = 300.0
REDUX, FULL = "batchbald (batchbald_redux)", "lbb (full evaluation)"
METHODS = ("bald", "lbb", "power-lbb", "posterior-coverage", "batchbald")


def point(series: str, pool: Pool, batch: int, mark: str, configurations: int) -> Case:
    """One point of one line."""
    label = f"{series}, {mark}"
    sampled: dict[str, Any] = {"configurations": configurations}
    if series == REDUX:
        return Case(label, "batchbald_redux batchbald", pool, batch, sampled, (ONE,), LIMIT, series)
    parameters = {"evaluation": "full"} if series == FULL else sampled if series == "batchbald" else {}
    method = "lbb" if series == FULL else series
    return select(label, pool, batch, method, threads=(ONE,), limit=LIMIT, series=series, **parameters)


def distinct(values: Iterable[int]) -> list[int]:
    """Sorted without repeats: small sizes can coincide."""
    return sorted(set(values))


def against_n(s: Sizes) -> Task:
    longest = dict.fromkeys(METHODS, 1_000_000) | {"batchbald": 100_000, FULL: 100_000, REDUX: 30_000}
    sizes, m = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000), s.m(1_000)
    cases = [
        point(series, Pool(n, 10, 10, "synthetic"), 10, f"N = {n:,}", m)
        for series, most in longest.items()
        for n in distinct(s.n(size) for size in sizes if size <= most)
    ]
    return Task("growth-n", f"Time against N, K = C = 10, b = 10, {m:,} configurations", tuple(cases))


def against_b(s: Sizes) -> Task:
    longest = dict.fromkeys(METHODS, 1_000) | {"batchbald": 100, FULL: 1_000, REDUX: 20}
    sizes, m = (2, 5, 10, 20, 50, 100, 200, 500, 1_000), s.m(1_000)
    pool = Pool(s.n(20_000), 10, 10, "synthetic")
    cases = [
        point(series, pool, b, f"b = {b}", m)
        for series, most in longest.items()
        for b in distinct(s.b(size) for size in sizes if size <= most)
    ]
    return Task("growth-b", f"Time against b, {pool.shape}, {m:,} configurations", tuple(cases))
