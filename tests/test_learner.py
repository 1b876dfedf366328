"""The learner: batches, labels in any order, simulation and stopping, other posteriors, records."""

import datetime
import json
import random

import numpy as np
import pytest
import torch
from cases import thorough
from sklearn.linear_model import LogisticRegression
from small_learners import TEST, TINY, X, Y, history, learner, linear, mlp, picture, plain, started
from small_networks import values
from torch import nn
from torch.utils.data import Dataset

import poolwise as pw
import poolwise.learning.next_batch
from poolwise import errors
from poolwise.data.examples import as_examples
from poolwise.learning.rounds import Round
from poolwise.learning.stopping import Budget, Stable, Target
from poolwise.metrics import kappa
from poolwise.posteriors import Committee, DeepEnsemble, DropoutEnsemble, MCDropout

pytestmark = pytest.mark.usefixtures("one_thread")


# Asking and answering


def test_asking_twice_gives_the_same_batch_and_labels_move_it_on():
    this = learner()
    first = this.query()
    assert this.query() is first
    assert this.query(3) is first
    assert this.pending is first
    assert len(first) == 5
    assert len(this.rounds) == 1
    assert this.rounds[0].indices == tuple(first.indices.tolist())
    assert this.rounds[0].scores == tuple(first.scores.tolist())
    assert (np.diff(first.scores) <= 1e-9).all()
    assert not set(first.indices) & set(this.pool.labelled)
    this.update(first.indices, Y[first.indices])
    assert this.pending is None
    second = this.query()
    assert not set(second.indices) & set(first.indices)
    assert [entry.labelled for entry in this.rounds] == [6, 11]


def test_labels_come_in_parts_and_in_any_order():
    this, whole = learner(), learner()
    asked = this.query().indices
    for part in ([asked[3]], asked[[4, 0]], asked[[2, 1]]):
        this.update(part, Y[part])
        left = [index for index in asked if index not in this.pool.labelled]
        assert (this.pending.indices.tolist() if left else this.pending) == (left or None)
        if left:
            assert this.query().indices.tolist() == left
            assert this.pending.diagnostics is not None
    assert set(this.pool.labelled[6:]) == set(asked)
    assert len(this.rounds) == 1
    # The order of labels does not matter to anything but the order of training examples.
    whole.update(whole.query().indices[::-1], Y[whole.query().indices[::-1]])
    assert set(whole.pool.labelled) == set(this.pool.labelled)
    this.update([], [])
    this.update(this.query().indices[0], 1)  # a number alone is a list of one
    assert len(this.pool.labelled) == 12


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, lambda values: np.array(values, np.uint8)])
def test_indices_and_labels_of_any_kind(kind):
    this = learner()
    asked = this.query().indices.tolist()
    this.update(kind(asked), kind(Y[asked].tolist()))
    assert this.pool.labels[6:].tolist() == Y[asked].tolist()


def test_wrong_labels_are_refused_and_change_nothing(tmp_path):
    this = learner(tmp_path)
    asked = this.query().indices
    other = next(index for index in this.pool.unlabelled if index not in asked)
    known = this.pool.labelled[0]
    before, stored = picture(this), (tmp_path / "learner.json").read_bytes()
    for indices, labels, message in [
        ([known], [0], "has a label already"),
        ([asked[0], asked[0]], [0, 0], "more than once"),
        ([other, known], [0, 0], "has a label already"),
        ([60], [0], "there is no example 60"),
        ([-1], [0], "there is no example -1"),
        (asked, [3] * 5, "there is no class 3"),
        (asked, [0, 0, 0, 0, 7], "there is no class 7"),
        (asked, [-1] * 5, "whole numbers from 0"),
        (asked, [0.5] * 5, "whole numbers from 0"),
        (asked, ["a"] * 5, "whole numbers from 0"),
        (asked, [None] * 5, "whole numbers from 0"),
        (asked, [0] * 4, r"shape \[5\]"),
        (asked[:0], [0], r"shape \[0\]"),
        ([0.5], [0], "list of whole numbers"),
        ([True], [0], "list of whole numbers"),
        ([[asked[0]]], [0], "list of whole numbers"),
        ("no", [0], "list of whole numbers"),
    ]:
        with pytest.raises(errors.InputError, match=message):
            this.update(indices, labels)
        assert picture(this) == before
        assert (tmp_path / "learner.json").read_bytes() == stored
    for indices, labels, message in [
        ([asked[0]], [0], "no label to correct"),
        ([known, asked[0]], [0, 0], "no label to correct"),
        ([known], [3], "there is no class 3"),
        ([known, known], [0, 1], "more than once"),
    ]:
        with pytest.raises(errors.InputError, match=message):
            this.correct(indices, labels)
        assert picture(this) == before
    this.update(asked, Y[asked])
    with pytest.raises(errors.LabelError, match="has a label already"):
        this.update(asked, Y[asked])


