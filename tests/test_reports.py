"""Reports: from folders of records to tables, words and one page, checked on runs whose curves are known."""

import builtins
import csv
import json
import math
import re
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits

from poolwise import errors
from poolwise.reports import write_report
from poolwise.reports.comparable import Comparable
from poolwise.reports.figures import MOST_IMAGES, fold, spread, tile
from poolwise.reports.line_styles import RANDOM, choose_looks
from poolwise.reports.numbers import points, seconds
from poolwise.reports.paired import Difference, difference, holm, interval
from poolwise.reports.records import read_runs, read_thumbnails
from poolwise.reports.tables import curves, difference_curves, summaries
from poolwise.reports.verdicts import statements


def write_run(root, label, accuracy, seed=0, *, finished=True, first=20, step=10, torn="", **description):
    """A run folder with one round for each accuracy; other fields of `run.json` can be given."""
    folder = root / f"run-{len(list(root.glob('*')))}"
    folder.mkdir(parents=True)
    content = {
        "experiment": "demo", "data": "digits", "posterior": "deep-ensemble", "method": label.split()[0],
        "label": label, "batch_size": 10, "seed": seed, "parameters": {}, "config": {},
        "versions": {"poolwise": "0.1.0"},
    } | description  # fmt: skip
    (folder / "run.json").write_text(json.dumps(content))
    lines = []
    for number, value in enumerate(accuracy):
        last = finished and number == len(accuracy) - 1
        picks = [] if last else list(range(10 * number, 10 * number + 10))
        record = {
            "round": number, "labelled": first + step * number,
            "metrics": {"accuracy": value, "nll": 2 - value},
            "seconds": {"train": 1.0, "predict": 0.1, "select": 0.0 if last else 0.02},
            "indices": picks, "scores": [0.5] * len(picks), "labels": [0] * len(picks),
            "classes": 7 if picks else 0, "distinct": 9 if picks else 0,
            "diagnostics": {"ceiling": 1.6, "information": None, "saturated_at": 4 + number if number % 2 else None},
            "final": last,
        }  # fmt: skip
        lines.append(json.dumps(record) + "\n")
    (folder / "rounds.jsonl").write_text("".join(lines) + torn)
    return folder


def write_experiment(root, gains, seeds=3, rounds=4, noise=0.01, **description):
    """Runs that rise from 50 %; each method is `gain` above, with noise of the seed (shared) and of its own."""
    for position, (label, gain) in enumerate(gains.items()):
        for seed in range(seeds):
            shared = 0.05 * np.random.default_rng(seed).normal(size=rounds)
            own = noise * np.random.default_rng([seed, position]).normal(size=rounds)
            write_run(root, label, (0.5 + 0.1 * np.arange(rounds) + gain + shared + own).tolist(), seed, **description)


def group_of(root):
    (runs,) = read_runs(root).values()
    return Comparable(tuple(runs))


def said(root):
    group = group_of(root)
    rows = summaries(group) if group.labelled else []
    return {statement.lead: statement.text for statement in statements(group, rows)}


def table(folder, name):
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Page(HTMLParser):
    """What a page refers to, its tags and its text."""

    def __init__(self, path):
        super().__init__()
        self.references, self.tags, self.text = [], [], ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.references += [value for name, value in attributes if name in ("src", "href", "srcset", "action", "data")]

    def handle_data(self, data):
        self.text += data


# Records


def test_runs_are_found_at_any_depth_and_grouped(tmp_path):
    write_run(tmp_path / "a" / "b", "random", [0.5])
    write_run(tmp_path / "c", "random", [0.5], batch_size=20)
    write_run(tmp_path, "random", [0.5], seed=1)
    groups = read_runs(tmp_path)
    assert [(setting.batch_size, [run.seed for run in runs]) for setting, runs in groups.items()] == [
        (10, [0, 1]),
        (20, [0]),
    ]


def test_a_torn_last_line_is_ignored(tmp_path):
    write_run(tmp_path, "random", [0.5, 0.6], finished=False, torn='{"round": 2, "labelled": 4')
    (run,) = group_of(tmp_path).everything
    assert [round.labelled for round in run.rounds] == [20, 30]
    assert not run.finished


