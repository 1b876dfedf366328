"""The study: archives of runs keep what tables need, and the page says what the records say."""

import dataclasses
import gzip
import inspect
import math
import zlib
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from paper import oracle
from paper.cold_start import METHODS, first_batches
from paper.judging import CONFIRMATION
from paper.places import CONFIGS, RECORDS
from paper.study import cold, judging
from paper.study.ablations import _above, rivals
from paper.study.archives import Archives, read_archives
from paper.study.claims import MULTIPLE, OURS, PROFILES, RELEASED, TENS, RunTimes, judged_claims, other_claims
from paper.study.compare import (
    Records,
    against_random,
    answered,
    by_data_set,
    compare,
    data_name,
    icc,
    in_paper,
    never_reached,
    over,
    saved,
    saved_over_data,
    versus,
    wins,
)
from paper.study.confirmation import confirmation, together
from paper.study.copies import exact_copies
from paper.study.files import Done, in_words, what_was_run
from paper.study.further import FURTHER, TAILS, further_rivals, long_tail, pretrained, room
from paper.study.longer import longer_curves
from paper.study.overall import Standing, unlike_starts
from paper.study.page import CONDITIONS, write_page
from paper.study.short import in_short
from poolwise.errors import FileError, ParameterError
from poolwise.experiments import Config, read_config
from poolwise.experiments.build import split, start
from poolwise.experiments.records import RoundRecord, RunRecord, Setting
from poolwise.learning.learner import ActiveLearner
from poolwise.reports import write_report
from poolwise.reports.archive import read_archive, write_archive
from poolwise.reports.numbers import signed

