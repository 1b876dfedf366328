"""Committees of scikit-learn classifiers: the three kinds, unseen classes, seeds, chunks, saving, and refusals."""

import io
import random

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, StackingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import poolwise as pw
from poolwise import errors, metrics
from poolwise.data.examples import TensorExamples, TextExamples
from poolwise.posteriors.committee import Committee
from poolwise.seeding import stream

TEXTS = ["good film", "bad film", "good book", "bad book", "a good good play", "a bad bad play", "dull", "bright"] * 3
TONES = np.array([0, 1, 0, 1, 0, 1, 1, 0] * 3)

KINDS = {
    "bootstrap": lambda: Committee(LogisticRegression(max_iter=500), 4),
    "trees": lambda: Committee(DecisionTreeClassifier(splitter="random"), 4),
    "forest": lambda: Committee(RandomForestClassifier(4)),
    "extra trees": lambda: Committee(ExtraTreesClassifier(), 4),
    "list": lambda: Committee(
        [GaussianNB(), KNeighborsClassifier(3), DecisionTreeClassifier(max_features=2), GaussianNB()]
    ),
}


@pytest.fixture(scope="module")
def data():
    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images).float().view(-1, 1, 8, 8) / 16, labels


def probs(predictions):
    return predictions.rows(np.arange(len(predictions))).probs.numpy()


# The three kinds


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_every_kind(kind, data):
    x, y = data
    committee = KINDS[kind]()
    assert committee.fit((x[:200], y[:200])) is committee
    predictions = committee.predict(x[200:500])
    assert predictions.shape == (300, 4, 10)
    assert len({member.tobytes() for member in probs(predictions).transpose(1, 0, 2)}) == (3 if kind == "list" else 4)
    assert metrics.evaluate(predictions, y[200:500])["accuracy"] > 0.5  # chance is 0.1
    assert len(pw.select(predictions, 5, "bald", information=False)) == 5


def test_a_bootstrap_committee_is_clones_on_bootstrap_samples(data):
    x, y = data
    found = probs(Committee(GaussianNB(var_smoothing=0.1), 3).fit((x[:100], y[:100]), seed=5).predict(x[100:150]))
    flat = x.flatten(1).double().numpy()
    for k in range(3):
        drawn = stream(5, "bootstrap", k).integers(100, size=100)
        expected = GaussianNB(var_smoothing=0.1).fit(flat[drawn], y[drawn]).predict_proba(flat[100:150])
        np.testing.assert_allclose(found[:, k], expected, atol=1e-6)


@pytest.mark.parametrize("forest", [RandomForestClassifier, ExtraTreesClassifier])
def test_the_members_of_a_forest_are_its_trees(forest, data):
    """Their average is the forest's own prediction, also where labels are not 0, 1, 2, ..."""
    x, y = data[0], data[1] % 4 * 2 + 1
    committee = Committee(forest(7, max_depth=3)).fit((x[:200], y[:200]), seed=1)
    state = int(stream(1, "random_state", 0, "random_state").integers(2**31))
    flat = x.flatten(1).numpy()
    alone = forest(7, max_depth=3, random_state=state).fit(flat[:200], y[:200])
    found = probs(committee.predict(x[200:300]))
    assert found.shape == (100, 7, 8)
    np.testing.assert_allclose(found.mean(1)[:, 1::2], alone.predict_proba(flat[200:300]), atol=1e-6)
    assert found[:, :, ::2].max() == 0


def test_a_list_is_fitted_on_all_the_data(data):
    x, y = data
    flat = x.flatten(1).double().numpy()
    found = probs(Committee([GaussianNB(var_smoothing=0.1), KNeighborsClassifier(3)]).fit((x[:99], y[:99])).predict(x))
    for k, classifier in enumerate([GaussianNB(var_smoothing=0.1), KNeighborsClassifier(3)]):
        np.testing.assert_allclose(found[:, k], classifier.fit(flat[:99], y[:99]).predict_proba(flat), atol=1e-6)


def test_the_number_of_members(data):
    few = data[0][:30], data[1][:30]

    def count(*arguments):
        return Committee(*arguments).fit(few).predict(few[0][:2]).shape[1]

    assert count(GaussianNB(var_smoothing=0.1)) == 10
    assert count(GaussianNB(var_smoothing=0.1), 3) == 3
    assert count(RandomForestClassifier(6)) == 6
    assert count(RandomForestClassifier(6), 3) == 3
    assert count((GaussianNB(var_smoothing=0.1),)) == 1


