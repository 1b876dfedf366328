"""Predictions from arrays and files: what is accepted, what is refused, and that nothing is copied or changed."""

import warnings
import zipfile

import numpy as np
import pytest
import torch
from pools import features, normalise, one_hot, pool

import poolwise as pw
from poolwise import errors
from poolwise.predictions import Predictions


def log_probs(predictions):
    return predictions.rows(np.arange(len(predictions))).log_probs.numpy()


def probs(predictions):
    return predictions.rows(np.arange(len(predictions))).probs.numpy()


@pytest.fixture
def x():
    return pool(30, 4, 3)


# Kinds and layouts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_probabilities_and_log_probabilities_agree(dtype):
    logits = np.random.default_rng(0).normal(size=(20, 4, 3)).astype(dtype) * 3
    logs = normalise(logits.astype(np.float64))
    made = [
        Predictions.from_logits(logits),
        Predictions.from_probs(np.exp(logs).astype(dtype)),
        Predictions.from_log_probs(logs.astype(dtype)),
    ]
    tolerance = 1e-6 if dtype == np.float32 else 1e-12
    for predictions in made:
        assert predictions.shape == (20, 4, 3)
        np.testing.assert_allclose(log_probs(predictions), logs, atol=10 * tolerance)
        np.testing.assert_allclose(probs(predictions), np.exp(logs), atol=tolerance)
        batch = pw.select(predictions, 5, "lbb", information=False)
        np.testing.assert_array_equal(batch.indices, pw.select(made[0], 5, "lbb", information=False).indices)


@pytest.mark.parametrize("layout", ["NKC", "KNC", "NCK"])
def test_every_layout_gives_the_same_predictions(x, layout):
    moved = np.ascontiguousarray(x.transpose(["NKC".index(axis) for axis in layout]))
    predictions = Predictions.from_log_probs(moved, layout=layout)
    assert predictions.shape == x.shape
    np.testing.assert_array_equal(log_probs(predictions), x)


def test_unknown_layouts_and_kinds_are_refused(x, tmp_path):
    with pytest.raises(errors.ParameterError, match="layout"):
        Predictions.from_log_probs(x, layout="CKN")
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(errors.ParameterError, match="kind"):
        Predictions.open(tmp_path / "x.npy", kind="scores")


def test_minus_infinity_is_a_probability_of_zero():
    certain = one_hot([[0, 1], [2, 2]], 3)
    for predictions in (Predictions.from_log_probs(certain), Predictions.from_logits(certain)):
        np.testing.assert_array_equal(probs(predictions), np.exp(certain))
        assert np.isfinite(log_probs(predictions)).all()
    np.testing.assert_array_equal(probs(Predictions.from_probs(np.exp(certain))), np.exp(certain))


def test_logits_may_be_huge():
    logits = np.array([[[1e4, 0, -1e4]], [[3e38, 3e38, -3e38]]], np.float32)
    np.testing.assert_allclose(probs(Predictions.from_logits(logits))[:, 0], [[1, 0, 0], [0.5, 0.5, 0]], atol=1e-6)


# No copies, no changes


@pytest.mark.parametrize("make", ["from_log_probs", "from_logits"])
def test_inputs_are_not_copied(x, make):
    assert np.shares_memory(np.asarray(getattr(Predictions, make)(x)._source.values), x)
    tensor = torch.from_numpy(x)
    assert np.shares_memory(np.asarray(getattr(Predictions, make)(tensor)._source.values), x)
    assert np.shares_memory(
        np.asarray(getattr(Predictions, make)(x.transpose(1, 0, 2), layout="KNC")._source.values), x
    )
    z = features(30)
    assert np.shares_memory(getattr(Predictions, make)(x, embeddings=z).embeddings, z)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["log-probs", "probs", "logits"])
def test_reading_changes_nothing(dtype, kind):
    x = pool(30, 4, 3)
    x = (np.exp(x) if kind == "probs" else x).astype(dtype)
    before = x.copy()
    predictions = getattr(Predictions, f"from_{kind.replace('-', '_')}")(x)
    predictions.rows(np.arange(30)).probs.zero_()
    predictions.rows(np.arange(30)).log_probs.zero_()
    pw.select(predictions, 5, "power-lbb")
    np.testing.assert_array_equal(x, before)


