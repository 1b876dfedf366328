"""Predictions in columns of lists: Parquet and Arrow files, as other pipelines write them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pools import features, pool

import poolwise as pw
from poolwise import errors
from poolwise.predictions import Predictions


def column(x, form):
    """`[N, K, C]` numbers as an Arrow array of lists."""
    N, K, C = x.shape
    flat = pa.array(x.reshape(-1))
    if form == "nested":
        inner = pa.ListArray.from_arrays(pa.array(np.arange(0, N * K * C + 1, C, dtype=np.int32)), flat)
        return pa.ListArray.from_arrays(pa.array(np.arange(0, N * K + 1, K, dtype=np.int32)), inner)
    if form == "large":
        return pa.LargeListArray.from_arrays(pa.array(np.arange(0, N * K * C + 1, K * C)), flat)
    if form == "fixed nested":
        return pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(flat, C), K)
    return pa.FixedSizeListArray.from_arrays(flat, K * C)


def save(path, table, rows=1000):
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".feather"])
@pytest.mark.parametrize("form", ["nested", "fixed nested", "large", "fixed"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_columns_of_lists_are_read(tmp_path, ending, form, dtype):
    x = pool(300, 4, 3).astype(dtype)
    table = pa.table({"id": [f"image {i}" for i in range(300)], "log_probs": column(x, form)})
    save(tmp_path / f"x{ending}", table, rows=70)
    opened = Predictions.open(tmp_path / f"x{ending}", samples=None if "nested" in form else 4)
    assert opened.shape == x.shape
    batch = pw.select(opened, 20, "lbb")
    np.testing.assert_array_equal(batch.indices, pw.select(x, 20, "lbb").indices)


def test_a_folder_of_files_in_the_order_of_their_names(tmp_path):
    x = pool(300, 4, 3)
    for number, part in enumerate(np.split(x, [100, 130])):
        save(tmp_path / f"part-{number}.parquet", pa.table({"p": column(part, "nested")}))
    (tmp_path / "_SUCCESS").write_text("")
    opened = Predictions.open(tmp_path)
    np.testing.assert_array_equal(opened.rows(np.arange(300)).log_probs.numpy(), x)
    save(tmp_path / "part-9.parquet", pa.table({"p": column(x[:, :3], "nested")}))
    with pytest.raises(errors.FileError, match=r"part-9.*\[3, 3\].*\[4, 3\]"):
        Predictions.open(tmp_path)


def test_kinds_layouts_and_embeddings(tmp_path):
    x = pool(50, 4, 3)
    save(tmp_path / "p.parquet", pa.table({"p": column(np.exp(x), "nested"), "z": pa.array(features(50).tolist())}))
    opened = Predictions.open(tmp_path / "p.parquet", kind="probs", key="p")
    np.testing.assert_allclose(opened.rows(np.arange(50)).log_probs.numpy(), x, atol=1e-5)
    save(tmp_path / "z.parquet", pa.table({"z": column(features(50)[:, None], "fixed")}))
    opened = Predictions.open(tmp_path / "p.parquet", kind="probs", key="p", embeddings=tmp_path / "z.parquet")
    np.testing.assert_array_equal(opened.embeddings, features(50))
    save(tmp_path / "c.parquet", pa.table({"p": column(x.transpose(0, 2, 1).copy(), "fixed")}))
    opened = Predictions.open(tmp_path / "c.parquet", layout="NCK", samples=4)
    np.testing.assert_array_equal(opened.rows(np.arange(50)).log_probs.numpy(), x)
    np.save(tmp_path / "flat.npy", x.reshape(50, 12))
    assert Predictions.open(tmp_path / "flat.npy", samples=4).shape == (50, 4, 3)


def test_what_cannot_be_read_is_named(tmp_path):
    x = pool(50, 4, 3)
    save(tmp_path / "two.parquet", pa.table({"a": column(x, "nested"), "b": column(x, "nested"), "n": range(50)}))
    for key in (None, "n", "c"):
        with pytest.raises(errors.FileError, match=r"two\.parquet.*a, b"):
            Predictions.open(tmp_path / "two.parquet", key=key)
    rows = x.tolist()
    for name, bad in (("gap", None), ("ragged", rows[0][:3]), ("short", [row[:2] for row in rows[0]]), ("hole", None)):
        wrong = [*rows[:30], bad, *rows[31:]]
        if name == "hole":
            wrong[30] = [[None, 0.5, 0.5], *rows[30][1:]]
        save(tmp_path / f"{name}.parquet", pa.table({"p": wrong}))
        with pytest.raises(errors.FileError, match=name):
            Predictions.open(tmp_path / f"{name}.parquet")
    save(tmp_path / "flat.parquet", pa.table({"p": column(x, "fixed")}))
    with pytest.raises(errors.ShapeError, match="samples="):
        Predictions.open(tmp_path / "flat.parquet")
    for samples in (5, 0):
        with pytest.raises(errors.ShapeError, match="samples="):
            Predictions.open(tmp_path / "flat.parquet", samples=samples)
    save(tmp_path / "whole.parquet", pa.table({"p": pa.array([[1, 2], [3, 4]])}))
    with pytest.raises(errors.ShapeError, match="int64"):
        Predictions.open(tmp_path / "whole.parquet", samples=1)
    save(tmp_path / "none.parquet", pa.table({"p": column(x[:0], "nested")}))
    with pytest.raises(errors.FileError, match="no rows"):
        Predictions.open(tmp_path / "none.parquet")
    for ending in (".parquet", ".arrow"):
        save(tmp_path / f"cut{ending}", pa.table({"p": column(x, "nested")}))
        whole = (tmp_path / f"cut{ending}").read_bytes()
        (tmp_path / f"cut{ending}").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(errors.FileError, match="cut"):
            Predictions.open(tmp_path / f"cut{ending}")


def test_no_room_to_unpack_is_said(tmp_path, monkeypatch):
    save(tmp_path / "x.parquet", pa.table({"p": column(pool(50, 4, 3), "nested")}))

    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *exception):
            pass

        def write(self, content):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", Full)
    with pytest.raises(errors.FileError, match="TMPDIR"):
        Predictions.open(tmp_path / "x.parquet")


def test_a_bad_row_is_named_by_its_position(tmp_path):
    x = pool(20_000, 2, 3)
    x[12_345] += 1
    save(tmp_path / "x.parquet", pa.table({"p": column(x, "nested")}))
    with pytest.raises(errors.NotNormalisedError, match=r"row 12345\b"):
        Predictions.open(tmp_path / "x.parquet")


def test_a_stream_and_what_hugging_face_puts_beside_it(tmp_path):
    x = pool(100, 4, 3)
    table, file = pa.table({"p": column(x, "nested")}), tmp_path / "data-00000-of-00001.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=30)
    for name in ("dataset_info.json", "state.json"):
        (tmp_path / name).write_text("{}")
    for path in (file, tmp_path):
        np.testing.assert_array_equal(Predictions.open(path).rows(np.arange(100)).log_probs, x)
    whole = file.read_bytes()
    for size in (len(whole) - 8, len(whole) // 2, 0):  # without its mark of an end, a stream may lack whole batches
        file.write_bytes(whole[:size])
        with pytest.raises(errors.FileError, match=r"data-00000.*Write it again"):
            Predictions.open(tmp_path)


def test_files_whose_order_is_not_clear_are_refused(tmp_path):
    for number in range(11):
        save(tmp_path / f"part-{number}.parquet", pa.table({"p": column(pool(5, 4, 3), "nested")}))
    with pytest.raises(errors.FileError, match=r"part-10\.parquet or part-2\.parquet comes first. Rename"):
        Predictions.open(tmp_path)
    for number in range(10):
        (tmp_path / f"part-{number}.parquet").rename(tmp_path / f"part-0{number}.parquet")
    assert len(Predictions.open(tmp_path)) == 55


def test_a_column_has_one_name_in_all_files_and_in_each(tmp_path):
    lists = column(pool(5, 4, 3), "nested")
    save(tmp_path / "a.parquet", pa.table({"p": lists}))
    save(tmp_path / "b.parquet", pa.table({"q": lists}))
    with pytest.raises(errors.FileError, match=r"b\.parquet: .* not p; those with lists: q"):
        Predictions.open(tmp_path)
    save(tmp_path / "c.arrow", pa.table([lists, lists], names=["p", "p"]))
    with pytest.raises(errors.FileError, match="say which column"):
        Predictions.open(tmp_path / "c.arrow", key="p")


@pytest.mark.parametrize("form", ["null", "null inside", "null number", "short", "short inside"])
def test_a_list_that_cannot_be_used_is_named_by_its_row(tmp_path, form):
    rows = pool(9000, 2, 3).tolist()
    if form == "null":
        rows[8500] = None
    elif form == "null inside":
        rows[8500][1] = None
    elif form == "null number":
        rows[8500][1][2] = None
    elif form == "short":
        rows[8500].pop()
    else:
        rows[8500][1].pop()
    save(tmp_path / "x.parquet", pa.table({"p": pa.array(rows, pa.list_(pa.list_(pa.float32())))}))
    with pytest.raises(errors.FileError, match=r"x\.parquet, row 8500: "):
        Predictions.open(tmp_path / "x.parquet")


@pytest.mark.parametrize("values", [["a", "b"], [1, 2], [True, False]])
def test_lists_of_anything_but_floats_are_refused(tmp_path, values):
    save(tmp_path / "x.parquet", pa.table({"p": pa.array([values] * 5)}))
    with pytest.raises(errors.ShapeError, match=r"x\.parquet: its lists must be of float16"):
        Predictions.open(tmp_path / "x.parquet", samples=1)


def test_no_room_for_the_last_bytes_is_said_too(tmp_path, monkeypatch):
    save(tmp_path / "x.parquet", pa.table({"p": column(pool(5, 4, 3), "nested")}))
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: open("/dev/full", "w+b"))  # noqa: SIM115
    with pytest.raises(errors.FileError, match="TMPDIR"):
        Predictions.open(tmp_path / "x.parquet")