def test_a_last_line_without_its_newline_counts_if_it_is_whole(tmp_path):
    path = write_run(tmp_path, "random", [0.5, 0.6]) / "rounds.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    assert group_of(tmp_path).everything[0].finished


@pytest.mark.parametrize(
    "bad", ['{"round": 1, "la', "[]", "", '{"round": 1}', '{"round": 1, "labelled": 15, "metrics": {}}', "\xff"]
)
def test_any_other_bad_line_is_named(tmp_path, bad):
    path = write_run(tmp_path, "random", [0.5, 0.6, 0.7]) / "rounds.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], bad, lines[2], ""]), encoding="latin-1")
    with pytest.raises(errors.FileError, match=r"rounds\.jsonl, line 2: not the record of a round"):
        read_runs(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"experiment": "demo"}', '{"experiment": 3}'])
def test_a_bad_description_is_named(tmp_path, content):
    (write_run(tmp_path, "random", [0.5]) / "run.json").write_text(content)
    with pytest.raises(errors.FileError, match=r"run\.json: not the description of a run"):
        read_runs(tmp_path)


def test_a_run_that_is_there_twice_is_refused(tmp_path):
    write_run(tmp_path, "random", [0.5])
    write_run(tmp_path, "random", [0.6])
    with pytest.raises(errors.FileError, match="count twice"):
        read_runs(tmp_path)


def test_folders_without_runs_are_refused(tmp_path):
    with pytest.raises(errors.FileError, match=r"no runs here.*run\.json"):
        write_report(tmp_path, tmp_path / "report")
    with pytest.raises(errors.FileError, match="no such folder"):
        write_report(tmp_path / "nowhere", tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_damaged_thumbnails_are_refused(tmp_path):
    folder = write_run(tmp_path, "random", [0.5])
    (run,) = group_of(tmp_path).everything
    (folder / "thumbnails.npz").write_bytes(b"not an archive")
    with pytest.raises(errors.FileError, match="cannot be read"):
        read_thumbnails(run)
    np.savez(folder / "thumbnails.npz", **{"round-0": np.zeros((3, 8, 8))})
    with pytest.raises(errors.FileError, match="must hold bytes"):
        read_thumbnails(run)


# Tables


def test_curves_have_mean_and_deviation_over_seeds(tmp_path):
    write_run(tmp_path, "margin", [0.5, 0.7], seed=0)
    write_run(tmp_path, "margin", [0.6, 0.9], seed=1)
    (curve,) = curves(group_of(tmp_path), "accuracy")
    assert curve.seeds == 2
    np.testing.assert_array_equal(curve.labelled_L, [20, 30])
    np.testing.assert_allclose(curve.mean_L, [0.55, 0.8])
    np.testing.assert_allclose(curve.sd_L, [0.1 / math.sqrt(2), 0.2 / math.sqrt(2)])


def test_summary_of_a_known_run(tmp_path):
    for seed, top in enumerate([0.9, 0.8]):
        write_run(tmp_path, "lbb", [0.5, 0.6, top], seed)
    (row,) = summaries(group_of(tmp_path))
    assert row.final.mean == pytest.approx(0.85)
    assert row.area.mean == pytest.approx(((0.5 + 0.6) / 2 + (0.6 + 0.85) / 2) / 2)
    assert row.seconds == pytest.approx(
        {"train": 1.0, "predict": 0.1, "select": 0.02}
    )  # the last round selects nothing
    assert (row.batches, row.saturated, row.saturated_at) == (4, 2, 5)
    assert (row.classes, row.distinct) == pytest.approx((7, 0.9))
    assert row.area_difference is None


def test_p_value_is_that_of_the_paired_t_test():
    first, second = np.random.default_rng(0).normal(size=(2, 7))
    found = difference(dict(enumerate(first)), dict(enumerate(second)))
    assert found.p_value == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert difference({0: 1.0, 1: 2.0}, {0: 0.0, 1: 1.0}).p_value == 0
    assert difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}).p_value == 1
    assert math.isnan(difference({0: 1.0}, {0: 0.5}).p_value)


