"""What real labelling needs: ids, class names, rows and classes that come later, rejections, corrections, a history."""

import json
import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB
from small_learners import TEST, TINY, X, Y, ensemble, learner, started
from test_fingerprint import Items
from test_resuming import snapshots  # noqa: F401

import poolwise as pw
from poolwise import errors
from poolwise.data.examples import TensorExamples, TextExamples
from poolwise.data.joining import Joined, join
from poolwise.learning import features as features_module
from poolwise.learning.history import HistoryFile
from poolwise.posteriors import Committee, DeepEnsemble

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::poolwise.errors.SaturationWarning"),
]

NAMES = ["red", "green", "blue"]
IDS = [f"{n:02}.png" for n in range(60)]


def committee():
    return Committee(GaussianNB(), 2)


def named(n=40, **options):
    return pw.Pool(X[:n], class_names=NAMES, ids=IDS[:n], **options)


def living(folder=None, pool=None, posterior=None, method="margin", **options):
    return pw.ActiveLearner(posterior or committee(), pool or named(), method, 4, folder, **options)


def names_of(ids):
    return [NAMES[Y[IDS.index(name)]] for name in ids]


def seen(this):
    """All that can be seen of a learner, without times."""
    pending = None if this.pending is None else (this.pending.indices.tolist(), this.pending.scores.tolist())
    events = [{**event.as_dict(), "time": None} for event in this.history]
    rounds = [(entry.labelled, entry.indices, entry.final, entry.made_by) for entry in this.rounds]
    return this.pool.state(), this.pool.ids, rounds, json.dumps(pending), events


# Ids and class names


def test_ids_and_class_names_go_all_the_way(tmp_path):
    this = living(tmp_path)
    query = this.query()
    assert query.ids.tolist() == [IDS[index] for index in query.indices]
    assert query.columns()["id"] == query.ids.tolist()
    assert query.ids[0] in repr(query)
    this.update(query.ids[:3], names_of(query.ids[:3]))
    assert this.pool.labels.tolist() == Y[query.indices[:3]].tolist()
    this.update(query.indices[3:], Y[query.indices[3:]])  # positions and numbers are understood as well
    this.query()
    this.close()
    for again in (pw.ActiveLearner.load(tmp_path), living(tmp_path)):
        assert seen(again) == seen(this)
        assert again.pool.class_names == tuple(NAMES)
        assert again.pending.ids.tolist() == this.pending.ids.tolist()
        again.close()


def test_names_that_are_unknown_are_answered_with_the_nearest(tmp_path):
    this = living(tmp_path)
    before, stored = seen(this), (tmp_path / "learner.json").read_bytes()
    for call, message in [
        (lambda: this.update(["07.pgn"], ["red"]), r"no example with the id '07.pgn'. The nearest are '07.png'"),
        (
            lambda: this.update(["07.png"], ["gren"]),
            r"no class 'gren'. The nearest is 'green'. The classes are red, gr",
        ),
        (lambda: this.update(["07.png", "07.png"], ["red", "red"]), r"example 7 \(id '07.png'\) occurs more than once"),
        (lambda: this.update(["07.png"], ["red", "red"]), r"shape \[1\]"),
        (lambda: this.update(["07.png"]), "there are no labels"),
        (lambda: this.update(labels=["red"]), "say which examples, in one way"),
        (lambda: this.update([7], ["red"], ids=["07.png"]), "say which examples, in one way"),
        (lambda: this.update([7], ["red"], author=5), "author must be a name"),
        (lambda: this.update([7], ["red"], at="noon"), "at must be a time"),
        (lambda: this.correct(["07.png"], ["red"]), "no label to correct"),
        (lambda: this.restore([7]), "was not rejected"),
        (lambda: this.reject(["7"]), "no example with the id '7'"),
        (lambda: this.extend(X[:1]), "this pool has ids"),
        (lambda: this.extend(X[:1], ids=["07.png"]), "'07.png' already"),
        (lambda: this.extend(X[:1, :2], ids=["new"]), r"rows of shape \[2\] cannot be appended"),
        (lambda: this.add_class("red"), "'red' occurs more than once"),
    ]:
        with pytest.raises(errors.InputError, match=message):
            call()
        assert seen(this) == before
        assert (tmp_path / "learner.json").read_bytes() == stored


