"""Reports: from folders of records to tables, words and one page, checked on runs whose curves are known."""

import csv
import json
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits

from poolwise import errors
from poolwise.experiments.records import RoundRecord, RunRecord, Setting
from poolwise.experiments.samples import read_texts, read_thumbnails
from poolwise.experiments.search import read_runs
from poolwise.reports import make_report, write_report
from poolwise.reports.archive import write_archive
from poolwise.reports.comparable import Comparable
from poolwise.reports.figures import fold, spread
from poolwise.reports.labels import first_reach, labels_needed, labels_saved, round_accuracies
from poolwise.reports.line_styles import RANDOM, choose_line_styles
from poolwise.reports.numbers import points, seconds
from poolwise.reports.paired import Difference, difference, holm, interval
from poolwise.reports.picks import tile
from poolwise.reports.svg import THEME
from poolwise.reports.tables import curves, difference_curves, summaries
from poolwise.reports.verdicts import headline, statements


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
    for number, value in enumerate(accuracy):  # None: nothing was measured
        last = finished and number == len(accuracy) - 1
        picks = [] if last else list(range(10 * number, 10 * number + 10))
        record = {
            "round": number, "labelled": first + step * number,
            "metrics": {} if value is None else {"accuracy": value, "nll": 2 - value},
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
    saved = labels_saved(group) if rows else []
    return {statement.lead: statement.text for statement in statements(group, rows, saved)}


def table(folder, name):
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def no_pictures(monkeypatch):
    """For tests of words, tables and files: drawing is most of what a report costs."""
    monkeypatch.setattr("poolwise.reports.pictures.pictures", lambda group, rows, section: [])


class Page(HTMLParser):
    """What a page refers to, its tags and its text."""

    def __init__(self, path):
        super().__init__()
        self.references, self.tags, self.ids, self.text = [], [], [], ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        refer = ("src", "href", "xlink:href", "srcset", "action", "data")
        self.references += [value for name, value in attributes if name in refer]
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_data(self, data):
        self.text += data


# Records


def test_runs_that_begin_without_labels_are_compared_from_the_first_measurement_on(tmp_path):
    for label, gain in (("random", 0.0), ("margin", 0.1)):
        for seed in range(3):
            own = {"first": "random"} if label == "random" else {}
            config = {"acquisition": {"first": "k-means", "methods": [own]}}
            values = [None, 0.5 + gain + seed / 1000, 0.6 + gain + seed / 500]
            write_run(tmp_path / "runs", label, values, seed, first=0, config=config)
    (group,) = read_runs(tmp_path / "runs").values()
    assert Comparable(tuple(group)).labelled == [10, 20]
    page = Page(write_report(tmp_path / "runs", tmp_path / "report")).text
    assert "not a number" not in page
    assert "Better than random: margin" in page
    assert "random chooses the first batch" in page
    assert "all methods begin with the same labels" not in page


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
    with pytest.raises(errors.FileError, match=r"rounds\.jsonl is damaged: line 2 is not the record of a round"):
        read_runs(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"experiment": "demo"}', '{"experiment": 3}'])
def test_a_bad_description_is_named(tmp_path, content):
    (write_run(tmp_path, "random", [0.5]) / "run.json").write_text(content)
    with pytest.raises(errors.FileError, match=r"run\.json is damaged: not the description of a run"):
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
    (folder / "thumbnails.npz").write_bytes(b"not an archive")
    with pytest.raises(errors.FileError, match=r"thumbnails\.npz is damaged.*Remove the file"):
        read_thumbnails(folder)
    np.savez(folder / "thumbnails.npz", **{"round-0": np.zeros((3, 8, 8))})
    with pytest.raises(errors.FileError, match="expected bytes"):
        read_thumbnails(folder)


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
        (-0.01, 0.02, "inconclusive"),
        (-0.005, 0.0051, "inconclusive"),
        (-0.005, 0.005, "equivalent"),
        (0.001, 0.004, "equivalent"),
        (1e-17, 1e-17, "equivalent"),
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


def test_what_is_equivalent_is_not_inconclusive(tmp_path):
    write_experiment(tmp_path, {"random": 0.0, "margin": 0.0}, seeds=4, noise=0.0)
    assert said(tmp_path)["As good as random, within half a point:"].startswith("margin ")


def test_what_is_worse_is_said_first(tmp_path):
    write_experiment(tmp_path, {"random": 0.0, "margin": 0.1, "bald": -0.1, "lbb": 0.0}, seeds=4, noise=0.02)
    leads = list(said(tmp_path))
    assert leads[:3] == ["Worse than random:", "Better than random:", "Inconclusive:"]
    texts = said(tmp_path)
    assert texts["Worse than random:"].startswith("bald −")
    assert texts["Better than random:"].startswith("margin +")
    assert texts["Inconclusive:"].startswith("lbb ")
    assert "from 20 to 50 labels (4 measurements), 4 seeds" in texts["What was measured:"]
    assert "With 4 seeds" in texts["What does not follow:"]


def test_nothing_better_is_said_too(tmp_path):
    write_experiment(tmp_path, {"random": 0.0, "bald": -0.1}, seeds=3)
    assert said(tmp_path)["Better than random:"] == "none that these runs can show."


def test_without_random_the_page_says_how_to_add_it(tmp_path, unrendered):
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


def test_line_styles_are_all_different_and_random_is_dashed():
    chosen = choose_line_styles({"random": "random"} | {f"m{i:03}": "lbb" for i in range(200)})
    assert chosen["random"] == RANDOM
    assert RANDOM.dashes == "--"
    assert len(set(chosen.values())) == 201
    first = [chosen[f"m{i:03}"] for i in range(20)]
    assert len({style.colour for style in first[:10]}) == 10
    assert len({(style.colour, style.dashes) for style in first}) == 20


# How full colour blindness changes linear RGB (Machado, Oliveira and Fernandes 2009).
COLOUR_BLIND = {
    "normal": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def linear(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    xyz = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    share = (xyz @ rgb) / np.sum(xyz, 1)
    root = np.where(share > (6 / 29) ** 3, np.cbrt(share), share / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


@pytest.mark.parametrize(("theme", "paper"), [(0, "#ffffff"), (1, "#15181c")])
def test_ten_colours_and_random_stay_apart_for_every_eye_and_stand_out_from_the_page(theme, paper):
    colours = [THEME[name][theme] for name in ["random", *(f"line-{i}" for i in range(10))]]
    for matrix in COLOUR_BLIND.values():
        seen = [lab(np.clip(np.array(matrix) @ linear(colour), 0, 1)) for colour in colours]
        nearest = min(np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i])
        assert nearest > 12  # ten times what is just noticeable side by side
    light = [linear(colour) @ [0.2126, 0.7152, 0.0722] + 0.05 for colour in [paper, *colours]]
    assert all(max(light[0], one) / min(light[0], one) > 2.8 for one in light[1:])


def test_images_are_tiled_in_picking_order():
    images = np.arange(12, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 1), np.uint8)
    sheet = tile(images)
    assert sheet.shape == (2 * 9 - 1, 10 * 9 - 1, 4)
    assert sheet[4, 9 * 3 + 4].tolist() == [3, 3, 3, 255]
    assert sheet[13, 9 + 4].tolist() == [11, 11, 11, 255]
    assert sheet[8, 0].tolist() == sheet[13, 9 * 3].tolist() == [0, 0, 0, 0]


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
    assert all(reference.startswith(("#", "data:image/png;base64,")) for reference in read.references)
    assert not {"script", "link", "iframe", "object"} & set(read.tags)
    assert not re.search(r"url\((?!#)|@import|https?:", page.read_text(encoding="utf-8"))
    names = ("accuracy", "difference", "nll", "times")
    expected = {f"{number}-{name}.png" for number in (1, 2) for name in names} | {"index.html"}
    expected |= {f"{name}.csv" for name in ("summary", "curves", "differences", "labels-saved", "labels-needed")}
    assert {path.name for path in page.parent.iterdir()} == expected
    assert read.tags.count("img") == 2 * (3 + 2)  # a first and a last batch of each method
    assert len(set(read.ids)) == len(read.ids)
    assert {reference[1:] for reference in read.references if reference.startswith("#")} <= set(read.ids)
    assert read.tags.count("svg") == 2 * 2 * len(names)  # each for screens and for telephones
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in page.parent.glob("*.png"))


def test_tables_come_back_from_csv(tmp_path, unrendered):
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
    ("methods", "seeds", "rounds"),
    [
        (["random"], 1, 1),
        (["random", "margin"], 1, 3),
        pytest.param(["margin"], 1, 2, marks=pytest.mark.thorough),
    ],
)
def test_small_experiments(tmp_path, methods, seeds, rounds):
    write_experiment(tmp_path / "runs", dict.fromkeys(methods, 0.0), seeds, rounds)
    text = Page(write_report(tmp_path / "runs", tmp_path / "report")).text
    assert "One seed shows what happened once" in text
    assert "confidence" not in said(tmp_path / "runs")["What was measured:"]