def test_corrections_reach_the_next_model_and_leave_the_batch():
    this, right = learner(), learner()
    asked = this.query().indices
    this.update(asked[:3], (Y[asked[:3]] + 1) % 3)
    left = this.pending.indices.tolist()
    this.correct(asked[:3], Y[asked[:3]])
    assert this.query().indices.tolist() == left
    this.update(left, Y[left])
    right.query()
    right.update(asked[:3], Y[asked[:3]])
    right.update(left, Y[left])
    assert this.query().indices.tolist() == right.query().indices.tolist()
    # Also of the first labels, which nobody asked for.
    this.correct(this.pool.labelled[0], (this.pool.labels[0] + 1) % 3)
    assert this.pool.labels[0] != right.pool.labels[0]


def test_a_model_that_is_trained_is_not_trained_again():
    class Counts(DeepEnsemble):
        fits = 0

        def fit(self, *args, **options):
            Counts.fits += 1
            return super().fit(*args, **options)

    this = learner(posterior=Counts(linear, 2, training=TINY), test=TEST)
    first = this.fit()
    assert this.fit() is first
    this.query()
    this.query()
    assert Counts.fits == 1
    assert this.rounds[0].metrics == first.metrics
    this.update(this.pending.indices[:1], [0])
    this.query()  # what is left of the batch: no model is needed
    assert Counts.fits == 1
    this.skip()
    this.query()
    assert Counts.fits == 2


def test_skip_asks_anew():
    this = learner(method="random")
    first = this.query().indices
    this.skip()
    assert this.pending is None
    assert this.query().indices.tolist() != first.tolist()
    assert len(this.rounds) == 2
    this.update([index for index in first if index not in this.pending.indices][:1], [0])  # labels of any example
    assert len(this.pending) == 5
    cold = learner(pool=pw.Pool(X, 3))
    first = cold.query().indices
    cold.skip()
    assert cold.query().indices.tolist() != first.tolist()


def test_a_cold_start_draws_the_first_batch_at_random():
    this = learner(pool=pw.Pool(X, 3), seed=4)
    query = this.query()
    assert query.diagnostics is None
    assert query.origin == this.rounds[0].origin == "random"
    assert "drawn at random, because nothing was labelled yet" in repr(query)
    assert query.note in repr(query)
    assert np.isnan(query.scores).all()
    assert this.rounds[0].scores == (None,) * 5
    assert len(set(query.indices.tolist())) == 5
    assert this.rounds[0].metrics is None
    assert this.rounds[0].labelled == 0
    assert learner(pool=pw.Pool(X, 3), seed=4).query().indices.tolist() == query.indices.tolist()
    assert learner(pool=pw.Pool(X, 3), seed=5).query().indices.tolist() != query.indices.tolist()
    with pytest.raises(errors.StateError, match="Call fit"):
        this.predict(X)
    this.update(query.indices[:2], Y[query.indices[:2]])
    assert this.query().indices.tolist() == query.indices[2:].tolist()
    assert this.query().origin == "random"
    this.update(query.indices[2:], Y[query.indices[2:]])
    second = this.query()
    assert second.diagnostics is not None
    assert second.origin == this.rounds[1].origin == "method"
    assert second.note == ""
    assert "random" not in repr(second)
    assert this.rounds[1].labelled == 5


@pytest.mark.filterwarnings("ignore::poolwise.errors.SaturationWarning")
def test_a_batch_larger_than_what_is_left_is_cut():
    pool = started()
    pool.reveal(pool.unlabelled[:-7])
    this = learner(pool=pool)
    for expected in (5, 2):
        query = this.query()
        assert len(query) == expected
        this.update(query.indices, Y[query.indices])
    with pytest.raises(errors.StateError, match="nothing left to ask for"):
        this.query()
    assert len(learner(batch_size=1000).query()) == 54
    assert len(learner().query(1000)) == 54


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", True, None])
def test_batch_sizes_are_checked(size):
    if size is not None:
        with pytest.raises(errors.ParameterError, match="batch_size must be"):
            learner().query(size)
    with pytest.raises(errors.ParameterError, match="batch_size must be"):
        learner(batch_size=size)