def test_whole_numbers_as_ids_are_never_guessed():
    pool = pw.Pool(X[:5], 3, ids=[4, 3, 2, 1, 0])
    this = living(pool=pool, method="random")
    for call in (
        lambda: this.update([0], [1]),
        lambda: this.reject(np.array([0])),
        lambda: pool.label([0], [1]),
    ):
        with pytest.raises(errors.LabelError, match=r"Say which you mean: ids=\[...\] or positions=\[...\]"):
            call()
    this.update(ids=[0], labels=[1])
    this.update(positions=[0], labels=[2])
    assert pool.labelled.tolist() == [4, 0]
    with pytest.raises(errors.LabelError, match=r"the id 9. The nearest are 4, 3"):
        this.update(ids=[9], labels=[0])
    list(pw.simulate(this, Y[:5], 4))  # which works by position
    assert len(pool.labelled) == 4


def test_pools_say_what_is_wrong_with_their_names():
    for options, message in [
        ({"ids": IDS[:4]}, "ids must be 5 ids"),
        ({"ids": list("abcda")}, "'a' occurs more than once"),
        ({"ids": ["a", 1, 2, 3, 4]}, "all texts or all whole numbers"),
        ({"ids": [None] * 5}, "a text or a whole number"),
        ({"class_names": "red"}, "must be a list of names"),
        ({"class_names": [1, 2]}, "must be texts"),
        ({"class_names": ["a", "a"]}, "'a' occurs more than once"),
        ({"class_names": ["a", "b", "c", "d"]}, "classes = 3, but there are 4 class_names"),
    ]:
        with pytest.raises(errors.InputError, match=message):
            pw.Pool(X[:5], 3, **options)
    assert pw.Pool(X[:2], 3, ids=[Path("a"), Path("b")]).ids == ("a", "b")
    opened = pw.data.open_data({"text": ["a", "b"], "label": ["x", "y"], "id": ["t1", "t2"]})
    pool = pw.Pool(opened)
    assert (pool.ids, pool.class_names) == (("t1", "t2"), ("x", "y"))


def test_directories_are_opened_with_the_same_class_names(tmp_path):
    living(tmp_path).close()
    with pytest.raises(errors.DataMismatchError, match="class 0 of the saved pool is 'red', here it is 'green'"):
        living(tmp_path, pw.Pool(X[:40], class_names=["green", "red", "blue"], ids=IDS[:40]))


# Labels from elsewhere, rejections, corrections


def test_labels_of_what_was_not_asked_for(tmp_path):
    this = living(tmp_path)
    asked = this.query().indices
    other = np.setdiff1d(this.pool.unlabelled, asked)[:2]
    this.update([*other, asked[1]], Y[[*other, asked[1]]], author="anna")
    assert this.pending.indices.tolist() == [asked[0], *asked[2:]]
    assert [event.asked for event in this.history] == [False, False, True]
    this.close()
    again = pw.ActiveLearner.load(tmp_path)
    assert seen(again) == seen(this)
    assert again.pool.labelled.tolist() == [*other, asked[1]]
    with pytest.raises(errors.LabelError, match="has a label already"):
        again.update(other, [0, 0])
    again.reject(asked[:1])
    with pytest.raises(errors.LabelError, match=r"was rejected. Take that back first: restore\(\)"):
        again.update(asked[:1], [0])
    again.update([*other, asked[0]], [0, 0, 1], replace=True)
    assert [event.kind for event in again.history[-3:]] == ["correction", "correction", "label"]
    assert again.pool.labels.tolist() == [0, 0, Y[asked[1]], 1]
    assert not len(again.pool.rejected)


