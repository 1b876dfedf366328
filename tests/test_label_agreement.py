"""Agreement of people, and what is said in plain words."""

import pytest
from sklearn.metrics import cohen_kappa_score

from poolwise.labelling import reasons
from poolwise.labelling.agreement import Answers, cohen_kappa, fleiss_kappa
from poolwise.labelling.store import Event, ModelRecord

# The worked example of Fleiss (1971) as Wikipedia has it: 10 items, 14 people, 5 classes; kappa is 0.210.
FLEISS = [
    (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
]  # fmt: skip


def test_cohens_kappa_is_that_of_scikit_learn(draw):
    one, two = draw.integers(0, 3, 200), draw.integers(0, 3, 200)
    two[:120] = one[:120]
    pairs = [(str(a), str(b)) for a, b in zip(one, two, strict=True)]
    assert cohen_kappa(pairs) == pytest.approx(cohen_kappa_score(one, two))


def test_fleiss_kappa_is_that_of_the_worked_example():
    counts = [{str(c): n for c, n in enumerate(row) if n} for row in FLEISS]
    assert fleiss_kappa(counts) == pytest.approx(0.210, abs=5e-4)


def test_kappa_of_nothing_and_of_one_class():
    assert cohen_kappa([]) is None
    assert cohen_kappa([("a", "a")] * 5) is None
    assert fleiss_kappa([{"a": 1}]) is None
    assert fleiss_kappa([{"a": 2}]) is None


def events(*rows):
    return [Event(kind, item, label, person, at=1.0) for kind, item, label, person in rows]


def agreement(*rows):
    answers = Answers()
    for event in events(*rows):
        answers.add(event)
    return answers.agreement()


def test_two_people_get_cohens_and_three_get_fleiss_kappa():
    two = [("label", str(n), "ab"[n % 2], person) for n in range(6) for person in ("anna", "bert")]
    found = agreement(*two)
    assert (found.name, found.kappa, found.items, found.observed) == ("Cohen's kappa", 1.0, 6, 1.0)
    assert found.low < 0.3  # six items say little
    assert found.high == 1.0
    assert agreement(*(("label", str(n), "ab"[n % 2], p) for n in range(600) for p in "xy")).low > 0.98
    found = agreement(*two, ("label", "0", "b", "carl"))
    assert found.name == "Fleiss' kappa"
    assert found.kappa < 1
    assert found.low < found.kappa < found.high
    assert list(found.people) == ["anna", "bert", "carl"]


def test_a_reviewer_who_saw_both_labels_does_not_make_people_agree():
    rows = [
        ("label", "0", "a", "anna"),
        ("label", "0", "b", "bert"),
        ("label", "1", "b", "anna"),
        ("label", "1", "b", "bert"),
    ]
    before = agreement(*rows)
    assert agreement(*rows, ("correct", "0", "a", "anna")) == before
    assert before.observed == 0.5


def test_answers_that_were_taken_back_do_not_count():
    assert agreement(("label", "0", "a", "anna"), ("label", "0", "a", "bert"), ("clear", "0", None, "bert")) is None
    assert agreement(("label", "0", "a", "anna"), ("skip", "0", None, "bert")) is None


def test_a_class_that_is_renamed_is_the_same_class():
    rows = [("label", "0", "a", "anna"), ("rename-class", "a", "c", "anna"), ("label", "0", "c", "bert")]
    assert agreement(*rows).observed == 1.0


# Plain words


def model(labels, accuracy, checked=100, spread=0.05):
    correct = round(checked * accuracy)
    return ModelRecord(labels, ["a", "b"], "m", checked, correct, accuracy, accuracy - spread, accuracy + spread)


@pytest.mark.parametrize(
    ("models", "same", "verdict", "words"),
    [
        ([], None, "early", "no model yet"),
        ([model(20, 0.5, checked=4)], None, "early", "at least 20"),
        ([model(20, 0.5)], None, "helping", "likely to help"),
        ([model(20, 0.5), model(100, 0.8)], 0.8, "helping", "With 20 labels the model was right on 50%"),
        ([model(20, 0.8), model(100, 0.8)], 0.99, "enough", "you can stop here"),
        ([model(20, 0.8), model(100, 0.81, spread=0.2)], 0.99, "enough", "probably"),
        ([model(20, 0.8), model(100, 0.8)], 0.7, "unclear", "Not clear"),
    ],
)
def test_whether_more_labels_help(models, same, verdict, words):
    found = reasons.outlook(models, same)
    assert found.verdict == verdict
    assert words in found.words


def test_saturation_in_plain_words():
    note = (
        "lbb saturated: after 7 of 50 picks no remaining point had a gain above 0.001, so the later ones are arbitrary."
    )
    assert reasons.saturation([note], 50).startswith(
        "The first 7 of the 50 items of this batch are worth their labels."
    )
    assert reasons.saturation(["something else"], 50) is None
    assert "little that is new" in reasons.saturation(["it saturated"], 50)