def test_more_methods_than_colours(tmp_path, unrendered):
    gains = {"random": 0.0} | {f"power-lbb alpha={i} redundancy=normalised": 0.01 * i for i in range(12)}
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


def test_an_older_report_is_replaced_and_other_files_stay(tmp_path, no_pictures):
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


def test_a_failure_leaves_the_older_report(tmp_path, no_pictures):
    runs, out = tmp_path / "runs", tmp_path / "report"
    folder = write_run(runs, "random", [0.5])
    before = write_report(runs, out).read_bytes()
    (folder / "run.json").write_bytes(b"damaged")
    with pytest.raises(errors.FileError, match=r"run\.json is damaged"):
        write_report(runs, out)
    assert (out / "index.html").read_bytes() == before


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path, no_pictures):
    write_run(tmp_path / "runs", "random", [0.5])
    (tmp_path / "report").write_text("precious")
    with pytest.raises(errors.FileError, match="is a file"):
        write_report(tmp_path / "runs", tmp_path / "report")
    with pytest.raises(errors.FileError, match="cannot write the report"):
        write_report(tmp_path / "runs", tmp_path / "report" / "below")
    assert (tmp_path / "report").read_text() == "precious"


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(errors.MissingInputError, match=rf"{missing}.*pip install 'poolwise\[plot\]'"):
        write_report(tmp_path, tmp_path / "report")