def test_rejected_examples_are_never_offered(tmp_path):
    this = living(tmp_path, method="random")
    asked = this.query().indices
    this.reject(asked[:3], "blurred", author="ben")
    assert this.pending.indices.tolist() == asked[3:].tolist()
    assert this.pool.reasons == dict.fromkeys(asked[:3].tolist(), "blurred")
    this.reject(asked[3:])
    assert this.pending is None
    this.close()
    this = pw.ActiveLearner.load(tmp_path)
    while len(this.pool.unlabelled):
        query = this.query().indices
        assert not set(query) & set(asked)
        this.update(query, Y[query])
    assert len(this.pool.labelled) == 36
    with pytest.raises(errors.StateError, match="labelled or rejected"):
        this.query()
    this.restore(asked[:1])
    assert this.query().indices.tolist() == asked[:1].tolist()
    # A label is withdrawn.
    labelled = this.pool.labelled
    this.reject(labelled[:2])
    assert this.pool.labelled.tolist() == labelled[2:].tolist()
    assert [event.kind for event in this.history[:4]] == ["rejection"] * 4


def test_history_and_corrections(tmp_path):
    this = living(tmp_path)
    when = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)
    asked = this.query()
    this.update(asked.ids, ["red"] * 4, author="anna", at=when)
    this.query()
    rounds = [entry.as_dict() for entry in this.rounds]
    this.correct(asked.ids[:1], ["blue"], author="ben", at="2026-05-04T15:00:00+02:00")
    assert [entry.as_dict() for entry in this.rounds] == rounds
    assert this.pool.labels.tolist() == [2, 0, 0, 0]
    this.close()
    again = pw.ActiveLearner.load(tmp_path)
    assert again.history == this.history
    first, last = again.history[0], again.history[-1]
    assert (first.item, first.class_name, first.author, first.time, first.kind) == (
        asked.ids[0],
        "red",
        "anna",
        when,
        "label",
    )
    assert (last.author, last.label, last.kind) == ("ben", 2, "correction")
    assert last.time == datetime(2026, 5, 4, 13, tzinfo=UTC)
    lines = next(tmp_path.glob("history-*.jsonl")).read_text().splitlines()
    assert json.loads(lines[0])["author"] == "anna"
    assert len(lines) == 5


def test_a_correction_after_the_end_reaches_the_last_model(tmp_path):
    this = living(tmp_path, started(data=(X[:40], Y[:40])))
    list(pw.simulate(this, Y[:40], 14))
    last = this.rounds[-1]
    wrong = this.pool.labelled[:6]
    this.correct(wrong, (Y[wrong] + 1) % 3)
    this.close()
    again = pw.ActiveLearner.load(tmp_path)
    assert again.rounds[-1].final == last.final
    expected = living(pool=again.pool).fit()
    assert again.finish("again").labelled == expected.labelled
    assert len(again.rounds) == len(this.rounds)
    assert again.rounds[-1].final == "again"
    assert (again.predict(X).numpy() != this.predict(X).numpy()).any()


# More rows


def test_rows_can_be_appended(tmp_path):
    this = living(tmp_path, agreement=True)
    asked = this.query().indices
    this.update(asked[:2], Y[asked[:2]])
    assert this.extend(X[40:50], ids=IDS[40:50]).tolist() == list(range(40, 50))
    assert this.pending.indices.tolist() == asked[2:].tolist()
    this.update(asked[2:], Y[asked[2:]])
    for _ in range(3):
        query = this.query()
        this.update(query.ids, names_of(query.ids))
    assert this.rounds[-1].agreement is not None
    this.extend(X[50:55], ids=IDS[50:55])
    this.query()
    this.close()
    again = pw.ActiveLearner.load(tmp_path)
    assert seen(again) == seen(this)
    assert len(again.pool) == 55
    again.close()
    living(tmp_path, named(55), agreement=True).close()
    with pytest.raises(errors.DataMismatchError, match="15 ids were removed"):
        living(tmp_path, named(40), agreement=True)


