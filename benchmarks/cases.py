"""What a task is made of: cases (one contender on one pool) and a judgement."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.checks import Check, Find
from benchmarks.data import Pool

ONE, ALL = 1, 0  # threads; ALL is replaced by the number of cores


@dataclass(frozen=True)
class Case:
    """One contender on one pool. `series` groups cases to a line of the picture."""

    label: str
    contender: str
    pool: Pool
    batch: int
    parameters: dict[str, Any] = field(default_factory=dict)
    threads: tuple[int, ...] = (ONE, ALL)
    limit: float = 900.0
    series: str = ""


@dataclass(frozen=True)
class Task:
    """A table of the page. `reference` is the label whose time the others are divided by."""

    name: str
    title: str
    cases: tuple[Case, ...]
    reference: str = ""
    judge: Callable[[Find], list[Check]] = lambda find: []
    note: str = ""

    def runs(self) -> Iterator[tuple[Case, int]]:
        """Every case with every thread count."""
        for case in self.cases:
            for threads in case.threads:
                yield case, threads


@dataclass(frozen=True)
class Sizes:
    """Sizes as the targets name them, or small ones for a smoke test."""

    quick: bool = False

    def n(self, value: int) -> int:
        return max(value // 25, min(value, 500)) if self.quick else value

    def b(self, value: int) -> int:
        return max(value // 10, min(value, 10)) if self.quick else value

    def m(self, value: int) -> int:
        return value // 10 if self.quick else value


def select(label: str, pool: Pool, batch: int, method: str, **more: Any) -> Case:
    """A `pw.select` case; `more` holds fields of the case, all else is a parameter of the method."""
    fields = {key: more.pop(key) for key in ("threads", "limit", "series") if key in more}
    contender = "poolwise mapped" if pool.dtype == "float16" else "poolwise select"
    return Case(label, contender, pool, batch, {"method": method, **more}, **fields)
