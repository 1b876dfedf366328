"""The pool: exact counts, index sets that never overlap, errors that change nothing, and a plain model of it all."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import poolwise as pw
from poolwise import errors
from poolwise.data.examples import TensorExamples

Y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3], [40, 30, 20, 10]))
X = torch.arange(100.0)[:, None] * torch.ones(100, 3)  # a row's numbers are its position


def fresh(**options):
    return pw.Pool((X, Y), **options)


def counts(indices):
    return np.bincount(Y[indices], minlength=4).tolist()


# Initial and validation sets


@pytest.mark.parametrize("per_class", [0, 1, 5, 10])
def test_balanced_sets_have_exact_counts(per_class):
    pool = fresh()
    drawn = pool.start_balanced(per_class)
    assert counts(drawn) == [per_class] * 4
    assert pool.labelled.tolist() == drawn.tolist()
    assert pool.labels.tolist() == Y[drawn].tolist()
    for n in range(0, len(drawn), 4):
        assert sorted(Y[drawn[n : n + 4]].tolist()) == [0, 1, 2, 3]  # a part of the set is as balanced as it can be


def test_more_than_there_are_is_an_error_that_changes_nothing():
    pool = fresh()
    with pytest.raises(errors.ParameterError, match=r"class 3 has 10\. Ask for at most 10 per class"):
        pool.start_balanced(11)
    with pytest.raises(errors.ParameterError, match="class 3 has 10"):
        pool.hold_out(44, balanced=True)
    with pytest.raises(errors.ParameterError, match="take a multiple of 4"):
        pool.hold_out(10, balanced=True)
    with pytest.raises(errors.ParameterError, match="100 are unlabelled"):
        pool.start_random(101)
    for call in (pool.start_balanced, pool.start_random, pool.hold_out):
        with pytest.raises(errors.ParameterError):
            call(-1)
    with pytest.raises(errors.ParameterError):
        pool.hold_out(-4, balanced=True)
    assert len(pool.labelled) == len(pool.validation) == 0
    assert pool.state() == fresh().state()


def test_a_second_set_counts_what_the_first_left():
    pool = fresh()
    pool.start_balanced(6)
    pool.hold_out(12, balanced=True)
    with pytest.raises(errors.ParameterError, match="class 3 has 1"):
        pool.start_balanced(2)
    pool.start_balanced(1)
    assert counts(pool.labelled) == [7] * 4
    assert counts(pool.validation) == [3] * 4


def test_seeds_give_sets_of_their_own():
    for draw in (
        lambda pool, seed: pool.start_balanced(5, seed),
        lambda pool, seed: pool.start_random(20, seed),
        lambda pool, seed: pool.hold_out(20, seed),
        lambda pool, seed: pool.hold_out(20, seed, balanced=True),
    ):
        sets = [tuple(draw(fresh(), seed).tolist()) for seed in (0, 1, 2, 0)]
        assert sets[0] == sets[3]
        assert len({frozenset(drawn) for drawn in sets}) == 3
    assert set(fresh().hold_out(20, 0)) != set(fresh().start_random(20, 0))  # streams of their own


def test_index_sets_never_overlap_and_are_positions_in_the_data():
    pool = fresh()
    pool.hold_out(20, 1)
    pool.start_balanced(3)
    pool.label(pool.unlabelled[[3, 1]], [0, 1])
    sets = pool.labelled, pool.unlabelled, pool.validation
    assert sorted(np.concatenate(sets).tolist()) == list(range(100))
    assert (np.diff(pool.unlabelled) > 0).all()
    assert (np.diff(pool.validation) > 0).all()
    for indices, examples in zip(
        sets, (pool.labelled_examples(), pool.unlabelled_examples(), pool.validation_examples()), strict=True
    ):
        assert len(examples) == len(indices)
        some = np.array([len(indices) - 1, 0])
        assert examples.batch(some)[:, 0].tolist() == indices[some].tolist()
    assert pool.labelled_examples().labels.tolist() == pool.labels.tolist()
    assert pool.validation_examples().labels.tolist() == Y[pool.validation].tolist()
    assert fresh().validation_examples() is None
    assert "100 examples, 4 classes: 14 labelled, 66 unlabelled, 20 for validation" in repr(pool)
    assert len(pool) == 100


def test_labels_that_are_given_count_not_those_of_the_data():
    pool = fresh()
    pool.label([5, 3], [(Y[5] + 1) % 4, Y[3]])
    assert pool.labelled.tolist() == [5, 3]
    assert pool.labelled_examples().labels.tolist() == [(Y[5] + 1) % 4, Y[3]]
    pool.correct(5, Y[5])
    assert pool.labels.tolist() == [Y[5], Y[3]]
    assert pool.labelled.tolist() == [5, 3]
    pool.reveal([7])
    assert pool.labels[-1] == Y[7]
    assert pool.data.labels.tolist() == Y.tolist()


# Refusals


@pytest.mark.parametrize(
    ("indices", "labels", "error", "message"),
    [
        ([10, 1], [0, 0], errors.LabelError, "example 1 has a label already"),
        ([10, 2], [0, 0], errors.LabelError, "example 2 is held out for validation"),
        ([10, 10], [0, 0], errors.LabelError, "example 10 occurs more than once"),
        ([10, 100], [0, 0], errors.LabelError, "there is no example 100"),
        ([10, -1], [0, 0], errors.LabelError, "there is no example -1"),
        ([10, 11], [0, 4], errors.LabelError, "there is no class 4"),
        ([10, 11], [0, -1], errors.ParameterError, "whole numbers from 0"),
        ([10, 11], [0, 1.5], errors.ParameterError, "whole numbers from 0"),
        ([10, 11], ["cat", "dog"], errors.ParameterError, "map each name to its number"),
        ([10, 11], [None, None], errors.ParameterError, "whole numbers from 0"),
        ([10, 11], [0], errors.ShapeError, r"shape \[2\]"),
        ([10, 11], [[0, 1]], errors.ShapeError, r"shape \[2\]"),
        ([10.0, 11.0], [0, 0], errors.LabelError, "list of whole numbers"),
        ([True, False], [0, 0], errors.LabelError, "list of whole numbers"),
        ([[10], [11]], [0, 0], errors.LabelError, "list of whole numbers"),
        (np.array([2**63 + 5], np.uint64), [0], errors.LabelError, "there is no example"),
    ],
)
def test_wrong_labels_change_nothing(indices, labels, error, message):
    pool = fresh()
    pool.label([1], [0])
    pool._validation_N[2] = True
    before = pool.state()
    with pytest.raises(error, match=message):
        pool.label(indices, labels)
    assert pool.state() == before
    with pytest.raises(errors.InputError):
        pool.correct(indices, labels)
    assert pool.state() == before


def test_the_number_of_classes():
    assert fresh().classes == 4
    assert fresh(classes=7).classes == 7
    assert pw.Pool(X, classes=2).classes == 2
    assert pw.Pool(TensorExamples(X, None, ["a", "b", "c"])).classes == 3
    assert pw.Pool(TensorExamples(X, None, ["a", "b", "c"])).labelled_examples().class_names == ("a", "b", "c")
    assert fresh(classes=7).labelled_examples().class_names == tuple("0123456")
    for data, classes in ((X, None), (X, 1), ((X, np.zeros(100, int)), None)):
        with pytest.raises(errors.ParameterError, match="classes must be given"):
            pw.Pool(data, classes)
    with pytest.raises(errors.LabelError, match="there is no class 3"):
        fresh(classes=3).reveal(np.flatnonzero(Y == 3)[:1])


def test_data_without_labels_cannot_be_revealed():
    pool = pw.Pool(X, 4)
    for call in (
        lambda: pool.reveal([0]),
        lambda: pool.start_balanced(1),
        lambda: pool.start_random(1),
        lambda: pool.hold_out(1),
    ):
        with pytest.raises(errors.MissingInputError, match="needs labels"):
            call()
    assert pool.state() == pw.Pool(X, 4).state()
    pool.label([0], [3])
    assert pool.unlabelled_examples().labels is None


# Saving


def test_state_round_trips_by_json():
    pool = fresh()
    pool.hold_out(8, balanced=True)
    pool.start_balanced(2)
    pool.label([int(pool.unlabelled[4])], [3])
    other = fresh()
    other.start_random(50)  # whatever was there before
    other.hold_out(20)
    other.load_state(json.loads(json.dumps(pool.state())))
    assert other.state() == pool.state()
    for name in ("labelled", "labels", "unlabelled", "validation"):
        assert getattr(other, name).tolist() == getattr(pool, name).tolist()
    pool.reveal(pool.unlabelled[:1])
    assert other.state() != pool.state()  # a state is a copy
    for wrong in (pw.Pool((X[:99], Y[:99]), 4), fresh(classes=5)):
        with pytest.raises(errors.ParameterError, match="Load it with the same data"):
            wrong.load_state(pool.state())


# Any sequence of operations, against a dictionary


class Model:
    """What a pool must do, said with a dictionary and a set."""

    def __init__(self):
        self.known, self.held = {}, set()

    def allowed(self, indices, labels, correcting):
        return (
            len(indices) == len(labels)
            and len(set(indices)) == len(indices)
            and all(0 <= i < 12 for i in indices)
            and all(0 <= y < 3 for y in labels)
            and not set(indices) & self.held
            and all((i in self.known) == correcting for i in indices)
        )


indices = st.lists(st.integers(-1, 12), max_size=4)
labels = st.lists(st.integers(-1, 3), max_size=4)
operations = st.one_of(
    st.tuples(st.just("label"), indices, labels),
    st.tuples(st.just("right"), indices),
    st.tuples(st.just("correct"), indices, labels),
    st.tuples(st.just("reveal"), indices),
    st.tuples(st.just("hold"), st.integers(-1, 13), st.booleans()),
    st.tuples(st.just("random"), st.integers(-1, 13)),
    st.tuples(st.just("balanced"), st.integers(-1, 4)),
    st.tuples(st.just("save")),
)


@settings(max_examples=150)
@given(st.lists(operations, max_size=10), st.integers(0, 5))
def test_any_sequence_of_operations(sequence, seed):
    y = np.arange(12) % 3
    pool, model = pw.Pool((torch.zeros(12, 2), y)), Model()
    for operation in sequence:
        kind, *rest = operation
        before = pool.state()
        try:
            if kind in ("label", "right", "correct"):
                chosen = rest[0]
                given_labels = rest[1] if len(rest) > 1 else [i % 3 for i in chosen]
                allowed = model.allowed(chosen, given_labels, kind == "correct")
                (pool.correct if kind == "correct" else pool.label)(chosen, given_labels)
                model.known.update(zip(chosen, given_labels, strict=True))
            elif kind == "reveal":
                allowed = model.allowed(rest[0], [i % 3 for i in rest[0]], False)
                pool.reveal(rest[0])
                model.known.update({i: i % 3 for i in rest[0]})
            elif kind == "save":
                allowed = True
                other = pw.Pool((torch.zeros(12, 2), y))
                other.load_state(json.loads(json.dumps(pool.state())))
                pool = other
            else:
                free = [i for i in range(12) if i not in model.known and i not in model.held]
                fewest = min(sum(i % 3 == c for i in free) for c in range(3))
                if kind == "balanced":
                    allowed = 0 <= rest[0] <= fewest
                    drawn = pool.start_balanced(rest[0], seed)
                    assert np.bincount(y[drawn], minlength=3).tolist() == [rest[0]] * 3
                elif kind == "random":
                    allowed = 0 <= rest[0] <= len(free)
                    drawn = pool.start_random(rest[0], seed)
                else:
                    count, balanced = rest
                    allowed = count % 3 == 0 and 0 <= count // 3 <= fewest if balanced else 0 <= count <= len(free)
                    drawn = pool.hold_out(count, seed, balanced=balanced)
                    model.held.update(drawn.tolist())
                assert len(set(drawn.tolist())) == len(drawn)
                assert set(drawn.tolist()) <= set(free)
                if kind != "hold":
                    model.known.update({int(i): int(y[i]) for i in drawn})
            assert allowed, operation
        except errors.InputError:
            assert not allowed, operation
            assert pool.state() == before
        assert dict(zip(pool.labelled.tolist(), pool.labels.tolist(), strict=True)) == model.known
        assert pool.labelled.tolist() == list(model.known)  # in the order of labelling
        assert set(pool.validation.tolist()) == model.held
        assert pool.unlabelled.tolist() == [i for i in range(12) if i not in model.known and i not in model.held]
