"""What a task must reach, computed from its records. A check that lacks a record is open, never passed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
# find(label, threads=1): the record of a case of the task, None if it was not measured or failed; with stopped=True a
# case that hit its time limit is found as well, with that limit as its seconds
Find = Callable[..., Record | None]


@dataclass(frozen=True)
class Check:
    """One line of a task's verdict; `reached` is None when something was not measured."""

    target: str
    measured: str
    reached: bool | None


NOT_MEASURED = "not measured"


def faster(find: Find, slow: str, fast: str, factor: float, threads: int = 1) -> Check:
    """`fast` takes at most 1/factor of the time of `slow`."""
    target = f"{fast}: {factor:g}× as fast as {slow}"
    a, b = find(slow, threads, stopped=True), find(fast, threads)
    if a is None or b is None:
        return Check(target, NOT_MEASURED, None)
    ratio = a["seconds"] / b["seconds"]
    if "stopped" in a:  # the true ratio is larger
        return Check(target, f"more than {ratio:,.0f}× (stopped at its time limit)", True if ratio >= factor else None)
    return Check(target, f"{ratio:.3g}×", ratio >= factor)


def faster_than_peers(find: Find, peers: list[str], ours: str, factor: float) -> Check:
    """`ours` against the fastest of several, one thread."""
    times = {peer: record["seconds"] for peer in peers if (record := find(peer)) is not None}
    target = f"{factor:g}× as fast as the fastest peer"
    mine = find(ours)
    if not times or mine is None:
        return Check(target, NOT_MEASURED, None)
    best = min(times, key=lambda peer: times[peer])
    ratio = times[best] / mine["seconds"]
    return Check(target, f"{ratio:.3g}× ({best})", ratio >= factor)


def at_most_times(find: Find, large: str, small: str, factor: float) -> Check:
    """The larger problem takes at most `factor` times as long."""
    target = f"t({large}) ≤ {factor:g} × t({small})"
    a, b = find(large), find(small)
    if a is None or b is None:
        return Check(target, NOT_MEASURED, None)
    ratio = a["seconds"] / b["seconds"]
    return Check(target, f"{ratio:.3g} ×", ratio <= factor)


def same_picks(find: Find, a: str, b: str, first: int | None = None) -> Check:
    """Two contenders pick the same points in the same order (the first few, or all)."""
    target = f"{a} and {b}: same {f'first {first} ' if first else ''}picks"
    records = find(a), find(b)
    if records[0] is None or records[1] is None:
        return Check(target, NOT_MEASURED, None)
    picks = records[0]["picks"][:first], records[1]["picks"][:first]
    if picks[0] == picks[1]:
        return Check(target, f"same {len(picks[0])}", True)
    equal = next((i for i, (x, y) in enumerate(zip(*picks, strict=False)) if x != y), min(map(len, picks)))
    common = len(set(picks[0]) & set(picks[1]))
    return Check(target, f"same up to pick {equal}; {common} of {len(picks[0])} in common", False)


def pairs_share(find: Find, label: str, n: int, batch: int, share: float) -> Check:
    """Lazy evaluation computes at most this share of the N·b pairs."""
    target = f"{label}: at most {share:.0%} of the {n * batch:,} pairs"
    record = find(label)
    pairs = record["extra"].get("pairs") if record is not None else None
    if pairs is None:
        return Check(target, NOT_MEASURED, None)
    return Check(target, f"{pairs:,} ({pairs / (n * batch):.2%})", pairs <= share * n * batch)


def memory(find: Find, label: str, limit_mb: float, field: str = "memory_above_input_mb") -> Check:
    """Resident memory, above the input or in all."""
    words = "above the input" if field == "memory_above_input_mb" else "in all (peak resident)"
    target = f"{label}: at most {limit_mb:,.0f} MB {words}"
    values = [record[field] for threads in (1, 0) if (record := find(label, threads)) is not None]
    if not values:
        return Check(target, NOT_MEASURED, None)
    return Check(target, f"{max(values):,.0f} MB", max(values) <= limit_mb)


def same_potential(find: Find, a: str, b: str) -> Check:
    """Two k-means++ samplers reach the same mean potential, within three standard errors."""
    target = "same k-means++ distribution: mean potential within 3 standard errors"
    records = find(a), find(b)
    if records[0] is None or records[1] is None:
        return Check(target, NOT_MEASURED, None)
    means, errors = [], []
    for record in records:
        values = record["extra"]["potentials"] if record is not None else []
        mean = sum(values) / len(values)
        means.append(mean)
        errors.append(math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values)))
    gap = abs(means[0] - means[1])
    measured = f"{means[0]:.5g} ± {errors[0]:.2g} against {means[1]:.5g} ± {errors[1]:.2g}"
    return Check(target, measured, gap <= 3 * math.hypot(*errors))


def finite(find: Find, label: str) -> Check:
    """No NaN came back and no point was picked twice."""
    target = f"{label}: no NaN, no point twice"
    record = find(label)
    if record is None:
        return Check(target, NOT_MEASURED, None)
    twice = len(record["picks"]) - len(set(record["picks"]))
    return Check(target, f"{record['nan']} NaN, {twice} twice", record["nan"] == 0 and twice == 0)
