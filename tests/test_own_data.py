"""A user's own pictures, texts and arrays."""

import csv
import io
import json
import struct
import sys
import zlib

import numpy as np
import pytest
import torch
from data_files import everything, pixels, write
from PIL import Image

from poolwise import errors
from poolwise.data import (
    open_data,
)
from poolwise.data.formats import images as image_files

pytestmark = pytest.mark.usefixtures("no_data_of_this_machine")


# Pictures


def picture(path, array, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)


def test_a_folder_of_classes(tmp_path, draw):
    images = pixels(draw, 4, 6, 5, 3)
    for name, image in zip(["dog/b.png", "cat/z.PNG", "dog/a/1.bmp", "cat/a.png"], images, strict=True):
        picture(tmp_path / "pets" / name, image)
    write(tmp_path / "pets" / "notes.md", b"x")
    write(tmp_path / "pets" / "dog" / ".hidden.png", b"x")
    write(tmp_path / "pets" / "dog" / "notes.txt", b"x")
    write(tmp_path / "pets" / ".git" / "x.png", b"x")
    opened = open_data(tmp_path / "pets")
    assert opened.ids == ("cat/a.png", "cat/z.PNG", "dog/a/1.bmp", "dog/b.png")
    assert (opened.class_names, opened.labels.tolist()) == (("cat", "dog"), [0, 0, 1, 1])
    assert opened.examples.inputs.shape == (4, 3, 6, 5)
    np.testing.assert_array_equal(opened.examples.images(np.arange(4)), images[[3, 1, 2, 0]])
    np.testing.assert_array_equal(opened.examples.labels, opened.labels)
    assert open_data(tmp_path / "pets", classes=["dog", "cat", "bird"]).labels.tolist() == [1, 1, 0, 0]
    with pytest.raises(errors.FileError, match=r"dog/a/1.bmp: 'dog' is not one of the 1 classes \(cat\)"):
        open_data(tmp_path / "pets", classes=["cat"])


def test_a_folder_of_pictures_without_labels(tmp_path, draw):
    for name in "ba":
        picture(tmp_path / "new" / f"{name}.png", pixels(draw, 4, 4))
    opened = open_data(tmp_path / "new")
    assert (opened.ids, opened.labels, opened.class_names) == (("a.png", "b.png"), None, ())
    assert opened.examples.labels is None
    assert opened.examples.inputs.shape == (2, 1, 4, 4)


def test_pictures_listed_in_a_table(tmp_path, draw):
    images = pixels(draw, 3, 4, 4, 3)
    for name, image in zip("abc", images, strict=True):
        picture(tmp_path / "set" / "photos" / f"{name}.png", image)
    write(tmp_path / "set" / "labels.csv", b"path,kind\nphotos/c.png,dog\nphotos/a.png,\nphotos/b.png,cat\n")
    for path in (tmp_path / "set", tmp_path / "set" / "labels.csv"):
        opened = open_data(path, file="path", label="kind")
        assert opened.ids == ("photos/c.png", "photos/a.png", "photos/b.png")
        assert (opened.class_names, opened.labels.tolist()) == (("cat", "dog"), [1, -1, 0])
        assert opened.examples.labels is None
        np.testing.assert_array_equal(opened.examples.images(np.arange(3)), images[[2, 0, 1]])
    write(tmp_path / "set" / "labels.csv", b"file,label\nphotos/missing.png,dog\n")
    with pytest.raises(errors.FileError, match=r"photos/missing.png: not an image that can be read"):
        open_data(tmp_path / "set")
    write(tmp_path / "set" / "labels.csv", b"file,label\na,x\na,y\n")
    with pytest.raises(errors.FileError, match="'a' occurs 2 times"):
        open_data(tmp_path / "set")
    write(tmp_path / "set" / "more.jsonl", b"{}")
    with pytest.raises(errors.FileError, match=r"several tables \(labels.csv, more.jsonl\)"):
        open_data(tmp_path / "set")


