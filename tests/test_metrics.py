"""Metrics against slow oracles, examples by hand, and what they must never depend on."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pools import pool, small_pools

from poolwise import errors, metrics
from poolwise.predictions import Predictions

FUNCTIONS = {
    "accuracy": metrics.accuracy,
    "nll": metrics.negative_log_likelihood,
    "brier": metrics.brier,
    "ece": metrics.expected_calibration_error,
}


def oracle(probs, labels):
    """Everything once more, with loops."""
    N, C = probs.shape
    hits, losses, squares, bins = [], [], [], {}
    for p, label in zip(probs.tolist(), labels.tolist(), strict=True):
        top = max(range(C), key=lambda c: (p[c], -c))
        hits.append(top == label)
        losses.append(-math.log(max(p[label], 2.0**-126)))
        squares.append(math.fsum((p[c] - (c == label)) ** 2 for c in range(C)))
        number = next(b for b in range(1, 16) if b == 15 or p[top] <= b / 15)
        bins.setdefault(number, []).append((top == label, p[top]))
    gaps = [
        len(held) / N * abs(np.mean([hit for hit, _ in held]) - np.mean([p for _, p in held])) for held in bins.values()
    ]
    return {
        "accuracy": sum(hits) / N,
        "nll": math.fsum(losses) / N,
        "brier": math.fsum(squares) / N,
        "ece": math.fsum(gaps),
    }


@st.composite
def evaluated(draw):
    """A pool `[N, K, C]` of log-probabilities and labels."""
    x = draw(small_pools(points=(1, 12)))
    labels = draw(st.lists(st.integers(0, x.shape[2] - 1), min_size=len(x), max_size=len(x)))
    return x, np.array(labels)


# Against the oracle


@given(evaluated())
def test_functions_agree_with_the_oracle(case):
    x, labels = case
    probs = np.exp(x).mean(1)
    expected = oracle(probs, labels)
    for name, function in FUNCTIONS.items():
        assert function(probs, labels) == pytest.approx(expected[name], rel=1e-9, abs=1e-12)


@given(evaluated())
def test_evaluate_is_the_functions_of_the_mean_prediction(case):
    x, labels = case
    members = torch.from_numpy(np.exp(x))
    found = metrics.evaluate(Predictions.from_probs(members), labels)
    mean = members.sum(1) / x.shape[1]
    assert found == {name: function(mean, labels) for name, function in FUNCTIONS.items()}


@given(evaluated(), st.randoms(use_true_random=False))
def test_ranges_and_invariance_to_the_order_of_points_and_classes(case, random):
    x, labels = case
    probs, C = np.exp(x).mean(1), x.shape[2]
    found = {name: function(probs, labels) for name, function in FUNCTIONS.items()}
    assert 0 <= found["accuracy"] <= 1
    assert 0 <= found["ece"] <= 1
    assert -1e-12 <= found["nll"] <= -math.log(metrics.SMALLEST_PROBABILITY)
    assert 0 <= found["brier"] <= 2 + 1e-12
    points, classes = list(range(len(x))), list(range(C))
    random.shuffle(points)
    random.shuffle(classes)
    for name, function in FUNCTIONS.items():
        assert function(probs[points], labels[points]) == pytest.approx(found[name], abs=1e-12)
    moved = probs[:, classes], np.argsort(classes)[labels]
    for name in ("nll", "brier"):  # the others break ties by the order of the classes
        assert FUNCTIONS[name](*moved) == pytest.approx(found[name], abs=1e-12)


# By hand


def test_an_example_by_hand():
    probs, labels = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.25, 0.5, 0.25]]), [0, 1, 1]
    assert metrics.accuracy(probs, labels) == pytest.approx(2 / 3)
    assert metrics.negative_log_likelihood(probs, labels) == pytest.approx(-math.log(0.7 * 0.3 * 0.5) / 3)
    assert metrics.brier(probs, labels) == pytest.approx(
        (0.09 + 0.04 + 0.01 + 0.01 + 0.49 + 0.36 + 0.0625 + 0.25 + 0.0625) / 3
    )
    # Confidences 0.7, 0.6 and 0.5 are in bins of their own.
    assert metrics.expected_calibration_error(probs, labels) == pytest.approx((0.3 + 0.6 + 0.5) / 3)


def test_certain_predictions():
    certain = np.eye(3)
    assert [function(certain, [0, 1, 2]) for function in FUNCTIONS.values()] == [1, 0, 0, 0]
    worst = -math.log(2.0**-126)
    assert [function(certain, [1, 2, 0]) for function in FUNCTIONS.values()] == [0, pytest.approx(worst), 2, 1]


def test_uniform_predictions():
    probs, labels = np.full((8, 4), 0.25), np.arange(8) % 4
    assert metrics.accuracy(probs, labels) == 0.25  # a tie is won by the first class
    assert metrics.negative_log_likelihood(probs, labels) == pytest.approx(math.log(4))
    assert metrics.brier(probs, labels) == pytest.approx(0.75)
    assert metrics.expected_calibration_error(probs, labels) == 0


@pytest.mark.parametrize("classes", [2, 5, 16, 33])
def test_ties_are_won_by_the_lowest_class(classes):
    probs = np.zeros((classes - 1, classes))
    for row in range(classes - 1):
        probs[row, row:] = 1 / (classes - row)
    assert metrics.accuracy(probs, np.arange(classes - 1)) == 1


def test_the_edge_of_a_bin_belongs_to_the_bin_below():
    """Ten of 15 is the edge of bins 10 and 11; apart, the two errors add up, and together they cancel."""
    edge, above, below = 10 / 15, 0.7, 0.65
    for other, expected in [(above, (edge + 1 - above) / 2), (below, abs(1 - edge - below) / 2)]:
        probs = np.array([[edge, 1 - edge], [other, 1 - other]])
        assert metrics.expected_calibration_error(probs, [1, 0]) == pytest.approx(expected)


def test_one_class_is_always_right():
    ones = np.ones((3, 1))
    assert [function(ones, [0, 0, 0]) for function in FUNCTIONS.values()] == [1, 0, 0, 0]


# What makes no difference


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["log-probs", "probs", "logits"])
def test_no_result_depends_on_the_memory_budget(dtype, kind):
    x = pool(300, 7, 5)
    values = (np.exp(x) if kind == "probs" else x).astype(dtype)
    makers = {
        "log-probs": Predictions.from_log_probs,
        "probs": Predictions.from_probs,
        "logits": Predictions.from_logits,
    }
    predictions = makers[kind](values)
    labels = np.random.default_rng(0).integers(0, 5, 300)
    expected = metrics.evaluate(predictions, labels)
    for memory in (1, 5_000, "100KB", "1GB"):
        assert metrics.evaluate(predictions, labels, memory=memory) == expected
    slow = oracle(np.exp(x.astype(np.float64)).mean(1), labels)
    for name, value in expected.items():
        assert value == pytest.approx(slow[name], abs=2e-2 if dtype == np.float16 else 1e-5)


def test_arrays_and_tensors_are_read_alike_and_left_as_they_are():
    probs, labels = np.exp(pool(20, 1, 3))[:, 0], np.arange(20) % 3
    tensors = torch.from_numpy(probs.copy()).requires_grad_(), torch.from_numpy(labels)
    for function in FUNCTIONS.values():
        assert function(probs, labels) == function(*tensors) == function(np.asfortranarray(probs), labels.tolist())
        assert isinstance(function(probs, labels), float)
    assert torch.equal(tensors[0].detach(), torch.from_numpy(probs))
    frozen = probs.copy()
    frozen.flags.writeable = labels.flags.writeable = False
    assert metrics.accuracy(frozen, labels) == metrics.accuracy(probs, labels)


def test_a_part_of_the_pool_is_evaluated_by_its_own_labels():
    x, labels = pool(50, 3, 4, dtype=np.float64), np.arange(50) % 4
    rows = np.array([7, 3, 44])
    part = metrics.evaluate(Predictions.from_log_probs(x).take(rows), labels[rows])
    assert part == metrics.evaluate(Predictions.from_log_probs(x[rows]), labels[rows])


def test_progress_is_reported():
    seen = []
    metrics.evaluate(Predictions.from_log_probs(pool(20, 3, 4)), np.zeros(20, int), report=lambda *a: seen.append(a))
    assert seen[-1] == ("evaluating", 20, 20)


# Refusals


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_what_cannot_be_evaluated_is_refused(function):
    probs = np.full((4, 2), 0.5)
    with pytest.raises(errors.ShapeError, match=r"\[N, C\].*not \[4, 1, 2\].*evaluate"):
        function(probs[:, None], [0, 1, 0, 1])
    with pytest.raises(errors.EmptyPoolError, match=r"\[0, 2\]"):
        function(probs[:0], [])
    with pytest.raises(errors.ShapeError, match=r"labels must have shape \[4\]"):
        function(probs, [0, 1])
    with pytest.raises(errors.LabelError, match=r"below the 2 classes.*label 2 is 5"):
        function(probs, [0, 1, 5, 1])
    with pytest.raises(errors.ParameterError, match="whole numbers from 0"):
        function(probs, [0, 1, -1, 1])
    with pytest.raises(errors.NotNormalisedError):
        function(probs * 1.1, [0, 1, 0, 1])
    with pytest.raises(errors.NotFiniteError):
        function(probs * np.nan, [0, 1, 0, 1])
    with pytest.raises(errors.NotNormalisedError):
        function(np.array([[1.5, -0.5]]), [0])


def test_evaluate_refuses_labels_that_do_not_fit():
    predictions = Predictions.from_log_probs(pool(4, 2, 3))
    with pytest.raises(errors.ShapeError, match=r"\[4\]"):
        metrics.evaluate(predictions, [0, 1])
    with pytest.raises(errors.LabelError, match="3 classes"):
        metrics.evaluate(predictions, [0, 1, 2, 3])
    with pytest.raises(errors.ParameterError, match="memory"):
        metrics.evaluate(predictions, [0, 1, 2, 2], memory="much")


def test_metrics_of_some_samples_are_those_of_the_first():
    x, labels = pool(30, 6, 4), np.arange(30) % 4
    some = metrics.evaluate(Predictions.from_log_probs(x), labels, samples=2)
    assert some == metrics.evaluate(Predictions.from_log_probs(x[:, :2]), labels)
    assert some != metrics.evaluate(Predictions.from_log_probs(x), labels)
    for wrong in (0, 7):
        with pytest.raises(errors.ParameterError, match="from 1 to the 6"):
            metrics.evaluate(Predictions.from_log_probs(x), labels, samples=wrong)