# Labels needed and saved


def test_the_first_point_that_reaches_a_target_is_found_by_straight_lines():
    x = np.array([10.0, 20, 30, 40])
    curves = np.array([[0.5, 0.6, 0.8, 0.9], [0.5, 0.7, 0.6, 0.8], [0.7, 0.7, 0.7, 0.7], [0.1, 0.2, 0.3, 0.4]])
    found = first_reach(curves, x, np.full(4, 0.7))
    np.testing.assert_allclose(found, [25, 20, 10, np.inf])
    assert np.isnan(first_reach(np.array([[0.5, np.nan, 0.9, 0.9]]), x, np.array([0.6]))).all()
    # By brute force, on a fine grid.
    generator = np.random.default_rng(0)
    for curve in generator.random((50, 4)):
        fine = np.linspace(10, 40, 30_001)
        reached = np.flatnonzero(np.interp(fine, x, curve) >= 0.7)
        expected = fine[reached[0]] if len(reached) else np.inf
        np.testing.assert_allclose(first_reach(curve[None], x, np.array([0.7])), [expected], atol=2e-3)


def test_labels_saved_against_random_of_known_curves(tmp_path):
    for seed in range(4):
        write_run(tmp_path, "random", [0.5, 0.6, 0.7, 0.8], seed)  # 20 to 50 labels
        write_run(tmp_path, "margin", [0.5, 0.8, 0.9, 0.9], seed)
        write_run(tmp_path, "lbb", [0.5, 0.5, 0.5, 0.5], seed)
        write_run(tmp_path, "bald", [0.5, 0.6, 0.7, 0.8], seed)
    found = {saved.label: saved for saved in labels_saved(group_of(tmp_path))}
    assert list(found) == ["margin", "bald", "lbb"]
    margin = found["margin"]
    assert (margin.accuracy, margin.labels, margin.random_labels) == pytest.approx((0.8, 30, 50))
    assert (margin.share, margin.low, margin.high) == pytest.approx((0.4, 0.4, 0.4))
    assert found["bald"].share == pytest.approx(0)
    assert not found["lbb"].reached
    assert found["lbb"].share == found["lbb"].low == -math.inf
    text = said(tmp_path)["Labels saved against random:"]
    assert text.startswith("margin 40\N{NO-BREAK SPACE}% (40 to 40\N{NO-BREAK SPACE}%) and bald none")
    assert text.endswith("lbb never reached it.")
    needed = {(n.label, n.accuracy): n.labels for n in labels_needed(group_of(tmp_path), [0.65, 0.95])}
    assert needed["margin", 0.65] == pytest.approx(25)
    assert needed["random", 0.65] == pytest.approx(35)
    assert needed["margin", 0.95] == math.inf