@pytest.mark.parametrize("kind", [lambda x: x, lambda x: Items(x.numpy())], ids=["array", "data set"])
def test_a_directory_grows_with_its_data(kind, tmp_path, monkeypatch):
    def opened(rows, **options):
        return living(tmp_path, pw.Pool(kind(rows), 3), **options)

    this = opened(X[:30])
    this.update(range(6), Y[:6])
    asked = this.query().indices
    this.close()
    with pytest.raises(errors.DataMismatchError, match=r"10 rows were added.*rows of before are unchanged. Pass grow"):
        opened(X[:40])
    changed = X[:40].clone()
    changed[asked[0]] += 1
    with pytest.raises(errors.DataMismatchError, match="Labels belong to positions"):
        opened(changed, grow=True)
    with pytest.raises(errors.DataMismatchError, match="removed"):
        opened(X[:20], grow=True)
    grown = opened(X[:40], grow=True)
    assert grown.pending.indices.tolist() == asked.tolist()
    assert len(grown.pool) == 40
    grown.close()
    opened(X[:40]).close()
    loaded = pw.ActiveLearner.load(tmp_path, data=kind(X[:50]), grow=True)
    loaded.update(asked, Y[asked])
    assert len(loaded.query()) == 4
    loaded.close()
    assert len(pw.ActiveLearner.load(tmp_path).pool) == 50  # what was saved is the larger data


def test_growing_needs_something_to_compare_with(tmp_path):
    living(tmp_path, pw.Pool(X[:30], 3), check_data=False).close()
    with pytest.raises(errors.DataMismatchError, match="does not say what its rows were"):
        living(tmp_path, pw.Pool(X[:40], 3), grow=True)
    assert len(living(tmp_path, pw.Pool(X[:40], 3), grow=True, check_data=False).pool) == 40