def test_sizes_colours_and_orientation(tmp_path, draw):
    picture(tmp_path / "a.png", pixels(draw, 8, 4))
    picture(tmp_path / "b.png", pixels(draw, 6, 4, 3))
    with pytest.raises(errors.FileError, match=r"b.png: expected height 8 and width 4 as in a.png, found height 6 and"):
        open_data(tmp_path)
    assert open_data(tmp_path, size=(3, 5)).examples.inputs.shape == (2, 3, 3, 5)
    assert open_data(tmp_path, size=7, channels=1).examples.inputs.shape == (2, 1, 7, 7)
    held_sideways = Image.Exif()
    held_sideways[0x0112] = 6
    upright = np.zeros((8, 4), np.uint8)
    upright[:4] = 255  # bright at the top
    picture(tmp_path / "b.png", np.rot90(upright).copy(), exif=held_sideways)
    images = open_data(tmp_path).examples.inputs
    assert images.shape == (2, 1, 8, 4)
    np.testing.assert_array_equal(images[1, 0], upright)
    for bad in (0, (3,), (3, 4, 5), (3, 0), "x"):
        with pytest.raises(errors.ParameterError, match="size must be"):
            open_data(tmp_path, size=bad)
    with pytest.raises(errors.FileError, match="GB of memory"):
        open_data(tmp_path, size=10**9)
    with pytest.raises(errors.ParameterError, match="channels must be"):
        open_data(tmp_path, channels=2)


