"""Run the benchmark: `python -m benchmarks.run [--only NAME ...] [--quick] [--out DIR]`.

Results are kept line by line in `results.jsonl` of the work folder, so that an interrupted run resumes where
it was. A result is used again while the contender's version (of Poolwise: its sources), the pool and the
machine are the same.
"""

import argparse
import hashlib
import json
import os
import shlex
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import curves, machine, report
from benchmarks.cases import ALL, Case, Sizes, Task
from benchmarks.data import materialise, origin
from benchmarks.measure import REPEATS, measure
from benchmarks.tasks import all_tasks

ROOT = Path(__file__).resolve().parent.parent


class Results:
    """Records by key, appended to a file as they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:  # the last line of an interrupted run
                    continue
                self.records[entry["key"]] = entry["record"]

    def add(self, key: str, description: dict[str, Any], record: dict[str, Any]) -> None:
        self.records[key] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"key": key, **description, "record": record}) + "\n")


def package_of(case: Case) -> str:
    """The contender's package: the first word of its name."""
    return case.contender.split()[0]


def key_of(case: Case, threads: int, real: Path, prints: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """What decides a result, and its hash."""
    package = package_of(case)
    if package not in prints:  # once per run, though the sources may change meanwhile
        prints[package] = machine.fingerprint(package)
    description = {
        "contender": case.contender,
        "pool": asdict(case.pool),
        "origin": origin(case.pool, real),
        "batch": case.batch,
        "parameters": case.parameters,
        "threads": machine.cores() if threads == ALL else threads,
        "of": prints[package],
    }
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:16], description


def arguments() -> argparse.Namespace:
    about = "Measure Poolwise and its peers and write the page. Goes on where an earlier run stopped."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=about)
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="NAME", help="measure only this task (repeatable)")
    add("--list", action="store_true", help="list the names of the tasks")
    add("--quick", action="store_true", help="small sizes, to see that everything runs")
    add("--fresh", action="store_true", help="measure again what was measured before")
    add("--retry", action="store_true", help="measure again what failed before")
    add("--report", action="store_true", help="write the page from what is there, measure nothing")
    add("--out", type=Path, help="folder of the page (default: docs, or benchmarks/out/quick with --quick)")
    add("--work", type=Path, default=ROOT / "benchmarks" / "out", help="folder of results and pools")
    add("--real", type=Path, default=ROOT / "benchmarks" / "predictions", help="folder of real predictions")
    return parser.parse_args()


def measure_all(tasks: list[Task], results: Results, options: argparse.Namespace, prints: dict[str, str]) -> None:
    """Measure what is not known yet, one after another."""
    done: set[str] = set()
    for task in tasks:
        for case, threads in task.runs():
            if options.quick and threads == ALL and case.label != task.reference:
                continue  # a smoke test
            key, description = key_of(case, threads, options.real, prints)
            known = results.records.get(key)
            again = key not in done and (options.fresh or (options.retry and "error" in (known or {})))
            if known is not None and not again:
                continue
            files = materialise(case.pool, options.work / "pools", options.real)
            spec = {name: description[name] for name in ("contender", "batch", "parameters", "threads")}
            spec |= {"files": files, "repeats": 1 if options.quick else REPEATS}
            print(f"{time.strftime('%H:%M:%S')} {task.name}: {case.label}, ", end="")
            print(f"{description['threads']} thread(s) ... ", end="", flush=True)
            busy = os.getloadavg()[0]
            record = measure(spec, case.limit)
            record |= {"date": time.strftime("%Y-%m-%d"), "load_before": round(busy, 2)}
            results.add(key, description, record)
            done.add(key)
            print(record.get("error") or f"{record['seconds']:.4g} s, best of {record['repeats']}", flush=True)


def main() -> None:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the running measurement ends, too
    sizes = Sizes(options.quick)
    tasks = [*all_tasks(sizes), curves.against_n(sizes), curves.against_b(sizes)]
    names = [task.name for task in tasks]
    if options.list:
        print("\n".join(names))
        return
    if unknown := set(options.only) - set(names):
        sys.exit(f"No task named {', '.join(sorted(unknown))}. There are: {', '.join(names)}.")
    out = options.out or (ROOT / "benchmarks" / "out" / "quick" if options.quick else ROOT / "docs")
    results = Results(options.work / ("results-quick.jsonl" if options.quick else "results.jsonl"))
    prints: dict[str, str] = {}
    if not options.report:
        chosen = [task for task in tasks if not options.only or task.name in options.only]
        measure_all(chosen, results, options, prints)
    found = {
        (task.name, case.label, threads): results.records[key]
        for task in tasks
        for case, threads in task.runs()
        if (key := key_of(case, threads, options.real, prints)[0]) in results.records
    }
    command = shlex.join(["python", "-m", "benchmarks.run", *sys.argv[1:]])
    report.write(out, tasks, found, options.real, command, quick=options.quick)
    print(f"wrote {out / 'benchmarks.md'}")


if __name__ == "__main__":
    main()