def test_p_values_of_several_tests_are_adjusted_by_the_method_of_holm():
    adjusted = holm([0.01, 0.04, 0.03, math.nan, 0.005, 0.7])
    np.testing.assert_allclose(adjusted, [0.04, 0.09, 0.09, math.nan, 0.025, 0.7])
    assert holm([]) == []


def test_paired_interval_is_that_of_the_t_test(tmp_path):
    write_experiment(tmp_path, {"random": 0.0, "margin": 0.02}, seeds=5, rounds=3)
    group = group_of(tmp_path)
    margin, random = (np.stack(list(group.values(label, "accuracy").values())) for label in ("margin", "random"))
    expected = stats.ttest_rel(margin, random).confidence_interval(0.95)
    (curve,) = difference_curves(group)
    np.testing.assert_allclose([curve.low_L, curve.high_L], [expected.low, expected.high])

    differences = (margin - random) @ [0.25, 0.5, 0.25]  # the mean of a curve of three equally spaced points
    half = 2.7764451052 * differences.std(ddof=1) / math.sqrt(5)  # Student's t with 4 degrees of freedom
    row = next(row for row in summaries(group) if row.label == "margin")
    whole = row.area_difference
    assert (whole.mean, whole.low, whole.high, whole.seeds) == pytest.approx(
        (differences.mean(), differences.mean() - half, differences.mean() + half, 5)
    )
    assert row.final_difference.mean == pytest.approx((margin - random)[:, -1].mean())


def test_pairing_uses_the_seeds_in_common_and_needs_two(tmp_path):
    for seed, value in enumerate([0.5, 0.6, 0.7]):
        write_run(tmp_path, "random", [value], seed)
    write_run(tmp_path, "margin", [0.8], seed=2)
    write_run(tmp_path, "margin", [0.1], seed=7)
    write_run(tmp_path, "bald", [0.1], seed=8)
    rows = {row.label: row.area_difference for row in summaries(group_of(tmp_path))}
    assert (rows["margin"].mean, rows["margin"].seeds) == (pytest.approx(0.1), 1)
    assert math.isnan(rows["margin"].low)
    assert rows["margin"].verdict == "no verdict"
    assert (rows["bald"].seeds, rows["bald"].verdict) == (0, "no verdict")
    assert "bald (no seed in common with random)" in said(tmp_path)["No verdict:"]


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.01, 0.02, "better"),
        (-0.02, -0.01, "worse"),
        (-0.01, 0.02, "within noise"),
        (1e-17, 1e-17, "within noise"),
        (math.nan, math.nan, "no verdict"),
    ],
)
def test_verdicts(low, high, verdict):
    assert Difference((low + high) / 2, low, high, 3).verdict == verdict


def test_no_interval_without_two_seeds():
    assert np.isnan(interval(np.zeros((0, 2)))[0]).all()
    mean, low, high = interval(np.ones((1, 2)))
    np.testing.assert_array_equal(mean, 1)
    assert np.isnan([low, high]).all()


def test_unfinished_runs_are_left_out_once_one_has_finished(tmp_path):
    write_experiment(tmp_path, {"random": 0.0, "margin": 0.1}, seeds=2, rounds=4)
    write_run(tmp_path, "margin", [0.5, 0.6], seed=2, finished=False)
    write_run(tmp_path, "bald", [], seed=0)
    group = group_of(tmp_path)
    assert {label: list(seeds) for label, seeds in group.runs.items()} == {"margin": [0, 1], "random": [0, 1]}
    assert group.labelled == [20, 30, 40, 50]
    text = said(tmp_path)["Unfinished:"]
    assert "margin seed 2 (stopped at 30 of 50 labels, 2 of 4 rounds missing)" in text
    assert "bald seed 0 (stopped before its first record; 0 of 50 labels, 4 of 4 rounds missing)" in text


def test_while_none_has_finished_all_are_compared_as_far_as_they_go(tmp_path):
    write_run(tmp_path, "random", [0.5, 0.6, 0.7], finished=False)
    write_run(tmp_path, "margin", [0.5, 0.6], finished=False)
    assert group_of(tmp_path).labelled == [20, 30]
    assert "compared as far as all have come" in said(tmp_path)["Unfinished:"]