TIMES = RunTimes({("BatchBALD", 10): 0.5, ("Large BB", 10): 0.1, ("BatchBALD", 20): 4.0, ("Large BB", 20): 0.1}, 30_000)
FILES = {"quick": [Done("mnist-ensemble-10", 4, 4, 2, 2), Done("svhn-ensemble-10", 0, 4, 0, 2)]}
LABELS = (
    "random", "least-confidence", "margin", "entropy", "bald", "power-bald", "power-bald-5", "batchbald",
    "lbb", "power-lbb", "lbb-printed", "lbb-released", "power-lbb-released", "epig", "posterior-coverage", "badge",
    "coreset", "cluster-margin",
)  # fmt: skip
VARIANTS = {
    "power-bald": ("alpha=0.5", "alpha=2.0"),
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
        "bald": 0.55, "lbb": 0.62, "power-lbb": 0.64, "power-bald": 0.64, "power-bald-5": 0.64,
        "posterior-coverage": 0.68,
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


def test_a_report_can_be_made_of_an_archive(tmp_path, unrendered):
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
    assert found.over_settings.seeds == len(records.groups) == 16
    each = [np.mean(list(records.values(s, "lbb").values())) - np.mean(list(records.values(s, "bald").values()))
            for s in records.groups]  # fmt: skip
    assert found.over_settings.mean == pytest.approx(np.mean(each))
    assert found.over_settings.verdict == "better"
    assert found.count("better") == found.ahead == 16
    ends = versus(records, "lbb", "bald", "end").each
    for setting, difference in ends.items():
        lbb, bald = (
            np.mean([found.rounds[-1].metrics["accuracy"] for found in records.groups[setting].runs[label].values()])
            for label in ("lbb", "bald")
        )
        assert difference.mean == pytest.approx(lbb - bald)


def test_settings_of_a_data_set_count_as_one_by_data_set():
    made = [("a", 10, 0.01), ("a", 50, 0.03), ("b", 10, 0.06)]
    pairs = {Setting(f"{d}-{b}", d, "deep-ensemble", b): ({0: x, 1: x}, {0: 0.0, 1: 0.0}) for d, b, x in made}
    found = compare(pairs)
    assert found.over("settings").mean == pytest.approx(0.1 / 3)
    assert found.over("data sets").mean == pytest.approx((0.02 + 0.06) / 2)
    assert found.over_data.seeds == 2
    assert found.over_data.high == pytest.approx(0.04 + 12.706 * 0.02, rel=1e-3)  # Student's t, one degree of freedom


def test_claims_follow_the_records():
    found = {(t.claimed.text, t.claimed.where, t.claimed.first): t.cells for t in judged_claims(study())}
    column = ("curve", "settings")
    assert found["LBB beats BALD on repeated data", "repeated", "lbb"][column].finding == "holds"
    assert found["LBB beats BALD on repeated data", "repeated", "lbb-printed"][column].finding == "does not hold"
    assert found["BALD falls below random on repeated data", "repeated", "bald"][column].finding == "holds"
    assert found["PLBB beats PBALD", "all", "power-lbb"][column].finding == "equivalent"
    assert found["Ensembles beat MC dropout", "repeated", "ensembles"][column].finding == "holds"
    # Repeated data is one data set here, of which there is no interval.
    assert found["LBB beats BALD on repeated data", "repeated", "lbb"]["curve", "data sets"].finding == "inconclusive"
    assert found["LBB beats BALD", "all", "lbb"]["curve", "data sets"].finding == "holds"
    assert found["LBB beats BALD", "all", "lbb"]["end", "data sets"].finding == "holds"
    others = {(claim.text, claim.where): claim.finding for claim in other_claims(study(), TIMES)}
    assert others[MULTIPLE[0], "the paper's Table 2, batch of 10"] == "holds"
    assert others[TENS[0], "the paper's Table 2, batch of 20"] == "holds"
    assert others[TENS[0], "batches of 50"] == "does not hold"
    (table_2,) = (claim for claim in other_claims(study(), TIMES) if claim.where == "the paper's Table 2, batch of 10")
    assert "30,000 configurations; the authors' program draws 100,000" in table_2.numbers
    leaders = "PLBB and PBALD lead the performance profiles of the paper's six algorithms"
    assert others[leaders, f"the paper's data, {OURS}"] == "holds"
    assert all({*first, *second} <= {*LABELS} for first, second in PROFILES.values())


@pytest.mark.parametrize(("level", "finding"), [(0.7, "holds"), (0.6, "inconclusive"), (0.5, "does not hold")])
def test_leaders_of_profiles_have_to_lead_every_other_method(level, finding):
    others = {"bald": 0.55, "random": 0.6, "least-confidence": 0.58, "lbb": 0.6, "batchbald": 0.6}
    runs = []
    for n, data in enumerate(("mnist", "fashion-mnist", "cifar-10", "ag-news")):
        found = others | {"power-bald": 0.7 + 0.002 * n, "power-lbb": level + 0.002 * n}
        runs += runs_of(f"{data}-ensemble-10", found, data=data)
    (leaders,) = [claim for claim in other_claims(Records(runs), RunTimes({})) if claim.form == "area"]
    assert leaders.finding == finding
    assert "the least is that of power-lbb over" in leaders.numbers


def test_findings_are_adjusted_for_the_number_of_claims():
    found = {(t.claimed.text, t.claimed.first): t.cells["curve", "settings"] for t in judged_claims(study())}
    assert 0 < found["LBB beats BALD", "lbb"].p_value < 1e-6
    assert found["PLBB beats PBALD", "power-lbb"].p_value > 0.5
    # One comparison of twenty that are alike is below 0.05 by chance: alone it is a finding, among the others not.
    rng = np.random.default_rng(0)
    settings = [Setting(f"s-ensemble-{n}", "mnist", "deep-ensemble", n) for n in range(6)]
    rows = {}
    for k in range(20):
        shift = 0.011 if k == 0 else 0.0
        noise = [rng.permutation([-0.02, -0.01, 0.0, 0.0, 0.01, 0.02])[i] / 2 + shift for i in range(6)]
        compared = compare({s: ({0: x}, {0: 0.0}) for s, x in zip(settings, noise, strict=True)})
        rows[f"m{k}"] = compared.over_settings
    assert rows["m0"].verdict == "better"
    assert {answer.verdict for answer in answered(rows).values()} == {"inconclusive"}
    assert answered({"m0": rows["m0"]})["m0"].verdict == "better"


@pytest.mark.parametrize(
    ("shift", "wobble", "settings", "finding"),
    [(0, 0.001, 6, "holds"), (0, 0.001, 5, "inconclusive"), (0.006, 0.004, 6, "inconclusive"),
     (0.03, 0.004, 6, "does not hold"), (-0.03, 0.004, 4, "does not hold")],
)  # fmt: skip
def test_close_is_inside_the_limits_and_not_close_outside(shift, wobble, settings, finding):
    made = [
        run(Setting(f"ag-news-ensemble-{n}", "ag-news", "deep-ensemble", 10), label, 0, 0.6 + level)
        for n, moved in enumerate((-wobble, 0.0, wobble, 0.0, -wobble, wobble)[:settings])
        for label, level in (*((label, 0.0) for label in LABELS if label != "power-lbb"), ("power-lbb", shift + moved))
    ]
    found = {(t.claimed.text, t.claimed.first): t.cells for t in judged_claims(Records(made))}
    cell = found["PLBB and BADGE are comparable on AG News", "power-lbb"]["curve", "settings"]
    assert cell.finding == finding
    assert math.isnan(cell.p_value)


def test_a_pair_of_methods_has_one_verdict_on_the_page():
    records = study()
    for measure in ("curve", "end"):
        answers = against_random(records, measure)
        assert rivals(records, "posterior-coverage", measure)["random"] == answers["posterior-coverage"]


def test_labels_saved_are_averaged_by_data_set():
    records = study()
    shares = saved(records, "posterior-coverage")
    assert all(share > 0 for share in shares.values())
    for data, value in by_data_set(shares).items():
        assert value == pytest.approx(np.mean([share for s, share in shares.items() if s.data == data]))
    assert never_reached(records, "posterior-coverage") == 0
    assert never_reached(records, "lbb-printed") == len(records.groups)


def test_intraclass_correlation_is_that_of_the_textbook():
    values = {"a": (1.0, 2.0, 3.0), "b": (4.0, 6.0), "c": (9.0, 9.0, 8.0, 10.0)}
    settings = {
        Setting(f"{data}-{n}", data, "deep-ensemble", n): value
        for data, group in values.items() for n, value in enumerate(group)
    }  # fmt: skip
    every = [value for group in values.values() for value in group]
    between = sum(len(g) * (np.mean(g) - np.mean(every)) ** 2 for g in values.values()) / 2
    within = sum(np.var(g) * len(g) for g in values.values()) / 6
    size = (9 - (9 + 4 + 16) / 9) / 2
    assert icc(settings) == pytest.approx((between - within) / (between + (size - 1) * within))
    assert icc({s: float(s.data == "a") for s in settings}) == 1
    assert math.isnan(icc({s: v for s, v in settings.items() if s.data == "a"}))


def test_wins_are_counted_by_data_set_and_by_setting():
    records = Records(
        [*runs_of("a-ensemble-10", {"random": 0.5, "bald": 0.6}, data="mnist"),
         *runs_of("a-ensemble-50", {"random": 0.5, "bald": 0.48}, data="mnist", batch_size=50),
         *runs_of("b-ensemble-10", {"random": 0.5, "bald": 0.4}, data="svhn")]
    )  # fmt: skip
    assert wins(records, "bald", "random") == (1, 1)
    assert wins(records, "random", "bald") == (1, 2)


def test_repeated_fashion_mnist_is_not_the_papers():
    names = {
        "mnist": "rmnist-ensemble-10",
        "fashion-mnist": "rfashion-mnist-ensemble-10",
        "20news": "20news-dropout-10",
    }
    assert [in_paper(Setting(name, data, "x", 10)) for data, name in names.items()] == [True, False, False]


def test_settings_that_lack_a_method_are_left_out_of_its_comparison():
    records = Records([*runs_of("a", {"random": 0.5, "bald": 0.6}), *runs_of("b", {"random": 0.5})])
    assert [s.experiment for s in versus(records, "bald", "random").each] == ["a"]


def copies_study():
    """Exact copies of two data sets: BALD below random, LBB above BALD."""
    levels = {"random": 0.6, "bald": 0.5, "lbb": 0.62, "power-lbb": 0.63, "posterior-coverage": 0.7}
    return Records(
        [made for data in ("mnist", "cifar-10") for size in (10, 50)
         for made in runs_of(f"r{data}-exact-ensemble-{size}", levels, data=data, batch_size=size)]
    )  # fmt: skip


def test_exact_copies_have_a_part_of_their_own(tmp_path):
    mixed = Records([run for kept in (study(), copies_study()) for g in kept.groups.values() for run in g.everything])
    write_archive([run for g in mixed.groups.values() for run in g.everything], tmp_path / "quick.csv.gz")
    archives = read_archives(tmp_path)
    assert {s.experiment for s in archives.copies.groups} == {s.experiment for s in copies_study().groups}
    assert {s.experiment for s in archives.quick.groups} == {s.experiment for s in study().groups}
    assert not archives.judging.groups
    text = exact_copies(archives.copies)
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("|")}
    cells = rows["BALD falls below random on repeated data"].strip("| ").split(" | ")
    assert len(cells) == 7
    assert all(cell.startswith(("−9", "−10")) and "[" in cell for cell in cells[2:6])
    assert cells[6] == "0 of 4"
    assert "holds" not in text, "two data sets are too few for a verdict"
    assert "PLBB beats PBALD" not in text, "the paper does not say this of repeated data alone"
    assert "4 such settings of cifar-10 and mnist" in text
    assert "**better** +10.0" in rows["`posterior-coverage`"]
    assert exact_copies(Records(())) == ""