def test_a_plateau_of_random_saves_nothing(tmp_path):
    for seed in range(3):
        write_run(tmp_path, "random", [0.5, 0.9, 0.9, 0.9], seed)
        write_run(tmp_path, "margin", [0.5, 0.9, 0.9, 0.9], seed)
    (saved,) = labels_saved(group_of(tmp_path))
    assert (saved.random_labels, saved.share) == pytest.approx((30, 0))


def test_the_interval_of_labels_saved_covers_what_it_should(tmp_path):
    """Curves whose true saving is known: the method is random, ahead by 10 labels of 50 at the end."""
    x = np.array([20.0, 30, 40, 50, 60])
    covered = 0
    for trial in range(60):
        generator = np.random.default_rng(trial)
        runs = []
        for label, ahead in (("random", 0), ("margin", 10)):
            for seed in range(8):
                noise = 0.02 * generator.normal(size=5)
                values = (0.3 + 0.01 * (x + ahead) + noise).tolist()
                runs.append((label, values, seed))
        group = Comparable(tuple(record(*run) for run in runs))
        (saved,) = labels_saved(group)
        covered += saved.low <= 10 / 60 <= saved.high
    assert covered >= 48  # 57 of 60 would be 95 %


def record(label, accuracy, seed):
    rounds = [
        RoundRecord(n, 20 + 10 * n, {"accuracy": value}, {}, 0, 0, 0, None, n == len(accuracy) - 1)
        for n, value in enumerate(accuracy)
    ]
    return RunRecord(Path("none"), Setting("e", "d", "p", 10), label, label, seed, {}, tuple(rounds))


def test_too_few_seeds_give_no_interval_of_labels(tmp_path):
    write_experiment(tmp_path, {"random": 0.0, "margin": 0.1}, seeds=2)
    (saved,) = labels_saved(group_of(tmp_path))
    assert math.isfinite(saved.share)
    assert math.isnan(saved.low)
    assert "(" not in said(tmp_path)["Labels saved against random:"]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0.74, 0.96, [0.8, 0.85, 0.9, 0.95]),
        (0.5, 0.52, [0.505, 0.51, 0.515, 0.52]),
        (0.9, 0.9, []),
        (0.1, 0.9, [0.6, 0.7, 0.8, 0.9]),
    ],
)
def test_round_accuracies(tmp_path, start, end, expected):
    write_run(tmp_path, "random", [start, end])
    assert round_accuracies(group_of(tmp_path)) == pytest.approx(expected)


