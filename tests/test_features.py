"""Which features a learner gives to its methods, and first batches that are selected by them."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from small_learners import X, Y, ensemble, history, learner, started

import poolwise as pw
from poolwise import errors
from poolwise.data.features import blocks
from poolwise.learning import features as module
from poolwise.learning.features import Features
from poolwise.selection import registry
from poolwise.selection.inputs import only_features

TEXTS = [f"{word} film number {i}" for i, word in enumerate(["good", "bad", "fine", "dull"] * 5)]
FIRST = [name for name in ("coreset", "max-herding", "typiclust", "k-means") if name in pw.methods()]


def squares(inputs):
    """Features by a function of this module."""
    return inputs**2


def shown(*needs, features="network"):
    """A method that needs features, and the tasks that it was given."""
    seen = []

    def rule(task):
        seen.append(task)
        return np.arange(task.batch_size)

    return registry._made(rule, "shown", "Shows.", needs=needs or ("embeddings",), features=features), seen


def forest():
    return pw.posteriors.Committee(LogisticRegression(), 3)


def texts():
    pool = pw.Pool(TEXTS, classes=2)
    pool.label([0, 1], [0, 1])
    return pool


def reading():
    return pw.posteriors.Committee(pw_pipeline(), 2)


def pw_pipeline():
    from sklearn.pipeline import make_pipeline

    return make_pipeline(TfidfVectorizer(), MultinomialNB())


# Which features


@pytest.mark.parametrize("needs", [("embeddings",), ("predictions", "embeddings", "labelled_embeddings")])
def test_the_networks_own_are_the_default(needs):
    method, seen = shown(*needs)
    mine = learner(method=method)
    query = mine.query()
    assert np.array_equal(seen[0].embeddings, mine.posterior.embed(X[mine.pool.unlabelled]))
    assert np.array_equal(seen[0].labelled_embeddings, mine.posterior.embed(X[mine.pool.labelled]))
    assert query.diagnostics.features == "network"
    assert mine.rounds[-1].diagnostics["features"] == "network"


@pytest.mark.parametrize(
    ("given", "expected", "words"),
    [
        ("fixed", X.numpy(), "fixed"),
        (X.numpy() * 3, X.numpy() * 3, "array"),
        (X.double() * 3, X.numpy() * 3, "array"),
        (squares, X.numpy() ** 2, "function"),
        ("test_features:squares", X.numpy() ** 2, "function"),
    ],
    ids=["fixed", "array", "tensor", "function", "place"],
)
def test_other_features_can_be_chosen(given, expected, words):
    method, seen = shown()
    mine = learner(method=method, features=given)
    query = mine.query()
    assert np.allclose(seen[0].embeddings, expected[mine.pool.unlabelled])
    assert np.allclose(seen[0].labelled_embeddings, expected[mine.pool.labelled])
    assert query.diagnostics.features == words
    assert f"features: {words}" in str(query.diagnostics)


def test_a_method_says_what_it_prefers():
    method, seen = shown(features="fixed")
    mine = learner(method=method)
    assert mine.query().diagnostics.features == "fixed"
    assert np.array_equal(seen[0].embeddings, X.numpy()[mine.pool.unlabelled])
    other = learner(method=method, features="network")
    assert other.query().diagnostics.features == "network"


def test_a_posterior_without_embeddings_of_its_own_gets_fixed_ones():
    method, seen = shown()
    mine = learner(posterior=forest(), method=method)
    assert mine.query().diagnostics.features == "fixed, since the posterior has none of its own"
    assert np.array_equal(seen[0].embeddings, X.numpy()[mine.pool.unlabelled])


def test_data_without_fixed_features_leaves_those_of_the_network():
    method, _ = shown(features="fixed")
    whole = pw.Pool((torch.arange(240).view(60, 4) % 7, Y))
    whole.start_balanced(2)
    posterior = pw.posteriors.from_callable(
        lambda inputs: np.full((len(inputs), 2, 3), 1 / 3), outputs="probs", embed=lambda inputs: inputs + 0.5
    )
    found = learner(posterior=posterior, pool=whole, method=method).query().diagnostics.features
    assert found == "network, since the data has no fixed ones"


def test_a_committee_takes_whole_numbers_for_quantities():
    table = pw.Pool((np.random.default_rng(0).integers(0, 99, (60, 4)), Y))
    table.start_balanced(2)
    for chosen in (None, "fixed"):
        query = learner(posterior=forest(), pool=table, method="coreset", features=chosen).query()
        assert query.diagnostics.features.startswith("fixed")


def test_methods_without_features_do_not_mention_them():
    assert learner(method="bald").query().diagnostics.features is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (TEXTS, "they are texts, and no encoder"),
        (np.arange(80).reshape(20, 4), "whole numbers, which may be ids"),
        ({"a": np.zeros((20, 2)), "b": np.zeros((20, 3))}, "several inputs"),
        ([(torch.zeros(2 + i % 2), 0) for i in range(20)], "differ in size|cannot be stacked"),
        (pw.data.TokenExamples(np.arange(40), np.full(20, 2)), "texts of different length"),
    ],
    ids=["texts", "ids", "named", "sizes", "tokens"],
)
def test_data_without_fixed_features_is_an_error_that_says_what_to_do(data, message):
    with pytest.raises(errors.MissingInputError, match=f"(?s)no fixed features.*({message}).*features="):
        list(blocks(pw.Pool(data, classes=2).data))


def test_texts_get_features_from_a_function():
    vectors = TfidfVectorizer().fit(TEXTS)
    mine = pw.ActiveLearner(reading(), texts(), "coreset", 3, features=vectors.transform)
    assert mine.query().diagnostics.features == "function"
    with pytest.raises(errors.MissingInputError, match=r"(?s)coreset needs embeddings\. Committee .* texts"):
        pw.ActiveLearner(reading(), texts(), "coreset", 3).query()
    with pytest.raises(errors.MissingInputError, match="no encoder"):
        pw.ActiveLearner(reading(), texts(), "coreset", 3, features="fixed").query()
    with pytest.raises(errors.ShapeError, match=r"sparse matrix.*toarray\(\)"):
        pw.ActiveLearner(reading(), texts(), "coreset", 3, features=vectors.transform(TEXTS))


@pytest.mark.parametrize("features", [None, "fixed"])
def test_missing_features_are_an_error_before_anything_is_trained(features, monkeypatch):
    monkeypatch.setattr(pw.posteriors.Committee, "fit", lambda *args, **more: pytest.fail("trained in vain"))
    with pytest.raises(errors.MissingInputError, match="no encoder"):
        pw.ActiveLearner(reading(), texts(), "coreset", 3, features=features).query()
    preferring, _ = shown(features="fixed")
    with pytest.raises(errors.MissingInputError, match=r"shown needs embeddings\. Committee has no embeddings"):
        pw.ActiveLearner(reading(), texts(), preferring, 3).query()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("fixd", errors.ParameterError, "'fixd'"),
        (True, errors.ParameterError, "True"),
        ("no_such_module:f", errors.ParameterError, "cannot be loaded"),
        ("math:pi", errors.ParameterError, "not a function"),
        (np.zeros((59, 3)), errors.ShapeError, r"\[60, D\]"),
        (np.full((60, 3), np.nan), errors.NotFiniteError, "row 0"),
        (np.zeros((60, 3), int), errors.ShapeError, "float"),
    ],
)
def test_features_that_cannot_be_are_refused_at_once(given, error, message):
    with pytest.raises(error, match=message):
        learner(method="coreset", features=given)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda inputs: inputs[:1], "for 60 inputs it returned"),
        (lambda inputs: inputs[:, 0], r"\[60\]"),
        (lambda inputs: inputs * np.inf, "example 0"),
    ],
)
def test_what_a_function_returns_is_checked(function, message):
    with pytest.raises((errors.ShapeError, errors.NotFiniteError), match=message):
        learner(method="coreset", features=function).query()


def test_images_are_scaled_and_flattened():
    images = torch.arange(2 * 3 * 2 * 2, dtype=torch.uint8).view(2, 3, 2, 2) * 10
    (_, part), *_ = blocks(pw.data.TensorExamples(images))
    assert np.allclose(part, images.flatten(1).numpy() / 255)


# Kept, not computed again


class Counted:
    def __init__(self):
        self.calls = 0

    def __call__(self, inputs):
        self.calls += len(inputs)
        return inputs * 2


@pytest.mark.parametrize("memory", ["1GB", "1KB"])
def test_they_are_computed_once(memory, tmp_path):
    count = Counted()
    mine = learner(tmp_path, method="coreset", features=count, memory=memory, self_contained=False)
    for _ in range(3):
        query = mine.query()
        mine.update(query.indices, Y[query.indices])
    read = 60 if memory == "1GB" else 120  # a file is written in a second pass, once the width is known
    assert count.calls <= read
    assert (tmp_path / module.FILE).exists() == (memory == "1KB")


def test_memory_changes_no_batch(tmp_path):
    def run(folder, memory):
        mine = learner(folder, method="coreset", features=squares, memory=memory, first="coreset", pool=pw.Pool(X, 3))
        for _ in range(3):
            query = mine.query()
            mine.update(query.indices, Y[query.indices])
        return [entry.indices for entry in mine.rounds]

    expected = run(None, "1GB")
    assert run(None, "1KB") == expected
    assert run(tmp_path / "small", "1KB") == expected


def test_features_on_disk_are_used_again_and_stale_ones_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("poolwise.data.features._BLOCK", 16)
    pool = pw.Pool(X, 3)
    first = Features(squares, pool, "1KB")
    first.folder = tmp_path
    expected = X.numpy() ** 2
    assert np.array_equal(first.rows(np.arange(60)), expected)
    count = Counted()
    again = Features(lambda inputs: count(inputs) / 2 * inputs, pool, "1KB")
    again.folder = tmp_path
    assert np.array_equal(again.rows(np.array([3, 1])), expected[[3, 1]])
    assert count.calls == 16 + 16 + 16 + 12  # the first block, and three to compare with
    other = Features(
        lambda inputs: inputs**2 + (inputs[:, :1] == X.numpy()[-1, :1]), pool, "1KB"
    )  # differs in the last row
    other.folder = tmp_path
    assert np.array_equal(other.rows(np.arange(59)), expected[:59])
    assert np.array_equal(other.rows(np.array([59])), expected[59:] + 1)
    (tmp_path / module.FILE).write_bytes(b"damaged")
    last = Features(squares, pool, "1KB")
    last.folder = tmp_path
    assert np.array_equal(last.rows(np.arange(60)), expected)


# Saved and resumed


@pytest.mark.parametrize(
    "given", [None, "fixed", X.numpy() * 3, squares, "test_features:squares"], ids=["none", "fixed", "array", "f", "p"]
)
def test_a_directory_keeps_the_choice(given, tmp_path):
    def rounds(mine, number):
        for _ in range(number):
            query = mine.query()
            mine.update(query.indices, Y[query.indices])
        return history(mine)

    def fresh(folder):
        return learner(folder, pool=pw.Pool(X, 3), method="coreset", features=given, first="coreset", batch_size=6)

    expected = rounds(fresh(None), 4)
    whole = tmp_path / "whole"
    with fresh(whole) as mine:
        rounds(mine, 1)
    with pw.ActiveLearner.load(whole) as mine:
        rounds(mine, 1)
        mine.query()  # interrupted before the labels came
    with fresh(whole) as mine:
        assert rounds(mine, 2) == expected


def test_another_choice_is_refused(tmp_path):
    learner(tmp_path, method="coreset", features="fixed").close()
    with pytest.raises(errors.StateError, match="features = 'fixed', not None"):
        learner(tmp_path, method="coreset")
    folder = tmp_path / "array"
    learner(folder, method="coreset", features=X.numpy()).close()
    with pytest.raises(errors.StateError, match="features = 'array"):
        learner(folder, method="coreset", features=X.numpy() + 1)
    folder = tmp_path / "first"
    learner(folder, method="coreset", first="coreset").close()
    with pytest.raises(errors.StateError, match="first = 'coreset', not 'random'"):
        learner(folder, method="coreset")


def test_features_that_were_not_saved_must_be_given(tmp_path):
    learner(tmp_path, method="coreset", features=squares, self_contained=False).close()
    parts = {"posterior": ensemble(), "data": (X, Y)}
    with pytest.raises(errors.MissingInputError, match="without its features: pass features="):
        pw.ActiveLearner.load(tmp_path, **parts)
    with pw.ActiveLearner.load(tmp_path, **parts, features=squares) as mine:
        assert mine.query().diagnostics.features == "function"
    with pytest.raises(errors.StateError, match="features ="):
        pw.ActiveLearner.load(tmp_path, **parts, features=lambda inputs: inputs)


def test_a_directory_from_before_opens(tmp_path):
    import json

    from poolwise.learning.state import _checksum

    learner(tmp_path, method="coreset").close()
    path = tmp_path / "learner.json"
    state = json.loads(path.read_text())
    state.pop("checksum")
    for name in ("features", "first"):
        del state["settings"][name]
    path.write_text(json.dumps({**state, "checksum": _checksum(state)}))
    with pw.ActiveLearner.load(tmp_path) as mine:
        assert mine.query().diagnostics.features == "network"
    with learner(tmp_path, method="coreset") as mine:
        assert len(mine.rounds) == 1


# A first batch without labels


@pytest.mark.parametrize("first", FIRST)
def test_a_first_batch_is_selected_by_fixed_features(first):
    def ask(**options):
        return learner(pool=pw.Pool(X, 3), method="bald", first=first, batch_size=6, **options).query()

    query = ask()
    alone = pw.select(np.full((60, 1, 3), -np.log(3), np.float32), 6, first, embeddings=X.numpy(), information=False)
    if not pw.methods()[first].stochastic:
        assert query.indices.tolist() == alone.indices.tolist()
    assert len(np.unique(query.indices)) == 6
    assert (query.origin, query.diagnostics.features) == ("first", "fixed")
    assert "because nothing was labelled yet" in query.note
    assert query == ask()
    some = ask(candidates=np.arange(10, 40))
    assert set(some.indices.tolist()) <= set(range(10, 40))
    if first == "coreset":
        scaled = X.numpy() * np.array([1, 1, 50, 50], np.float32)
        assert ask(features=scaled).indices.tolist() != query.indices.tolist()
        assert ask(candidates="top:30").origin == "first"


def test_once_something_is_labelled_the_method_selects():
    mine = learner(pool=pw.Pool(X, 3), method="bald", first="coreset")
    query = mine.query()
    assert not mine.posterior.networks
    mine.update(query.indices, Y[query.indices])
    assert mine.query().origin == "method"
    assert [entry.origin for entry in mine.rounds] == ["first", "method"]


def test_a_method_of_ones_own_may_be_first(tmp_path):
    method, seen = shown()
    mine = learner(tmp_path, pool=pw.Pool(X, 3), method="bald", first=method)
    assert mine.query().indices.tolist() == [0, 1, 2, 3, 4]
    assert seen[0].labelled_embeddings.shape == (0, 4)
    mine.close()
    with pytest.raises(errors.MissingInputError, match=r"names the first .*first=\.\.\."):
        pw.ActiveLearner.load(tmp_path)
    with pw.ActiveLearner.load(tmp_path, first=method) as again:
        assert again.pending.origin == "first"


def test_without_features_it_is_drawn_at_random_and_says_so(tmp_path):
    pool = pw.Pool(TEXTS, classes=2)
    mine = pw.ActiveLearner(reading(), pool, "margin", 4, tmp_path, first="coreset")
    with pytest.warns(pw.FeaturesWarning, match="drawn at random, not selected by coreset: .*no encoder"):
        query = mine.query()
    assert query.origin == "random"
    assert mine.rounds[0].origin == "random"
    plain = pw.ActiveLearner(reading(), pw.Pool(TEXTS, classes=2), "margin", 4).query()
    assert query.indices.tolist() == plain.indices.tolist()


def test_with_features_of_a_function_texts_have_a_first_batch():
    vectors = TfidfVectorizer().fit(TEXTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = pw.ActiveLearner(
            reading(), pw.Pool(TEXTS, classes=2), "margin", 4, first="coreset", features=vectors.transform
        )
        assert mine.query().origin == "first"


@pytest.mark.parametrize(
    ("first", "error", "message"),
    [
        ("bald", errors.ParameterError, "first='bald' needs predictions"),
        ("badge", errors.ParameterError, "predictions"),
        ("no-such", errors.UnknownMethodError, "no-such"),
        (3, errors.UnknownMethodError, "3"),
    ],
)
def test_a_first_method_that_needs_more_is_refused(first, error, message):
    with pytest.raises(error, match=message):
        learner(first=first)


def test_methods_that_can_be_first_are_known_by_their_needs():
    assert only_features(pw.methods()["coreset"].inputs({}))
    assert not only_features(pw.methods()["badge"].inputs({}))


def test_simulations_start_from_no_labels():
    mine = learner(pool=started(0), method="margin", first="coreset", batch_size=6, test=(X, Y))
    rounds = list(pw.simulate(mine, Y, budget=18))
    assert [(entry.labelled, entry.origin) for entry in rounds[:2]] == [(0, "first"), (6, "method")]
    assert rounds[0].metrics is None


# What a method declares


def test_the_preference_is_declared_and_listed():
    with pytest.raises(errors.ParameterError, match="features must be one of network, fixed, not 'pixels'"):
        registry._made(lambda task: [0], "wrong", "Wrong.", features="pixels")
    from poolwise.selection import catalogue

    source = '@method("a", summary="A.", needs=("embeddings",), features="fixed")\ndef a(task, *, b=1): ...\n'
    (entry,) = catalogue._read(source, "here")
    assert (entry.features, entry.parameters) == ("fixed", ("b",))
    assert {name: entry.features for name, entry in catalogue.built_in().items()} == {
        name: method.features for name, method in pw.methods().items() if name in catalogue.built_in()
    }


def test_the_preference_survives_pickling():
    import cloudpickle

    method, _ = shown(features="fixed")
    assert cloudpickle.loads(cloudpickle.dumps(method)).features == "fixed"