@pytest.mark.usefixtures("unrendered")  # the test of the whole page looks at the figures
def test_fresh_data_is_named_from_the_records_and_what_was_not_run_is_left_out(tmp_path):
    levels = dict.fromkeys(LABELS, 0.6)
    more = [
        made
        for data in ("kmnist", "svhn", "cifar-10")
        for made in runs_of(f"{data}-ensemble-10", levels, data=data, seeds=1)
    ]
    records = Records([made for group in study().groups.values() for made in group.everything] + more)
    text = write_page(Archives(records), [], RunTimes({}), FILES, tmp_path).read_text()
    assert "used for none of this (ag-news, cifar-10 and svhn), the means" in text
    assert "paper/configs/coverage`): unbalanced" not in text
    left = "the confirmation of judging, longer curves, further rivals at the middle budget, a long tail, images by a "
    left += "pretrained encoder, the oracle and first batches"
    assert f"Planned, but not run so far, or on too little to show: {left}." in text
    assert "nan" not in text
    assert "complexity.md" not in text


def judged_study():
    """`local-herding` is ahead of all but `uherding`, everywhere by nearly the same."""
    made = []
    for n, data in enumerate(("letter", "splice", "mnist")):
        levels = {"random": 0.5, "local-herding": 0.6 + 0.001 * n, "uherding": 0.6 + 0.04 * (n - 1)}
        levels |= {rival: 0.55 for rival in judging.RIVALS["local-herding"] if rival not in levels}
        made += runs_of(f"judging-{data}-middle", levels, data=data, batch_size=50, seeds=2)
    return Records(made)


def test_a_rule_is_judged_against_each_rival_with_data_sets_as_the_unit():
    records = judged_study()
    curve = judging.against_rivals(records, "local-herding", judging.RIVALS["local-herding"])["curve"]
    better = {rival for rival, answer in curve.items() if answer.verdict == "better"}
    assert better == {*judging.RIVALS["local-herding"]} - {"uherding"}
    assert curve["uherding"].verdict == "inconclusive"
    shares = judging.against_rivals(records, "local-herding", judging.RIVALS["local-herding"])["labels saved, %"]
    assert all(0 < answer.found.mean < 1 for rival, answer in shares.items() if rival != "uherding")
    assert curve["bait"].found.mean == pytest.approx(0.051, abs=0.001)
    text = judging.judging(records)
    assert "Not run so far: the low and high budgets." in text
    assert "cannot be told from `uherding`" in text
    assert "clearly worse than random in no setting" in text
    assert "| method | letter (1) | mnist (1) | splice (1) |" in text
    assert "this is not a test. No rival saved more." in text
    levels = {"random": 0.5, "local-herding": 0.55} | dict.fromkeys(judging.RIVALS["local-herding"], 0.52)
    ahead = runs_of("judging-texture-middle", levels | {"uherding": 0.6, "margin": 0.58}, data="texture.npz")
    text = judging.judging(Records([*ahead, *(run for group in records.groups.values() for run in group.everything)]))
    assert "More labels than `local-herding` were saved by `uherding` on texture; by `margin` on texture." in text
    assert "one seed" not in text
    assert "Mutual herding" not in text  # no run of it
    assert judging.judging(Records(())) == ""


def test_a_rule_is_judged_at_each_budget():
    runs = []
    for n, data in enumerate(("letter", "splice", "mnist", "texture")):
        for budget, level in (("low", 0.7), ("high", 0.45)):  # far ahead of its rivals, then behind them
            levels = dict.fromkeys(("random", *judging.RIVALS["local-herding"]), 0.5 + 0.001 * n)
            levels |= {"local-herding": level}
            runs += runs_of(f"judging-{data}-{budget}", levels, data=data, batch_size=50, seeds=2)
    text = judging.judging(Records(runs))
    lines = text[text.index("minus the rival at each budget") :].splitlines()
    head, row = (next(line for line in lines if line.startswith(start)) for start in ("| rival", "| `bait`"))
    assert head.split(" | ")[1:] == ["labels saved, %: low", "labels saved, %: high", "area: low", "area: high |"]
    low, high, ahead, behind = row.strip("| ").split(" | ")[1:]
    assert low.startswith("**better** +")
    assert high.startswith("**worse** −")
    assert ahead.startswith("**better** +")
    assert behind.startswith("**worse** −")
    assert "At the low budget alone, `local-herding` wins against `uherding`" in text
    assert "At the high budget alone, `local-herding` loses to `uherding`" in text
    assert "The plan asks whether" not in text, "one budget was not run"
    for n, data in enumerate(("letter", "splice", "mnist", "texture")):
        levels = dict.fromkeys(("random", *judging.RIVALS["local-herding"]), 0.5 + 0.001 * n) | {"local-herding": 0.7}
        runs += runs_of(f"judging-{data}-middle", levels, data=data, batch_size=50, seeds=2)
    text = judging.judging(Records(runs))
    assert "That is not shown. Of these 12 comparisons, the mean of `local-herding` is ahead in 8, and beyond" in text
    assert "beyond chance in 8, each tested alone" in text
    same = [replace(run, setting=run.setting._replace(experiment=run.setting.experiment.replace("low", "high")))
            for run in runs if run.setting.experiment.endswith("-low")]  # fmt: skip
    won = [*(run for run in runs if not run.setting.experiment.endswith("-high")), *same]
    assert "This is shown. Of these 12 comparisons" in judging.judging(Records(won))
    alone = [run for run in runs if run.setting.data == "letter" and run.seed == 0]
    assert "**inconclusive** +100.0 [–, –]" in judging.judging(Records(alone))  # one data set gives no interval


