"""The study: archives of runs keep what tables need, and the page says what the records say."""

import dataclasses
import gzip
import math
import zlib

import numpy as np
import pytest

from paper.study.claims import PAPER, RunTimes, claims
from paper.study.compare import Records, compare, told_apart, versus
from paper.study.files import Done, in_words, what_was_run
from paper.study.page import CONDITIONS, write_page
from poolwise.errors import FileError
from poolwise.experiments import Config
from poolwise.experiments.records import RoundRecord, RunRecord, Setting
from poolwise.reports import write_report
from poolwise.reports.archive import read_archive, write_archive

TIMES = RunTimes({("BatchBALD", 10): 0.5, ("Large BB", 10): 0.1, ("BatchBALD", 20): 4.0, ("Large BB", 20): 0.1}, 30_000)
FILES = {"quick": [Done("mnist-ensemble-10", 4, 4, 2, 2), Done("svhn-ensemble-10", 0, 4, 0, 2)]}
LABELS = (
    "random", "least-confidence", "margin", "entropy", "bald", "power-bald", "batchbald", "lbb", "power-lbb",
    "lbb-printed", "lbb-released", "power-lbb-released", "epig", "posterior-coverage", "badge", "coreset",
    "cluster-margin",
)  # fmt: skip
VARIANTS = {
    "power-bald": ("alpha=0.5", "alpha=2.0", "alpha=5.0"),
    "power-lbb": ("alpha=0.5", "alpha=2.0", "alpha=5.0", "redundancy=max", "redundancy=mean"),
    "lbb": ("redundancy=max", "redundancy=mean", "redundancy=sum", "candidates=10%"),
    "bald": ("candidates=10%",),
    "margin": ("candidates=10%",),
    "badge": ("candidates=10%",),
    "posterior-coverage": ("candidates=10%", "filter=3.0", "filter=30.0", "filter=100.0", "kernel=embeddings"),
}


def run(setting, label, seed, level, *, select=0.1, counts=(20, 30, 40)):
    """A run whose accuracy rises from `level`, with a seed's own luck that all methods share."""
    luck = 0.01 * math.sin(seed + 1)
    rounds = []
    for n, count in enumerate(counts):
        metrics, seconds = {"accuracy": level + luck + 0.05 * n, "nll": 1.0 - 0.1 * n}, {"train": 1.0, "select": select}
        picks, classes, distinct = (10, 5, 9) if n < 2 else (0, 0, 0)
        saturated_at = 7 if n == 1 else None
        rounds.append(RoundRecord(n, count, metrics, seconds, picks, classes, distinct, saturated_at, n == 2))
    return RunRecord(setting, setting, label.split()[0], label, seed, {"poolwise": "1.0"}, tuple(rounds))


def runs_of(experiment, levels, *, data="mnist", posterior="deep-ensemble", batch_size=10, seeds=3):
    setting = Setting(experiment, data, posterior, batch_size)
    rng = np.random.default_rng(zlib.crc32(experiment.encode()))
    return [
        run(setting, label, seed, level + 0.002 * rng.normal(), select=0.5 if label == "batchbald" else 0.1)
        for label, level in levels.items()
        for seed in range(seeds)
    ]


def study(seeds=3):
    """Settings in which BALD is worse than random, LBB better than BALD, and posterior coverage the best."""
    levels = dict.fromkeys(LABELS, 0.6) | {
        "bald": 0.55, "lbb": 0.62, "power-lbb": 0.64, "power-bald": 0.64, "posterior-coverage": 0.68,
        "lbb-printed": 0.5,
    }  # fmt: skip
    everything = levels | {f"{name} {v}": levels[name] for name, variants in VARIANTS.items() for v in variants}
    made = []
    for data in ("mnist", "rmnist", "fashion-mnist", "ag-news"):
        for kind, posterior in (("ensemble", "deep-ensemble"), ("dropout", "mc-dropout")):
            for size in (10, 50):
                chosen = everything if data == "mnist" else levels
                lower = {label: level - 0.03 * (kind == "dropout") for label, level in chosen.items()}
                made += runs_of(f"{data}-{kind}-{size}", lower, data=data.removeprefix("r"), posterior=posterior,
                                batch_size=size, seeds=seeds)  # fmt: skip
    return Records(made)


def test_an_archive_keeps_what_tables_need(tmp_path):
    runs = runs_of("mnist-ensemble-10", {"random": 0.5, "bald": 0.4})
    write_archive(runs, tmp_path / "runs.csv.gz")
    read = read_archive(tmp_path / "runs.csv.gz")
    assert [(r.setting, r.method, r.label, r.seed, r.versions) for r in read] == [
        (r.setting, r.method, r.label, r.seed, r.versions) for r in runs
    ]
    for before, after in zip(runs, read, strict=True):
        for one, other in zip(before.rounds, after.rounds, strict=True):
            assert one.metrics == pytest.approx(other.metrics, rel=1e-5)
            assert one.seconds == pytest.approx(other.seconds, rel=1e-5)
            assert (one.number, one.labelled, one.picks, one.classes, one.distinct, one.saturated_at, one.final) == (
                other.number, other.labelled, other.picks, other.classes, other.distinct, other.saturated_at,
                other.final,
            )  # fmt: skip
    again = tmp_path / "again.csv.gz"
    write_archive(read, again)
    assert again.read_bytes() == (tmp_path / "runs.csv.gz").read_bytes()