@pytest.mark.parametrize("memory", ["1GB", "1KB"])
def test_features_are_extended_and_not_computed_again(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("poolwise.data.features._BLOCK", 8)
    computed = []

    def function(inputs):
        computed.append(len(inputs))
        return inputs**2

    options = {"features": function, "first": "coreset", "method": "coreset", "memory": memory}
    this = living(tmp_path / "a", pw.Pool(X[:30], 3), **options)
    this.query()
    computed.clear()
    this.extend(X[30:40])
    this.skip()
    query = this.query()
    assert sum(computed) <= (16 if memory == "1GB" else 16 + 8 + 30)  # on the disk, three blocks are compared
    whole = pw.ActiveLearner(committee(), pw.Pool(X[:40], 3), "coreset", 4, features=function, first="coreset")
    assert this._features.rows(np.arange(40)).tolist() == whole._features.rows(np.arange(40)).tolist()
    this.close()
    again = pw.ActiveLearner.load(tmp_path / "a")
    again.skip()
    assert len(again.query()) == len(query)
    assert (tmp_path / "a" / features_module.FILE).exists() == (memory == "1KB")


def test_an_array_of_features_grows_too(tmp_path):
    features = X.numpy() ** 2
    this = living(tmp_path, pw.Pool(X[:30], 3), method="coreset", features=features[:30])
    this.update(range(6), Y[:6])
    with pytest.raises(errors.MissingInputError, match="given an array of features"):
        this.extend(X[30:40])
    assert len(this.pool) == 30
    this.extend(X[30:40], features=features[30:40])
    this.query()
    this.close()
    assert seen(pw.ActiveLearner.load(tmp_path)) == seen(this)
    larger = living(tmp_path, pw.Pool(X, 3), method="coreset", features=features, grow=True)
    assert len(larger.pool) == 60
    larger.close()
    with pytest.raises(errors.StateError, match="features"):
        living(tmp_path, pw.Pool(X, 3), method="coreset", features=features + 1, grow=True)


def test_examples_of_every_kind_can_be_joined():
    texts = join(TextExamples(["a"], [1]), TextExamples(["b", "c"]), None)
    assert (texts.texts, texts.labels.tolist()) == (["a", "b", "c"], [1, -1, -1])
    joined = join(pw.data.as_examples(Items(X[:3].numpy())), TensorExamples(X[3:6]), None)
    joined = join(joined, TensorExamples(X[6:8]), None)
    assert isinstance(joined, Joined)
    assert len(joined.parts) == 3
    order = np.array([7, 0, 4, 2, 6, 3])
    assert torch.equal(joined.batch(order), X[:8][order])
    assert torch.equal(joined.batch(np.array([4, 3])), X[[4, 3]])
    tokens = pw.data.TokenExamples(np.arange(3), np.array([2, 1]))
    both = join(tokens, pw.data.TokenExamples(np.arange(4), np.array([4])), None)
    assert both.batch(np.array([2, 1])).tolist() == [[0, 1, 2, 3], [2, -1, -1, -1]]
    named_tensors = join(pw.data.as_examples({"a": X[:2]}), pw.data.as_examples({"a": X[2:4]}), None)
    assert torch.equal(named_tensors.batch(np.array([3]))["a"], X[3:4])
    for wrong in (TensorExamples(X[:2].long()), TensorExamples(X[:2, :1]), TextExamples(["a"])):
        with pytest.raises(errors.InputError):
            join(TensorExamples(X[:2]), wrong, None)
    pool = pw.Pool((X[:4], [0, 1, 2, 0]), class_names=NAMES)
    pool.extend(TensorExamples(X[4:6], [0, 1], ["blue", "red"]))
    pool.extend(X[6:9])
    assert pool.data.labels.tolist() == [0, 1, 2, 0, 2, 0, -1, -1, -1]
    pool.start_random(6)  # only of what has a label
    with pytest.raises(errors.ParameterError, match="0 are unlabelled"):
        pool.hold_out(1)


# More classes


def by_classes(classes):
    return DeepEnsemble(partial(pw.models.linear, (4,), classes), 2, training=TINY, warm_start=True)


@pytest.mark.parametrize("posterior", [committee, lambda: by_classes], ids=["committee", "networks"])
def test_a_class_is_added_at_any_time(posterior, tmp_path):
    def opened(**options):
        pool = pw.Pool(X[:40], class_names=NAMES[:2], ids=IDS[:40])
        return living(tmp_path, pool, posterior(), agreement=True, **options)

    this = opened()
    two = np.flatnonzero(Y[:40] < 2)[:6]
    this.update(two, Y[two])
    assert len(this.query()) == 4
    assert this.predict(X).shape[2] == 2
    assert this.add_class("blue") == 2
    assert this.predict(X).shape[2] == 2  # the model that there is, until the next is trained
    this.close()
    this = opened()  # the same script as before: it does not know the class
    assert this.pool.class_names == tuple(NAMES)
    assert this.predict(X).shape[2] == 2
    blue = np.flatnonzero(Y[:40] == 2)[:3]
    this.update(blue, ["blue"] * 3)
    this.skip()
    query = this.query()
    assert (query.made_by.classes, query.made_by.model) == (3, 2)
    assert this.predict(X).shape[2] == 3
    this.update(query.ids[:2], ["violet", "red"], new_classes=True)
    assert this.pool.class_names == (*NAMES, "violet")
    this.fit()
    this.close()
    again = pw.ActiveLearner.load(tmp_path)
    assert seen(again) == seen(this)
    assert again.predict(X).numpy().tolist() == this.predict(X).numpy().tolist()
    assert again.predict(X).shape[2] == 4
    again.close()
    more = pw.Pool(X[:40], class_names=[*NAMES, "violet", "pink"], ids=IDS[:40])
    with pytest.raises(errors.DataMismatchError, match="of 5"):
        living(tmp_path, more, posterior(), agreement=True)
    assert living(tmp_path, more, posterior(), agreement=True, grow=True).pool.classes == 5


def test_networks_that_cannot_grow_say_so(tmp_path):
    this = learner(tmp_path, ensemble(), started(data=(X, Y)))
    assert this.add_class("other") == 3  # not trained yet: nobody knows how many outputs there are
    this.update([int(this.pool.unlabelled[0])], [3])
    with pytest.raises(errors.StateError, match="function of the number of classes"):
        this.fit()
    this.close()
    fixed = pw.ActiveLearner.load(tmp_path, posterior=by_classes)
    assert fixed.query().made_by.posterior == "DeepEnsemble"
    other = learner(posterior=ensemble(), pool=started(data=(X, Y)))
    other.fit()
    with pytest.raises(errors.StateError, match=r"have 3 outputs, for 3 classes\. Give the learner a function"):
        other.add_class("other")
    assert other.pool.classes == 3
    for wrong in (torch.nn.Linear(4, 3), lambda classes: None):
        with pytest.raises(errors.ParameterError, match="posterior"):
            learner(posterior=wrong)


def test_numbers_of_new_classes_have_no_gaps():
    this = living(pool=pw.Pool(X[:40], 3))
    with pytest.raises(errors.LabelError, match="there is no class 4"):
        this.update([0], [4], new_classes=True)
    this.update([0, 1], [4, 3], new_classes=True)
    assert (this.pool.classes, this.pool.class_names) == (5, None)
    this.update([2], ["moss"], new_classes=True)
    assert this.pool.class_names == ("0", "1", "2", "3", "4", "moss")


# What made a batch


def test_a_batch_keeps_what_made_it(tmp_path):
    pool = pw.Pool(X[:40], 3, encoder="clip")
    this = living(tmp_path, pool)
    first = this.query()
    assert (first.made_by.method, first.made_by.posterior, first.made_by.model) == ("random", None, 0)
    this.update(first.indices, Y[first.indices])
    second = this.query().made_by
    assert (second.method, second.posterior, second.model, second.encoder) == ("margin", "Committee", 1, "clip")
    assert this.rounds[1].made_by == second
    this.close()
    again = pw.ActiveLearner.load(tmp_path)
    assert again.pending.made_by == again.rounds[1].made_by == second
    images = TensorExamples(torch.randint(256, (8, 1, 10, 10), dtype=torch.uint8))
    from poolwise.data.patches import Patches

    made = pw.Pool(Patches(images, filters=3)(images), 2)
    assert made.encoder.name == "patches"
    assert len(made.encoder.fingerprint) == 8
    with pytest.raises(errors.ParameterError, match="Encode them alike"):
        made.extend(torch.zeros(2, 12))


# Directories of before


def test_a_directory_of_format_2_is_opened(tmp_path):
    source = Path(__file__).parent / "data" / "learner-format-2"
    expected = json.loads(source.with_suffix(".json").read_text())
    posterior = DeepEnsemble(partial(pw.models.linear, (4,), 3), 3, training=TINY)
    for number, parts in enumerate(({}, {"posterior": posterior, "data": (X, Y), "test": TEST})):
        folder = tmp_path / str(number)
        shutil.copytree(source, folder)
        with pw.ActiveLearner.load(folder, **parts) as this:
            assert this.pending.indices.tolist() == expected["pending"]
            assert (this.history, this.rounds[0].made_by) == ((), None)
            wrong = this.pool.labelled[this.pool.labels != Y[this.pool.labelled]]
            this.correct(wrong, Y[wrong])
            this.update(this.pending.indices, Y[this.pending.indices])
        with pw.ActiveLearner.load(folder) as this:
            assert json.loads((folder / "learner.json").read_text())["format"] == 3
            for batch in expected["asked"]:
                assert this.query().indices.tolist() == batch
                this.update(batch, Y[batch])


# Interruption at any moment, and any sequence of operations

STEPS = [
    lambda this: this.update(IDS[:4], names_of(IDS[:4]), author="anna"),
    lambda this: this.query(),
    lambda this: this.update(this.pending.ids[:2], names_of(this.pending.ids[:2])),
    lambda this: this.extend(X[30:40], ids=IDS[30:40]),
    lambda this: this.reject(this.pending.ids[:1], "blurred"),
    lambda this: this.correct(IDS[:1], ["green"], author="ben"),
    lambda this: this.add_class("violet"),
    lambda this: this.update([IDS[39], IDS[38]], ["violet", "pink"], new_classes=True),
    lambda this: this.skip(),
    lambda this: this.query(),
    lambda this: this.restore(positions=this.pool.rejected),
    lambda this: this.finish("enough"),
    lambda this: this.correct(IDS[:1], ["red"]),
    lambda this: this.query(2),
]


@pytest.mark.parametrize("posterior", [committee, lambda: by_classes], ids=["committee", "networks"])
def test_killed_at_any_moment_it_resumes_with_the_same_result(posterior, snapshots, tmp_path, monkeypatch):  # noqa: F811
    def begin(folder):
        return living(folder, named(30), posterior(), agreement=True)

    this = begin(tmp_path / "run")
    states = [seen(this)]
    for step in STEPS:
        step(this)
        states.append(seen(this))
    moments = list(snapshots)
    monkeypatch.undo()
    assert len(moments) > 40
    reached = set()
    for moment in moments[:: 1 if posterior is committee else 5]:
        exists = (moment / "learner.json").exists()
        with pw.ActiveLearner.load(moment) if exists else begin(moment) as again:
            # What is there is what was there before or after a step, or a model trained on the way.
            found = seen(again)
            between = [number for number, state in enumerate(states) if state == found]
            if not between:
                assert again.rounds[-1:] == () or again.rounds[-1].final is None  # a final round was taken back
                between = [len(STEPS) - 1]
            reached.add(between[-1])
            for step in STEPS[between[-1] :]:
                step(again)
            assert seen(again) == states[-1], moment.name
    assert len(reached) > (10 if posterior is committee else 5)


def test_an_interrupted_write_of_the_history_is_never_overwritten(tmp_path, monkeypatch):
    """The state may be on the disk although the call did not return: what it counts stays as it is."""
    this = living(tmp_path)
    this.update([0], [0])
    monkeypatch.setattr(this._saver._checkpoint, "write", _then_interrupt(this._saver._checkpoint.write))
    with pytest.raises(KeyboardInterrupt):
        this.update([1], [1])
    monkeypatch.undo()
    assert this.pool.labelled.tolist() == [0]
    copy = tmp_path.parent / "copy"
    shutil.copytree(tmp_path, copy)
    assert [event.index for event in pw.ActiveLearner.load(copy).history] == [0, 1]
    before = {path.name: path.read_bytes() for path in tmp_path.glob("history-*")}
    with HistoryFile.adding(this._saver._history, [*this._now.history]):
        assert all((tmp_path / name).read_bytes() == content for name, content in before.items())
    this.update([2], [2])
    this.close()
    assert [event.index for event in pw.ActiveLearner.load(tmp_path).history] == [0, 2]


def _then_interrupt(write):
    def both(*args):
        write(*args)
        raise KeyboardInterrupt

    return both


class Plain:
    """What a learner must know, said with dictionaries."""

    def __init__(self):
        self.N, self.labels, self.rejected, self.events, self.classes = 12, {}, set(), [], 3

    def labelled(self):
        return list(self.labels)


some = st.lists(st.integers(0, 15), min_size=1, max_size=3, unique=True)
operations = st.one_of(
    st.tuples(st.just("query")),
    st.tuples(st.just("answer"), st.integers(1, 3)),
    st.tuples(st.just("update"), some, st.integers(0, 3)),
    st.tuples(st.just("replace"), some, st.integers(0, 2)),
    st.tuples(st.just("correct"), some, st.integers(0, 2)),
    st.tuples(st.just("reject"), some),
    st.tuples(st.just("restore"), some),
    st.tuples(st.just("extend"), st.integers(1, 3)),
    st.tuples(st.just("class")),
    st.tuples(st.just("skip")),
    st.tuples(st.just("reload")),
)


def expect(model, kind, chosen, label):
    """What an operation does to the plain model, or None if it must be refused."""
    if any(index >= model.N for index in chosen) or label >= model.classes:
        return None
    known, rejected = set(model.labels) & set(chosen), model.rejected & set(chosen)
    if kind == "update" and (known or rejected):
        return None
    if kind == "correct" and (len(known) < len(chosen)):
        return None
    if kind == "restore" and len(rejected) < len(chosen):
        return None
    names = {"update": "label", "reject": "rejection", "restore": "return", "correct": "correction"}
    events = [(i, names.get(kind) or ("correction" if i in known else "label")) for i in chosen]
    model.events += events
    for index in chosen:
        if kind in ("update", "replace", "correct"):
            model.labels[index] = label
        if kind == "reject":
            model.labels.pop(index, None)
            model.rejected.add(index)
        else:
            model.rejected.discard(index)
    return events


@settings(max_examples=25)
@given(st.lists(operations, max_size=10))
def test_any_sequence_of_operations(tmp_path_factory, sequence):
    folder = tmp_path_factory.mktemp("any") / "run"
    this = pw.ActiveLearner(committee(), pw.Pool(X[:12], 3, ids=IDS[:12]), "margin", 3, folder)
    model, pending = Plain(), []
    for kind, *rest in sequence:
        before = seen(this)
        if kind == "reload":
            this.close()
            this = pw.ActiveLearner.load(folder)
            assert seen(this) == before
        elif kind == "query":
            free = [i for i in range(model.N) if i not in model.labels and i not in model.rejected]
            if free or pending:
                pending = pending or this.query().indices.tolist()
                assert this.query().indices.tolist() == pending
                assert set(pending) <= set(free)
        elif kind == "answer":
            chosen, pending = pending[: rest[0]], pending[rest[0] :]
            expect(model, "update", chosen, 1)
            this.update([IDS[i] for i in chosen], [1] * len(chosen))
        elif kind == "skip":
            this.skip()
            pending = []
        elif kind == "extend":
            this.extend(X[model.N : model.N + rest[0]], ids=IDS[model.N : model.N + rest[0]])
            model.N += rest[0]
        elif kind == "class":
            assert this.add_class() == model.classes
            model.classes += 1
        else:
            chosen, label = rest[0], rest[1] if len(rest) > 1 else 0
            labels = [label] * len(chosen)
            call = {
                "update": partial(this.update, chosen, labels),
                "replace": partial(this.update, chosen, labels, replace=True),
                "correct": partial(this.correct, chosen, labels),
                "reject": partial(this.reject, chosen),
                "restore": partial(this.restore, chosen),
            }[kind]
            if expect(model, kind, chosen, label) is None:
                with pytest.raises(errors.LabelError):
                    call()
                assert seen(this) == before
            else:
                call()
                pending = [i for i in pending if i not in chosen]
        assert dict(zip(this.pool.labelled.tolist(), this.pool.labels.tolist(), strict=True)) == model.labels
        assert set(this.pool.rejected.tolist()) == model.rejected
        assert [(event.index, event.kind) for event in this.history] == model.events
        assert (this.pending.indices.tolist() if this.pending is not None else []) == pending
        assert (len(this.pool), this.pool.classes) == (model.N, model.classes)
    this.close()
    assert seen(pw.ActiveLearner.load(folder)) == seen(this)