def test_settings_are_checked_before_any_work(tmp_path):
    for options, error, message in [
        ({"method": "bold"}, errors.UnknownMethodError, "no method 'bold'"),
        ({"nonsense": 1}, errors.ParameterError, "no parameter 'nonsense'"),
        ({"seed": -1}, errors.ParameterError, "seed must be"),
        ({"seed": 0.5}, errors.ParameterError, "seed must be"),
        ({"memory": "lots"}, errors.ParameterError, "memory must be"),
        ({"test": X}, errors.MissingInputError, "evaluating a model needs labels"),
        ({"validation": X}, errors.MissingInputError, "evaluating a model needs labels"),
    ]:
        with pytest.raises(error, match=message):
            learner(tmp_path / "new", **options)
        assert not (tmp_path / "new").exists()
    with pytest.raises(errors.ParameterError, match="classes must be given"):
        learner(pool=X)


def test_numbers_of_numpy_are_numbers(tmp_path):
    this = learner(tmp_path, batch_size=np.int64(4), seed=np.int32(3), method="power-bald", alpha=np.float64(2))
    this.query()
    assert pw.ActiveLearner.load(tmp_path).query().indices.tolist() == this.query().indices.tolist()


def test_candidates_are_positions_in_the_data(tmp_path):
    pool = started()
    allowed = [50, 51, 52, 53, 54, 55, 56, 57, int(pool.labelled[0])]
    for method in ("entropy", "random", "bald"):
        this = learner(tmp_path / method, pool=started(), method=method, candidates=allowed, batch_size=3)
        for _ in range(2):
            query = this.query()
            assert set(query.indices) <= set(allowed) - {pool.labelled[0]}
            this.update(query.indices, Y[query.indices])
        again = pw.ActiveLearner.load(tmp_path / method)
        assert history(again) == history(this)
        again = learner(tmp_path / method, pool=started(), method=method, candidates=np.array(allowed), batch_size=3)
        assert len(again.query()) == len(set(allowed) - set(again.pool.labelled.tolist()) - set(this.pool.labelled))
    cold = learner(pool=pw.Pool(X, 3), candidates=allowed[:8])
    assert set(cold.query().indices) <= set(allowed)
    everything = learner(candidates=range(60), method="entropy").query()
    assert everything.indices.tolist() == learner(method="entropy").query().indices.tolist()
    assert len(learner(candidates="20%").query()) == 5


def rows(method, **options):
    """A few rounds with candidates, and the learner."""
    this = learner(method=method, batch_size=3, **options)
    return [entry.indices for entry in pw.simulate(this, Y, 15)], this


@pytest.mark.parametrize("method", ["random", "posterior-coverage", *thorough("entropy", "badge", "power-lbb")])
def test_candidates_of_every_kind(method, tmp_path):
    allowed = list(range(20, 50))
    expected, _ = rows(method, candidates=allowed)
    assert {index for batch in expected for index in batch} <= set(allowed)
    lists = [np.array(allowed), torch.tensor(allowed), range(20, 50), tuple(allowed), np.array(allowed, np.uint8)]
    numbers = ["50%", 20, np.int64(20), np.array(20), torch.tensor(20)]
    if method != "entropy":  # candidates are read before a method sees them: one method is enough for every kind
        lists, numbers = lists[:1], numbers[:2]
    for number, given in enumerate(lists):
        found, this = rows(method, candidates=given, directory=tmp_path / str(number))
        assert found == expected
        this.close()
        assert history(pw.ActiveLearner.load(tmp_path / str(number))) == history(this)
    for given in numbers:
        assert len(rows(method, candidates=given)[0]) == 4
    assert rows(method, candidates=None)[0] == rows(method)[0]


