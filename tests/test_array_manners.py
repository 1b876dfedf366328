"""Predictions behave like an array, whoever stores them."""

import inspect

import numpy as np
import pytest
import torch
from pools import pool

import poolwise as pw
from poolwise import budget, errors
from poolwise.predictions import Block, Predictions, ShardWriter

KINDS = ("log-probs", "probs", "logits")
STORES = ("memory", "tensor", "mapped", "shards", "table")


def stored(store, values, kind, folder):
    if store == "memory" or store == "tensor":
        make = {
            "log-probs": Predictions.from_log_probs,
            "probs": Predictions.from_probs,
            "logits": Predictions.from_logits,
        }
        return make[kind](values if store == "memory" else torch.from_numpy(values))
    if store == "mapped":
        np.save(folder / "x.npy", values)
        return Predictions.open(folder / "x.npy", kind=kind)
    if store == "shards":
        with ShardWriter(folder / "x", values.shape, kind=kind, dtype=values.dtype.name, rows_per_shard=7) as writer:
            for number in writer.missing:
                writer.put(number, values[writer.rows(number)])
        return Predictions.open(folder / "x")
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    column = pa.array(values.tolist(), pa.list_(pa.list_(pa.float32())))
    pq.write_table(pa.table({"p": column}), folder / "x.parquet")
    return Predictions.open(folder / "x.parquet", kind=kind)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_every_store_and_kind(tmp_path, store, kind):
    x = pool(30, 4, 3)
    p = stored(store, {"log-probs": x, "probs": np.exp(x), "logits": x + 2}[kind], kind, tmp_path)
    np.testing.assert_allclose(p.log_probs, x, atol=2e-6)
    np.testing.assert_allclose(p.probs, np.exp(x), atol=1e-6)
    mask = np.arange(30) % 3 == 0
    lists = [[3, 1, 1], np.array([-1, 0]), mask, mask.tolist(), torch.tensor([4, 2]), []]
    for key in (slice(10, 20), slice(None, None, -2), slice(25, 99), 7, np.int64(-2), *lists):
        expected = x[key] if not isinstance(key, int | np.integer) else x[[key]]
        expected = x[np.array(key, int)] if isinstance(key, list) and not key else expected
        part = p[key]
        assert part.shape == expected.shape == part.log_probs.shape
        np.testing.assert_array_equal(part.log_probs, p.log_probs[np.arange(30)[key]].reshape(part.shape))
        np.testing.assert_allclose(part.probs, np.exp(expected), atol=1e-6)
    again = p[5:25][[3, 0]][1:]
    np.testing.assert_array_equal(again.log_probs, p.log_probs[[5]])


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_blocks_rows_and_passes_agree_to_the_bit(tmp_path, store, kind):
    """One contract of log-probabilities, also where a probability is 0."""
    x = pool(40, 3, 4)
    x[3] = [-np.inf, 0, -np.inf, -np.inf]
    x[5, 1] = [-200, 0, -120, -np.inf]
    p = stored(store, {"log-probs": x, "probs": np.exp(x), "logits": x}[kind], kind, tmp_path)
    whole = p.log_probs, p.probs
    assert np.isfinite(whole[0]).all()
    assert (whole[0][3, :, 0] == -110).all()
    assert (whole[1][3, :, 0] == 0).all()
    blocks = list(p)
    assert all(isinstance(block, Block) for block in blocks)
    assert repr(blocks[0]).startswith(f"Block({len(blocks[0])} rows, K=")
    assert sum(map(len, blocks)) == len(p) == 40
    small = [block for _, block in p.blocks(memory=1)]
    assert len(small) == 40
    seen = [block for _, block in p.scan(lambda b: (b.log_probs.clone(), b.probs.clone()), memory=5000)]
    rows = p.rows(np.arange(40))
    for form, array in zip(("log_probs", "probs"), whole, strict=True):
        np.testing.assert_array_equal(torch.cat([getattr(b, form) for b in blocks]).numpy(), array)
        np.testing.assert_array_equal(torch.cat([getattr(b, form) for b in small]).numpy(), array)
        np.testing.assert_array_equal(getattr(rows, form).numpy(), array)
        np.testing.assert_array_equal(torch.cat([pair[form == "probs"] for pair in seen]).numpy(), array)


def test_views_share_memory_and_cannot_be_written(tmp_path):
    for dtype in (np.float32, np.float64):
        x = pool(30, 4, 3).astype(dtype)
        p = Predictions.from_log_probs(x)
        for view in (p.log_probs, p.numpy(), np.asarray(p), p[10:20].log_probs, p[10:20][2:4].numpy()):
            assert np.shares_memory(view, x)
            assert view.dtype == dtype
            assert not view.flags.writeable
        assert np.shares_memory(np.asarray(p, copy=False), x)
        probs = np.exp(x)
        assert np.shares_memory(Predictions.from_probs(probs)[3:9].probs, probs)
    x = pool(30, 4, 3)
    knc = x.transpose(1, 0, 2)
    assert np.shares_memory(Predictions.from_log_probs(knc, layout="KNC").log_probs, x)
    np.save(tmp_path / "x.npy", x)
    mapped = Predictions.open(tmp_path / "x.npy")
    assert not mapped.log_probs.flags.owndata
    np.testing.assert_array_equal(mapped.log_probs, x)