def test_only_common_numbers_of_labels_are_compared(tmp_path):
    write_run(tmp_path, "random", [0.5, 0.6, 0.7, 0.8, 0.9])
    write_run(tmp_path, "margin", [0.5, 0.7, 0.9], step=20)
    assert group_of(tmp_path).labelled == [20, 40, 60]
    assert "only 3 of them are common" in said(tmp_path)["Different numbers of labels:"]


# Words


def test_what_is_worse_is_said_first(tmp_path):
    write_experiment(tmp_path, {"random": 0.0, "margin": 0.1, "bald": -0.1, "lbb": 0.0}, seeds=4, noise=0.005)
    leads = list(said(tmp_path))
    assert leads[:3] == ["Worse than random:", "Better than random:", "Within noise of random:"]
    texts = said(tmp_path)
    assert texts["Worse than random:"].startswith("bald −")
    assert texts["Better than random:"].startswith("margin +")
    assert texts["Within noise of random:"].startswith("lbb ")
    assert "from 20 to 50 labels (4 measurements), 4 seeds" in texts["What was measured:"]
    assert "With 4 seeds" in texts["What does not follow:"]


def test_nothing_better_is_said_too(tmp_path):
    write_experiment(tmp_path, {"random": 0.0, "bald": -0.1}, seeds=3)
    assert said(tmp_path)["Better than random:"] == "none beyond noise."


def test_without_random_the_page_says_how_to_add_it(tmp_path):
    write_experiment(tmp_path / "runs", {"margin": 0.1, "bald": 0.0})
    text = said(tmp_path / "runs")["No comparison with random is possible:"]
    assert "Run 'random' in the same experiment with the same seeds" in text
    assert "margin" in text
    page = write_report(tmp_path / "runs", tmp_path / "report")
    assert "verdict" not in Page(page).text
    assert not (tmp_path / "report" / "1-difference.png").exists()


def test_random_that_has_not_finished_is_not_missing(tmp_path):
    write_run(tmp_path, "random", [0.5], finished=False)
    write_run(tmp_path, "margin", [0.5, 0.6])
    assert "its runs have not finished" in said(tmp_path)["No comparison with random is possible:"]


def test_many_comparisons_are_warned_of(tmp_path):
    write_experiment(tmp_path, {"random": 0.0} | {f"lbb alpha={i}": 0.0 for i in range(10)}, seeds=2, rounds=1)
    assert "Of 10 such intervals about 0.5 would miss zero" in said(tmp_path)["What does not follow:"]


def test_numbers_have_sensible_digits():
    wide, narrow = Difference(0.0, -0.01, 0.01, 3), Difference(0.0, -0.0001, 0.0001, 3)
    assert [points(x, wide) for x in (0.0234, -0.0234, -0.0001, math.nan)] == ["+2.3", "−2.3", "0.0", "–"]
    assert points(0.00234, narrow) == "+0.23"
    times = (0, 3e-6, 0.0123, 1.25, 75, 600, 10_000, math.nan)
    assert [seconds(x) for x in times] == ["0 s", "3.0 µs", "12 ms", "1.2 s", "75 s", "10 min", "2.8 h", "–"]


# Figures


def test_names_are_moved_as_little_as_needed():
    np.testing.assert_allclose(spread(np.array([0.1, 0.5, 0.9]), 0.1), [0.1, 0.5, 0.9])
    np.testing.assert_allclose(spread(np.array([0.5, 0.5, 0.5]), 0.1), [0.4, 0.5, 0.6])
    np.testing.assert_allclose(spread(np.array([0.98, 0.99, 1.0]), 0.1), [0.8, 0.9, 1.0])


def test_long_names_fold_to_two_lines():
    assert fold("power-lbb alpha=5") == "power-lbb alpha=5"
    assert fold("power-lbb alpha=5 redundancy=max") == "power-lbb alpha=5\nredundancy=max"
    lines = fold("power-lbb " + 20 * "very " + "long seed=3").split("\n")
    assert len(lines) == 2
    assert max(map(len, lines)) <= 22
    assert lines[1].endswith("seed=3")