def test_texts_go_through_pipelines():
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=100))
    for committee in (Committee(model, 5), Committee([model, make_pipeline(TfidfVectorizer(), MultinomialNB())])):
        committee.fit((TEXTS, TONES))
        predictions = committee.predict(["a good film", "a bad play"])
        assert metrics.evaluate(predictions, [0, 1])["accuracy"] == 1
        assert np.array_equal(probs(committee.predict(["a good film", "a bad play"], memory=1)), probs(predictions))


# Classes


@pytest.mark.parametrize("kind", KINDS)
def test_classes_without_a_label_get_probability_zero(kind, data):
    x, y = data
    few = np.flatnonzero(np.isin(y, [2, 5, 7]))[:12]
    found = probs(KINDS[kind]().fit((x[few], y[few])).predict(x[:40]))
    assert found.shape[2] == 8  # the largest label is 7
    assert found[:, :, [0, 1, 3, 4, 6]].max() == 0
    np.testing.assert_allclose(found.sum(2), 1, atol=1e-6)


def test_a_class_that_a_bootstrap_sample_lacks_gets_probability_zero(data):
    x, y = data
    few = np.concatenate([np.flatnonzero(y == c)[:2] for c in (0, 3, 4)])
    found = probs(Committee(LogisticRegression(), 20).fit((x[few], y[few])).predict(x[:40]))
    for k in range(20):
        drawn = y[few][stream(0, "bootstrap", k).integers(6, size=6)]
        assert np.array_equal(found[:, k].max(0) > 0, np.isin(np.arange(5), drawn))  # a regression is never at zero
    assert (found.max(0)[:, [0, 3, 4]] == 0).any()


def test_where_the_number_of_classes_comes_from():
    x, y = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), np.arange(20) % 2
    named = TensorExamples(x, y, class_names=["a", "b", "c"])

    def classes(data, **options):
        return Committee(DecisionTreeClassifier(), 2, **options).fit(data).predict(x).shape[2]

    assert classes((x, y)) == 2
    assert classes(named) == 3
    assert classes(named, classes=5) == 5


def test_a_bootstrap_sample_has_two_classes_if_the_data_has():
    """Of four labels, one bootstrap sample in eight would have a single class, which a regression refuses."""
    x, y = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([0, 0, 1, 1])
    for seed in range(3):
        Committee(LogisticRegression(), 10).fit((x, y), seed=seed)
    one = Committee(GaussianNB(), 3, classes=2).fit((x, np.zeros(4, int))).predict(x)
    assert np.array_equal(probs(one)[:, :, 0], np.ones((4, 3)))


# Seeds and inputs


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_and_nothing_global_is_touched(kind, data):
    x, y = data
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    found = [probs(KINDS[kind]().fit((x[:60], y[:60]), seed=seed).predict(x[:200])) for seed in (0, 0, 1)]
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    assert before == after
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_every_random_state_is_set_and_the_given_estimator_left_alone(data):
    x, y = data[0][:40], data[1][:40] % 2
    network = MLPClassifier((4,), max_iter=3, solver="sgd", random_state=None)
    pipeline = make_pipeline(StandardScaler(), CalibratedClassifierCV(LinearSVC(dual=True), cv=2))
    before = str(pipeline.get_params()), str(network.get_params())
    committee = Committee([pipeline, network, pipeline])
    with pytest.warns(Warning, match="Maximum iterations"):
        committee.fit((x, y), seed=2)
    assert (str(pipeline.get_params()), str(network.get_params())) == before
    assert not hasattr(pipeline[0], "mean_")
    first, second, third = (member.classifier for member in committee._members)
    states = [
        first.get_params()["calibratedclassifiercv__estimator__random_state"],
        second.random_state,
        third.get_params()["calibratedclassifiercv__estimator__random_state"],
    ]
    assert all(isinstance(state, int) for state in states)
    assert len(set(states)) == 3


