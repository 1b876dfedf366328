"""Records to `benchmarks.json`, `benchmarks.md` and `benchmarks.png`."""

import json
import math
import time
from pathlib import Path
from typing import Any

from benchmarks import clusters, machine, picture, rounds, rules
from benchmarks.cases import ALL, ONE, Case, Task
from benchmarks.checks import Check, Record
from benchmarks.data import describe, origin
from benchmarks.measure import REPEATS

Found = dict[tuple[str, str, int], Record]
PICKS_IN_JSON = 20
DOCS = Path(__file__).resolve().parents[1] / "docs"
WAITED = 1.2  # wall time over processor time, on one thread, from which a run was held up by something else
METHOD = """\
Each time is the best wall time of 5 runs in a separate process. If a run takes more than 20 s it is the
best of 2, and if it takes more than 90 s there is only one; the remarks say so. Inputs are prepared
before the clock starts, in the form that each package takes (probabilities or logarithms, its order of
axes). Memory is resident memory. *Above input* is the peak during the calls, minus what was resident
after the input was loaded; *peak* is everything. A package that asks for more than 85 % of the machine's
memory gets a memory error. `n.m.`: not measured. Time targets are judged on one thread."""


def seconds(value: float) -> str:
    """Three significant digits."""
    if value < 1e-3:
        return f"{value * 1e6:.3g} µs"
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s"


def remarks(case: Case, records: dict[int, Record]) -> str:
    """What a reader must know about a row, in the order of importance, without repeats."""
    notes: list[str] = []
    for threads, record in records.items():
        where = "" if len(records) == 1 or threads == ONE else " (all threads)"
        if "error" in record:
            notes.append(f"**fails**: {record['error']}")
            continue
        if record["nan"]:
            notes.append(f"**{record['nan']} NaN**" + (", and picked them" if record["nan_picked"] else ""))
        if len(set(record["picks"])) < len(record["picks"]):
            notes.append(f"**{len(record['picks']) - len(set(record['picks']))} picks twice**")
        ceiling = math.log(case.pool.k)
        if record["information"] is not None and record["information"] > ceiling * (1 + 1e-4):
            notes.append(f"**claims {record['information']:.4f} nats, above ln K = {ceiling:.4f}**")
        if record["extra"].get("pairs"):
            notes.append(f"{record['extra']['pairs']:,} pairs")
        if record["extra"].get("saturated_at") is not None:
            notes.append(f"saturated at pick {record['extra']['saturated_at']}")
        if threads == ONE and record["seconds"] > max(WAITED * record["cpu_seconds"], 0.01):
            notes.append(f"**disturbed**: only {seconds(record['cpu_seconds'])} of it on the processor")
        if record["repeats"] < REPEATS:
            notes.append(f"best of {record['repeats']}{where}")
        if not record["memory_exact"]:
            notes.append("memory includes loading")
    return "; ".join(dict.fromkeys(notes)).replace("|", "\\|")


def task_table(task: Task, found: Found) -> list[str]:
    """One row per case: times, ratio to the reference, memory, remarks."""
    base = found.get((task.name, task.reference, ONE), {}).get("seconds")
    every = any(ALL in case.threads for case in task.cases)
    head = [
        "",
        "1 thread",
        *(["all threads"] if every else []),
        *([f"× {task.reference}"] if task.reference else []),
    ]
    head += ["above input", "peak", "remarks"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 2) + " --- |"]
    for case in task.cases:
        records = {t: found[task.name, case.label, t] for t in case.threads if (task.name, case.label, t) in found}
        good = {t: record for t, record in records.items() if "error" not in record}
        row = [case.label]
        for t in (ONE, ALL) if every else (ONE,):
            shown = seconds(good[t]["seconds"]) if t in good else "fails" if t in records else "n.m."
            row.append(shown if t in case.threads else "")
        if task.reference:
            row.append(f"{good[ONE]['seconds'] / base:.3g}" if base and ONE in good else "")
        for name in ("memory_above_input_mb", "memory_peak_mb"):
            row.append(f"{max(r[name] for r in good.values()):,.0f} MB" if good else "")
        lines.append("| " + " | ".join([*row, remarks(case, records)]) + " |")
    return lines