def test_a_report_can_be_made_of_an_archive(tmp_path):
    write_archive(runs_of("mnist-ensemble-10", {"random": 0.5, "bald": 0.4}), tmp_path / "runs.csv.gz")
    page = write_report(tmp_path / "runs.csv.gz", tmp_path / "report")
    assert "mnist-ensemble-10" in page.read_text()


@pytest.mark.parametrize(
    "content",
    [b"nothing", gzip.compress(b"a,b\n1,2\n"), gzip.compress(b"x" * 90)[:20]],
    ids=["text", "other columns", "cut off"],
)
def test_what_is_no_archive_is_said(tmp_path, content):
    path = tmp_path / "runs.csv.gz"
    path.write_bytes(content)
    with pytest.raises(FileError, match="not an archive of runs"):
        read_archive(path)


def test_comparisons_are_paired_by_seed_and_then_by_setting():
    records = study()
    found = versus(records, "lbb", "bald")
    assert found.overall.seeds == len(records.groups) == 16
    each = [np.mean(list(records.means(s, "lbb").values())) - np.mean(list(records.means(s, "bald").values()))
            for s in records.groups]  # fmt: skip
    assert found.overall.mean == pytest.approx(np.mean(each))
    assert found.overall.verdict == "better"
    assert found.count("better") == found.ahead == 16


def test_settings_of_a_data_set_count_as_one_by_data_set():
    made = [("a", 10, 0.01), ("a", 50, 0.03), ("b", 10, 0.06)]
    pairs = {Setting(f"{d}-{b}", d, "deep-ensemble", b): ({0: x, 1: x}, {0: 0.0, 1: 0.0}) for d, b, x in made}
    found = compare(pairs)
    assert found.overall.mean == pytest.approx(0.1 / 3)
    assert found.by_data.mean == pytest.approx((0.02 + 0.06) / 2)
    assert found.by_data.seeds == 2
    assert found.by_data.high == pytest.approx(0.04 + 12.706 * 0.02, rel=1e-3)  # Student's t with one degree of freedom


def test_claims_follow_the_records():
    found = {(claim.text, claim.where, claim.form): claim.finding for claim in claims(study(), TIMES)}
    assert found["LBB beats BALD on repeated data", "repeated", "lbb − bald"] == "holds"
    assert found["LBB beats BALD on repeated data", "repeated", "lbb-printed − bald"] == "does not hold"
    assert found["BALD falls below random on repeated data", "repeated", "bald − random"] == "holds"
    assert found["PLBB beats PBALD", "all", "power-lbb − power-bald"] == "within noise"
    assert found["Ensembles beat MC dropout", "repeated", "mean over all methods"] == "holds"
    speed, tens = "LBB is tens of times faster than BatchBALD", "at least 10 times"
    assert found[speed, "the paper's Table 2, batch of 10", tens] == "does not hold"
    assert found[speed, "the paper's Table 2, batch of 20", tens] == "holds"
    assert found[speed, "batches of 50", tens] == "does not hold"
    leaders = "PLBB and PBALD lead the performance profiles of the paper's six algorithms"
    assert found[leaders, "all", "area"] == "holds"
    assert set(PAPER) <= set(LABELS)


def test_findings_are_adjusted_for_the_number_of_claims():
    found = {(claim.text, claim.form): claim for claim in claims(study(), TIMES)}
    sure = found["LBB beats BALD", "lbb − bald"]
    assert 0 < sure.p_value < 1e-6
    alike = found["PLBB beats PBALD", "power-lbb − power-bald"]
    assert alike.p_value > 0.5
    # One comparison of twenty that are alike is below 0.05 by chance: alone it is a finding, among the others not.
    rng = np.random.default_rng(0)
    settings = [Setting(f"s-ensemble-{n}", "mnist", "deep-ensemble", n) for n in range(6)]
    rows = {}
    for k in range(20):
        shift = 0.011 if k == 0 else 0.0
        noise = [rng.permutation([-0.02, -0.01, 0.0, 0.0, 0.01, 0.02])[i] / 2 + shift for i in range(6)]
        rows[f"m{k}"] = compare({s: ({0: x}, {0: 0.0}) for s, x in zip(settings, noise, strict=True)})
    assert rows["m0"].overall.verdict == "better"
    assert set(told_apart(rows).values()) == {"within noise"}
    assert told_apart({"m0": rows["m0"]}) == {"m0": "better"}


