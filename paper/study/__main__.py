"""`python -m paper.study collect RUNS NAME` and `python -m paper.study page`."""

import argparse
from pathlib import Path

from paper.study.compare import Records
from paper.study.page import write_page
from poolwise.experiments.records import read_runs
from poolwise.reports.archive import SUFFIX, read_archive, write_archive
from poolwise.storage import read_json

PAPER = Path(__file__).parents[1]
DOCS, RECORDS = PAPER.parent / "docs", PAPER / "records"


def collect(runs: Path, name: str) -> None:
    """Put the finished runs of a folder into an archive."""
    finished = [run for found in read_runs(runs).values() for run in found if run.finished]
    write_archive(finished, RECORDS / f"{name}{SUFFIX}")
    print(f"{len(finished)} runs in {RECORDS / name}{SUFFIX}")


def page() -> None:
    """Make the page of results from the archives."""
    paths = [RECORDS / f"{name}{SUFFIX}" for name in ("quick", "ablation", "coverage")]
    quick, ablation, coverage = (Records(read_archive(path) if path.exists() else ()) for path in paths)
    print(write_page(quick, ablation, coverage, _run_times(), DOCS))


def _run_times() -> dict[tuple[str, int], float]:
    """The paper's Table 2 as `python -m paper table-2 --scale paper` measured it."""
    path = DOCS / "run-time.json"
    durations = read_json(path)["durations"] if path.exists() else []
    return {(found["name"], found["b"]): found["mean"] for found in durations}


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m paper.study", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect", help="records of runs into paper/records/")
    collecting.add_argument("runs", type=Path)
    collecting.add_argument("name", choices=("quick", "ablation", "coverage"))
    commands.add_parser("page", help="docs/results.md and its figures, from the records")
    arguments = parser.parse_args()
    if arguments.command == "collect":
        collect(arguments.runs, arguments.name)
    else:
        page()


main()
