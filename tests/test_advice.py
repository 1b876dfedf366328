"""Advice from what the study measured: which method, what else, and what limits it."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from test_study import run as recorded
from test_study import runs_of

import poolwise as pw
from paper.study.compare import Records
from paper.study.evidence import advice_section, write_evidence
from poolwise import errors
from poolwise.experiments.records import Setting
from poolwise.reports import evidence as reading
from poolwise.reports.advice import VERY_LARGE, First, Row, Scope, advise, evidence, first_batches
from poolwise.reports.numbers import signed

DATA = ("a", "b", "c", "d", "e", "f", "g", "h")
NETWORK = Scope(
    "All", dict.fromkeys(DATA, "images"), {**dict.fromkeys(DATA, 10), "h": 30}, [10], [20, 150], [5000], [5]
)
RUNS = {"low": (10, 20, 120), "middle": (50, 20, 520), "high": (100, 500, 1500)}


def row(method, saved=0.1, features="network", condition="all", low=-0.1, high=0.3, verdict="inconclusive", worse=0,
        wobble=0.0, **given):  # fmt: skip
    """A row; the data sets differ by a pattern that all methods share, and each method by `wobble` around that."""
    shares = {data: saved + 0.05 * math.sin(n) + wobble * (-1) ** n for n, data in enumerate(DATA)}
    return Row(features, condition, method, saved, low, high, verdict, 8, 8, worse, 0.1, each=shares, **given)


def at_budgets(method, low, middle, high, wobble=0.0, **given):
    """A method on fixed features, at each budget and over all."""
    saved = {"low": low, "middle": middle, "high": high, "all": (low + middle + high) / 3}
    return [
        row(method, saved[name], "fixed", name, wobble=wobble, scope=budget(name), **given) for name in saved
    ]  # fmt: skip


def budget(name):
    size, start, end = RUNS.get(name, (10, 20, 1500))
    return Scope("Judged", dict.fromkeys(DATA, "tables"), dict.fromkeys(DATA, 10), [size], [start, end], [3000], [5])


def lines(*args, **given):
    """The advice by the word that each line begins with."""
    said = advise(*args, **given).lines()
    return {line.split(":")[0].split()[0]: line for line in said}


# The choice


def test_the_method_that_saved_most_is_advised_if_its_inputs_are_there():
    known = [row("margin", 0.1), row("uherding", 0.4), row("posterior-coverage", 0.2), row("bald", -0.2)]
    assert advise(1000, 5, 10, 5, known=known).method == "posterior-coverage"
    assert advise(1000, 5, 10, 5, features=True, known=known).method == "uherding"
    assert advise(1000, 5, 10, 1, known=known).method == "margin"
    assert advise(1000, 5, 10, 5, known=[row("bald", -0.2)]).method == "random"
    assert advise(1000, 5, 10, 5, known=[]).method == "random"


def test_advice_is_from_conditions_like_these():
    known = [
        row("margin", 0.1), row("badge", 0.2, condition="large batches"),
        row("entropy", 0.3, condition="small batches"),
        row("margin", 0.5, condition="many classes"), row("typiclust", 0.6, "fixed"),
    ]  # fmt: skip
    assert advise(1000, 5, 50, 5, known=known).method == "badge"
    assert advise(1000, 5, 10, 5, known=known).method == "entropy"
    assert advise(1000, 50, 10, 5, known=known).method == "margin"
    assert advise(1000, 5, 10, 5, features=True, known=known).method == "typiclust"
    alone = row("bald", 0.9, condition="many classes")._replace(data_sets=2)  # hardly evidence
    assert advise(1000, 50, 10, 5, known=[row("margin", 0.1), alone]).method == "margin"


@pytest.mark.parametrize(
    ("batch_size", "labels", "wanted"),
    [
        (10, 0, "low"), (10, 60, "low"), (10, 200, "middle"), (50, 0, "middle"), (100, 50, "middle"),
        (10, 500, "high"), (10, 1000, "high"), (100, 900, "high"), (10, 5000, "high"),
    ],
)  # fmt: skip
def test_with_fixed_features_labels_and_batch_choose_the_budget(batch_size, labels, wanted):
    known = at_budgets("margin", 0.1, 0.2, 0.3)
    made = advise(20_000, 5, batch_size, 5, features=True, labels=labels, known=known)
    assert made.evidence.condition == wanted
    beyond = "5,000 are beyond that" in " ".join(made.notes)
    assert beyond == (labels == 5000)


def test_a_lead_at_one_budget_that_may_be_chance_does_not_change_the_method():
    known = [*at_budgets("mutual-herding", 0.5, 0.5, 0.5), *at_budgets("local-herding", 0.4, 0.51, 0.4, wobble=0.1)]
    said = lines(20_000, 5, 50, 5, features=True, labels=100, known=known)
    assert said["Use"].startswith("Use mutual-herding")
    assert "it saved the most labels if all budgets are averaged. At this one it saved 50 %" in said["Why"]
    surely = [*at_budgets("mutual-herding", 0.5, 0.5, 0.5), *at_budgets("local-herding", 0.3, 0.6, 0.3, wobble=0.001)]
    assert advise(20_000, 5, 50, 5, features=True, labels=100, known=surely).method == "local-herding"


def test_a_method_that_is_clearly_ahead_over_all_budgets_is_not_called_behind():
    known = [*at_budgets("mutual-herding", 0.6, 0.6, 0.5), *at_budgets("local-herding", 0.3, 0.3, 0.51, wobble=0.05)]
    said = lines(20_000, 5, 100, 5, features=True, labels=1000, known=known)
    assert said["Use"].startswith("Use mutual-herding")
    assert "local-herding" in said["Why"].split("clearly more than")[1]


def test_labels_and_a_batch_must_fit_in_the_pool():
    with pytest.raises(errors.ParameterError, match="at most the number of points, 20"):
        advise(20, 2, 30, 5)
    with pytest.raises(errors.ParameterError, match="labels must be at most the number of points, 20, not 30"):
        advise(20, 2, 5, 5, labels=30)
    with pytest.raises(errors.ParameterError, match="without a label, 4, not 5"):
        advise(20, 2, 5, 5, labels=16)
    assert advise(20, 2, 5, 5, labels=15)


# What else


def test_alternatives_are_what_a_paired_test_cannot_tell_from_it():
    known = [
        row("margin", 0.3, low=0.0, high=0.6), row("badge", 0.28, low=0.0, high=0.6, wobble=0.2),
        row("entropy", 0.2, low=0.0, high=0.6, wobble=0.001),
    ]  # fmt: skip
    made = advise(1000, 5, 10, 5, known=known)
    assert [other.method for other in made.rivals] == ["badge"]  # the intervals of all three overlap
    said = lines(1000, 5, 10, 5, known=known)
    assert "cannot tell it from badge (+28 %, difference −2 [" in said["Alternatives"]
    assert "It saved clearly more than entropy" in said["Why"]


def test_no_alternative_is_below_random_and_none_is_left_out():
    names = ("badge", "bald", "power-bald", "lbb", "power-lbb", "entropy", "batchbald")
    known = [
        row("margin", 0.3),
        *(row(name, 0.2, wobble=0.4) for name in names),
        row("least-confidence", -0.01, wobble=2),
    ]
    made = advise(1000, 5, 10, 5, known=known)
    assert {other.method for other in made.rivals} == set(names)
    said = lines(1000, 5, 10, 5, known=known)["Alternatives"]
    assert all(name in said for name in names)
    assert "least-confidence" not in said


def test_a_rule_by_its_parameters_is_an_alternative_with_these():
    own = {"calibrate": False, "bandwidth": 1.0}
    known = [
        *at_budgets("mutual-herding", 0.5, 0.5, 0.5), *at_budgets("uherding", 0.4, 0.4, 0.4, wobble=0.001),
        *at_budgets("uherding", 0.49, 0.49, 0.49, wobble=0.1, label="margin-herding", parameters=own),
    ]  # fmt: skip
    said = lines(5000, 5, 10, 5, features=True, labels=50, known=known)
    assert "uherding with calibrate=False, bandwidth=1.0, called margin-herding (+49 %" in said["Alternatives"]
    assert "It saved clearly more than uherding (" in said["Why"]
    first = advise(5000, 5, 10, 5, features=True, labels=50, known=known[4:])
    assert first.call.endswith("calibrate=False, bandwidth=1.0)")
    assert "held_out" not in first.call


def test_what_is_told_apart_over_all_budgets_may_be_as_good_at_one():
    known = [*at_budgets("mutual-herding", 0.5, 0.5, 0.5), *at_budgets("margin", 0.2, 0.3, 0.49, wobble=0.03)]
    high = lines(5000, 5, 10, 5, features=True, labels=1000, known=known)
    assert "At this budget alone, about as many labels were saved by margin (+49 %" in high["Why"]
    assert "clearly more than margin" in high["Why"]
    assert "Alternatives" not in high
    assert "about as many" not in lines(5000, 5, 10, 5, features=True, labels=50, known=known)["Why"]


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("better", "was better than random's."),
        ("worse", "was worse than random's."),
        ("equivalent", "was equivalent to random's."),
        ("inconclusive", "cannot be told from random's."),
    ],
)
def test_advice_says_what_was_saved_and_whether_accuracies_agree(verdict, said):
    known = [row("margin", 0.25, low=-0.1, high=0.4, verdict=verdict, worse=2)]
    why = lines(1000, 5, 10, 5, known=known)["Why"]
    assert "it saved the most labels, 25 % [−10, 40] of those that random needs, over 8 data sets" in why
    assert f"Its accuracy over the learning curve {said}" in why
    assert "worse than random in 2 of 8 settings" in why


# Where it is outside of what was measured


def test_the_number_of_classes_is_named_where_it_had_no_part():
    known = [row("margin", 0.2, scope=NETWORK)]
    assert "number of classes had no part" in lines(1000, 10, 10, 5, known=known)["Limits"]
    many = lines(1000, 77, 10, 5, known=known)["Limits"]
    assert "Few data sets have more than 20 classes (1 of 8), so this rests on those with fewer" in many
    assert "None has 77 classes or more" in many
    used = [*known, row("badge", 0.3, condition="many classes", scope=NETWORK)]
    assert "had no part" not in lines(1000, 25, 10, 5, known=used)["Limits"]


def test_labels_are_named_where_they_had_no_part():
    known = [row("margin", 0.2, scope=NETWORK)]
    assert (
        "from 20 to 150 labels, and how many you have had no part"
        in lines(1000, 9, 9, 5, labels=99, known=known)["Limits"]
    )
    assert "; 400 are beyond that" in lines(1000, 9, 9, 5, labels=400, known=known)["Limits"]


def test_fewer_samples_than_were_measured_are_named():
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5)
    alone = lines(5000, 5, 10, 1, features=True, known=known)["Limits"]
    assert "The evidence is from K = 5 posterior samples, not 1." in alone
    assert "K = 5" not in lines(5000, 5, 10, 5, features=True, known=known)["Limits"]


def very_large(better=0):
    scope = Scope("Large", {"a": "images"}, {"a": 10}, [250, 500], [20, 1020], [20_000], [5])
    return [
        row("badge", 0.3, condition=VERY_LARGE, low=None, high=None, better=better, scope=scope)._replace(data_sets=1)
    ]


def test_very_large_batches_are_random_where_nothing_was_shown():
    known = [row("margin", 0.3, low=0.2, high=0.4, condition="large batches", scope=NETWORK), *very_large()]
    said = lines(10_000, 5, 500, 5, known=known)
    assert said["Use"] == 'Use random: pw.select(predictions, 500, "random")'
    assert "with batches of 250 and 500, no method was clearly better than random" in said["Why"]
    assert "with at most 100 labels per round, margin saved 30 % [20, 40]" in said["Why"]
    assert "figures for 5,000 are not known" in lines(10_000, 5, 5000, 5, known=known)["Limits"]
    assert advise(10_000, 5, 100, 5, known=known).method == "margin"
    shown = lines(10_000, 5, 500, 5, known=very_large(better=1))
    assert shown["Use"].startswith("Use badge")
    assert "So few data sets are hardly evidence." in shown["Limits"]


def test_batches_beyond_those_on_fixed_features_are_named():
    known = [*at_budgets("mutual-herding", 0.5, 0.5, 0.5), *very_large()]
    said = lines(10_000, 5, 500, 5, features=True, labels=1000, known=known)
    assert "batches of at most 100" in said["Why"]
    assert "No batch was larger than 100 there" in said["Limits"]
    assert "Without fixed features, batches of 250 and 500 were tried on 1 data set" in said["Limits"]
    assert '"Large"' in said["Evidence"]


def test_many_points_are_covered_by_a_sample():
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5)
    few, many = (lines(points, 5, 10, 5, features=True, known=known) for points in (10_000, 10_001))
    assert "sample=" not in few["Use"]
    assert "A selection took 100 ms, from pools of 3,000." in few["Why"]
    assert many["Use"].endswith(", sample=5_000)")
    assert "A selection took" not in many["Why"]
    assert "figures are of selection without it" in many["Limits"]
    far = lines(1_000_000, 5, 10, 5, known=[row("margin", 0.2, scope=NETWORK)])
    assert "much smaller than 1,000,000" in far["Limits"]
    assert "A selection took" not in far["Why"]


# Nothing labelled


def firsts(of_tables="inconclusive", worse=None):
    return [
        First("texts and images", "k-means", 0.1, 0.08, 0.12, "better", 7),
        First("texts and images", "typiclust", 0.09, 0.05, 0.13, "better", 7),
        First("texts and images", "coreset", 0.2, -0.3, 0.5, "inconclusive", 7),
        First("tables", "k-means", 0.04, -0.05, 0.13, of_tables, 8, worse or {}),
        First("tables", "coreset", -0.1, -0.2, 0.0, "worse", 8, {"letter": -0.3}),
    ]


def test_the_first_batch_depends_on_whether_features_are_of_an_encoder_or_a_table():
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5)
    given = {"features": True, "known": known}
    bad = lines(5000, 5, 10, 5, known_first=firsts(worse={"splice": -0.17}), **given)["First"]
    assert 'with features of an encoder, first="k-means": +10 points of accuracy [+8, +12]' in bad
    assert "Also typiclust (+9)." in bad
    assert bad.endswith('With a table, draw it at random (first="random"): on splice these were 17 points worse.')
    good = lines(5000, 5, 10, 5, known_first=firsts("better"), **given)["First"]
    assert 'With a table, first="k-means" was better too (+4' in good
    none = lines(5000, 5, 10, 5, known_first=firsts(), **given)["First"]
    assert "none was shown to be better" in none
    assert lines(5000, 5, 10, 5, known_first=firsts()[2:], **given)["First"].endswith('random (first="random").')
    assert "First" not in lines(5000, 5, 10, 5, labels=20, known_first=firsts(), **given)
    assert "k-means" not in lines(5000, 5, 10, 5, known_first=firsts(), known=[row("margin")])["First"]


# The call, the file and the command


@pytest.mark.parametrize("method", ["margin", "posterior-coverage", "badge", "mutual-herding", "uherding", "bait"])
def test_the_call_can_be_made(method):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40, 5, 3))
    predictions = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    names = {
        "pw": pw, "predictions": predictions, "embeddings": rng.normal(size=(40, 4)),
        "labelled_embeddings": rng.normal(size=(6, 4)), "labelled_predictions": predictions[:6],
        "held_out_predictions": predictions[:6], "held_out_labels": np.arange(6) % 3,
    }  # fmt: skip
    made = advise(20_000, 3, 7, 5, features=True, known=[row(method, 0.2)])
    assert ("sample=5_000" in made.call) == ("herding" in method)
    assert len(eval(made.call, names).indices) == 7


def test_the_evidence_has_what_each_data_set_says(tmp_path):
    levels = {"random": 0.6, "margin": 0.65, "margin-herding": 0.66, "mutual-herding": 0.66}
    fixed = [
        run
        for data in ("letter", "magic", "splice")
        for name, (size, _, _) in RUNS.items()
        for run in _named(runs_of(f"judging-{data}-{name}", levels, data=f"{data}.npz", batch_size=size))
    ]
    large = runs_of("fashion-mnist-large-500", {"random": 0.6, "margin": 0.6}, data="fashion-mnist", batch_size=500)
    small = runs_of("fashion-mnist-samples-5", {"random": 0.6, "margin": 0.6}, data="fashion-mnist", batch_size=50)
    first = [
        recorded(Setting(f"cold-start-{data}", data, "deep-ensemble", 100), label, seed, 0.6 + gain)
        for data in ("mnist", "r8", "splice", "magic")
        for label, gain in (("random", 0), ("k-means", (-0.1 if data == "splice" else 0.1) + 1e-4 * data.count("m")))
        for seed in range(3)
    ]
    network = runs_of("mnist-ensemble-10", {"random": 0.6, "margin": 0.65})
    written = write_evidence(
        Records(network), Records(fixed), tmp_path / "e.json", ablation=Records(large + small), first=Records(first)
    )
    section = advice_section(written)
    assert section.startswith("## What advise reads\n")
    shown = section.split("### Fixed features: low")[1].split("###")[0]
    assert "3 data sets, batches of 10, 20 to 40 labels." in shown
    [margin] = [entry for group in written if group["condition"] == "low" for entry in group["rows"]
                if entry["label"] == "margin"]  # fmt: skip
    assert f"| `margin` | {signed(margin['saved'], 0)} [{signed(margin['low'], 0)}, " in shown
    content = json.loads((tmp_path / "e.json").read_text())
    groups = {(group["features"], group["condition"]): group for group in content["groups"]}
    assert {("fixed", name) for name in ("all", *RUNS)} == {key for key in groups if key[0] == "fixed"}
    low = groups["fixed", "low"]
    assert low["scope"]["batches"] == [10]
    assert low["scope"]["samples"] == [5]
    assert low["scope"]["classes"] == {"letter": 26, "magic": 2, "splice": 3}
    assert set(low["scope"]["kinds"].values()) == {"tables"}
    rows = {entry["label"]: entry for entry in low["rows"]}
    assert rows["margin-herding"]["method"] == "uherding"
    assert rows["margin-herding"]["parameters"] == {"calibrate": False, "bandwidth": 1.0}
    assert rows["margin"]["parameters"] == {}
    assert set(rows["margin"]["each"]) == {"letter", "magic", "splice"}
    assert np.mean([*rows["margin"]["each"].values()]) == pytest.approx(rows["margin"]["saved"], abs=1e-3)
    assert groups["network", VERY_LARGE]["scope"]["batches"] == [500]  # that of 50 is not there
    assert groups["network", "all"]["scope"]["kinds"] == {"mnist": "images"}
    found = {(entry["kind"], entry["method"]): entry for entry in content["first batches"]}
    assert set(found["tables", "k-means"]["worse"]) == {"splice"}
    assert found["texts and images", "k-means"]["data_sets"] == 2


def _named(runs):
    """Margin herding is uherding with parameters."""
    for run in runs:
        object.__setattr__(run, "method", "uherding" if run.label == "margin-herding" else run.method)
    return runs


def test_the_evidence_of_the_package_can_be_read_and_is_finite():
    rows = evidence()
    assert {"all", "small batches", "large batches", VERY_LARGE, *RUNS} <= {found.condition for found in rows}
    assert all(math.isfinite(found.saved) and -1 < found.saved < 1 for found in rows)
    assert {"network", "fixed"} == {found.features for found in rows}
    assert all(len(found.each) == found.data_sets == len(found.scope.kinds) for found in rows)
    assert {"texts and images", "tables"} == {found.kind for found in first_batches()}


def test_every_part_that_is_named_is_a_heading_of_the_results():
    page = (Path(__file__).parent.parent / "docs" / "results.md").read_text()
    headings = {line.lstrip("# ") for line in page.splitlines() if line.startswith("#")}
    assert {found.scope.section for found in reading.evidence()} | {"The first batch"} <= headings


def test_the_advice_fits_the_terminal(run, monkeypatch):
    whole = run("advise", "-n", "50000", "-c", "10").out.splitlines()
    monkeypatch.setattr("poolwise.cli.columns._width", lambda: 60)
    lines = run("advise", "-n", "50000", "-c", "10").out.splitlines()
    assert max(map(len, lines)) <= 60
    assert [line for line in lines if not line.startswith("  ")] != whole
    assert " ".join("\n".join(lines).split()) == " ".join("\n".join(whole).split())


@pytest.mark.parametrize("features", [(), ("--features",)])
def test_the_command_advises(run, features):
    said = run("advise", "-n", "50000", "-c", "10", "-b", "50", *features).out.splitlines()
    order = ("Use ", "First batch: ", "Why: ", "Alternatives: ", "Limits: ", "Evidence: docs/results.md, ")
    begun = [next(name for name in order if line.startswith(name)) for line in said]
    assert begun == [name for name in order if name in begun]
    assert {"Use ", "Why: ", "Limits: ", "Evidence: docs/results.md, "} <= set(begun)