@pytest.mark.parametrize(
    ("shift", "finding"), [(0.0, "holds"), (0.012, "within noise"), (0.03, "does not hold"), (-0.03, "does not hold")]
)
def test_close_is_inside_the_limits_and_not_close_outside(shift, finding):
    made = [
        run(Setting(f"ag-news-ensemble-{n}", "ag-news", "deep-ensemble", 10), label, 0, 0.6 + level)
        for n, wobble in enumerate((-0.004, 0.0, 0.004, 0.0))
        for label, level in (*((label, 0.0) for label in LABELS if label != "power-lbb"), ("power-lbb", shift + wobble))
    ]
    found = {(claim.text, claim.form): claim for claim in claims(Records(made), TIMES)}
    claim = found["PLBB and BADGE are comparable on AG News", "power-lbb − badge"]
    assert claim.finding == finding
    assert math.isnan(claim.p_value)


def test_settings_that_lack_a_method_are_left_out_of_its_comparison():
    records = Records([*runs_of("a", {"random": 0.5, "bald": 0.6}), *runs_of("b", {"random": 0.5})])
    assert [s.experiment for s in versus(records, "bald", "random").each] == ["a"]


def test_fresh_data_is_named_from_the_records_and_what_was_not_run_is_left_out(tmp_path):
    levels = dict.fromkeys(LABELS, 0.6)
    more = [
        made
        for data in ("kmnist", "svhn", "cifar-10")
        for made in runs_of(f"{data}-ensemble-10", levels, data=data, seeds=1)
    ]
    records = Records([made for group in study().groups.values() for made in group.everything] + more)
    text = write_page(records, Records([]), Records([]), RunTimes({}), FILES, tmp_path).read_text()
    assert "no part in any of that (ag-news, cifar-10 and svhn):" in text
    assert "paper/configs/coverage`): unbalanced" not in text
    assert "nan" not in text
    assert "complexity.md" not in text


def test_the_page_names_losers_first_and_has_every_part(tmp_path):
    levels = {"random": 0.5, "posterior-coverage": 0.6, "margin": 0.55}
    ablation = [*runs_of("f-samples-20", levels), *runs_of("f-samples-5", levels), *runs_of("f-large-250", levels)]
    path = write_page(study(), Records(ablation), Records(runs_of("r8-ensemble-10", levels)), TIMES, FILES, tmp_path)
    text = path.read_text()
    assert "40.0 times: batchbald (30,000 configurations) 4.00 s" in text
    assert "1 of 2 files were not run (`svhn-ensemble-10`)." in text
    first = text.split("\n\n")[1]
    assert "`bald`" in first.split("worse than labelling at random")[0]
    assert "`posterior-coverage` has the largest area" in first
    assert "K = 5 | K = 20" in text
    for name in ("profiles", "differences", "curves"):
        assert (tmp_path / "results" / f"{name}.png").stat().st_size > 10_000
        assert f"results/{name}.png" in text
    assert all(name.split(" (")[0] in text for name in CONDITIONS if name != "b = 100")


def test_what_was_run_is_counted_from_the_records():
    def config(name, seeds, methods):
        acquisition = {"methods": methods, "initial": 20, "batch_size": 10, "labels": 40}
        values = {"name": name, "seeds": seeds, "data": {"name": "digits"}, "acquisition": acquisition}
        return Config.model_validate(values)

    main = Records([*runs_of("a", {"random": 0.5, "bald": 0.5}, seeds=2), *runs_of("b", {"random": 0.5}, seeds=2)])
    more = Records([*runs_of("c", {"random": 0.5}, seeds=1), *runs_of("a", {"margin": 0.5}, seeds=2)])
    unfinished = run(Setting("d", "mnist", "deep-ensemble", 10), "random", 0, 0.5)
    other = Records([dataclasses.replace(unfinished, rounds=unfinished.rounds[:1])])
    done = what_was_run(
        [
            config("a", 2, ["random", "bald"]),
            config("a", 2, ["margin"]),
            config("b", 2, ["random", "bald"]),
            config("c", 2, ["random"]),
            config("d", 1, ["random"]),
        ],
        [main, more, other],
    )
    assert [(d.runs, d.all_runs, d.seeds) for d in done] == [(4, 4, 2), (2, 2, 2), (2, 4, 0), (1, 2, 1), (0, 1, 0)]
    assert in_words({"quick": done}) == (
        "- `quick`: 2 of 5 files were run (`a`, `a`). 1 of 5 files were run in part, 2 of 4 runs (`b`). "
        "1 of 5 files were run with 1 of 2 seeds (`c`). 1 of 5 files were not run (`d`)."
    )
    assert in_words({"quick": done[:2]}) == "- `quick`: 2 of 2 files were run."