def test_pictures_of_every_mode(tmp_path, draw):
    grey = Image.fromarray(pixels(draw, 5, 5))
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK"):
        grey.convert("RGB").convert(mode).save(tmp_path / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}")
    assert open_data(tmp_path).examples.inputs.shape == (7, 3, 5, 5)
    Image.fromarray(np.zeros((5, 5), np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(errors.FileError, match=r"deep.png: has more than 8 bits per pixel"):
        open_data(tmp_path)


def test_damaged_and_dangerous_pictures(tmp_path, draw, monkeypatch):
    picture(tmp_path / "a.png", pixels(draw, 30, 30))
    whole = (tmp_path / "a.png").read_bytes()
    for damaged in (b"", b"not a picture", whole[: len(whole) // 2]):
        write(tmp_path / "b.png", damaged)
        with pytest.raises(errors.FileError, match=r"b.png: not an image that can be read"):
            open_data(tmp_path)
    # A file of a few bytes whose header claims 60,000 by 60,000 pixels.
    header = b"IHDR" + struct.pack(">2I5B", 60_000, 60_000, 8, 0, 0, 0, 0)
    crc = struct.pack(">I", zlib.crc32(header))
    write(tmp_path / "b.png", whole[:8] + struct.pack(">I", 13) + header + crc + whole[33:])
    with pytest.raises(errors.FileError, match=r"b.png: expected at most 67,108,864 pixels"):
        open_data(tmp_path)
    monkeypatch.setattr(image_files, "_LARGEST", 899)
    with pytest.raises(errors.FileError, match=r"a.png: expected at most 899 pixels, found more \(30 by 30\)"):
        open_data(tmp_path)


def test_folders_that_are_not_clear(tmp_path, draw):
    with pytest.raises(errors.FileError, match="expected images, one folder of images per class, or one table"):
        open_data(tmp_path)
    picture(tmp_path / "cat" / "a.png", pixels(draw, 4, 4))
    picture(tmp_path / "b.png", pixels(draw, 4, 4))
    with pytest.raises(errors.FileError, match=r"b.png is beside the folders of classes"):
        open_data(tmp_path)


# Texts


RECORDS = [("one, two", "pos"), ('say "hi"\nthere', ""), ("drei ü", "neg")]


def test_texts_in_every_kind_of_table(tmp_path):
    text = io.StringIO()
    csv.writer(text).writerows([("text", "label"), *RECORDS])
    write(tmp_path / "t.csv", text.getvalue().encode())
    write(tmp_path / "t.csv.gz", text.getvalue().encode())
    lines = [json.dumps({"text": body, "label": label or None}) for body, label in RECORDS]
    write(tmp_path / "t.jsonl", "\n\n".join(lines).encode())
    write(tmp_path / "t.NDJSON", "\n".join(lines).encode())
    for name in ("t.csv", "t.csv.gz", "t.jsonl", "t.NDJSON"):
        opened = open_data(tmp_path / name)
        assert everything(opened.examples) == [body for body, _ in RECORDS]
        assert (opened.class_names, opened.labels.tolist()) == (("neg", "pos"), [1, -1, 0])
        assert (opened.examples.labels, opened.ids) == (None, ("0", "1", "2"))


def test_a_real_parquet_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "label": [1.0, None]}), tmp_path / "t.parquet")
    opened = open_data(tmp_path / "t.parquet")
    assert (everything(opened.examples), opened.class_names, opened.labels.tolist()) == (["a", "b"], ("1",), [0, -1])


def test_columns_are_named_by_the_caller(tmp_path):
    write(tmp_path / "t.tsv", b"key\tbody\tstars\nk1\tfine\t10\nk2\tbad\t2\n")
    opened = open_data(tmp_path / "t.tsv", text="body", label="stars", id="key")
    assert (opened.ids, opened.class_names, opened.labels.tolist()) == (("k1", "k2"), ("2", "10"), [1, 0])
    assert opened.examples.labels.tolist() == [1, 0]
    assert open_data(tmp_path / "t.tsv", text="body").labels is None
    with pytest.raises(errors.FileError, match=r"no column 'none', which label= names. .* are: key, body, stars"):
        open_data(tmp_path / "t.tsv", text="body", label="none")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("t.csv", b"body,label\nx,y\n", "expected a column 'text' of texts or a column 'file' .* found body, label"),
        ("t.csv", b"text,file\nx,y\n", "and not both"),
        ("t.csv", b"text,text\nx,y\n", "a different name for each column"),
        ("t.csv", b"text,label\n", "expected at least one row"),
        ("t.csv", b"id,text\n1,a\n1,b\n", "'1' occurs 2 times"),
        ("t.jsonl", b'{"text": "a"}\n{"text": ', "line 2: not JSON"),
        ("t.jsonl", b'["a"]', "line 1: expected an object"),
        ("t.jsonl", b'{"text": 3}', "row 0: expected a text as 'text', found 3"),
        ("t.jsonl", b'{"text": "a", "label": [1]}', "row 0: expected the name or number of a class"),
        ("t.jsonl", b"", "found none. Name the column"),
        ("t.docx", b"x", r"cannot read '.docx' files. Expected a folder, or one of .csv"),
    ],
)
def test_damaged_tables(tmp_path, name, content, match):
    write(tmp_path / name, content)
    with pytest.raises(errors.FileError, match=match):
        open_data(tmp_path / name)


def test_packages_that_are_missing(tmp_path, monkeypatch):
    write(tmp_path / "t.parquet", b"x")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(
        errors.MissingInputError, match=r"reading Parquet needs the package pyarrow.*pip install pyarrow"
    ):
        open_data(tmp_path / "t.parquet")


def test_paths_and_classes_that_cannot_be_used(tmp_path):
    for name in ("missing", "missing.csv", "missing.npy"):
        with pytest.raises(errors.FileError, match="there is no such file"):
            open_data(tmp_path / name)
    for bad in ("abc", ["a", "a"]):
        with pytest.raises(errors.ParameterError, match="classes must be a list of different names"):
            open_data(tmp_path, classes=bad)


# Arrays