def test_data_sets_that_are_much_alike_may_count_as_one():
    levels = {"mnist": 0.58, "optdigits": 0.56, "letter": 0.53, "magic": 0.54}
    runs = []
    for data, level in levels.items():
        runs += runs_of(f"judging-{data}-low", {"random": 0.5, "uherding": 0.52, "mutual-herding": level}, data=data)
    records = Records(runs)
    each = [by_data_set(saved(records, rule)) for rule in ("mutual-herding", "uherding")]
    less = {data: each[0][data] - each[1][data] for data in levels}
    merged = (np.mean([less["mnist"], less["optdigits"]]) + less["letter"] + less["magic"]) / 3
    text = judging.robustness(records, "mutual-herding")
    assert f"count as one, handwritten digits (2), it is {signed(merged)} [" in text
    most = max(less.values(), key=lambda lead: abs(lead - np.mean([*less.values()])))
    rest = (sum(less.values()) - most) / 3
    assert f"which says most ({signed(most)}), it is {signed(rest)} [" in text
    assert "not made monotone before labels are counted, it is +" in text
    assert "handwritten" not in judging.robustness(records.where(lambda s: s.data != "mnist"), "mutual-herding")


@pytest.mark.parametrize(("count", "verdict"), [(4, "inconclusive"), (5, "inconclusive"), (6, "equivalent")])
def test_fewer_data_sets_never_say_more_of_a_small_difference(count, verdict):
    found = over([0.002, 0.003, 0.0025, 0.0028, 0.0022, 0.0024][:count])
    assert found.verdict == "equivalent"
    assert answered({"only": found})["only"].verdict == verdict
    wide = over([0.002, -0.003, 0.0025, -0.0028, 0.0, 0.001][:count])
    assert answered({"only": wide})["only"].verdict == ("equivalent" if count == 6 else "inconclusive")


def test_variants_are_compared_on_the_seeds_that_all_have():
    settings = [s for s in study().groups if s.experiment == "mnist-ensemble-10"]
    base = [run for run in study(seeds=5).groups[settings[0]].everything if run.label in ("random", "bald")]
    variant = [run for run in study(seeds=3).groups[settings[0]].everything if run.label == "bald candidates=10%"]
    ((_, bald, _), (_, tenth, _)) = _above(Records([*base, *variant]), settings, ["bald", "bald candidates=10%"])
    few = Records([*(run for run in base if run.seed < 3), *variant])
    assert ((bald, tenth)) == tuple(row[1] for row in _above(few, settings, ["bald", "bald candidates=10%"]))


def test_a_second_rule_is_judged_on_the_seeds_that_all_have():
    runs = [run for group in judged_study().groups.values() for run in group.everything]
    for data in ("letter", "splice"):
        runs += runs_of(f"judging-{data}-middle", {"mutual-herding": 0.62}, data=data, batch_size=50, seeds=1)
    kept = judging.balanced(Records(runs), "mutual-herding")
    assert kept.data_sets == ["letter", "splice"]
    assert {run.seed for group in kept.groups.values() for run in group.everything} == {0}
    for budget in ("low", "high"):
        labels = dict.fromkeys(("random", "mutual-herding", *judging.RIVALS["mutual-herding"]), 0.6)
        runs += runs_of(f"judging-mnist-{budget}", labels, data="mnist", batch_size=50, seeds=2)
    whole = judging.judging(Records(runs))
    assert "Not run so far" not in whole
    assert whole.count("The plan asks for 3 seeds at least; the others are still to be run.") == 2
    assert "4 settings of 3 data sets (letter, mnist and splice), 1 to 2 seeds per setting" in whole
    runs = [run for run in runs if not run.setting.experiment.endswith(("low", "high"))]
    mutual, local = judging.judging(Records(runs)).split("## Local herding")
    assert "2 settings of 2 data sets (letter and splice), 1 seed per setting" in mutual
    assert "Settings with one seed cannot show that: 2 of 2." in mutual
    assert "3 settings of 3 data sets" in local


def confirmed_study():
    """`mutual-herding` is ahead of all but `bait`, which is ahead of it on tables."""
    made = []
    for n, (data, kind) in enumerate({"ring": "tables", "banana": "tables", "quick-draw": "images"}.items()):
        levels = dict.fromkeys(judging.RIVALS["mutual-herding"], 0.55)
        levels |= {"random": 0.5, "mutual-herding": 0.6 + 0.001 * n, "bait": 0.65 if kind == "tables" else 0.55}
        made += runs_of(f"confirmation-{data}-low", levels, data=f"{data}.npz", seeds=3)
    return Records(made)


def test_the_question_of_judging_is_asked_once_more_alone_and_together():
    judged = Records(
        run
        for data in ("letter", "splice")
        for run in runs_of(
            f"judging-{data}-low",
            dict.fromkeys(judging.RIVALS["mutual-herding"], 0.5) | {"random": 0.5, "mutual-herding": 0.6},
            data=f"{data}.npz",
            seeds=3,
        )
    )
    text = confirmation(confirmed_study(), judged)
    alone, both = text.split("### Judging and confirmation together")
    assert "3 settings of 3 data sets (banana, quick-draw and ring), 3 seeds per setting" in alone
    assert "| method | all (3) | low (3) | images (1) | tables (2) |" in alone
    assert "it cannot be told from `bait`" in alone
    assert "saved by `bait` on banana" in alone
    assert "5 settings of 5 data sets" in both
    found = judging.against_rivals(together(confirmed_study(), judged), "mutual-herding", ["uherding"])["curve"]
    assert found["uherding"].found.mean == pytest.approx((3 * 0.051 + 2 * 0.1) / 5, abs=1e-3)
    assert "### Judging and" not in confirmation(confirmed_study(), Records(()))
    assert confirmation(Records(()), judged) == ""
    few = confirmed_study().where(lambda setting: setting.data != "ring.npz")
    assert confirmation(few, judged) == ""


def test_data_of_the_confirmation_had_no_part_in_anything_before():
    earlier = {data_name(run.setting.data) for path in RECORDS.glob("*.gz") if path.name != "confirmation.csv.gz"
               for run in read_archive(path)}  # fmt: skip
    assert not earlier & CONFIRMATION.keys()
    files = {read_config(path).name for path in (CONFIGS / "confirmation").glob("*.toml")}
    assert files == {f"confirmation-{data}-{budget}" for data in CONFIRMATION for budget in judging.BUDGETS}