def strange(x):
    wide = np.zeros((60, 4, 6), x.dtype)
    wide[::2, :, ::2] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    records = np.zeros(x.shape, [("a", "i1"), ("p", x.dtype)])  # whose numbers are neither aligned nor evenly spaced
    records["p"] = x
    shifted = np.frombuffer(bytearray(1 + x.nbytes), x.dtype, x.size, 1).reshape(x.shape)
    shifted[:] = x
    return {
        "field of a record": records["p"],
        "not aligned": shifted,
        "every second": wide[::2, :, ::2],
        "negative strides": x[::-1, :, ::-1].copy()[::-1, :, ::-1],
        "read-only": frozen,
        "Fortran order": np.asfortranarray(x),
        "broadcast": np.broadcast_to(x[:, :1], x.shape),
        "other byte order": x.astype(x.dtype.newbyteorder()),
        "list": x.tolist(),
    }


@pytest.mark.parametrize("name", strange(pool(30, 4, 3)))
def test_strange_arrays_are_read_as_they_are(x, name):
    array = strange(x)[name]
    predictions = Predictions.from_log_probs(array)
    np.testing.assert_allclose(log_probs(predictions), np.asarray(array, np.float32), atol=1e-7)
    assert len(pw.select(array, 5, "margin").indices) == 5


def test_tensors_of_every_kind_are_read(x):
    base = torch.from_numpy(x)
    for tensor in (base.clone().requires_grad_(), base.transpose(0, 1).contiguous().transpose(0, 1), base[::2]):
        np.testing.assert_array_equal(log_probs(Predictions.from_log_probs(tensor)), tensor.detach().numpy())
    with torch.inference_mode():
        inside = base.clone()
    np.testing.assert_array_equal(log_probs(Predictions.from_log_probs(inside)), x)
    rough = log_probs(Predictions.from_logits(base.bfloat16()))
    np.testing.assert_allclose(np.exp(rough), np.exp(x), atol=0.03)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.to(torch.float8_e4m3fn),
        lambda t: t.to(torch.float8_e5m2),
        lambda t: t.to(torch.complex64),
        lambda t: t.int(),
        lambda t: t.to_sparse(),
        lambda t: t.to("meta"),
        lambda t: [[1.0, 2.0], [3.0]],
        lambda t: t.numpy().astype("M8[s]"),
        lambda t: np.zeros(t.shape, [("a", "f4"), ("b", "f4")]),
    ],
)
def test_arrays_that_cannot_be_read_are_refused_with_a_word_on_what_to_do(x, change):
    values = change(torch.from_numpy(x))
    for call in (Predictions.from_log_probs, pw.scores.bald, lambda v: pw.select(v, 3)):
        with pytest.raises(errors.ShapeError, match="predictions"):
            call(values)


def test_masked_arrays_are_taken_only_if_nothing_is_missing(x):
    assert Predictions.from_log_probs(np.ma.masked_array(x)).shape == x.shape
    with pytest.raises(errors.NotFiniteError, match="masked"):
        Predictions.from_log_probs(np.ma.masked_array(x, x < -1))


def test_reading_leaves_the_warning_filters_of_other_threads_alone(x, monkeypatch):
    frozen = x.copy()
    frozen.flags.writeable = False

    def refuse(*arguments, **options):
        raise AssertionError("the filters were changed")

    monkeypatch.setattr(warnings, "catch_warnings", refuse)
    np.testing.assert_array_equal(log_probs(Predictions.from_log_probs(frozen)), x)


@pytest.mark.parametrize("size", [1e200, np.nan, np.inf])
def test_embeddings_whose_squares_would_overflow_are_refused(x, size):
    z = features(30).astype(np.float64)
    z[7, 1] = size
    with pytest.raises(errors.NotFiniteError, match="row 7"):
        Predictions.from_log_probs(x, embeddings=z)


def test_a_graph_is_neither_used_nor_kept(x):
    tensor = torch.from_numpy(x).requires_grad_()
    assert not pw.scores.bald(tensor).requires_grad
    pw.select(tensor, 5, "power-lbb")
    assert tensor.grad is None


def test_float16_is_renormalised_and_close_to_float32():
    x = pool(200, 8, 10)
    rough = x.astype(np.float16)
    predictions = Predictions.from_log_probs(rough)
    np.testing.assert_allclose(probs(predictions).sum(2), 1, atol=1e-6)
    np.testing.assert_allclose(pw.scores.bald(rough), pw.scores.bald(x), atol=5e-3)
    many = Predictions.from_log_probs(pool(5, 3, 1000).astype(np.float16))
    np.testing.assert_allclose(probs(many).sum(2), 1, atol=1e-5)
    with pytest.raises(errors.NotNormalisedError):
        Predictions.from_log_probs(rough + np.float16(0.05))