def curve_table(task: Task, found: Found) -> list[str]:
    """Series in rows, sizes in columns."""
    series = list(dict.fromkeys(case.series for case in task.cases))
    marks = {case.label.rsplit(", ", 1)[1]: picture.size_of(task, case) for case in task.cases}
    columns = sorted(marks, key=lambda mark: marks[mark])
    lines = ["| | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for name in series:
        cells = []
        for mark in columns:
            record = found.get((task.name, f"{name}, {mark}", ONE))
            cells.append("" if record is None else "fails" if "error" in record else seconds(record["seconds"]))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def verdicts(task: Task, found: Found) -> list[Check]:
    """The task's checks; a record that failed counts as not measured, one that was stopped may serve as a bound."""

    def find(label: str, threads: int = ONE, stopped: bool = False) -> Record | None:
        record = found.get((task.name, label, threads))
        if stopped and record is not None and "at_least_seconds" in record:
            return {"seconds": record["at_least_seconds"], "stopped": True}
        return None if record is None or "error" in record else record

    return task.judge(find)


def mark(check: Check) -> str:
    """yes, no, or open."""
    return "open" if check.reached is None else "yes" if check.reached else "**no**"


def page(tasks: list[Task], found: Found, checks: dict[str, list[Check]], real: Path, command: str, quick: bool) -> str:
    """The whole page as Markdown."""
    facts = machine.describe()
    dates = sorted({record["date"] for record in found.values() if "date" in record})
    measured = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "never"
    lines = ["# Benchmarks", ""]
    if quick:
        lines += ["**A smoke test with small sizes: its times and verdicts say nothing.**", ""]
    lines += [
        f"Generated by `{command}`; do not edit. Measured {measured}.",
        "",
        f"Machine: {facts['processor']}, {facts['cores']} cores, {facts['memory_gb']} GB, {facts['system']}, "
        f"Python {facts['python']}. All threads means {facts['cores']}.",
        "",
        "Versions: " + ", ".join(f"{name} {machine.version(name)}" for name in machine.PACKAGES) + ".",
        "",
        METHOD,
        "",
        "## Targets",
        "",
        "| task | target | measured | reached |",
        "| --- | --- | --- | --- |",
    ]
    for task in tasks:
        lines += [
            f"| [{task.name}](#{task.name}) | {check.target} | {check.measured} | {mark(check)} |"
            for check in checks[task.name]
        ]
    lines += ["", "![Time against the size of the pool and of the batch](benchmarks.png)", ""]
    for task in tasks:
        kinds = dict.fromkeys(describe(origin(case.pool, real)) for case in task.cases)
        lines += [f"## {task.name}", "", f"{task.title}. Predictions: {'; '.join(kinds)}.", ""]
        if not any(name == task.name for name, _, _ in found):
            lines += ["Not measured.", ""]
            continue
        is_curve = any(case.series for case in task.cases)
        lines += [*(curve_table if is_curve else task_table)(task, found), ""]
        if task.note:
            lines += [task.note, ""]
        missed = [check for check in checks[task.name] if check.reached is False]
        lines += [f"- Target missed: {check.target}; measured {check.measured}." for check in missed]
        lines += [""] if missed else []
    lines += clusters.section(DOCS)
    lines += rounds.section(DOCS)
    lines += rules.section(DOCS)
    return "\n".join(lines).rstrip() + "\n"


def data(tasks: list[Task], found: Found, checks: dict[str, list[Check]], real: Path, command: str) -> dict[str, Any]:
    """The page's content for programs."""
    return {
        "command": command,
        "written": time.strftime("%Y-%m-%d"),
        "machine": machine.describe(),
        "versions": {name: machine.version(name) for name in machine.PACKAGES},
        "tasks": [
            {
                "name": task.name,
                "title": task.title,
                "checks": [check.__dict__ for check in checks[task.name]],
                "results": [
                    {
                        "label": case.label,
                        "contender": case.contender,
                        "predictions": origin(case.pool, real),
                        "n": case.pool.n,
                        "k": case.pool.k,
                        "c": case.pool.c,
                        "batch": case.batch,
                        "parameters": case.parameters,
                        "threads": machine.cores() if threads == ALL else threads,
                        **(record | ({"picks": record["picks"][:PICKS_IN_JSON]} if "picks" in record else {})),
                    }
                    for case in task.cases
                    for threads in case.threads
                    if (record := found.get((task.name, case.label, threads))) is not None
                ],
            }
            for task in tasks
        ],
    }


def write(out: Path, tasks: list[Task], found: Found, real: Path, command: str, *, quick: bool) -> None:
    """Write the page, its data and its picture.

    Where some tasks have no results, but a page is there, the others' parts of it are renewed and the rest is kept.
    """
    out.mkdir(parents=True, exist_ok=True)
    checks = {task.name: verdicts(task, found) for task in tasks}
    content, text = data(tasks, found, checks, real, command), page(tasks, found, checks, real, command, quick)
    measured = [task for task in tasks if any(name == task.name for name, _, _ in found)]
    page_path, data_path = out / "benchmarks.md", out / "benchmarks.json"
    if len(measured) < len(tasks) and page_path.exists() and data_path.exists():
        names = [task.name for task in measured]
        text = renewed(page_path.read_text(), text, names)
        new = {task["name"]: task for task in content["tasks"] if task["name"] in names}
        content = json.loads(data_path.read_text())
        content["tasks"] = [new.get(task["name"], task) for task in content["tasks"]]
    data_path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    page_path.write_text(text)
    if all(task in measured for task in tasks if any(case.series for case in task.cases)):
        picture.draw([task for task in tasks if any(case.series for case in task.cases)], found, out / "benchmarks.png")


def renewed(before: str, after: str, names: list[str]) -> str:
    """A page with the sections and targets of some tasks taken from another, and when they were measured."""
    sections, new = (dict(part.split("\n", 1) for part in text.split("\n## ")[1:]) for text in (before, after))
    for name in names:
        sections[name] = f"\nMeasured again on {time.strftime('%Y-%m-%d')}.\n{new[name].rstrip()}\n"
    rows = {name: [row for row in new["Targets"].splitlines() if row.startswith(f"| [{name}](")] for name in names}
    lines: list[str] = []
    for row in sections["Targets"].splitlines():
        name = row.removeprefix("| [").partition("]")[0]
        lines += [row] if name not in rows else [] if lines and lines[-1] in rows[name] else rows[name]
    sections["Targets"] = "\n".join(lines)
    head = before.split("\n## ", 1)[0]
    return "\n## ".join([head, *(f"{name}\n{text.rstrip()}\n" for name, text in sections.items())])