def test_the_confirmation_runs_what_judging_runs():
    for budget, path in product(judging.BUDGETS, (CONFIGS / "confirmation").glob("*.toml")):
        if not path.stem.endswith(budget):
            continue
        ours, theirs = (read_config(file).model_dump(exclude={"name", "seeds"})
                        for file in (path, CONFIGS / "judging" / f"letter-{budget}.toml"))  # fmt: skip
        data = ours.pop("data"), theirs.pop("data")
        assert data[0] | {"path": None, "pool": None} == data[1] | {"path": None, "pool": None}
        if data[0]["pool"] < 3000 and budget == "high":  # at most half of the pool
            assert ours["acquisition"].pop("labels") <= data[0]["pool"] / 2 < theirs["acquisition"].pop("labels")
        rules = theirs["acquisition"]["methods"]
        theirs["acquisition"]["methods"] = tuple(rule for rule in rules if rule["label"] not in FURTHER)
        assert ours == theirs


@pytest.mark.slow
def test_the_guide_says_of_judging_what_the_records_say():
    """docs/guide.md and docs/local-herding.md."""
    judged, confirmed = (Records(read_archive(RECORDS / f"{name}.csv.gz")) for name in ("judging", "confirmation"))

    def verdicts(kept, rule, what="labels saved, %"):
        found = judging.against_rivals(kept, rule, judging.RIVALS[rule])[what]
        return {verdict: {r for r, answer in found.items() if answer.verdict == verdict} for verdict in
                ("better", "worse", "equivalent")}  # fmt: skip

    for rule in judging.RIVALS:
        kept = judging.balanced(judged, rule)
        assert all({run.seed for run in group.everything} == {0, 1, 2, 3, 4} for group in kept.groups.values())
        assert verdicts(kept, rule)["better"] == {"uherding", "max-herding", "margin", "posterior-coverage"}
        assert {"local-herding", "margin-herding"} & {*judging.RIVALS[rule]} <= verdicts(kept, rule, "curve")[
            "equivalent"
        ]
    rule = "mutual-herding"
    alone, both = judging.balanced(confirmed, rule), together(confirmed, judged)
    assert [len(part.data_sets) for part in (alone, both)] == [14, 25]
    assert all({run.seed for run in group.everything} == {0, 1, 2} for group in alone.groups.values())
    assert verdicts(alone, rule)["better"] == {"max-herding"}
    four = {"max-herding", "bait", "margin", "posterior-coverage"}
    assert verdicts(both, rule)["better"] == verdicts(both, rule, "curve")["better"] == four
    assert four <= verdicts(both, rule, "end")["better"]
    assert "uherding" in verdicts(both, rule, "curve")["equivalent"]
    assert not any(verdicts(part, rule, what)["worse"] for part in (alone, both) for what in ("curve", "end"))
    assert not versus(both, rule, "random").count("worse")
    for part, share, ahead in ((judging.balanced(judged, rule), 52, 3.7), (alone, 43, 3.6)):
        found = saved_over_data(part, part.labels)
        assert next(iter(found)) == rule
        assert round(100 * found[rule].mean) == share
        assert round(100 * (found[rule].mean - found["uherding"].mean), 1) == ahead
        assert Standing(part, judging.TAU).profiles[0].label == rule
    further = judging.paired(judged, ("random", rule, *judging.RIVALS[rule], *FURTHER))
    answers = judging.against_rivals(further, rule, FURTHER)["labels saved, %"]
    assert {answer.verdict for answer in answers.values()} == {"better"}


@pytest.mark.slow
def test_numbers_written_by_hand_follow_from_the_records():
    """What prompted the confirmation, and where `mutual-herding` did not lead."""
    rule = "mutual-herding"
    judged, confirmed = (Records(read_archive(RECORDS / f"{name}.csv.gz")) for name in ("judging", "confirmation"))
    kept = judging.balanced(judged, rule)
    first = Records(run for group in kept.groups.values() for run in group.everything if run.seed < 3)
    for flat, p_value in ((False, 0.048), (True, 0.064)):
        shares = {label: by_data_set(saved(first, label, flat=flat)) for label in (rule, *judging.RIVALS[rule])}
        found = answered({rival: over([shares[rule][data] - shares[rival][data] for data in shares[rule]])
                          for rival in judging.RIVALS[rule]})["uherding"]  # fmt: skip
        assert round(found.p_value, 3) == p_value
        assert round(100 * found.found.mean, 1) == 3.9
    each = {label: by_data_set(saved(confirmed, label)) for label in (rule, "uherding", "local-herding")}
    shown = {(label, data): round(100 * share) for label, shares in each.items() for data, share in shares.items()}
    assert (shown["uherding", "quick-draw.npz"], shown[rule, "quick-draw.npz"]) == (35, 17)
    assert (shown["local-herding", "amazon-sentiment.npz"], shown[rule, "amazon-sentiment.npz"]) == (28, 6)
    without = {data: each[rule][data] - each["uherding"][data] for data in each[rule] if data != "phoneme.npz"}
    assert abs(np.mean([*without.values()])) < 0.005, "docs/local-herding.md: without phoneme the two save the same"


def tailed_study():
    levels = dict.fromkeys(judging.RIVALS["mutual-herding"], 0.6) | {"random": 0.5, "mutual-herding": 0.62}
    return Records(runs_of("tail-letter", levels, data="letter", batch_size=50, seeds=2))


def encoded_study():
    levels = dict.fromkeys((*judging.RIVALS["mutual-herding"], *FURTHER), 0.6)
    levels |= {"random": 0.5, "mutual-herding": 0.62, "lcmd": 0.64}
    low = {label: level for label, level in levels.items() if label not in FURTHER}
    runs = runs_of("encoder-cifar-10-low", low, data="cifar-10", seeds=2)
    runs += runs_of("encoder-cifar-10-high", low, data="cifar-10", batch_size=100, seeds=2)
    return Records([*runs, *runs_of("encoder-cifar-10-middle", levels, data="cifar-10", batch_size=50, seeds=2)])


def test_further_rivals_are_a_question_of_their_own():
    levels = {"random": 0.5, "mutual-herding": 0.55} | dict.fromkeys(judging.RIVALS["mutual-herding"], 0.53)
    levels |= dict.fromkeys(FURTHER, 0.52) | {"falcun": 0.58}
    runs = []
    for n, data in enumerate(("letter", "splice", "mnist")):
        each = levels | {"lcmd": 0.55 + 0.03 * (n - 1)}
        runs += runs_of(f"judging-{data}-middle", each, data=data, batch_size=50, seeds=2)
    text = further_rivals(Records(runs))
    assert "3 settings of 3 data sets (letter, mnist and splice), 2 seeds per setting" in text
    wins, losses = "`badge`, `typiclust`, `typiclust-then-margin` and `drop-query`", "`falcun`"
    assert f"`mutual-herding` wins against {wins}; it loses to {losses}; it cannot be told from `lcmd`." in text
    planned = judging.judging(Records([run for run in runs if run.label not in FURTHER]))
    assert judging.judging(Records(runs)) == planned  # the plan's own verdicts do not depend on them
    assert further_rivals(Records([run for run in runs if run.setting.data != "mnist"])) == ""