def test_what_data_may_be(data):
    x, y = data[0][:50], data[1][:50]
    expected = probs(KINDS["forest"]().fit((x, y)).predict(x))
    dataset = [(image, int(label)) for image, label in zip(x, y, strict=True)]
    for form in ((x.numpy(), y), TensorExamples(x, y), dataset, (x.flatten(1), y.tolist())):
        committee = KINDS["forest"]().fit(form, form)  # what is given for validation is not used
        assert np.array_equal(probs(committee.predict(form)), expected)
    words = Committee(make_pipeline(TfidfVectorizer(), MultinomialNB()), 2).fit(TextExamples(TEXTS, TONES))
    assert words.predict(TEXTS).shape == (24, 2, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_no_result_depends_on_the_memory_budget(kind, data):
    x, y = data
    committee = KINDS[kind]().fit((x[:200], y[:200]))
    expected = probs(committee.predict(x[:600]))
    for memory in (1 if kind == "forest" else 40_000, 100_000, "1MB", "2GB"):
        assert np.array_equal(probs(committee.predict(x[:600], memory=memory)), expected)


def test_embeddings_are_the_inputs(data):
    x, y = data[0][:50], data[1][:50]
    committee = KINDS["forest"]().fit((x, y))
    assert committee.predict(x).embeddings is None
    np.testing.assert_array_equal(committee.predict(x, embeddings=True, memory="50KB").embeddings, x.flatten(1))


def test_progress_is_reported(data):
    x, y, seen = data[0][:50], data[1][:50], []
    committee = KINDS["bootstrap"]().fit((x, y), report=lambda *step: seen.append(step))
    assert seen == [("fitting the committee", k, 4) for k in (1, 2, 3, 4)]
    committee.predict(x, memory=100_000, report=lambda *step: seen.append(step))
    assert seen[4:] == [("predicting", done, 50) for done in (24, 48, 50)]
    KINDS["forest"]().fit((x, y), report=lambda *step: seen.append(step))
    assert seen[7:] == [("fitting the committee", 4, 4)]


# Saving


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_committee_predicts_the_same(kind, data):
    x, y = data
    committee = KINDS[kind]().fit((x[:100], y[:100]))
    file = io.BytesIO()
    torch.save(committee.state(), file)
    file.seek(0)
    other = KINDS[kind]()
    other.load_state(torch.load(file, weights_only=True))
    assert np.array_equal(probs(other.predict(x[:200])), probs(committee.predict(x[:200])))


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Ridge(),), r"scikit-learn classifier.*not Ridge"),
        ((LogisticRegression,), r"not the class LogisticRegression"),
        (("forest",), r"not str"),
        (([GaussianNB(), 3],), r"not int"),
        (([],), r"empty list"),
        (([GaussianNB()], 3), r"members=3 cannot be chosen for a list"),
        ((GaussianNB(), 0), r"members must be a whole number of at least 1, not 0"),
        ((GaussianNB(), 2.5), r"members must be a whole number"),
    ],
)
def test_what_cannot_be_a_committee_is_refused(arguments, message):
    with pytest.raises(errors.ParameterError, match=message):
        Committee(*arguments)


def test_a_bad_number_of_classes_is_refused():
    with pytest.raises(errors.ParameterError, match="classes must be a whole number"):
        Committee(GaussianNB(), classes=0)
    with pytest.raises(errors.LabelError, match=r"below the number of classes, 2, but one is 2"):
        Committee(GaussianNB(), classes=2).fit((np.eye(3), [0, 1, 2]))


def test_a_classifier_without_probabilities_is_refused(data):
    few = data[0][:50], data[1][:50]
    for estimator in (SGDClassifier(), [make_pipeline(StandardScaler(), LinearSVC())]):
        with pytest.raises(errors.ParameterError, match=r"has no predict_proba.*CalibratedClassifierCV"):
            Committee(estimator).fit(few)
    # This one has it only once it is fitted.
    stack = StackingClassifier([("tree", DecisionTreeClassifier())], cv=2)
    assert Committee([stack]).fit((few[0], few[1] % 2)).predict(few[0]).shape == (50, 1, 2)


def test_what_is_missing_is_asked_for(data):
    x, y = data[0][:50], data[1][:50]
    with pytest.raises(errors.StateError, match=r"Call fit\(data\) first"):
        KINDS["forest"]().predict(x)
    with pytest.raises(errors.MissingInputError, match="a committee needs labels"):
        KINDS["forest"]().fit(x)
    with pytest.raises(errors.EmptyPoolError, match="no examples to fit"):
        KINDS["forest"]().fit((x[:0], y[:0]))
    committee = KINDS["forest"]().fit((x, y))
    with pytest.raises(errors.EmptyPoolError, match="no examples to predict"):
        committee.predict(x[:0])
    with pytest.raises(errors.ParameterError, match="memory"):
        committee.predict(x, memory="much")
    with pytest.raises(errors.ParameterError, match="seed"):
        committee.fit((x, y), seed=-1)
    words = Committee(make_pipeline(TfidfVectorizer(), MultinomialNB()), 2).fit((TEXTS, TONES))
    with pytest.raises(errors.MissingInputError, match="no embeddings of texts"):
        words.predict(TEXTS, embeddings=True)


def test_predictions_that_do_not_fit_the_budget_are_mapped():
    inputs, labels = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    committee = Committee(LogisticRegression(), 4).fit((inputs, labels))
    in_memory, mapped = committee.predict(inputs), committee.predict(inputs, memory=1_000)
    assert "mapped" in repr(mapped)
    assert "mapped" not in repr(in_memory)
    assert torch.equal(in_memory.rows(np.arange(60)).probs, mapped.rows(np.arange(60)).probs)