def test_looks_are_all_different_and_random_is_dashed_grey():
    chosen = choose_looks({"random": "random"} | {f"m{i}": "lbb" for i in range(40)})
    assert chosen["random"] == RANDOM
    assert RANDOM.dashes == "--"
    assert len(set(chosen.values())) == 41


def test_images_are_tiled_in_picking_order():
    images = np.arange(12, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 1), np.uint8)
    sheet = tile(images)
    assert sheet.shape == (2 * 9 + 1, 10 * 9 - 1, 3)
    assert sheet[5, 9 * 3 + 4].tolist() == [3, 3, 3]
    assert sheet[14, 9 + 4].tolist() == [11, 11, 11]


# The page


def test_the_page_is_complete_and_needs_nothing_else(tmp_path):
    write_experiment(tmp_path / "runs", {"random": 0.0, "margin": 0.05, "lbb": 0.0})
    write_experiment(tmp_path / "runs", {"random": 0.0, "bald": -0.05}, experiment="other")
    images = (load_digits().images[..., None] * 15).astype(np.uint8)
    for folder in (tmp_path / "runs").iterdir():
        np.savez(folder / "thumbnails.npz", **{"round-0": images[:30], "round-2": images[30:35], "round-3": images[:0]})
    before = dict(matplotlib.rcParams)
    page = write_report(tmp_path / "runs", tmp_path / "new" / "report")
    assert dict(matplotlib.rcParams) == before
    assert page == tmp_path / "new" / "report" / "index.html"
    read = Page(page)
    assert read.references
    assert all(reference.startswith(("#section-", "data:image/png;base64,")) for reference in read.references)
    assert not {"script", "link", "iframe", "object"} & set(read.tags)
    assert not re.search(r"url\(|@import|https?:", page.read_text(encoding="utf-8").replace("base64,", ""))
    assert f"the first {MOST_IMAGES} of 30 picks" in read.text
    names = ("accuracy", "difference", "nll", "times", "first-batches", "last-batches")
    expected = {f"{number}-{name}.png" for number in (1, 2) for name in names}
    expected |= {"index.html", "summary.csv", "curves.csv", "differences.csv"}
    assert {path.name for path in page.parent.iterdir()} == expected
    assert read.tags.count("img") == 12
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in page.parent.glob("*.png"))


def test_tables_come_back_from_csv(tmp_path):
    label = 'lbb, "quoted"\nname'
    write_experiment(tmp_path / "runs", {"random": 0.0, label: 0.05})
    out = write_report(tmp_path / "runs", tmp_path / "report").parent
    group = group_of(tmp_path / "runs")
    rows = {row["label"]: row for row in table(out, "summary")}
    for summary in summaries(group):
        row = rows[summary.label]
        assert float(row["mean_accuracy"]) == summary.area.mean
        assert int(row["seeds"]) == 3
        assert (row["experiment"], row["batch_size"]) == ("demo", "10")
    whole = next(row for row in summaries(group) if row.label == label).area_difference
    assert [float(rows[label][f"mean_difference_{part}"]) for part in ("mean", "low", "high")] == [
        whole.mean,
        whole.low,
        whole.high,
    ]
    assert rows[label]["mean_difference_verdict"] == whole.verdict
    assert rows["random"]["mean_difference_mean"] == ""
    found = [float(row["mean"]) for row in table(out, "curves") if (row["label"], row["metric"]) == (label, "nll")]
    assert found == next(curve for curve in curves(group, "nll") if curve.label == label).mean_L.tolist()
    assert len(table(out, "differences")) == 4


def test_names_are_escaped(tmp_path):
    nasty = "lbb <script>alert('x')</script> $x_{ & 名"
    for label in ("random", nasty):
        write_run(tmp_path / "runs", label, [0.5, 0.6], experiment=nasty, data=nasty, versions={nasty: nasty})
    page = write_report(tmp_path / "runs", tmp_path / "report")
    assert "<script" not in page.read_text(encoding="utf-8")
    assert nasty in Page(page).text


