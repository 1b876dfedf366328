"""Axes in the wrong order are noticed; usual shapes are not suspected."""

import warnings

import numpy as np
import pytest
from pools import pool

import poolwise as pw
from poolwise import errors
from poolwise.predictions import Predictions, adopt

FORGOTTEN = [(1000, 5), (1000, 10), (5000, 20), (60_000, 5), (5000, 1000), (600, 1), (3000, 100)]
USUAL = [(10, 100), (1, 100), (3, 499), (100, 1000), (50, 500), (1000, 1000), (5000, 2000), (1, 1), (10, 20)]


def zeros(*shape):
    return np.zeros(shape, np.float16)


@pytest.mark.parametrize(("N", "K"), FORGOTTEN)
def test_a_forgotten_layout_is_warned_of(N, K):
    with pytest.warns(pw.LayoutWarning, match=r'layout="KNC"') as caught:
        Predictions.from_logits(zeros(K, N, 2), validate=False)
    assert caught[0].filename == __file__
    assert f"K = {N:,}" in str(caught[0].message)
    Predictions.from_logits(zeros(K, N, 2), layout="KNC", validate=False)  # and is silent where it is named
    Predictions.from_logits(zeros(N, 2, K), layout="NCK", validate=False)


@pytest.mark.parametrize(("N", "K"), USUAL)
def test_usual_shapes_are_silent(N, K):
    for layout, shape in (("NKC", (N, K, 2)), ("KNC", (K, N, 2)), ("NCK", (N, 2, K))):
        Predictions.from_logits(zeros(*shape), layout=layout, validate=False)
    Predictions.from_logits(zeros(N, K, 2), validate=False)


def test_naming_the_layout_ends_the_doubt_unless_the_shape_is_extreme():
    Predictions.from_logits(zeros(5, 1000, 2), layout="NKC", validate=False)
    Predictions.from_logits(zeros(50, 2500, 2), layout="NKC", validate=False)
    with pytest.warns(pw.LayoutWarning, match=r'layout="NKC"'):
        Predictions.from_logits(zeros(5000, 5, 2), layout="KNC", validate=False)


def test_every_door_warns(tmp_path):
    x = pool(1200, 4, 3)
    wrong = np.ascontiguousarray(x.transpose(1, 0, 2))
    np.save(tmp_path / "x.npy", wrong)
    (tmp_path / "shards").mkdir()
    np.save(tmp_path / "shards" / "part-00000.npy", wrong)
    doors = [
        lambda: Predictions.from_log_probs(wrong),
        lambda: Predictions.from_probs(np.exp(wrong)),
        lambda: Predictions.open(tmp_path / "x.npy"),
        lambda: adopt(tmp_path / "shards", "log-probs"),
        lambda: pw.scores.bald(wrong),
        lambda: pw.select(wrong, 2, "margin"),
    ]
    for door in doors:
        with pytest.warns(pw.LayoutWarning, match="layout"):
            door()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Predictions.open(tmp_path / "x.npy", layout="KNC")
        Predictions.open(tmp_path / "shards")  # whose manifest is believed
        pw.scores.epig(x[:, :, :], targets=x[:3])


@pytest.mark.parametrize(("true", "said"), [("NCK", "NKC"), ("NKC", "NCK"), ("KNC", "NCK"), ("NCK", "KNC")])
@pytest.mark.parametrize("kind", ["probs", "log-probs"])
def test_classes_on_another_axis_are_found_by_their_sums(true, said, kind):
    x = pool(30, 7, 3)
    values = (np.exp(x) if kind == "probs" else x).transpose(["NKC".index(axis) for axis in true])
    make = Predictions.from_probs if kind == "probs" else Predictions.from_log_probs
    with pytest.raises(errors.NotNormalisedError, match="layout="):
        make(values, layout=said)
    assert make(values, layout=true).shape == (30, 7, 3)


def test_other_errors_name_the_layout_where_it_would_explain_them():
    x = pool(60, 4, 3).transpose(1, 0, 2)
    with pytest.raises(errors.BatchSizeError, match=r'layout="KNC"'):
        pw.select(x, 10, "margin")
    with pytest.raises(errors.ShapeError, match=r'layout="KNC"'):
        Predictions.from_log_probs(x, embeddings=np.zeros((60, 5)))
    with pytest.raises(errors.ShapeError) as plain:
        Predictions.from_log_probs(x, embeddings=np.zeros((59, 5)))
    assert "layout" not in str(plain.value)
