"""Data frames: everything is read by position, whatever the index."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from data_files import everything

import poolwise as pw
from poolwise import errors
from poolwise.data import TextExamples, as_examples, as_labels, encode, open_data
from poolwise.posteriors import Committee

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NUMBERS = np.arange(12.0).reshape(6, 2)
LABELS = np.array([0, 1, 2, 0, 1, 2])
TEXTS = list("uvwxyz")

INDICES = {
    "shuffled": [5, 3, 1, 0, 2, 4],
    "gaps": [10, 20, 30, 40, 50, 60],
    "floats": [1.5, 2, 3, 4, 5, 6],
    "texts": list("fedcba"),
    "duplicates": [1, 1, 1, 0, 0, 0],
    "two levels": pd.MultiIndex.from_product([[1, 0], [2, 1, 0]]),
    "dates": pd.date_range("2026-01-01", periods=6)[::-1],
    "booleans": [True, False] * 3,
}


@pytest.fixture(params=INDICES)
def index(request):
    return INDICES[request.param]


def test_inputs_labels_and_texts_by_position(index):
    frame = pd.DataFrame(NUMBERS, index, ["a", "b"])
    labels, texts = pd.Series(LABELS, index), pd.Series(TEXTS, index)
    for rows in (slice(None), slice(2, None), slice(None, None, -1), [4, 0, 5]):
        data = as_examples(frame.iloc[rows], labels.iloc[rows])
        np.testing.assert_array_equal(everything(data), NUMBERS[rows])
        np.testing.assert_array_equal(data.labels, LABELS[rows])
        np.testing.assert_array_equal(as_labels(labels.iloc[rows], len(data)), LABELS[rows])
        assert everything(as_examples(texts.iloc[rows])) == [TEXTS[row] for row in np.arange(6)[rows]]
        assert everything(TextExamples(texts.iloc[rows])) == [TEXTS[row] for row in np.arange(6)[rows]]
    np.testing.assert_array_equal(everything(as_examples((frame, labels))), NUMBERS)


def test_rows_and_arrays_in_cells(index):
    frame, labels = pd.DataFrame(NUMBERS, index), pd.Series(LABELS, index)
    rows = [row for _, row in frame.iterrows()]
    np.testing.assert_array_equal(everything(as_examples(rows)), NUMBERS)
    pairs = as_examples(list(zip(rows, labels, strict=True)))
    np.testing.assert_array_equal(everything(pairs), NUMBERS)
    np.testing.assert_array_equal(pairs.labels, LABELS)
    for cells in (list(NUMBERS), NUMBERS.tolist(), list(torch.from_numpy(NUMBERS))):
        np.testing.assert_array_equal(everything(as_examples(pd.Series(cells, index))), NUMBERS)
        np.testing.assert_array_equal(everything(as_examples(pd.DataFrame({"x": pd.Series(cells, index)}))), NUMBERS)


@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "int8", "category", "object", "int64[pyarrow]", "Sparse[int64]"])
def test_labels_of_every_type(index, dtype):
    labels = pd.Series(LABELS, index).astype(dtype)
    np.testing.assert_array_equal(as_labels(labels, 6), LABELS)
    np.testing.assert_array_equal(as_labels(labels.to_frame(), 6), LABELS)
    np.testing.assert_array_equal(as_labels(labels.array, 6), LABELS)
    np.testing.assert_array_equal(as_labels(pd.Series(LABELS % 2 == 1, index, "boolean"), 6), LABELS % 2)


@pytest.mark.parametrize("dtype", ["object", "str", "string", "category"])
def test_texts_of_every_type(index, dtype):
    column = pd.Series(TEXTS, index).astype(dtype)
    assert everything(as_examples(column)) == TEXTS
    assert everything(as_examples(column.to_frame())) == TEXTS
    assert everything(as_examples(np.array(TEXTS))) == TEXTS
    assert everything(as_examples(np.array(TEXTS, object))) == TEXTS


def test_numbers_of_every_type(index):
    frame = pd.DataFrame({"a": NUMBERS[:, 0], "b": NUMBERS[:, 1]}, index)
    for types in (
        {"a": "Int64"},
        {"a": "Float32", "b": "uint8"},
        {"a": "bool"},
        {"a": "object"},
        "uint8",
        "Sparse[int]",
    ):
        data = as_examples(frame.astype(types))
        expected = NUMBERS.copy()
        expected[:, 0] = expected[:, 0] if types != {"a": "bool"} else expected[:, 0] > 0
        np.testing.assert_array_equal(everything(data), expected)
    twice = pd.DataFrame(NUMBERS, index, ["same", "same"])
    np.testing.assert_array_equal(everything(as_examples(twice)), NUMBERS)


def test_polars_and_arrow():
    for frame, labels, texts in (
        (pl.DataFrame(NUMBERS), pl.Series(LABELS), pl.Series(TEXTS)),
        (
            pa.table({"a": NUMBERS[:, 0], "b": NUMBERS[:, 1]}),
            pa.chunked_array([LABELS[:2], LABELS[2:]]),
            pa.array(TEXTS),
        ),
    ):
        data = as_examples(frame, labels)
        np.testing.assert_array_equal(everything(data), NUMBERS)
        np.testing.assert_array_equal(data.labels, LABELS)
        assert everything(as_examples(texts)) == TEXTS
    np.testing.assert_array_equal(everything(as_examples(pl.Series(NUMBERS.tolist()))), NUMBERS)
    assert everything(as_examples(pa.array(TEXTS).dictionary_encode())) == TEXTS


def test_what_cannot_be_taken_is_said():
    mixed = pd.DataFrame({"text": ["a", "b"], "day": pd.to_datetime(["2026-01-01"] * 2), "x": [1, 2]})
    with pytest.raises(errors.ParameterError, match=r"these are not: 'text', 'day'.*open_data\(frame, text="):
        as_examples(mixed)
    with pytest.raises(errors.ParameterError, match="position 1 is missing"):
        as_examples(pd.Series(["a", None], [7, 7]))
    with pytest.raises(errors.ParameterError, match="position 0 is a datetime"):
        as_examples(mixed["day"])
    with pytest.raises(errors.ParameterError, match="it has no columns"):
        as_examples(pd.DataFrame())
    with pytest.raises(errors.ShapeError, match=r"row 0 has \[2\] and row 1 has \[1\]"):
        as_examples([pd.Series([1, 2]), pd.Series([1])])
    for labels in (
        pd.Series([0, None], [3, 4]),
        pd.Series([0, None], dtype="Int64"),
        pd.Series([True, None], dtype="boolean"),
    ):
        with pytest.raises(errors.ParameterError, match="missing at position 1"):
            as_labels(labels, 2)
    for dtype in ("str", "category", "object"):
        with pytest.raises(errors.ParameterError, match=r"such as 'a'.*return_inverse=True"):
            as_labels(pd.Series(["a", "b"], dtype=dtype), 2)
    with pytest.raises(errors.ShapeError, match="a table of 2"):
        as_labels(mixed[["x", "text"]], 2)
    for wrong in ("text", pl.DataFrame({"x": [1]}).lazy(), None):
        with pytest.raises(errors.ParameterError, match="data must be"):
            as_examples(wrong)


def test_lists_of_numbers_are_rows_and_never_pairs():
    np.testing.assert_array_equal(everything(as_examples([[1, 2], [3, 4]])), [[1, 2], [3, 4]])
    assert as_examples([[1, 2], [3, 4]]).labels is None


def test_labels_that_would_fill_the_memory():
    for large in (np.array([2**40]), np.array([2**63 + 1], np.uint64), np.array([1 << 20])):
        with pytest.raises(errors.ParameterError, match="is too large"):
            as_labels(large, 1)


def test_a_learner_does_as_well_on_a_shuffled_frame_as_on_arrays():
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(0)
    centres, labels = draw.normal(size=(3, 4)) * 3, np.arange(150) % 3
    frame = pd.DataFrame(centres[labels] + draw.normal(size=(150, 4)))
    frame["label"] = labels
    frame = frame.sample(frac=1, random_state=0)
    inputs, known = frame[[0, 1, 2, 3]], frame["label"]
    accuracies = []
    for data, answers in ((inputs, known), (inputs.to_numpy(), known.to_numpy())):
        learner = pw.ActiveLearner(
            Committee(LogisticRegression(), 3, classes=3),
            pw.Pool((data[:100], answers[:100])),
            "margin",
            10,
            test=(data[100:], answers[100:]),
        )
        (*_, last) = pw.simulate(learner, answers[:100], budget=30)
        accuracies.append(last.metrics["accuracy"])
    assert accuracies[0] == accuracies[1] > 0.8


def test_metrics_and_encoders_read_by_position(index, monkeypatch):
    probs = np.eye(3)[LABELS] * 0.8 + 0.1 * (1 - np.eye(3)[LABELS])
    assert pw.metrics.accuracy(pd.DataFrame(probs, index), pd.Series(LABELS, index)) == 1.0
    seen = []

    class Stub:
        width = 2

        def __call__(self, texts, told):
            seen.extend(texts)
            return np.zeros((len(texts), 2), np.float32)

    monkeypatch.setattr("poolwise.data.encoding._encoder", lambda encoder, max_length: Stub())
    encode(pd.Series(TEXTS, index)[::-1], "stub", block=4)
    assert seen == TEXTS[::-1]


def test_frames_can_be_opened_by_the_names_of_their_columns(index):
    frame = pd.DataFrame({"review": TEXTS, "mood": ["b", "a", None, "a", "b", "a"], "key": range(6)}, index)
    for table in (frame, pa.Table.from_pandas(frame), frame.to_dict("list")):
        opened = open_data(table, text="review", label="mood", id="key")
        assert everything(opened.examples) == TEXTS
        assert (opened.class_names, opened.labels.tolist()) == (("a", "b"), [1, 0, -1, 0, 1, 0])
        assert opened.ids == tuple("012345")
    with pytest.raises(errors.FileError, match="the table: has no column 'words'"):
        open_data(frame, text="words")
    with pytest.raises(errors.ParameterError, match="separator is for files"):
        open_data(frame, text="review", separator=";")