def test_the_headline_says_the_most_important(tmp_path):
    write_experiment(tmp_path / "a", {"random": 0.0, "margin": 0.1, "bald": -0.1}, seeds=5, noise=0.005)
    write_experiment(tmp_path / "b", {"random": 0.0, "bald": -0.1}, seeds=5, noise=0.005)
    write_experiment(tmp_path / "c", {"random": 0.0, "margin": 0.1}, seeds=1)
    for seed, late in enumerate([0.0, 0.0, -0.03, 0.06]):  # better on the way, and then random catches up
        write_run(tmp_path / "d", "random", [0.5, 0.6, 0.7], seed)
        write_run(tmp_path / "d", "margin", [0.5, 0.68, 0.695 + late], seed)
    lines = []
    for name in "abcd":
        group = group_of(tmp_path / name)
        lines.append(headline(summaries(group), labels_saved(group)))
    assert re.match(r"margin reached random’s final accuracy, .* with \d\d labels instead of 50: \d+.% fewer", lines[0])
    assert lines[1] == "These runs do not show that any method is better than random."
    assert lines[2] == ""
    assert "do not show that it saved labels" in lines[3]


def test_labels_saved_and_needed_as_tables(tmp_path, no_pictures):
    write_experiment(tmp_path / "runs", {"random": 0.0, "margin": 0.1, "bald": -0.3})
    page = write_report(tmp_path / "runs", tmp_path / "report", [0.7, 0.99])
    saved = {row["label"]: row for row in table(page.parent, "labels-saved")}
    assert saved["margin"]["reached"] == "True"
    assert 0 < float(saved["margin"]["share"]) < 1
    assert (saved["bald"]["reached"], saved["bald"]["labels"], saved["bald"]["share"]) == ("False", "", "")
    needed = {(row["label"], row["accuracy"]): row for row in table(page.parent, "labels-needed")}
    assert len(needed) == 6
    assert needed["margin", "0.99"]["labels"] == ""
    text = Page(page).text
    assert "labels for 70" in text
    assert "not reached" in text
    assert "> 50" in text


# Picked texts


def test_picked_texts_are_shown_and_escaped(tmp_path, no_pictures):
    folder = write_run(tmp_path / "runs", "random", [0.5, 0.6])
    nasty = "<script>alert('x')</script> & so on"
    (folder / "texts.json").write_text(json.dumps({"round-0": [nasty, "plain"], "round-1": ["last " * 200]}))
    page = write_report(tmp_path / "runs", tmp_path / "report")
    assert "<script" not in page.read_text(encoding="utf-8")
    assert nasty in Page(page).text
    assert "The first batches: texts" in Page(page).text
    assert len(read_texts(folder)[1][1][0]) <= 200


@pytest.mark.parametrize(
    "content", ["[]", '{"round-0": 3}', '{"round-0": [3]}', '{"x": ["a"]}', "{", '{"round-0": ["\\ud800"]}']
)
def test_damaged_texts_are_left_out_with_a_note(tmp_path, content, no_pictures):
    folder = write_run(tmp_path / "runs", "random", [0.5, 0.6])
    (folder / "texts.json").write_text(content)
    made = make_report(tmp_path / "runs")
    assert "texts.json is damaged" in made.damaged[0]
    assert "Left out: 1 damaged file" in Page(made.write(tmp_path / "report")).text


def test_a_batch_drawn_at_random_is_said(tmp_path, no_pictures):
    folder = write_run(tmp_path / "runs", "margin", [0.5, 0.6])
    path = folder / "rounds.jsonl"
    first, second = path.read_text().splitlines()
    content = json.loads(first)
    path.write_text(json.dumps({**content, "metrics": None, "diagnostics": None}) + "\n" + second + "\n")
    (folder / "texts.json").write_text(json.dumps({"round-0": ["a"]}))
    described = json.loads((folder / "run.json").read_text())
    described["config"] = {"acquisition": {"initial": 20}}
    (folder / "run.json").write_text(json.dumps(described))
    text = Page(write_report(tmp_path / "runs", tmp_path / "report")).text
    assert "drawn at random: there was no model yet" in text
    assert "20 labels, drawn at random" in text


# Damage