@pytest.mark.parametrize(
    "given",
    [
        datetime.date(2024, 1, 1),
        np.datetime64("2024-01-01"),
        [datetime.date(2024, 1, 1)],
        0,
        -3,
        0.5,
        True,
        [],
        [1.5],
        ["a"],
        [[1, 2]],
        [3, 3],
        [60],
        [-1],
        np.array([2**64 - 1], np.uint64),
        np.ones(60, bool),
        "some",
        "0%",
        "101%",
        {},
        {1, 2},
        object(),
        10**30,
        iter([1]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_nonsense_as_candidates_is_one_clear_error_before_any_work(given, tmp_path):
    with pytest.raises(errors.ParameterError, match="candidates") as raised:
        learner(tmp_path / "new", candidates=given)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "new").exists()


def test_candidates_that_are_all_labelled():
    this = learner(candidates=[50, 51, 52], batch_size=2)
    rounds = list(pw.simulate(this, Y))
    assert set(this.pool.labelled[6:]) <= {50, 51, 52}
    assert rounds[-1].final == "everything is labelled"
    with pytest.raises(errors.StateError, match="all candidates are labelled"):
        this.query()


# What is labelled is what scored best


class Stub:
    """A posterior that predicts what the data says: the last column is the probability of class 0."""

    def __init__(self):
        self.seen = []

    def fit(self, data, validation=None, *, seed=0, report=None):
        self.seen.append((len(data), seed, None if validation is None else len(validation)))
        return self

    def predict(self, data, *, embeddings=False, memory=0, report=None):
        x = as_examples(data).batch(np.arange(len(as_examples(data)))).double().numpy()
        p = np.stack([x[:, 0], 1 - x[:, 0]], 1)
        return pw.Predictions.from_probs(
            np.repeat(p[:, None], 2, 1), embeddings=x.astype(np.float32) if embeddings else None
        )

    def embed(self, data, *, memory=0):
        return as_examples(data).batch(np.arange(len(data))).numpy()

    def state(self):
        return {}

    def load_state(self, state):
        pass


def test_the_items_asked_for_are_the_scored_winners_by_position_in_the_data():
    draw = np.random.default_rng(0)
    p = draw.permutation(np.linspace(0.01, 0.99, 200))
    y = draw.integers(0, 2, 200)
    pool = pw.Pool((torch.from_numpy(p[:, None]).float(), y))
    pool.hold_out(50, 3)
    pool.start_balanced(10, 1)
    stub = Stub()
    this = pw.ActiveLearner(stub, pool, "entropy", 7, seed=2)
    for _ in range(5):
        free = [i for i in range(200) if i not in set(pool.labelled) | set(pool.validation)]
        expected = sorted(free, key=lambda i: abs(p[i] - 0.5))[:7]
        query = this.query()
        assert set(query.indices.tolist()) == set(expected)
        assert query.indices.tolist() == expected or np.isclose(np.diff(query.scores), 0, atol=1e-5).any()
        entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p))[query.indices]
        np.testing.assert_allclose(query.scores, entropy, atol=1e-5)
        this.update(query.indices[::-1], y[query.indices[::-1]])
    assert [count for count, _, _ in stub.seen] == [20, 27, 34, 41, 48]
    assert len({seed for _, seed, _ in stub.seen}) == 5
    assert {held for _, _, held in stub.seen} == {50}
    assert this.pool.labels.tolist() == y[this.pool.labelled].tolist()


def test_embeddings_of_the_right_rows_reach_the_methods_that_need_them():
    """Core-set picks the point farthest from all labelled ones: known when the embedding is the position itself."""
    x = torch.arange(100.0)[:, None] / 100
    pool = pw.Pool((x, np.arange(100) % 2))
    pool.label([0, 99], [0, 1])
    this = pw.ActiveLearner(Stub(), pool, "coreset", 1)
    assert this.query().indices[0] in (49, 50)
    pool = pw.Pool((x, np.arange(100) % 2))
    pool.label([99], [1])
    assert pw.ActiveLearner(Stub(), pool, "coreset", 1).query().indices.tolist() == [0]


def test_embeddings_reach_a_method_whose_parameter_names_them():
    x = torch.arange(100.0)[:, None] / 100
    pool = pw.Pool((x, np.arange(100) % 2))
    pool.label([0, 99], [0, 1])
    this = pw.ActiveLearner(Stub(), pool, "posterior-coverage", 2, kernel="embeddings")
    low, high = sorted(this.query().indices)  # seen from the middle, one on either side covers all the others
    assert low < 50 <= high


@pytest.mark.parametrize("method", sorted(pw.methods()))
def test_every_method_runs_in_the_learner(method, tmp_path):
    this = learner(tmp_path, posterior=DropoutEnsemble(mlp, 2, 3, training=TINY), method=method, test=TEST)
    rounds = list(pw.simulate(this, Y, budget=16))
    assert [entry.labelled for entry in rounds] == [6, 11, 16]
    assert [len(entry.indices) for entry in rounds] == [5, 5, 0]
    assert this.pool.labelled.tolist()[6:] == [*rounds[0].indices, *rounds[1].indices]
    assert history(pw.ActiveLearner.load(tmp_path)) == history(this)


def test_methods_start_alike_on_one_seed():
    def first(method, seed):
        this = learner(method=method, seed=seed, pool=started(seed=seed), test=TEST)
        return next(pw.simulate(this, Y, 20))

    rounds = [first(method, 0) for method in ("random", "bald", "margin", "batchbald")]
    assert all(entry.metrics == rounds[0].metrics for entry in rounds)
    assert len({entry.indices for entry in rounds}) > 1
    assert first("random", 1).metrics != rounds[0].metrics