def test_a_long_tail_is_said_by_setting_and_needs_two_seeds():
    text = long_tail(tailed_study())
    assert "of its examples: r = 20 for letter. Test sets" in text
    for name, part in TAILS.items():
        assert read_config(CONFIGS / "tail" / f"{name}.toml").data.imbalance == part
    assert "2 seeds per setting" in text
    assert "| letter: curve | letter: labels saved, % |" in text
    alone = Records([run for group in tailed_study().groups.values() for run in group.everything if not run.seed])
    assert long_tail(alone) == ""


def test_encoded_images_are_said_by_budget_and_further_rivals_where_they_were_run():
    planned, further = pretrained(encoded_study()).split("With the further rivals:")
    assert "*with labels*" in planned
    assert "| low: curve | low: labels saved, % | middle: curve | middle: labels saved, % | high: curve |" in planned
    assert "lcmd" not in planned
    assert "low" not in further
    assert [row.split("`")[1] for row in further.strip().splitlines()[2:4]] == ["lcmd", "mutual-herding"]
    assert pretrained(Records([])) == ""


def long_study(ends=(500, 520, 577, 400)):
    """LBB begins 4 points below random, and rises by 8 more than random does up to 500 labels."""
    made = []
    for data, end in zip(("mnist", "cifar-10", "banking77", "ag-news"), ends, strict=True):
        for label, first, slope in (("random", 0.5, 0.2), ("lbb", 0.46, 0.28), ("bald", 0.4, 0.2)):
            setting = Setting(f"long-{data}-10", data, "deep-ensemble", 10)
            for seed in range(2):
                found = run(setting, label, seed, 0.0, counts=(20, end // 2, end))
                luck = 0.001 * math.sin(seed + len(data))
                rounds = tuple(
                    dataclasses.replace(
                        each, metrics={"accuracy": first + luck * len(label) + slope * (each.labelled - 20) / 480}
                    )
                    for each in found.rounds
                )
                made.append(dataclasses.replace(found, rounds=rounds))
    return Records(made)


def test_longer_curves_are_compared_at_several_numbers_of_labels():
    text = longer_curves(long_study())
    assert "up to 400, 500, 520 and 577 labels, in batches of 10: 4 settings of 4 data sets" in text
    along = text.split("### Along the curve")[1].split("###")[0]
    head, _, *rows = [line for line in along.splitlines() if line.startswith("|")]
    assert head == "| method | 100 labels | 200 labels | 300 labels | 400 labels | 500 labels |"
    cells = {row.split("`")[1]: [cell.split()[1] for cell in row.split(" | ")[1:]] for row in rows}
    expected = [-4 + 8 * (count - 20) / 480 for count in (100, 200, 300, 400, 500)]
    found = [float(cell.replace("−", "-")) for cell in cells["lbb"]]
    assert found == pytest.approx(expected, abs=0.15)
    assert rows[-1].count("**worse**") == 5  # a curve that ends at 400 labels says nothing of 500
    claims = text.split("### The paper's claims on longer curves")[1]
    assert "| LBB beats BALD | all | `lbb − bald` | **holds** +" in claims
    assert "power-lbb" not in claims


def test_one_suspended_process_does_not_decide_a_time():
    setting = Setting("mnist-ensemble-10", "mnist", "deep-ensemble", 10)
    runs = [run(setting, "margin", seed, 0.5, select=300.0 if seed == 4 else 0.1) for seed in range(5)]
    assert Records(runs).seconds(setting, "margin") == pytest.approx(0.1)


def test_methods_without_a_seed_in_common_are_refused_by_name():
    setting = Setting("mnist-ensemble-10", "mnist", "deep-ensemble", 10)
    apart = [run(setting, "random", 0, 0.5), run(setting, "bald", 1, 0.5)]
    with pytest.raises(ParameterError, match=r"mnist-ensemble-10: .* no seed in common"):
        versus(Records(apart), "bald", "random")


def test_settings_without_any_difference_have_no_correlation():
    settings = [Setting(f"{data}-{size}", data, "deep-ensemble", size) for data in "ab" for size in (10, 50)]
    assert math.isnan(icc(dict.fromkeys(settings, 0.0)))


def test_longer_curves_stay_if_one_setting_has_one_more_method():
    runs = [run for group in long_study().groups.values() for run in group.everything]
    more = replace(runs[0], label="falcun", method="falcun")
    assert longer_curves(Records([*runs, more])) == longer_curves(Records(runs))


def test_a_first_batch_that_is_better_on_one_kind_of_data_is_named():
    levels = {"random": 0.5, "k-means": 0.6, "max-herding": 0.5}
    encoded = [made for name in ("r8", "mnist", "20news") for made in runs_of(name, levels, data=name, seeds=5)]
    tables = [made for name in ("splice", "letter") for made in runs_of(name, levels | {"k-means": 0.3}, data=name)]
    said = cold.verdict(Records([*encoded, *tables]))
    assert "On texts and images alone, of those that are, `k-means` has the highest mean" in said
    assert "a learner draws its first batch at random" in said


def test_longer_curves_need_three_data_sets():
    few = long_study().where(lambda setting: setting.data in ("mnist", "cifar-10"))
    assert longer_curves(few) == ""
    assert longer_curves(Records([])) == ""


def test_room_is_measured_against_random_on_the_same_examples():
    judged = Records(runs_of("judging-a-low", {"random": 0.5, "margin": 0.53, "bait": 0.51}, seeds=2))
    oracle = runs_of("judging-a-low", {"random": 0.4, "best of 9 random batches": 0.6}, seeds=2)
    text = room(judged, Records(oracle))
    above = versus(Records(oracle), "best of 9 random batches", "random").over_settings.mean
    assert 0.19 < above < 0.21
    assert f"best of 9 random batches | +{100 * above:.1f} [" in text
    assert "| 2 | `margin` | +" in text
    assert "larger than that of the best method in 2 of 2 rows." in text
    weak = Records(runs_of("judging-a-low", {"random": 0.4, "best of 9 random batches": 0.41}, seeds=2))
    assert "in 0 of 2 rows: these oracles cannot say how much room there is." in room(judged, weak)
    assert room(judged, Records([run for run in oracle if run.label != "random"])) == ""
    assert room(Records(()), Records(oracle)) == ""


def first_study(**levels):
    """First batches of 20, 30 and 40 by three methods: `max-herding` leads everywhere, `coreset` is all over."""
    made = []
    for n, data in enumerate(("letter", "splice", "mnist", "r8")):
        each = {"random": 0.5, "max-herding": 0.6 + 0.002 * n, "k-means": 0.6, "coreset": 0.5 + 0.1 * (-1) ** n}
        made += runs_of(f"cold-start-{data}", each | levels, data=data, seeds=3)
    return Records(made)


def test_the_first_batch_that_the_records_support_is_better_everywhere():
    records = first_study()
    answers = cold.against_random(records)
    assert {label: answer.verdict for label, answer in answers.items()} == {
        "max-herding": "better", "k-means": "better", "coreset": "inconclusive"
    }  # fmt: skip
    each = [np.mean([run.rounds[1].metrics["accuracy"] for run in group.runs["k-means"].values()])
            - np.mean([run.rounds[1].metrics["accuracy"] for run in group.runs["random"].values()])
            for group in records.groups.values()]  # fmt: skip
    assert cold.against_random(records, 30)["k-means"].found.mean == pytest.approx(np.mean(each))
    assert cold.chosen(records) == "max-herding"
    text = cold.cold_start(records)
    assert "better: `k-means` and `max-herding`; inconclusive: `coreset`." in text
    assert "`max-herding` has the highest mean; these runs cannot tell it from `k-means`." in text
    assert "Of the methods that are, `max-herding` has" in text
    assert "Clearly worse on" not in text
    assert "| texts and images (2) | tables (2) | 20 labels |" in text
    assert cold.cold_start(Records(())) == ""


def test_random_stays_where_no_first_batch_is_better():
    worse = first_study(**{"max-herding": 0.4, "k-means": 0.4})
    assert cold.chosen(worse) == "random"
    assert "worse: `k-means` and `max-herding`" in cold.verdict(worse)
    assert "a learner draws its first batch at random" in (said := cold.verdict(worse))
    assert "alone" not in said
    one = runs_of("cold-start-texture", {"random": 0.5, "k-means": 0.6, "max-herding": 0.42, "coreset": 0.5}, data="x")
    mixed = Records([run for group in first_study().groups.values() for run in group.everything] + one)
    assert cold.chosen(mixed) == "k-means"
    losses = cold.first_less(mixed, "max-herding", "random").each.items()
    assert [setting.data for setting, found in losses if found.verdict == "worse"] == ["x"]
    levels = {"random": 0.5, "k-means": 0.6, "max-herding": 0.6, "coreset": 0.5}
    both = [run for name in "abcdefgh" for run in runs_of(f"cold-start-{name}", levels, data=name)]
    both = Records([*both, *runs_of("cold-start-x", levels | {"k-means": 0.48}, data="x")])
    assert "Clearly worse on x, though better over all: `k-means`." in cold.verdict(both)


def test_the_default_first_batch_is_the_one_that_the_records_support():
    records = Records(read_archive(RECORDS / "cold-start.csv.gz"))
    assert records.labels == tuple(sorted(METHODS))
    seeds = {len(group.runs[label]) for group in records.groups.values() for label in METHODS}
    assert len(seeds) == 1
    assert min(seeds) >= 3
    assert inspect.signature(ActiveLearner.__init__).parameters["first"].default == cold.chosen(records)


def test_first_batches_are_selected_by_size_and_trained_on_alone():
    values = {
        "name": "tiny", "data": {"name": "digits", "pool": 200, "test": 200}, "model": {"name": "mlp", "hidden": [16]},
        "posterior": {"members": 2}, "training": {"steps": 30},
        "acquisition": {"methods": ["random"], "first": "random", "batch_size": 10, "labels": 30},
    }  # fmt: skip
    config = Config.model_validate(values)
    found = first_batches(config, "digits", 0, "k-means", (5, 30))
    assert [(entry.labelled, entry.picks, entry.final) for entry in found.rounds] == [(5, 5, False), (30, 30, True)]
    assert found.finished
    assert found.setting.data == "digits"
    small, large = found.rounds
    assert 2 <= small.classes <= 5 < large.classes
    assert large.metrics["accuracy"] > small.metrics["accuracy"]
    again = first_batches(config, "digits", 0, "k-means", (30,))
    assert again.rounds[0].metrics == pytest.approx(large.metrics)


@pytest.mark.thorough
def test_the_page_has_every_part(tmp_path):
    levels = {"random": 0.5, "posterior-coverage": 0.6, "margin": 0.55}
    ablation = [*runs_of("f-samples-20", levels), *runs_of("f-samples-5", levels), *runs_of("f-large-250", levels)]
    room = {"random": 0.5, "best of 20 random batches": 0.65}
    oracle = Records(runs_of("judging-letter-middle", room, data="letter", batch_size=50, seeds=2))
    coverage = Records(runs_of("r8-ensemble-10", levels))
    archives = Archives(
        study(), copies_study(), Records(ablation), coverage, judged_study(), confirmed_study(), long_study(),
        tailed_study(), encoded_study(), oracle, first_study(),
    )  # fmt: skip
    large = runs_of("figure-1c-fmnist-ensemble-10", {"power-bald-5": 0.6, "bald": 0.5}, seeds=3)
    text = write_page(archives, large, TIMES, FILES, tmp_path).read_text()
    assert "40.0 times: batchbald (30,000 configurations; the authors' program draws 100,000) 4.00 s" in text
    assert "1 of 2 files were not run (`svhn-ensemble-10`)." in text
    beginning, first = text.split("## All settings together\n\n")
    assert all(f"[More](#{heading})" in beginning for heading in (
        "local-herding-judged-on-other-data", "all-settings-together", "the-first-batch", "the-papers-claims",
    ))  # fmt: skip
    first = first.split("\n\n")[0]
    assert "Labels saved against random, in percent, mean over the data sets: `posterior-coverage` +" in first
    assert "After correction for all methods, better: `posterior-coverage`" in first
    by_data, by_setting = first.split("If settings are counted, which is weaker evidence, ")
    assert "if data sets are counted, better: `posterior-coverage`" in by_data
    assert "`bald`" in by_setting.split("worse: ")[1].split(";")[0]
    assert "K = 5 | K = 20" in text
    assert "The area is the mean of that share over τ from 1 to" in text
    assert "| `max-herding` | **better** +" in text.split("## The first batch")[1]
    assert "## Local herding, judged on other data" in text
    assert "| LBB beats BALD | all | `lbb − bald` | **holds** +" in text.split("## Longer curves")[1]
    assert "| `mutual-herding` | **better** +" in text.split("## A long tail")[1]
    assert "| `mutual-herding` | **better** +" in text.split("## Images by a pretrained encoder")[1]
    exact = text.split("### On exact copies")[1].split("###")[0]
    assert "| `posterior-coverage` | **better** +" in exact
    assert "LBB beats BALD on repeated data" in exact
    scale = text.split("### At the paper's scale")[1].split("###")[0]
    assert "6 finished runs" in scale
    assert "| PBALD is better than BALD | 3 | +10.0" in scale
    assert "best of 20 random batches | +" in text.split("## How much room is left")[1]
    assert "to show: further rivals at the middle budget." in text
    assert "within noise" not in text
    for name in ("profiles", "differences", "curves", "local-herding", "confirmation"):
        assert (tmp_path / "results" / f"{name}.png").stat().st_size > 10_000
        assert f"results/{name}.png" in text
    assert all(name.split(" (")[0] in text for name in CONDITIONS if name not in ("b = 100", "other data"))


def test_the_page_begins_with_its_answers():
    standing = Standing(study())
    large = runs_of("figure-1c-fmnist-ensemble-10", {"power-bald-5": 0.6, "bald": 0.5}, seeds=3)
    archives = Archives(study(), judging=judged_study(), cold_start=first_study())
    features, predictions, worse, first, paper, small = in_short(standing, archives, large).split("\n")
    rule, records = "local-herding", judging.balanced(judged_study(), "local-herding")
    share = saved_over_data(records, [rule, "posterior-coverage"])
    assert f"`local-herding` saved {signed(share[rule].mean, 0)} [" in features
    assert judging.in_words(records, rule, judging.RIVALS[rule])["labels saved, %"] in features
    assert f"clearly worse than random in none of {len(records.groups)} settings" in features
    assert "`posterior-coverage` saved the most" in predictions
    assert f"it saved {signed(share['posterior-coverage'].mean, 0)} [" in predictions
    assert "`bald`" in worse
    assert "`posterior-coverage`" not in worse
    assert "better: `k-means` and `max-herding`; inconclusive: `coreset`" in first
    assert "of 1 claims, holds: 1." in paper
    by_data, by_setting = small.split("If data sets are counted, ")[1].split(". If settings are counted, ")
    tested = judged_claims(study().where(in_paper))
    for said, unit in ((by_setting, "settings"), (by_data, "data sets")):
        holds = sum(claim.cells["curve", unit].finding == "holds" for claim in tested)
        assert (f"holds: {holds}" in said) == bool(holds)
    released = [claim for claim in tested if claim.claimed.reading == RELEASED]
    assert {claim.claimed.first for claim in released} == {"lbb-released", "power-lbb-released", "power-bald-5"}
    holds = sum(claim.cells["curve", "settings"].finding == "holds" for claim in released)
    assert f"{RELEASED}: holds: {holds}" in by_setting
    assert "fashion-mnist and mnist had a part in making it; on the other 1 it saved" in predictions


def test_runs_that_begin_apart_are_named():
    runs = [run for group in study().groups.values() for run in group.everything]
    apart = [run for run in runs if run.label in ("random", "bald")]
    assert "`bald` (up to" in (text := unlike_starts(Records(apart)))
    assert "`random`" not in text
    assert unlike_starts(Records(run for run in apart if run.label == "random")) == ""


def test_answers_without_records_are_left_out():
    text = in_short(Standing(study()), Archives(study()), [])
    assert "Without fixed features" in text
    assert "judging" not in text
    assert "first batch" not in text
    assert "Figure 1 (c)" not in text


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


def test_the_oracle_takes_the_batch_that_does_best_and_reports_on_other_examples():
    values = {
        "name": "tiny", "data": {"name": "digits", "pool": 200, "test": 200}, "model": {"name": "mlp", "hidden": [16]},
        "posterior": {"members": 2}, "training": {"steps": 15},
        "acquisition": {"methods": ["random"], "initial_per_class": 1, "batch_size": 10, "labels": 30},
    }  # fmt: skip
    config = Config.model_validate(values)
    one, two = (oracle.run_oracle(config, 0, tries) for tries in (1, 2))
    assert [(entry.labelled, entry.picks, entry.final) for entry in two.rounds] == [
        (10, 10, False),
        (20, 10, False),
        (30, 0, True),
    ]
    assert two == dataclasses.replace(oracle.run_oracle(config, 0, 2), rounds=two.rounds)  # the same but for the times
    assert one.rounds[0].metrics == two.rounds[0].metrics
    assert two.label == "best of 2 random batches"


def test_the_oracle_also_judges_what_the_methods_of_an_experiment_select():
    values = {
        "name": "tiny", "data": {"name": "digits", "pool": 200, "test": 200}, "model": {"name": "mlp", "hidden": [16]},
        "posterior": {"members": 2}, "training": {"steps": 15},
        "acquisition": {"methods": ["random", "margin", {"name": "max-herding", "features": "fixed"}],
                        "initial_per_class": 1, "batch_size": 10, "labels": 30},
    }  # fmt: skip
    config = Config.model_validate(values)
    data = split(config.data, 0)
    labelled = start(config, data, 0).labelled
    batches = [*oracle.selected(config, data, labelled, 7, 1)]
    assert [len(batch) for batch in batches] == [7, 7, 7]
    assert len({tuple(sorted(batch)) for batch in batches}) == 3
    assert not any(np.isin(batch, labelled).any() for batch in batches)
    found, drawn = oracle.run_oracle(config, 0, None), oracle.run_oracle(config, 0, 1)
    assert found.label == oracle.METHODS
    assert [(entry.labelled, entry.picks, entry.final) for entry in found.rounds] == [
        (10, 10, False),
        (20, 10, False),
        (30, 0, True),
    ]
    assert found.rounds[0].metrics == drawn.rounds[0].metrics
    assert found == dataclasses.replace(oracle.run_oracle(config, 0, None), rounds=found.rounds)