def test_a_damaged_run_is_left_out_with_a_note(tmp_path, no_pictures):
    write_experiment(tmp_path / "runs", {"random": 0.0, "margin": 0.1}, seeds=3)
    damaged = write_run(tmp_path / "runs", "lbb", [0.5, 0.6, 0.7, 0.8])
    (damaged / "rounds.jsonl").write_text('{"round": 0}\n')
    lost = write_run(tmp_path / "runs", "bald", [0.5, 0.6, 0.7, 0.8])
    (lost / "run.json").unlink()
    made = make_report(tmp_path / "runs")
    assert len(made.damaged) == 2
    text = Page(made.write(tmp_path / "report")).text
    assert "Left out: 2 damaged files." in text
    assert str(damaged / "rounds.jsonl") in text
    assert str(lost / "run.json") in text
    assert "Better than random: margin" in " ".join(text.split())
    assert "lbb" not in {run.label for run in made.runs}


def test_a_newer_format_is_refused_with_what_to_do(tmp_path):
    folder = write_run(tmp_path, "random", [0.5], format=2)
    with pytest.raises(errors.FileError, match=r"newer Poolwise.*pip install -U"):
        read_runs(tmp_path)
    described = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**described, "format": 1}))
    assert read_runs(tmp_path)


def damage(content, generator):
    """One of the ways in which a file gets damaged."""
    kind = generator.integers(9)
    if kind == 0:
        return b""
    if kind == 1:
        return content[: generator.integers(len(content) + 1)]
    if kind == 2:
        return generator.bytes(int(generator.integers(200)))
    if kind == 3:
        return [b"{}", b"[]", b"null", b"3", b'"x"', b"[" * 100_000, b"{}\n{}\n", b"\xff\xfe", b"NaN"][
            generator.integers(9)
        ]
    if kind == 4:  # a number becomes absurd
        places = [m.span() for m in re.finditer(rb"(?<=[ :\[])\d+(?=[,}\]\n])", content)]
        if places:
            low, high = places[generator.integers(len(places))]
            absurd = [b"9" * 5000, b"-1", b"1e999", b"null", b'"many"', b"[]", b"{}", b"true", b"1" + b"0" * 400]
            return content[:low] + absurd[generator.integers(len(absurd))] + content[high:]
    if kind == 5:  # a name is lost
        names = re.findall(rb'"[a-z_]+":', content)
        if names:
            return content.replace(names[generator.integers(len(names))], b'"other":')
    if kind == 6:  # lines in another order
        lines = content.split(b"\n")
        generator.shuffle(lines)
        return b"\n".join(lines)
    changed = bytearray(content)
    for _ in range(int(generator.integers(1, 6))):
        if changed:
            changed[generator.integers(len(changed))] = generator.integers(256)
    return bytes(changed)


def test_whatever_is_damaged_the_report_is_right_or_says_so(tmp_path, monkeypatch, no_pictures):
    """Reading only: figures are drawn in the other tests."""
    monkeypatch.setattr("poolwise.reports.labels._DRAWS", 20)  # intervals are not what is tested
    runs = tmp_path / "runs"
    write_experiment(runs, {"random": 0.0, "margin": 0.05}, seeds=2)
    first = next(iter(sorted(runs.iterdir())))
    images = (load_digits().images[:5, ..., None] * 15).astype(np.uint8)
    np.savez_compressed(first / "thumbnails.npz", **{"round-0": images, "round-2": images})
    (first / "texts.json").write_text(json.dumps({"round-0": ["a b", "c"], "round-2": ["d"]}))
    archive = tmp_path / "runs.csv.gz"
    write_archive([run for group in read_runs(runs).values() for run in group], archive)
    generator = np.random.default_rng(0)
    refused = 0
    for path in [*(first / name for name in ("run.json", "rounds.jsonl", "thumbnails.npz", "texts.json")), archive]:
        whole = path.read_bytes()
        source = archive if path == archive else runs
        for _ in range(120):
            path.write_bytes(damage(whole, generator))
            try:
                made = make_report(source)
                assert made.runs
                assert all(path.name in note for note in made.damaged)
            except errors.FileError as error:
                assert path.name in str(error)  # noqa: PT017
                refused += 1
        path.unlink()
        path.mkdir()
        try:
            assert make_report(source).damaged
        except errors.FileError as error:
            assert path.name in str(error)  # noqa: PT017
        path.rmdir()
        path.write_bytes(whole)
    assert refused > 50  # the archive, as a whole
    assert not make_report(runs).damaged