def test_test_and_validation_sets_are_judged():
    pool = started()
    pool.hold_out(10, 0)
    this = learner(pool=pool, test=TEST)
    this.query()
    expected = pw.metrics.evaluate(this.predict(TEST[0]), TEST[1])
    assert this.rounds[0].metrics == expected
    held = pool.validation
    assert this.rounds[0].validation == pw.metrics.evaluate(this.predict(X[held]), Y[held])
    other = learner(validation=TEST)
    other.query()
    assert other.rounds[0].validation == pw.metrics.evaluate(other.predict(TEST[0]), TEST[1])
    assert other.rounds[0].metrics is None
    none = learner()
    none.query()
    assert none.rounds[0].validation is None


def test_nothing_touches_a_global_random_state():
    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    list(pw.simulate(learner(posterior=MCDropout(mlp, 4, training=TINY), method="power-lbb"), Y, 16))
    assert random.getstate() == before[0]
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])


# Simulation and stopping


def test_the_budget_counts_the_labels_from_the_start_and_cuts_the_last_batch():
    this = learner()
    rounds = list(pw.simulate(this, Y, budget=18))
    assert [entry.labelled for entry in rounds] == [6, 11, 16, 18]
    assert rounds[-1].final == "the budget of 18 labels is used"
    assert rounds[-1].indices == ()
    assert len(this.pool.labelled) == 18
    assert list(pw.simulate(this, Y, budget=18)) == []
    assert [entry.final for entry in rounds[:-1]] == [None] * 3
    assert this.finish("again") is this.rounds[-1]


@pytest.mark.parametrize("budget", [0, 3, 6])
def test_a_budget_that_is_used_already(budget):
    rounds = list(pw.simulate(learner(), Y, budget=budget))
    assert [entry.labelled for entry in rounds] == [6]
    assert "budget" in rounds[0].final


@pytest.mark.parametrize("budget", [None, 60, 1000])
def test_simulation_ends_when_everything_is_labelled(budget):
    this = learner(batch_size=25, method="random")
    rounds = list(pw.simulate(this, Y, budget=budget))
    assert [entry.labelled for entry in rounds] == [6, 31, 56, 60]
    assert not len(this.pool.unlabelled)
    assert rounds[-1].final in ("everything is labelled", "the budget of 60 labels is used")
    if budget == 1000:
        assert rounds[-1].final == "everything is labelled"


def test_budget_as_a_rule_stops_once_so_many_are_labelled():
    for labels, expected in ((16, [6, 11, 16]), (15, [6, 11, 16]), (17, [6, 11, 16, 21]), (6, [6, 11])):
        rounds = list(pw.simulate(learner(), Y, stop=[Budget(labels)]))
        assert [entry.labelled for entry in rounds] == expected
    assert Budget(0).reason([]) is None


def test_target_stops_when_the_validation_metric_is_reached():
    rounds = list(pw.simulate(learner(validation=TEST), Y, 60, stop=[Target(0.6)]))
    assert all(entry.validation["accuracy"] < 0.6 for entry in rounds[:-2])
    assert rounds[-2].validation["accuracy"] >= 0.6
    assert "accuracy on the validation set" in rounds[-1].final
    rounds = list(pw.simulate(learner(validation=TEST), Y, 60, stop=[Target(0.9, "nll")]))
    assert all(entry.validation["nll"] > 0.9 for entry in rounds[:-2])
    assert rounds[-2].validation["nll"] <= 0.9
    with pytest.raises(errors.ParameterError, match="no metric 'f1'"):
        list(pw.simulate(learner(validation=TEST), Y, 60, stop=[Target(0.5, "f1")]))
    with pytest.raises(errors.MissingInputError, match="there is none"):
        list(pw.simulate(learner(), Y, 60, stop=[Target(0.5)]))
    cold = learner(pool=pw.Pool(X, 3), validation=TEST)
    assert "accuracy" in list(pw.simulate(cold, Y, 60, stop=[Target(0.4)]))[-1].final


def test_stable_stops_when_successive_models_agree():
    class Settles(Stub):
        """Turns every prediction round for three fits, then stays."""

        def predict(self, data, **options):
            x = as_examples(data).batch(np.arange(len(as_examples(data))))
            turned = len(self.seen) in (1, 3)
            return super().predict((1 - x if turned else x), **options)

    x = torch.linspace(0.01, 0.99, 60)[:, None]
    this = pw.ActiveLearner(Settles(), pw.Pool((x, np.arange(60) % 2)), "random", 5)
    this.pool.label([0, 59], [0, 1])
    rounds = list(pw.simulate(this, np.arange(60) % 2, stop=[Stable(0.99, 2)]))
    agreements = [entry.agreement for entry in rounds]
    assert agreements[0] is None
    assert agreements[1] < -0.9
    assert agreements[2] < -0.9
    assert agreements[3] < -0.9
    assert agreements[4:6] == [1.0, 1.0]
    assert len(rounds) == 7
    assert "successive models agree" in rounds[-1].final
    with pytest.raises(errors.ParameterError, match="rounds must be at least 1"):
        Stable(0.9, 0)
    entries = [Round(0, 1), Round(1, 2, agreement=1.0), Round(2, 3, agreement=0.98), Round(3, 4, agreement=0.99)]
    assert Stable(0.98, 3).reason(entries)
    assert Stable(0.985, 3).reason(entries) is None
    assert Stable(0.98, 4).reason(entries) is None
    assert Stable(0.98, 1).reason([]) is None