def test_arrays_of_every_kind(tmp_path, draw):
    inputs, labels = draw.normal(size=(5, 3)).astype(np.float32), np.array([2, 0, -1, 1, 2])
    np.save(tmp_path / "x.npy", inputs)
    np.savez(tmp_path / "x.npz", inputs=inputs, labels=labels)
    np.savez(tmp_path / "y.npz", x=inputs.astype(np.float64), y=labels, other=labels)
    torch.save(torch.from_numpy(inputs), tmp_path / "x.pt")
    torch.save((torch.from_numpy(inputs), torch.from_numpy(labels)), tmp_path / "y.pt")
    torch.save({"x": torch.from_numpy(inputs), "y": torch.from_numpy(labels)}, tmp_path / "z.pt")
    for name, labelled in {"x.npy": 0, "x.npz": 1, "y.npz": 1, "x.pt": 0, "y.pt": 1, "z.pt": 1}.items():
        opened = open_data(tmp_path / name)
        np.testing.assert_array_equal(everything(opened.examples), inputs)
        assert (opened.ids, opened.examples.labels) == (tuple("01234"), None)
        assert (opened.labels is not None) == labelled
        if labelled:
            assert (opened.labels.tolist(), opened.class_names) == (labels.tolist(), ("0", "1", "2"))
    assert open_data(tmp_path / "x.npz", classes=["a", "b", "c", "d"]).class_names == ("a", "b", "c", "d")
    np.savez(tmp_path / "names.npz", x=inputs, y=np.array(["b", "a", "", "a", "b"]))
    opened = open_data(tmp_path / "names.npz")
    assert (opened.labels.tolist(), opened.class_names) == ([1, 0, -1, 0, 1], ("a", "b"))


def test_arrays_of_pictures_and_foreign_bytes(tmp_path, draw):
    images = pixels(draw, 4, 3, 8, 9)
    np.savez(tmp_path / "i.npz", x=images, y=[0, 1, 1, 0])
    opened = open_data(tmp_path / "i.npz")
    np.testing.assert_allclose(everything(opened.examples), images / np.float32(255), rtol=1e-6)
    assert opened.examples.labels.tolist() == [0, 1, 1, 0]
    np.save(tmp_path / "big.npy", np.arange(6, dtype=">f4").reshape(2, 3))
    np.testing.assert_array_equal(everything(open_data(tmp_path / "big.npy").examples), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("arrays", "error", "match"),
    [
        ({"x": np.zeros(3)}, errors.ShapeError, r"must be numbers \[N, D\]"),
        ({"x": np.zeros((0, 3))}, errors.ShapeError, "at least one"),
        ({"x": np.array([["a"]])}, errors.ShapeError, "must be numbers"),
        ({"x": np.zeros((2, 8, 8, 3), np.uint8)}, errors.ShapeError, r"looks like \[N, height, width, channels\]"),
        ({"x": np.array([[1.0], [np.nan]])}, errors.NotFiniteError, "row 1"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2, int)}, errors.ShapeError, r"labels must be .* \[3\]"),
        ({"x": np.zeros((2, 2)), "y": np.zeros(2)}, errors.ShapeError, "not float64"),
        ({"x": np.zeros((2, 2)), "y": np.array([0, -2])}, errors.ParameterError, "go from -2 to 0"),
        ({"a": np.zeros((2, 2)), "b": np.zeros(2)}, errors.FileError, "expected an array called inputs or x"),
        ({"x": np.zeros((2, 2)), "inputs": np.zeros((2, 2))}, errors.FileError, "found x, inputs"),
        ({"x": np.array([[{}]], object)}, errors.FileError, "pickled objects, which are never loaded"),
    ],
)
def test_arrays_that_cannot_be_used(tmp_path, arrays, error, match):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(error, match=match):
        open_data(tmp_path / "x.npz")


def test_damaged_arrays(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((100, 3)))
    write(tmp_path / "x.npy", (tmp_path / "x.npy").read_bytes()[:-50])
    write(tmp_path / "x.npz", b"PK garbage")
    write(tmp_path / "x.pt", b"garbage")
    torch.save({"inputs": torch.zeros(2, 2), "labels": "abc"}, tmp_path / "y.pt")
    for name in ("x.npy", "x.npz", "x.pt", "y.pt"):
        with pytest.raises(errors.FileError, match=name):
            open_data(tmp_path / name)