# Refusals


@pytest.mark.parametrize("shape", [(), (5,), (5, 3), (5, 2, 3, 1)])
def test_a_wrong_rank_is_refused_with_what_was_expected_and_what_came(shape):
    with pytest.raises(errors.ShapeError, match=r"three axes.*not shape"):
        Predictions.from_log_probs(np.zeros(shape, np.float32))


def test_an_empty_pool_is_refused():
    with pytest.raises(errors.EmptyPoolError):
        Predictions.from_log_probs(np.zeros((0, 3, 2), np.float32))
    with pytest.raises(errors.EmptyPoolError):
        pw.select(np.zeros((0, 3, 2), np.float32), 1)
    for shape in ((4, 0, 2), (4, 3, 0)):
        with pytest.raises(errors.ShapeError):
            Predictions.from_log_probs(np.zeros(shape, np.float32))


@pytest.mark.parametrize("values", [np.zeros((3, 2, 1), int), np.full((3, 2, 1), "a"), np.zeros((3, 2, 1), bool), None])
@pytest.mark.parametrize("call", [Predictions.from_log_probs, lambda x: pw.select(x, 1)])
def test_what_is_not_a_float_is_refused(values, call):
    with pytest.raises(errors.InputError):
        call(values)


@pytest.mark.parametrize("kind", ["log_probs", "probs", "logits"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("row", [0, 4321, 9999])
def test_the_first_row_that_is_not_finite_is_named(kind, value, row):
    x = pool(10_000, 2, 3)
    x = np.exp(x) if kind == "probs" else x
    x[row, 1, 2] = x[9999, 0, 0] = value
    make = getattr(Predictions, f"from_{kind}")
    with pytest.raises(errors.NotFiniteError, match=rf"row {row}\b"):
        make(x)
    late = make(x, validate=False)
    with pytest.raises(errors.NotFiniteError, match=rf"row {row}\b"):
        pw.select(late, 5, "random")


def test_minus_infinity_means_nothing_among_probabilities_or_for_every_class():
    x = np.exp(pool(5, 2, 3))
    x[3, 0, 1] = -np.inf
    with pytest.raises(errors.NotFiniteError, match=r"row 3\b"):
        Predictions.from_probs(x)
    for make in (Predictions.from_logits, Predictions.from_log_probs):
        nothing = pool(5, 2, 3)
        nothing[2, 1] = -np.inf
        with pytest.raises(errors.InputError, match=r"row 2\b"):
            make(nothing)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_row_that_does_not_normalise_is_named_with_its_sum(dtype):
    x = pool(50, 3, 4, dtype=dtype)
    x[31, 2] += np.log(dtype(1.01))
    x[40, 0] += 1
    with pytest.raises(errors.NotNormalisedError, match=r"row 31, posterior sample 2.*1\.01"):
        Predictions.from_log_probs(x)
    with pytest.raises(errors.NotNormalisedError, match=r"row 31.*from_log"):
        Predictions.from_probs(np.exp(x))
    x[31, 2] -= np.log(dtype(1.01)) - dtype(5e-4)
    x[40, 0] -= 1
    Predictions.from_log_probs(x)


def test_a_negative_probability_is_refused_even_if_the_sum_is_right():
    x = np.full((4, 2, 3), 1 / 3)
    x[2, 1] = [0.6, 0.5, -0.1]
    with pytest.raises(errors.NotNormalisedError, match=r"row 2\b.*negative"):
        Predictions.from_probs(x)


def test_the_wrong_kind_is_told_by_its_values(x):
    with pytest.raises(errors.NotNormalisedError, match="from_probs"):
        Predictions.from_log_probs(np.exp(x))
    with pytest.raises(errors.NotNormalisedError, match="from_logits"):
        Predictions.from_log_probs(x * 2 + 1)


def test_checks_name_rows_of_the_pool_and_not_of_the_candidates():
    x = pool(50, 3, 4)
    x[33] += 1
    with pytest.raises(errors.NotNormalisedError, match=r"row 33\b"):
        pw.select(x, 3, "bald", candidates=np.arange(20, 50))


def test_validation_can_wait_for_the_first_pass(x):
    x[7] += 1
    late = Predictions.from_log_probs(x, validate=False)
    with pytest.raises(errors.NotNormalisedError, match=r"row 7\b"):
        pw.select(late, 3, "bald")
    with pytest.raises(errors.NotNormalisedError, match=r"row 7\b"):
        pw.scores.bald(x)
    with pytest.raises(errors.NotNormalisedError, match=r"row 7\b"):
        late.check()


def test_targets_that_were_never_checked_are_checked(x):
    bad = pool(5, 4, 3)
    bad[2] = np.nan
    late = Predictions.from_log_probs(bad, validate=False)
    for method in ("epig", "smocu"):
        with pytest.raises(errors.NotFiniteError):
            pw.select(x, 3, method, targets=late)


@pytest.mark.parametrize("what", ["embeddings", "labelled_embeddings"])
def test_embeddings_are_checked(x, what):
    good = features(30)
    others = {} if what == "embeddings" else {"embeddings": good}
    broken = good.copy()
    broken[11, 2] = np.nan
    for bad in (broken, np.where(np.isnan(broken), np.inf, broken)):
        with pytest.raises(errors.NotFiniteError, match=rf"{what}.*row 11\b"):
            Predictions.from_log_probs(x, **{**others, what: bad})
    wrong = [good[0], good[:, :, None], good[:, :0], good.astype(int)]
    wrong += [good[:-1]] if what == "embeddings" else [good[:, :-1]]
    for bad in wrong:
        with pytest.raises(errors.ShapeError, match=what):
            Predictions.from_log_probs(x, **{**others, what: bad})
        with pytest.raises(errors.ShapeError, match=what):
            pw.select(x, 3, "coreset", **{**others, what: bad})


def test_embeddings_may_be_half_precision_double_or_tensors(x):
    z = features(30).astype(np.float16)
    expected = pw.select(x, 8, "coreset", embeddings=z).indices
    for other in (z.astype(np.float32), z.astype(np.float64), torch.from_numpy(z), np.asfortranarray(z), z[::-1][::-1]):
        np.testing.assert_array_equal(pw.select(x, 8, "coreset", embeddings=other).indices, expected)


# Files


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_npy_files_are_mapped_and_give_what_arrays_give(tmp_path, dtype):
    x = pool(300, 4, 3).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    predictions = Predictions.open(tmp_path / "x.npy")
    assert "mapped" in repr(predictions)
    batch = pw.select(predictions, 20, "lbb")
    np.testing.assert_array_equal(batch.indices, pw.select(x, 20, "lbb").indices)
    np.testing.assert_array_equal(pw.scores.bald(Predictions.open(str(tmp_path / "x.npy"))), pw.scores.bald(x))


def test_files_of_other_kinds_layouts_and_orders_are_read(tmp_path, x):
    expected = pw.select(x, 10, "lbb").indices
    np.save(tmp_path / "p.npy", np.exp(x))
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    np.save(tmp_path / "k.npy", x.transpose(1, 0, 2).copy())
    np.save(tmp_path / "b.npy", x.astype(">f4"))
    np.savez(tmp_path / "one.npz", x)
    np.savez_compressed(tmp_path / "two.npz", a=x, b=x[:3])
    torch.save(torch.from_numpy(x), tmp_path / "x.pt")
    torch.save({"a": torch.from_numpy(x), "b": torch.zeros(3)}, tmp_path / "d.pt")
    opened = [
        Predictions.open(tmp_path / "p.npy", kind="probs"),
        Predictions.open(tmp_path / "f.npy"),
        Predictions.open(tmp_path / "k.npy", layout="KNC"),
        Predictions.open(tmp_path / "b.npy"),
        Predictions.open(tmp_path / "one.npz"),
        Predictions.open(tmp_path / "two.npz", key="a"),
        Predictions.open(tmp_path / "x.pt"),
        Predictions.open(tmp_path / "d.pt", key="a"),
    ]
    for predictions in opened:
        np.testing.assert_array_equal(pw.select(predictions, 10, "lbb").indices, expected)


def test_embeddings_may_be_files(tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "z.npy", features(30))
    np.save(tmp_path / "l.npy", features(4, seed=1))
    opened = Predictions.open(
        tmp_path / "x.npy", embeddings=tmp_path / "z.npy", labelled_embeddings=str(tmp_path / "l.npy")
    )
    expected = pw.select(x, 9, "coreset", embeddings=features(30), labelled_embeddings=features(4, seed=1))
    np.testing.assert_array_equal(pw.select(opened, 9, "coreset").indices, expected.indices)


def write_bad_files(folder):
    """Files that are not whole, plain arrays, by name."""
    x = pool(300, 4, 3)
    np.save(folder / "whole.npy", x)
    whole = (folder / "whole.npy").read_bytes()
    (folder / "truncated.npy").write_bytes(whole[: len(whole) // 2])
    (folder / "header.npy").write_bytes(whole[:40])
    (folder / "empty.npy").write_bytes(b"")
    (folder / "text.npy").write_text("1, 2, 3")
    np.save(folder / "pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
    np.savez(folder / "pickled.npz", np.array([{"a": 1}], object))
    np.savez(folder / "two.npz", a=x, b=x)
    np.savez_compressed(folder / "damaged.npz", x)
    packed = bytearray((folder / "damaged.npz").read_bytes())
    packed[200:1200] = bytes(1000)
    (folder / "damaged.npz").write_bytes(bytes(packed))
    (folder / "short.npz").write_bytes(bytes(packed[:100]))
    (folder / "empty.npz").write_bytes(b"")
    (folder / "really.npz").write_bytes(whole)
    np.savez(folder / "archive.npz", x)
    (folder / "archive.npy").write_bytes((folder / "archive.npz").read_bytes())
    (folder / "archive.npz").unlink()
    with zipfile.ZipFile(folder / "nothing.npz", "w"):
        pass
    torch.save(torch.nn.Linear(2, 2), folder / "module.pt")
    torch.save([torch.zeros(2)], folder / "list.pt")
    torch.save({1: torch.zeros(2), 2: torch.zeros(3)}, folder / "numbers.pt")
    torch.save({1: "a"}, folder / "word.pt")
    torch.save(torch.from_numpy(x), folder / "cut.pt")
    (folder / "cut.pt").write_bytes((folder / "cut.pt").read_bytes()[:-2000])
    (folder / "empty.pt").write_bytes(b"")
    (folder / "text.pt").write_text("not a tensor")
    (folder / "x.csv").write_text("1,2")
    (folder / "folder.npy").mkdir()
    (folder / "whole.npy").unlink()
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # NumPy leaves some broken files open until they are collected
def test_files_that_are_not_whole_plain_arrays_are_refused(tmp_path):
    wrong = []
    for name in [*write_bad_files(tmp_path), "missing.npy", "missing.pt"]:
        try:
            Predictions.open(tmp_path / name)
        except errors.FileError as error:
            if name not in str(error):
                wrong.append(f"{name}: the message does not name the file")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
        else:
            wrong.append(f"{name}: accepted")
    assert wrong == []


def test_an_unknown_key_is_refused_and_the_keys_named(tmp_path):
    x = pool(3, 2, 2)
    np.savez(tmp_path / "x.npz", first=x, second=x)
    for key in (None, "third"):
        with pytest.raises(errors.FileError, match=r"first.*second"):
            Predictions.open(tmp_path / "x.npz", key=key)


def test_an_array_of_the_wrong_shape_or_with_bad_values_in_a_file_is_refused(tmp_path):
    np.save(tmp_path / "flat.npy", np.zeros((3, 2), np.float32))
    with pytest.raises(errors.ShapeError):
        Predictions.open(tmp_path / "flat.npy")
    np.save(tmp_path / "none.npy", np.zeros((0, 2, 2), np.float32))
    with pytest.raises(errors.EmptyPoolError):
        Predictions.open(tmp_path / "none.npy")
    x = pool(500, 3, 2)
    x[444, 1, 0] = np.nan
    np.save(tmp_path / "nan.npy", x)
    with pytest.raises(errors.NotFiniteError, match=r"row 444\b"):
        Predictions.open(tmp_path / "nan.npy")
    late = Predictions.open(tmp_path / "nan.npy", validate=False)
    with pytest.raises(errors.NotFiniteError, match=r"row 444\b"):
        pw.select(late, 3, "margin")


# Parts


def test_taking_points_twice_keeps_track_of_where_they_are(x):
    part = Predictions.from_log_probs(x, embeddings=features(30)).take(np.arange(10, 30)).take(np.array([5, 0, 19]))
    assert part.shape == (3, 4, 3)
    np.testing.assert_array_equal(log_probs(part), x[[15, 10, 29]])
    np.testing.assert_array_equal(part.embeddings, features(30)[[15, 10, 29]])


def test_predictions_say_what_they_are(x):
    assert repr(Predictions.from_log_probs(x)) == "Predictions(N=30, K=4, C=3, float32 log-probs)"
    assert len(Predictions.from_log_probs(x)) == 30