@pytest.mark.parametrize(
    ("methods", "seeds", "rounds"), [(["random"], 1, 1), (["margin"], 1, 2), (["random", "margin"], 1, 3)]
)
def test_small_experiments(tmp_path, methods, seeds, rounds):
    write_experiment(tmp_path / "runs", dict.fromkeys(methods, 0.0), seeds, rounds)
    text = Page(write_report(tmp_path / "runs", tmp_path / "report")).text
    assert "One seed shows what happened once" in text
    assert "confidence" not in said(tmp_path / "runs")["What was measured:"]


def test_twenty_methods(tmp_path):
    gains = {"random": 0.0} | {f"power-lbb alpha={i} redundancy=normalised": 0.01 * i for i in range(19)}
    write_experiment(tmp_path / "runs", gains, seeds=2, rounds=2)
    assert write_report(tmp_path / "runs", tmp_path / "report").is_file()


def test_metrics_that_are_no_numbers_leave_blanks(tmp_path):
    for seed in range(2):
        write_run(tmp_path / "runs", "random", [0.5, 0.6], seed)
        write_run(tmp_path / "runs", "margin", [0.5, math.nan], seed)
        write_run(tmp_path / "runs", "bald", [math.nan, math.inf], seed)
    path = write_run(tmp_path / "runs", "lbb", [0.5, 0.6]) / "rounds.jsonl"
    path.write_text(path.read_text().replace('"accuracy": 0.6', '"accuracy": null'))
    page = write_report(tmp_path / "runs", tmp_path / "report")
    texts = said(tmp_path / "runs")
    assert "accuracy of margin seed 1" in texts["Not a finite number:"]
    assert "margin (an accuracy is not a number)" in texts["No verdict:"]
    assert "nan" not in Page(page).text.lower().split()


def test_runs_with_nothing_in_common_are_told_so(tmp_path):
    write_run(tmp_path / "runs", "random", [0.5, 0.6])
    write_run(tmp_path / "runs", "margin", [0.5, 0.6], first=25)
    text = Page(write_report(tmp_path / "runs", tmp_path / "report")).text
    assert "share no number of labels" in text


def test_a_run_without_rounds_is_told_so(tmp_path):
    write_run(tmp_path / "runs", "random", [])
    assert "No run has recorded a round yet" in Page(write_report(tmp_path / "runs", tmp_path / "report")).text


def test_an_older_report_is_replaced_and_other_files_stay(tmp_path):
    out = tmp_path / "report"
    out.mkdir()
    for name in ("index.html", "7-accuracy.png", "mine.png", "notes.txt"):
        (out / name).write_text("old")
    write_run(tmp_path / "runs", "random", [0.5])
    write_report(tmp_path / "runs", out)
    assert (out / "index.html").read_text() != "old"
    assert not (out / "7-accuracy.png").exists()
    assert (out / "mine.png").read_text() == (out / "notes.txt").read_text() == "old"
    assert not list(out.glob(".*"))


def test_a_failure_leaves_the_older_report(tmp_path):
    runs, out = tmp_path / "runs", tmp_path / "report"
    folder = write_run(runs, "random", [0.5])
    before = write_report(runs, out).read_bytes()
    (folder / "thumbnails.npz").write_bytes(b"damaged")
    with pytest.raises(errors.FileError):
        write_report(runs, out)
    assert (out / "index.html").read_bytes() == before


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    write_run(tmp_path / "runs", "random", [0.5])
    (tmp_path / "report").write_text("precious")
    with pytest.raises(errors.FileError, match="is a file"):
        write_report(tmp_path / "runs", tmp_path / "report")
    with pytest.raises(errors.FileError, match="cannot write the report"):
        write_report(tmp_path / "runs", tmp_path / "report" / "below")
    assert (tmp_path / "report").read_text() == "precious"


def test_a_missing_matplotlib_is_named(tmp_path, monkeypatch):
    load = builtins.__import__

    def without(name, *rest):
        if name.startswith(("matplotlib", "poolwise.reports.pictures")):
            raise ImportError(f"No module named {name!r}")
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(errors.MissingInputError, match=r"pip install 'poolwise\[plot\]'"):
        write_report(tmp_path, tmp_path / "report")
