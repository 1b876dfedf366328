"""Advice from what the study measured: which method, what else, and what limits it."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from test_study import run as recorded
from test_study import runs_of

import poolwise as pw
from paper.study.compare import Records
from paper.study.evidence import advice_section, write_evidence
from poolwise import errors
from poolwise.experiments.records import Setting
from poolwise.reports import advice_words as words
from poolwise.reports import evidence as reading
from poolwise.reports.advice import VERY_LARGE, First, Row, Scope, advise, evidence, first_batches
from poolwise.reports.numbers import signed

DATA = ("a", "b", "c", "d", "e", "f", "g", "h")
NETWORK = Scope(
    "All", dict.fromkeys(DATA, "images"), {**dict.fromkeys(DATA, 10), "h": 30}, [10], [20, 150], [5000], [5]
)
SIZES = {"small batches": [10], "large batches": [50, 100]}
RUNS = {"low": (10, 20, 120), "middle": (50, 20, 520), "high": (100, 500, 1500)}


def row(method, saved=0.1, features="network", condition="all", low=-0.1, high=0.3, verdict="inconclusive", worse=0,
        wobble=0.0, **given):  # fmt: skip
    """A row; the data sets differ by a pattern that all methods share, and each method by `wobble` around that."""
    given.setdefault("scope", Scope(batches=SIZES.get(condition, [])))
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
    assert "of the methods for which one posterior sample is enough, it" in lines(1000, 5, 10, 1, known=known)["Why"]
    assert "for which" not in lines(1000, 5, 10, 5, known=known)["Why"]
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
    assert [advise(1000, 5, size, 5, known=known).method for size in (1, 22, 23, 900)] == ["entropy"] * 2 + [
        "badge"
    ] * 2
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
    known = [row("margin", 0.3, low=0.2, high=0.4, condition="large batches"), *very_large()]
    said = lines(10_000, 5, 500, 5, known=known)
    assert said["Use"] == 'Use random: pw.select(predictions, 500, "random")'
    assert "with batches of 250 and 500, no method was clearly better than random" in said["Why"]
    assert "with at most 100 labels per round, margin saved 30 % [20, 40]" in said["Why"]
    assert "figures for 5,000 are not known" in lines(10_000, 5, 5000, 5, known=known)["Limits"]
    assert "So few data sets are hardly evidence." in said["Limits"]
    shown = lines(10_000, 5, 500, 5, known=very_large(better=1))
    assert shown["Use"].startswith("Use badge")
    assert "So few data sets are hardly evidence." in shown["Limits"]


@pytest.mark.parametrize(
    ("batch_size", "method", "limit"),
    [
        (100, "margin", ""),
        (101, "margin", "Batches of 101 to 249 were not measured: this rests on those of 50 and 100."),
        (158, "margin", "Batches of 101 to 249 were not measured: this rests on those of 50 and 100."),
        (159, "random", "Batches of 101 to 249 were not measured: this rests on those of 250 and 500."),
        (249, "random", "Batches of 101 to 249 were not measured: this rests on those of 250 and 500."),
        (250, "random", ""),
        (300, "random", ""),
    ],
)
def test_the_nearest_measured_batch_size_chooses(batch_size, method, limit):
    known = [row("margin", 0.3, condition="large batches"), *very_large()]
    said = lines(10_000, 5, batch_size, 5, known=known)
    assert said["Use"].startswith(f"Use {method}:")
    assert limit in said["Limits"]
    assert ("were not measured" in said["Limits"]) == bool(limit)
    assert ("hardly evidence" in said["Limits"]) == (method == "random")
    if limit and method == "margin":
        assert "A selection took" not in said["Why"]


def test_other_batches_than_those_of_the_budget_are_named():
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5)

    def limits(batch_size, labels):
        return lines(5000, 5, batch_size, 5, features=True, labels=labels, known=known)["Limits"]

    assert "rests on batches of 100, not of 10, since the number of labels counts first." in limits(10, 1000)
    assert "Batches of 11 to 49 were not measured: this rests on those of 10." in limits(20, 50)
    assert "Batches of 11 to 49 were not measured: this rests on those of 50." in limits(30, 50)
    assert "No batch was smaller than 10 there, so figures for 1 are not known." in limits(1, 50)
    assert "No batch was smaller than 100 there, so figures for 1 are not known." in limits(1, 1000)
    assert all(" batch was " not in limits(size, 50) for size in (6, 10))
    assert "Without fixed features" not in limits(120, 1000)


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
    assert "runs dry" not in many["Limits"]
    far = lines(1_000_000, 5, 10, 5, known=[row("margin", 0.2, scope=NETWORK)])
    assert "much smaller than 1,000,000" in far["Limits"]
    assert "A selection took" not in far["Why"]


@pytest.mark.parametrize(
    ("points", "batch_size", "labels", "sample"),
    [
        (50_000, 1_666, 0, 5_000), (50_000, 1_667, 0, 6_000), (50_000, 5_000, 1_000, 15_000),
        (15_000, 5_000, 0, None), (15_500, 5_000, 400, 15_000), (15_500, 5_000, 500, None), (12_000, 10, 8_000, None),
    ],
)  # fmt: skip
def test_the_covered_sample_grows_with_the_batch_up_to_what_there_is(points, batch_size, labels, sample):
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5)
    said = lines(points, 5, batch_size, 5, features=True, labels=labels, known=known)
    assert said["Use"].endswith(f", sample={sample:_})" if sample else "labelled_embeddings=labelled_embeddings)")
    assert ("runs dry" in said["Limits"]) == (sample is not None and sample > 5_000)


@pytest.mark.parametrize("batch_size", [2_000, 5_000])
def test_a_very_large_batch_as_advised_is_full_before_it_runs_dry(batch_size):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(12_000, 2, 3))
    predictions = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    embeddings = rng.normal(size=(12_000, 8)).astype(np.float32)
    names = {"pw": pw, "predictions": predictions, "embeddings": embeddings, "labelled_embeddings": embeddings[:50]}
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5)
    batch = eval(advise(12_000, 3, batch_size, 2, features=True, known=known).call, names)
    assert batch.diagnostics.saturated_at is None
    assert len(batch.indices) == batch_size


@pytest.mark.parametrize(("batch_size", "labels"), [(50, 0), (25, 25)])
def test_nothing_is_advised_where_the_batch_takes_all_that_is_left(batch_size, labels):
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5)
    said = lines(50, 5, batch_size, 5, features=True, labels=labels, known=known)
    assert said == {
        "Use": f'Use random: pw.select(predictions, {batch_size}, "random")',
        "Why": "Why: the batch takes every point that has no label, whatever the method, so nothing can be saved.",
    }


def test_few_points_and_a_large_share_of_them_are_named():
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5)

    def limits(points, batch_size, labels):
        return lines(points, 5, batch_size, 5, features=True, labels=labels, known=known)["Limits"]

    assert "No pool had fewer than 3,000 points, so figures for 1,000 are not known." in limits(1000, 10, 50)
    assert "No pool" not in limits(1001, 10, 50)
    assert "With this batch, 60 of 100 points have a label" in limits(100, 10, 50)
    assert "With this batch" not in limits(120, 10, 50)


def test_few_labels_many_samples_and_more_classes_than_points_are_named():
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5)

    def limits(points, classes, samples, labels):
        return lines(points, classes, 10, samples, features=True, labels=labels, known=known)["Limits"]

    assert "The evidence is from K = 5 posterior samples, not 100." in limits(5000, 5, 100, 50)
    assert "The evidence is from" not in limits(5000, 5, 9, 50)
    assert "Runs went from 20 to 120 labels; 3 are fewer." in limits(5000, 5, 5, 3)
    assert "Runs went" not in limits(5000, 5, 5, 20)
    assert "more classes than points, so some have no example" in limits(500, 501, 5, 20)
    assert "more classes than points" not in limits(500, 500, 5, 20)


def test_numbers_of_a_part_of_the_settings_are_said_to_be():
    whole, part = row("margin", 0.3)._replace(settings=20), {"condition": "small batches", "verdict": "better"}
    said = lines(5000, 5, 10, 5, labels=50, known=[whole, row("margin", 0.3, **part)])
    assert "was better than random's there, but over all 20 settings it cannot be told from random's." in said["Why"]
    assert (
        "from a part of the settings (small batches, of 10: 8 of 20, on 8 data sets), and tests were not corrected for "
        "choosing this part." in said["Limits"]
    )
    same = lines(5000, 5, 10, 5, labels=50, known=[whole._replace(verdict="better"), row("margin", 0.3, **part)])
    assert "was better than random's. " in same["Why"] + " "
    assert "a part of the settings" not in lines(5000, 5, 10, 5, known=[whole])["Limits"]
    fixed = lines(5000, 5, 10, 5, features=True, labels=50, known=at_budgets("mutual-herding", 0.5, 0.5, 0.5))
    assert "(the low budget: 8 of 8, on 8 data sets), and the test against random was not corrected" in fixed["Limits"]
    assert '"Judged" and "What advise reads"' in fixed["Evidence"]


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
    call = 'pw.ActiveLearner(posterior, pool, "mutual-herding", 10, features=embeddings, first="k-means")'
    assert f"with features of an encoder, by k-means: {call}. That gave +10 points of accuracy [+8, +12]" in bad
    assert "Also typiclust (+9)." in bad
    assert bad.endswith('With a table, draw it at random (first="random"): on splice these were 17 points worse.')
    good = lines(5000, 5, 10, 5, known_first=firsts("better"), **given)["First"]
    assert 'With a table, first="k-means" was better too (+4' in good
    none = lines(5000, 5, 10, 5, known_first=firsts(), **given)["First"]
    assert "none was shown to be better" in none
    unsafe = lines(5000, 5, 10, 5, known_first=firsts()[2:], **given)["First"]
    assert unsafe.endswith(
        'at random, as pw.ActiveLearner(posterior, pool, "mutual-herding", 10, features=embeddings) does.'
    )
    assert "First" not in lines(5000, 5, 10, 5, labels=20, known_first=firsts(), **given)
    assert "k-means" not in lines(5000, 5, 10, 5, known_first=firsts(), known=[row("margin")])["First"]


@pytest.mark.parametrize(("features", "origin"), [(True, "first"), (False, "random")])
def test_the_first_batch_can_be_had_as_advised(features, origin):
    known = at_budgets("mutual-herding", 0.5, 0.5, 0.5) if features else [row("margin", 0.3)]
    said = lines(20_000, 2, 6, 3, features=features, known=known, known_first=firsts())["First"]
    call = said[said.index("pw.ActiveLearner(") :].split(")")[0] + ")"
    assert ("sample=5_000" in call) == features
    embeddings = np.random.default_rng(0).normal(size=(40, 3))
    classes = (embeddings[:, 0] > 0).astype(int)
    posterior = pw.posteriors.Committee(LogisticRegression(), 3)
    names = {"pw": pw, "posterior": posterior, "pool": pw.Pool(embeddings, classes=2), "embeddings": embeddings}
    learner = eval(call, names)
    query = learner.query()
    assert (query.origin, len(query.indices)) == (origin, 6)
    learner.update(query.indices, classes[query.indices])
    assert learner.query().origin == "method"


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
    named = {found.scope.section for found in reading.evidence()} | {"The first batch", words.ROWS}
    assert named <= headings


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