def test_the_protocol_of_numpy():
    x = pool(9, 4, 3)
    p = Predictions.from_log_probs(x)
    copied = np.array(p)
    assert copied.flags.writeable
    assert not np.shares_memory(copied, x)
    assert np.asarray(p, dtype=np.float64).dtype == np.float64
    assert np.asarray(p, np.float16).dtype == np.float16
    half = Predictions.from_log_probs(x.astype(np.float16))
    assert np.asarray(half).dtype == np.float32
    for needs_copy in (lambda: np.asarray(half, copy=False), lambda: np.asarray(p, np.float64, copy=False)):
        with pytest.raises(ValueError, match="without a copy"):
            needs_copy()
    np.testing.assert_allclose(np.exp(p).sum(2), 1, atol=1e-5)


def test_float16_is_renormalised_and_the_rest_is_as_stored():
    x = pool(50, 3, 7)
    half = Predictions.from_log_probs(x.astype(np.float16)).probs
    assert abs(half.sum(2) - 1).max() < 1e-6
    off = np.exp(x) * 1.0005
    np.testing.assert_array_equal(Predictions.from_probs(off).probs, off)


def test_values_that_were_never_checked_are_checked():
    x = pool(30, 4, 3)
    x[17, 2, 1] = np.nan
    for use in (lambda p: p.log_probs, lambda p: p.probs, lambda p: list(p), np.asarray, lambda p: p[15:].numpy()):
        with pytest.raises(errors.NotFiniteError, match="row 17"):
            use(Predictions.from_log_probs(x, validate=False))


def test_what_does_not_fit_memory_is_said_with_its_size(tmp_path, monkeypatch):
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, "w+", np.float16, (10**8, 10, 100))  # a file that takes no room
    p = Predictions.open(path, kind="logits", validate=False)
    for use in (lambda: p.log_probs, lambda: p.probs, p.numpy, lambda: np.asarray(p)):
        with pytest.raises(errors.NotEnoughMemoryError, match=r"400\.0 GB.*p\[:1000\]") as caught:
            use()
        assert isinstance(caught.value, MemoryError)
    assert p[:5].probs.shape == (5, 10, 100)
    monkeypatch.setattr(budget, "available", lambda: None)
    monkeypatch.setattr(np, "empty", lambda *a, **k: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(errors.NotEnoughMemoryError, match="GB"):
        p.probs  # noqa: B018


@pytest.mark.parametrize(
    "key",
    [30, -31, [0, 30], np.array([2**63], np.uint64), [True] * 29, 1.5, "a", [[1, 2]], (1, 2), None, [1, [2]], ...],
)
def test_what_is_no_position_is_refused(key):
    with pytest.raises(errors.PositionError) as caught:
        Predictions.from_log_probs(pool(30, 4, 3))[key]
    assert isinstance(caught.value, IndexError)


def test_embeddings_and_ids_come_along():
    z = np.arange(60.0).reshape(30, 2)
    p = Predictions.from_log_probs(pool(30, 4, 3), embeddings=z, ids=[f"{i}.png" for i in range(30)])
    part = p[20:][[1, 3]]
    np.testing.assert_array_equal(part.embeddings, z[[21, 23]])
    assert part.ids.tolist() == ["21.png", "23.png"]
    batch = pw.select(part, 2, "coreset")
    assert sorted(batch.ids) == ["21.png", "23.png"]
    for wrong in (["a"], "abc", ["a"] * 31):
        with pytest.raises(errors.ShapeError, match="ids"):
            p.with_ids(wrong)


def test_public_names_and_old_ones():
    assert dir(pw.predictions) == ["Block", "PredictionKind", "PredictionLayout", "Predictions", "ShardWriter", "adopt"]
    assert dir(pw.scores) == sorted(pw.scores.__all__)
    with pytest.warns(DeprecationWarning, match="PredictionKind"):
        assert pw.predictions.Kind is pw.predictions.PredictionKind
    with pytest.warns(DeprecationWarning, match="PredictionLayout"):
        assert pw.predictions.Layout is pw.predictions.PredictionLayout


def test_public_signatures_say_what_they_take():
    """An editor shows them: `object` says nothing."""
    unclear = []
    for name in pw.__all__:
        value = getattr(pw, name)
        if isinstance(value, type):
            parts = {name: value.__init__} | {
                f"{name}.{own}": part for own, part in inspect.getmembers(value, callable)
            }
        else:
            parts = {name: value} if inspect.isfunction(value) else {}
        for place, part in parts.items():
            if not inspect.isroutine(part) or ("._" in place):
                continue
            try:
                given = inspect.signature(part).parameters.values()
            except ValueError:
                continue
            taken = [parameter for parameter in given if parameter.kind is not parameter.VAR_KEYWORD]
            unclear += [f"{place}({own.name})" for own in taken if own.annotation in (object, "object")]
    assert not unclear


def test_a_learner_shows_where_it_is():
    pool = pw.Pool(np.arange(12.0).reshape(6, 2), classes=2)
    learner = pw.ActiveLearner(pw.posteriors.from_callable(lambda inputs: ...), pool, "margin", 2)
    assert repr(learner) == (
        "ActiveLearner(margin, batches of 2; Pool(6 examples, 2 classes: 0 labelled, 6 unlabelled, 0 for validation))"
    )
    learner.query()
    assert "2 asked for" in repr(learner)