def test_kappa():
    assert kappa(np.array([0, 1, 2]), np.array([0, 1, 2])) == 1
    assert kappa(np.array([1, 1]), np.array([1, 1])) == 1
    assert kappa(np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])) == 0
    assert kappa(np.array([0, 1]), np.array([1, 0])) == -1
    # Wikipedia's example: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no
    first, second = np.repeat([0, 0, 1, 1], [20, 5, 10, 15]), np.repeat([0, 1, 0, 1], [20, 5, 10, 15])
    assert kappa(first, second) == pytest.approx(0.4)


def test_a_network_with_more_outputs_than_classes_is_no_obstacle():
    this = learner(posterior=DeepEnsemble(lambda: nn.Sequential(nn.Linear(4, 9)), 2, training=pw.Training(steps=1)))
    assert len(list(pw.simulate(this, Y, 21))) == 4


def test_a_selection_that_fails_leaves_the_learner_as_it_was(monkeypatch, tmp_path):
    reference = learner(tmp_path / "reference")
    list(pw.simulate(reference, Y, 21))
    this = learner(tmp_path / "this")
    simulation = pw.simulate(this, Y, 21)
    next(simulation)
    this.fit()
    real, before = pw.select, picture(this)

    def fail(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("poolwise.learning.next_batch.select", fail)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            this.query()
        assert picture(this) == before
    monkeypatch.setattr("poolwise.learning.next_batch.select", real)
    list(pw.simulate(this, Y, 21))
    assert history(this) == history(reference)  # agreement of a model with itself would be 1


def test_oracles():
    rows = list(pw.simulate(learner(), lambda indices: Y[indices], 11))
    assert [plain(entry) for entry in rows] == [plain(entry) for entry in pw.simulate(learner(), torch.tensor(Y), 11)]
    assert [plain(entry) for entry in rows] == [plain(entry) for entry in pw.simulate(learner(), Y.tolist(), 11)]
    with pytest.raises(errors.ShapeError, match=r"shape \[60\]"):
        list(pw.simulate(learner(), Y[:10], 11))
    this = learner()
    with pytest.raises(errors.LabelError, match="no class 9"):
        list(pw.simulate(this, lambda indices: np.full(len(indices), 9), 11))
    assert len(this.pending) == 5  # still to be labelled
    list(pw.simulate(this, Y, 11))
    assert history(this) == [plain(entry) for entry in rows]


def test_progress_is_reported():
    stages = set()
    this = learner(report=lambda stage, done, total: stages.add(stage) or None)
    this.query()
    assert "predicting" in stages
    assert "training" in stages


# No more passes over the pool than are needed


class Counting(DeepEnsemble):
    """Counts the examples that it predicts and embeds."""

    def __init__(self):
        super().__init__(linear, 3, training=TINY)
        self.predicted = self.embedded = 0

    def predict(self, data, **options):
        self.predicted += len(as_examples(data))
        return super().predict(data, **options)

    def embed(self, data, **options):
        self.embedded += len(as_examples(data))
        return super().embed(data, **options)


def test_only_what_a_method_needs_is_predicted():
    for method, predicted, embedded in (("random", 6, 0), ("coreset", 6, 60), ("bald", 54, 0), ("badge", 54, 6)):
        posterior = Counting()
        query = learner(posterior=posterior, method=method).query()
        assert (posterior.predicted, posterior.embedded) == (predicted, embedded), method
        assert query.diagnostics.information is not None
        assert query.diagnostics.considered == 54
        tracked = learner(method=method, agreement=True).query()
        assert tracked.indices.tolist() == query.indices.tolist()
        assert tracked.scores.tolist() == query.scores.tolist()
        np.testing.assert_allclose(query.diagnostics.information, tracked.diagnostics.information, atol=1e-6)
        assert query.diagnostics.ceiling == tracked.diagnostics.ceiling


@pytest.mark.parametrize("method", ["random", "coreset", "bald"])
def test_agreement_is_tracked_only_where_it_is_asked_for(method, tmp_path, monkeypatch):
    passes = []
    real = poolwise.learning.next_batch.score_pool
    monkeypatch.setattr("poolwise.learning.next_batch.score_pool", lambda *rest: passes.append(1) or real(*rest))
    plain_one = learner(tmp_path / "plain", method=method)
    list(pw.simulate(plain_one, Y, 21))
    assert not passes
    assert all(entry.agreement is None and not entry.tracked for entry in plain_one.rounds)
    assert not list((tmp_path / "plain").glob("classes-*"))
    tracked = learner(tmp_path / "tracked", method=method, agreement=True)
    list(pw.simulate(tracked, Y, 21))
    assert len(passes) == 3
    assert [entry.agreement is None for entry in tracked.rounds] == [True, False, False, True]
    assert [entry.indices for entry in tracked.rounds] == [entry.indices for entry in plain_one.rounds]
    # Interrupted and loaded, it is tracked as before.
    first = learner(tmp_path / "loaded", method=method, agreement=True)
    next(pw.simulate(first, Y, 21))
    first.close()
    again = pw.ActiveLearner.load(tmp_path / "loaded")
    assert again.agreement
    list(pw.simulate(again, Y, 21))
    assert history(again) == history(tracked)


def test_a_rule_that_needs_the_agreement_switches_it_on(tmp_path):
    this = learner(tmp_path)
    list(pw.simulate(this, Y, 16))
    with pytest.raises(errors.MissingInputError, match=r"was not tracked.*agreement=True"):
        Stable(0.5, 1).reason(this.rounds[:-1])
    this.close()
    again = pw.ActiveLearner.load(tmp_path)
    assert not again.agreement
    list(pw.simulate(again, Y, 31, stop=[Stable(2.0, 1)]))  # never reached
    assert [entry.tracked for entry in again.rounds] == [False, False, True, True, True, False]
    assert [entry.agreement is None for entry in again.rounds] == [True, True, True, False, False, True]
    # Off again: the classes of an old model are not compared with those of a much later one.
    again.agreement = False
    list(pw.simulate(again, Y, 41))
    again.agreement = True
    list(pw.simulate(again, Y, 51))
    assert [entry.agreement is None for entry in again.rounds[5:]] == [True, True, True, False, True]
    assert Stable(0.5, 1).reason([]) is None
    assert Stable(0.5, 1).reason([Round(0, 0, origin="random")]) is None


# Other posteriors, and data of one's own


def test_a_committee_in_the_learner(tmp_path):
    def run(folder):
        this = pw.ActiveLearner(Committee(LogisticRegression(), 5), started(1), "bald", 5, folder, test=TEST)
        return this, pw.simulate(this, Y, 28)

    whole, simulation = run(tmp_path / "whole")
    rounds = list(simulation)
    assert rounds[-1].metrics["accuracy"] > 0.6
    this, simulation = run(tmp_path / "this")
    next(simulation)
    next(simulation)
    again, simulation = run(tmp_path / "this")
    list(simulation)
    assert history(again) == history(whole)
    assert history(pw.ActiveLearner.load(tmp_path / "this")) == history(whole)
    assert torch.equal(values(pw.ActiveLearner.load(tmp_path / "this").predict(X)), values(whole.predict(X)))
    assert len(this.rounds) == 2


class Own(Dataset):
    """A user's own: images computed on demand, with or without labels."""

    def __init__(self, x, y=None):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        if not isinstance(index, int) or not 0 <= index < len(self.x):
            raise IndexError(index)
        item = self.x[index].view(1, 2, 2)
        return item if self.y is None else (item, int(self.y[index]))


def flat():
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def test_a_data_set_of_ones_own_from_end_to_end(tmp_path):
    """Without labels: a person labels a few, the learner asks, the person answers, another day it goes on."""
    posterior = MCDropout(flat, 10, training=pw.Training(steps=60, learning_rate=0.02))
    this = pw.ActiveLearner(posterior, pw.Pool(Own(X), classes=3), "power-lbb", 6, tmp_path, test=Own(*TEST))
    for _ in range(4):
        query = this.query()
        for index in query.indices:  # one by one, as a person does
            this.update(index, Y[index])
    again = pw.ActiveLearner.load(tmp_path)
    assert len(again.pool.labelled) == 24
    accuracies = [entry.metrics and entry.metrics["accuracy"] for entry in again.rounds]
    assert accuracies[0] is None
    query = again.query()
    assert again.rounds[-1].metrics["accuracy"] > 0.6
    assert again.predict(Own(X)).shape == (60, 10, 3)
    assert len(query) == 6


@pytest.mark.parametrize("method", ["power-lbb", "badge", "coreset", "random"])
def test_a_data_set_with_labels_gives_what_its_tensor_gives(method, tmp_path):
    def run(data, folder):
        pool = pw.Pool(data)
        pool.hold_out(9, balanced=True)
        pool.start_balanced(1)
        this = pw.ActiveLearner(DeepEnsemble(flat, 3, training=TINY), pool, method, 4, folder)
        list(pw.simulate(this, Y, 15))
        return history(this)

    assert run(Own(X, Y), tmp_path / "own") == run((X.view(-1, 1, 2, 2), Y), None)


def test_text_in_the_learner(tmp_path):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    texts = ["good film", "bad film", "good book", "bad book", "a good good play", "a bad bad play"] * 4
    tones = [0, 1] * 12
    pool = pw.Pool((texts, tones))
    pool.start_balanced(2)
    this = pw.ActiveLearner(
        Committee(make_pipeline(TfidfVectorizer(), LogisticRegression()), 4), pool, "entropy", 3, tmp_path
    )
    list(pw.simulate(this, tones, 10))
    assert history(pw.ActiveLearner.load(tmp_path)) == history(this)
    with pytest.raises(errors.ParameterError, match="Encode them first"):
        learner(pool=pool).query()


def test_labels_in_a_series_are_read_by_position():
    pandas = pytest.importorskip("pandas")
    this, expected = learner(), learner()
    order = np.random.default_rng(0).permutation(60)
    list(pw.simulate(expected, Y, 16))
    # The index says other rows than the position does.
    list(pw.simulate(this, pandas.Series(Y, index=order), 16))
    assert history(this) == history(expected)
    by_function = learner()
    list(pw.simulate(by_function, lambda indices: pandas.Series(Y[indices], index=indices[::-1]), 16))
    assert history(by_function) == history(expected)
    asked = this.query().indices
    this.update(pandas.Series(asked, index=asked[::-1]), pandas.Series(Y[asked], index=asked[::-1]))
    assert this.pool.labels[-5:].tolist() == Y[asked].tolist()
    this.correct(asked, pandas.Series((Y[asked] + 1) % 3, index=[4, 3, 2, 1, 0]))
    assert this.pool.labels[-5:].tolist() == ((Y[asked] + 1) % 3).tolist()


# Records


def test_queries_can_be_compared_and_kept_in_sets():
    query, same, other = learner().query(), learner().query(), learner(seed=1).query()
    assert query == same
    assert query != other
    assert len({query, same, other}) == 2
    assert query in [other, same]


def test_the_record_of_a_cold_start_is_valid_json(tmp_path):
    this = learner(tmp_path, pool=pw.Pool(X, 3))
    this.query()
    text = (tmp_path / "learner.json").read_text()
    saved = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert saved["rounds"][0]["scores"] == saved["query"]["scores"] == [None] * 5
    again = pw.ActiveLearner.load(tmp_path)
    assert again.pending.origin == again.rounds[0].origin == "random"
    assert np.isnan(again.pending.scores).all()
    assert again.rounds == this.rounds


def test_rounds_and_queries_survive_json():
    this = learner(test=TEST)
    query = this.query()
    entry = this.rounds[0]
    assert Round.from_dict(json.loads(json.dumps(entry.as_dict()))) == entry
    again = pw.Query.from_dict(json.loads(json.dumps(query.as_dict())))
    assert again.indices.tolist() == query.indices.tolist()
    assert again.indices.dtype == np.int64
    assert again.scores.tolist() == query.scores.tolist()
    assert again.diagnostics.as_dict() == query.diagnostics.as_dict()
    assert str(again.diagnostics) == str(query.diagnostics)
    cold = pw.Query.from_dict(json.loads(json.dumps(learner(pool=pw.Pool(X, 3)).query().as_dict())))
    assert cold.diagnostics is None
    assert set(entry.seconds) == {"train", "predict", "select"}
    assert all(value >= 0 for value in entry.seconds.values())


def test_a_larger_budget_goes_on_as_if_it_had_been_that_large_from_the_start(tmp_path):
    this = learner(tmp_path, test=TEST)
    first = list(pw.simulate(this, Y, budget=16))
    assert first[-1].final is not None
    assert list(pw.simulate(this, Y, budget=16)) == []
    again = pw.ActiveLearner.load(tmp_path)
    rest = list(pw.simulate(again, Y, budget=26))
    assert [entry.labelled for entry in rest] == [16, 21, 26]
    whole = learner(test=TEST)
    list(pw.simulate(whole, Y, budget=26))
    assert history(again) == history(whole)
