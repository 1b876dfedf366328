"""The study behind docs/results.md: what methods do on real data at the quick scale, and what that says of the paper.

poolwise run paper/configs/quick/NAME.toml -o runs   # each experiment; the same command resumes
python -m paper study collect runs quick             # the finished runs, into paper/records/quick.csv.gz
python -m paper study page                           # docs/results.md and its figures, from the records
"""

from pathlib import Path

import poolwise.reports
from paper import figure_1c
from paper.places import CONFIGS, DOCS, RECORDS, must_exist
from paper.study.archives import FOLDERS, read_archives
from paper.study.claims import RunTimes
from paper.study.compare import joined
from paper.study.files import what_was_run
from poolwise.experiments import read_config
from poolwise.experiments.records import RunRecord
from poolwise.experiments.search import read_runs
from poolwise.reports.advice import EVIDENCE
from poolwise.reports.archive import SUFFIX, read_archive, write_archive
from poolwise.storage import read_json


def collect(runs: Path, name: str) -> Path:
    """Put the finished runs of a folder into an archive, in place of the same runs that it had.

    Runs of a study are made in several places and at several times, so other runs stay. To begin anew, delete the
    archive first.

    Args:
        runs: the folder that the experiments wrote to.
        name: one of `FOLDERS`.
    """
    path = must_exist(RECORDS) / f"{name}{SUFFIX}"
    known = {_key(run): run for run in (read_archive(path) if path.exists() else ())}
    known |= {_key(run): run for found in read_runs(runs).values() for run in found if run.finished}
    write_archive([known[key] for key in sorted(known)], path)
    return path


def _key(run: RunRecord) -> tuple[str, str, int]:
    return run.setting.experiment, run.label, run.seed


def make_page() -> Path:
    """Make the page of results from the archives, and the table that `poolwise advise` reads."""
    from paper.study.evidence import advice_section, write_evidence
    from paper.study.judging import with_rivals
    from paper.study.page import write_page  # needs Matplotlib

    archives = read_archives(must_exist(RECORDS))
    path = Path(poolwise.reports.__file__).parent / EVIDENCE
    fixed = with_rivals(joined(archives.judging, archives.confirmation))
    groups = write_evidence(archives.quick, fixed, path, ablation=archives.ablation, first=archives.cold_start)
    files = {
        folder: what_was_run(map(read_config, sorted((must_exist(CONFIGS) / folder).glob("*.toml"))), archives.all)
        for folder in FOLDERS
    }
    return write_page(
        archives, figure_1c.recorded(), _run_times(), files, must_exist(DOCS), advice=advice_section(groups)
    )


def _run_times() -> RunTimes:
    """The paper's Table 2 as `python -m paper table-2 --scale paper` measured it."""
    path = DOCS / "run-time.json"
    if not path.exists():
        return RunTimes({})
    found = read_json(path)
    seconds = {(duration["name"], duration["b"]): duration["mean"] for duration in found["durations"]}
    return RunTimes(seconds, found["setup"]["configurations"])
