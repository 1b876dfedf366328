"""Data sets by name, repeats, and a user's own data; every format is written here as its authors publish it."""

import csv
import gzip
import hashlib
import io
import json
import os
import struct
import sys
import tarfile
import types
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from PIL import Image
from scipy import stats

from poolwise import errors
from poolwise.data import (
    SPECS,
    Examples,
    Repeated,
    TensorExamples,
    TextExamples,
    datasets_table,
    load,
    open_data,
)
from poolwise.data.formats import archives
from poolwise.data.formats import images as image_files

SHARED = Path(__file__).parents[2] / "shared" / "data"
REAL = Path(os.environ.get("POOLWISE_TEST_DATA", SHARED))


@pytest.fixture(autouse=True)
def _nothing_but_the_test_folder(tmp_path, monkeypatch):
    """No data of this machine is found: not in the working folder, the home folder or the environment."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("POOLWISE_DATA", raising=False)


@pytest.fixture
def draw():
    return np.random.default_rng(0)


def pixels(draw, *shape):
    return draw.integers(0, 256, shape, dtype=np.uint8)


def everything(examples):
    return examples.batch(np.arange(len(examples)))


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_mnist(folder, draw, ending="", dash="-"):
    """Four small files in the format of MNIST; returns images and labels of both splits."""
    written = []
    for split, count in (("train", 12), ("t10k", 5)):
        images, labels = pixels(draw, count, 28, 28), (np.arange(count) % 10).astype(np.uint8)
        write(folder / f"{split}-images{dash}idx3-ubyte{ending}", idx(images))
        write(folder / f"{split}-labels{dash}idx1-ubyte{ending}", idx(labels))
        written.append((images, labels))
    return written


def write_cifar_10(folder, draw):
    records = {name: pixels(draw, 3, 3073) for name in SPECS["cifar-10"].forms[0].files}
    for name, record in records.items():
        record[:, 0] %= 10
        write(folder / name, record.tobytes())
    return records


# Formats


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("dash", ["-", "."])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "kmnist"])
def test_idx(tmp_path, draw, name, ending, dash):
    (train, train_labels), (test, test_labels) = write_mnist(tmp_path / name, draw, ending, dash)
    data = load(name, tmp_path, check=False)
    assert (data.name, data.kind, data.origin) == (name, "image", str(tmp_path / name))
    assert isinstance(data.train, Examples)
    np.testing.assert_array_equal(data.train.images(np.arange(12))[..., 0], train)
    np.testing.assert_array_equal(data.test.images(np.arange(5))[..., 0], test)
    np.testing.assert_array_equal(data.train.labels, train_labels)
    np.testing.assert_array_equal(data.test.labels, test_labels)
    spec = data.spec
    expected = (train[:, None] / 255 - spec.mean[0]) / spec.std[0]
    np.testing.assert_allclose(everything(data.train), expected, atol=1e-5)
    assert data.train.class_names == data.class_names == spec.classes


def test_emnist_is_turned_the_right_way(tmp_path, draw):
    upright = pixels(draw, 6, 28, 28)
    for split in ("train", "test"):
        write(tmp_path / f"emnist-balanced-{split}-images-idx3-ubyte.gz", idx(upright.swapaxes(1, 2).copy()))
        write(
            tmp_path / f"emnist-balanced-{split}-labels-idx1-ubyte.gz", idx(np.array([0, 9, 10, 35, 36, 46], np.uint8))
        )
    data = load("emnist", tmp_path, check=False)
    np.testing.assert_array_equal(data.train.images(np.arange(6))[..., 0], upright)
    assert [data.class_names[label] for label in data.train.labels] == ["0", "9", "A", "Z", "a", "t"]


def test_cifar_10(tmp_path, draw):
    records = write_cifar_10(tmp_path / "cifar-10" / "cifar-10-batches-bin", draw)
    data = load("cifar-10", tmp_path, check=False)
    train = np.concatenate([records[f"data_batch_{part}.bin"] for part in range(1, 6)])
    np.testing.assert_array_equal(data.train.labels, train[:, 0])
    shown = train[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)  # one channel after another, row by row
    np.testing.assert_array_equal(data.train.images(np.arange(15)), shown)
    np.testing.assert_array_equal(data.test.labels, records["test_batch.bin"][:, 0])


def test_cifar_100_takes_the_fine_label(tmp_path, draw):
    records = pixels(draw, 4, 3074)
    records[:, 0], records[:, 1] = 19, [0, 7, 50, 99]
    for name in ("train.bin", "test.bin"):
        write(tmp_path / "cifar-100-binary" / name, records.tobytes())
    data = load("cifar-100", tmp_path, check=False)
    assert [data.class_names[label] for label in data.train.labels] == ["apple", "beetle", "mouse", "worm"]
    np.testing.assert_array_equal(data.train.inputs.reshape(4, -1), records[:, 2:])


def test_svhn_counts_ten_as_zero(tmp_path, draw):
    images = pixels(draw, 32, 32, 3, 5)
    for name in ("train_32x32.mat", "test_32x32.mat"):
        scipy.io.savemat(tmp_path / name, {"X": images, "y": np.array([[10], [1], [2], [9], [10]], np.uint8)})
    data = load("svhn", tmp_path, check=False)
    assert data.train.labels.tolist() == [0, 1, 2, 9, 0]
    np.testing.assert_array_equal(data.train.images(np.arange(5)), images.transpose(3, 0, 1, 2))


AG_NEWS = [
    ("3", 'Wall St. "Bears" Claw Back', "Short-sellers, seeing green again.\\Second line"),
    ("1", "Two\nlines", "a, b"),
    ("4", "Ünïcode", "#39;s"),
    ("2", "Sport", ""),
]


@pytest.mark.parametrize("header", [None, ["Class Index", "Title", "Description"]])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_ag_news_in_its_official_layout(tmp_path, header, ending):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(([header] if header else []) + AG_NEWS)
    for split in ("train", "test"):
        write(tmp_path / "ag_news" / f"{split}.csv{ending}", text.getvalue().encode())
    data = load("ag-news", tmp_path, check=False)
    assert everything(data.train) == [f"{title} {description}" for _, title, description in AG_NEWS]
    assert [data.class_names[label] for label in data.train.labels] == ["Business", "World", "Sci/Tech", "Sports"]


def test_ag_news_with_a_text_and_a_label_counts_from_zero(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / f"{split}.csv", b'\xef\xbb\xbftext,label\r\n"a ""b"", c",0\r\nd,3\r\n')
    data = load("ag-news", tmp_path, check=False)
    assert everything(data.test) == ['a "b", c', "d"]
    assert data.test.labels.tolist() == [0, 3]


def test_names_as_labels_are_sorted_and_shared_by_both_splits(tmp_path):
    write(tmp_path / "r8" / "train.csv", b"text,label\nx,ship\ny,acq\nz,ship\n")
    write(tmp_path / "r8" / "test.csv", b"text,label\nw,ship\n")
    data = load("r8", tmp_path, check=False)
    assert data.class_names == ("acq", "ship")
    assert (data.train.labels.tolist(), data.test.labels.tolist()) == ([1, 0, 1], [1])
    write(tmp_path / "r8" / "test.csv", b"text,label\nw,crude\n")
    with pytest.raises(errors.FileError, match="test, example 0: 'crude' is not one of the 2 classes"):
        load("r8", tmp_path, check=False)


def test_lines_of_class_and_text(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / f"r8-{split}-all-terms.txt", b'earn\tchampion "products\nacq\tcomputer\n')
    data = load("r8", tmp_path, check=False)
    assert (everything(data.train), data.train.labels.tolist()) == (['champion "products', "computer"], [1, 0])


def test_texts_longer_than_the_usual_limit_of_a_field(tmp_path):
    before = csv.field_size_limit()
    for split in ("train", "test"):
        write(tmp_path / f"{split}.csv", b"text,label\n" + b"x" * 200_000 + b",acq\n")
    assert len(load("r8", tmp_path, check=False).train.batch(np.array([0]))[0]) == 200_000
    assert csv.field_size_limit() == before


def test_digits():
    data, again = load("digits"), load("digits")
    assert (len(data.train), len(data.test), data.origin) == (1297, 500, "scikit-learn")
    assert data.train.inputs.shape[1:] == data.spec.shape
    assert np.abs(np.bincount(data.test.labels) - 50).max() <= 2
    torch.testing.assert_close(data.train.inputs, again.train.inputs)
    rows = {image.tobytes() for image in data.train.inputs.numpy()}
    assert not rows & {image.tobytes() for image in data.test.inputs.numpy()}
    # The split is the same on every machine and with every version, or results could not be compared.
    assert hashlib.md5(data.test.inputs.numpy().tobytes()).hexdigest() == "708cef77f427f35ee8bacabc54b13643"


# Damaged and wrong files


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "begins with nothing"),
        (b"<html>Not found</html>", "begins with 3c 68 74 6d"),
        (idx(np.zeros((12, 28, 28), np.uint8))[:-1], "expected 9,408 bytes .* found only 9,407"),
        (idx(np.zeros((12, 28, 28), np.uint8)) + b"x", "found more"),
        (idx(np.zeros(12, np.uint8)), "with 3 axes"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", 1 << 20, 1 << 20, 1 << 20), "asks for"),
        (idx(np.zeros((11, 28, 28), np.uint8)), "11 images, but .* 12 labels"),
        (idx(np.zeros((12, 28, 27), np.uint8)), r"expected images .* \[1, 28, 28\] for mnist, found \[1, 28, 27\]"),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_damaged_idx(tmp_path, draw, content, match, ending):
    write_mnist(tmp_path, draw, ending)
    write(tmp_path / f"train-images-idx3-ubyte{ending}", content)
    with pytest.raises(errors.FileError, match=match) as raised:
        load("mnist", tmp_path, check=False)
    assert str(tmp_path) in str(raised.value)


def test_damaged_gzip(tmp_path, draw):
    write_mnist(tmp_path, draw, ".gz")
    path = tmp_path / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"not gzip", whole[:100] + bytes(50) + whole[150:]):
        path.write_bytes(damaged)
        with pytest.raises(errors.FileError, match=r"train-images-idx3-ubyte.gz"):
            load("mnist", tmp_path, check=False)


@pytest.mark.parametrize("content", [b"", bytes(3073 * 2 - 1), bytes(3074)])
def test_damaged_cifar(tmp_path, draw, content):
    write_cifar_10(tmp_path, draw)
    write(tmp_path / "data_batch_3.bin", content)
    with pytest.raises(errors.FileError, match=r"data_batch_3.bin: expected whole records of 3,073 bytes"):
        load("cifar-10", tmp_path, check=False)


@pytest.mark.parametrize(
    "content", [b"garbage", {"X": np.zeros((32, 32, 3, 2), np.uint8)}, {"X": np.zeros(4), "y": np.zeros(4, np.uint8)}]
)
def test_damaged_svhn(tmp_path, content):
    for name in ("train_32x32.mat", "test_32x32.mat"):
        if isinstance(content, bytes):
            write(tmp_path / name, content)
        else:
            scipy.io.savemat(tmp_path / name, content)
    with pytest.raises(errors.FileError, match=r"train_32x32.mat"):
        load("svhn", tmp_path, check=False)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"text,category\nx,y\n", "expected the columns class index, title, description with a header row or text"),
        (b"1,a,b\n2,a\n", "line 2: expected 3 fields as in the first row, found 2"),
        (b'1,a,"b\n', "line 1: unexpected end of data"),
        (b"1,a,\xff\n", "not UTF-8"),
        (b"World,a,b\n", "line 1: expected the number of a class, found 'World'"),
        (b"5,a,b\n", "expected labels of 4 classes, found numbers from 4 to 4"),
        (b"0,a,b\n", "found numbers from -1 to -1"),
    ],
)
def test_damaged_ag_news(tmp_path, content, match):
    write(tmp_path / "train.csv", content)
    write(tmp_path / "test.csv", b"1,a,b\n")
    with pytest.raises(errors.FileError, match=match):
        load("ag-news", tmp_path, check=False)


def test_labels_of_no_class(tmp_path, draw):
    write_mnist(tmp_path, draw)
    write(tmp_path / "train-labels-idx1-ubyte", idx(np.full(12, 10, np.uint8)))
    with pytest.raises(errors.FileError, match="expected labels of 10 classes, found numbers from 10 to 10"):
        load("mnist", tmp_path, check=False)


def test_counts_are_checked_unless_the_caller_says_so(tmp_path, draw):
    write_cifar_10(tmp_path, draw)
    with pytest.raises(
        errors.FileError, match=r"train: expected 50,000 examples of 10 classes .* found 15 .*check=False"
    ):
        load("cifar-10", tmp_path)
    assert len(load("cifar-10", tmp_path, check=False).train) == 15


def test_contents_are_checked_where_they_are_known(tmp_path, draw, monkeypatch):
    write_mnist(tmp_path, draw)
    with pytest.raises(errors.FileError, match=r"train-images-idx3-ubyte are not those of mnist \(MD5"):
        load("mnist", tmp_path)
    # KMNIST has no known digests, but files that are known to be of another set are refused.
    digest = SPECS["fashion-mnist"].forms[0].train.md5[0]
    monkeypatch.setattr(hashlib, "md5", lambda *_, **__: types.SimpleNamespace(update=len, hexdigest=lambda: digest))
    with pytest.raises(errors.FileError, match="are not those of kmnist, but of fashion-mnist"):
        load("kmnist", tmp_path)


# Archives


def tar(path, members):
    """A tar.gz of (name or TarInfo, content)."""
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_a_tar_is_extracted_once_beside_itself(tmp_path, draw):
    records = write_cifar_10(tmp_path / "made", draw)
    folder = tmp_path / "cifar-10"
    folder.mkdir()
    members = [(f"cifar-10-batches-bin/{name}", record.tobytes()) for name, record in records.items()]
    tar(folder / "cifar-10-binary.tar.gz", [*members, ("cifar-10-batches-bin/readme.html", b"x")])
    assert next(row for row in datasets_table(tmp_path) if row.spec.name == "cifar-10").found.endswith(".tar.gz")
    assert [entry.name for entry in folder.iterdir()] == ["cifar-10-binary.tar.gz"]  # asking does not extract
    first = load("cifar-10", tmp_path, check=False)
    inside = folder / "cifar-10-binary.tar.gz.extracted"
    assert sorted(entry.name for entry in inside.iterdir()) == sorted(records)
    assert {entry.name for entry in folder.iterdir()} == {"cifar-10-binary.tar.gz", inside.name}
    (folder / "cifar-10-binary.tar.gz").write_bytes(b"now damaged, but not read again")
    torch.testing.assert_close(load("cifar-10", tmp_path, check=False).train.inputs, first.train.inputs)


def test_a_zip_with_compressed_files(tmp_path, draw):
    (tmp_path / "emnist").mkdir()
    images = pixels(draw, 3, 28, 28)
    with zipfile.ZipFile(tmp_path / "emnist" / "gzip.zip", "w") as archive:
        archive.writestr("gzip/emnist-letters-train-images-idx3-ubyte.gz", b"not wanted")
        for split in ("train", "test"):
            archive.writestr(f"gzip/emnist-balanced-{split}-images-idx3-ubyte.gz", gzip.compress(idx(images)))
            archive.writestr(
                f"gzip/emnist-balanced-{split}-labels-idx1-ubyte.gz", gzip.compress(idx(images[:, 0, 0] % 47))
            )
    data = load("emnist", tmp_path, check=False)
    np.testing.assert_array_equal(data.test.inputs[:, 0], images.swapaxes(1, 2))
    assert not (tmp_path / "emnist" / "gzip.zip.extracted" / "emnist-letters-train-images-idx3-ubyte.gz").exists()


@pytest.mark.parametrize(
    "member",
    [
        "../train.bin",
        "a/../../train.bin",
        "/tmp/train.bin",
        "..\\train.bin",
        "C:\\train.bin",
        special("train.bin", tarfile.SYMTYPE, "/etc/passwd"),
        special("train.bin", tarfile.LNKTYPE, "test.bin"),
        special("train.bin", tarfile.CHRTYPE),
        special("train.bin", tarfile.FIFOTYPE),
    ],
    ids=str,
)
def test_dangerous_tars_are_refused(tmp_path, member):
    folder = tmp_path / "cifar-100"
    folder.mkdir()
    tar(folder / "cifar-100-binary.tar.gz", [("test.bin", bytes(3074)), (member, b"")])
    with pytest.raises(errors.FileError, match=r"cifar-100-binary.tar.gz: refused, since it holds"):
        load("cifar-100", tmp_path, check=False)
    assert [entry.name for entry in folder.iterdir()] == ["cifar-100-binary.tar.gz"]
    assert not (tmp_path / "train.bin").exists()


def test_dangerous_zips_are_refused(tmp_path):
    link = zipfile.ZipInfo("gzip/emnist-balanced-train-images-idx3-ubyte")
    link.external_attr = 0o120777 << 16
    for member in ("../emnist-balanced-train-images-idx3-ubyte", "/x", link):
        with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
            archive.writestr(member, b"/etc/passwd")
        with pytest.raises(errors.FileError, match=r"gzip.zip: refused"):
            load("emnist", tmp_path, check=False)


def test_archives_that_are_too_large_damaged_or_of_something_else(tmp_path, monkeypatch):
    path = tmp_path / "cifar-100-binary.tar.gz"
    tar(path, [("readme.txt", b"x")])
    with pytest.raises(errors.FileError, match=r"does not hold train.bin, test.bin"):
        load("cifar-100", tmp_path)
    tar(path, [("train.bin", bytes(3074 * 50)), ("test.bin", bytes(3074))])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(errors.FileError, match="cannot be extracted"):
        load("cifar-100", tmp_path)
    path.write_bytes(whole)
    monkeypatch.setattr(archives, "_LARGEST", 1000)
    with pytest.raises(errors.FileError, match="holds more than"):
        load("cifar-100", tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(archives, "_MOST", 1)
    with pytest.raises(errors.FileError, match="1 files"):
        load("cifar-100", tmp_path)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "home"] == [path.name]


# Finding


def test_the_table_is_consistent():
    for name, spec in SPECS.items():
        assert spec.name == name
        assert spec.classes is None or len(spec.classes) == len(set(spec.classes)) == spec.class_count
        assert (spec.kind == "image") == (spec.shape is not None) == (spec.mean is not None) == (spec.std is not None)
        assert spec.shape is None or len(spec.mean) == len(spec.std) == spec.shape[0]
        assert spec.home.startswith("http")


def test_places_are_searched_in_order(tmp_path, draw, monkeypatch):
    here, home, first, second, given = (tmp_path / name for name in ("here", "home", "first", "second", "given"))
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("POOLWISE_DATA", os.pathsep.join(map(str, (first, second))))
    order = [
        (home / ".cache" / "poolwise", None),
        (home / ".cache" / "poolwise" / "mnist", None),
        (Path("data"), None),
        (Path("data") / "mnist", None),
        (second, None),
        (first / "MNIST" / "raw", None),
        (given, given),
        (given / "mnist", given),
    ]
    for folder, root in order:  # each goes before those that are there already
        write_mnist(folder, draw)
        assert load("mnist", root, check=False).origin == str(folder)
    (given / "mnist" / "t10k-labels-idx1-ubyte").unlink()  # a folder without all the files does not count
    assert load("mnist", given, check=False).origin == str(given)


def test_not_found_says_where_and_how(tmp_path, monkeypatch):
    monkeypatch.setenv("POOLWISE_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(errors.FileError) as raised:
        load("cifar-10", tmp_path)
    message = str(raised.value)
    home = tmp_path / "home"
    for place in (tmp_path, tmp_path / "elsewhere", home / "data", home / ".cache" / "poolwise"):
        assert f"  {place / 'cifar-10' / 'cifar-10-batches-bin'}\n" in message
        assert f"  {place}\n" in message
    for part in (
        "data_batch_1.bin",
        "cifar-10-binary.tar.gz",
        "cs.toronto.edu",
        "pip install datasets",
        "hub=True",
        "root=",
    ):
        assert part in message


def test_names_and_roots_that_do_not_exist(tmp_path):
    with pytest.raises(errors.ParameterError, match=r"no data set 'imagenet'. The data sets are: mnist, "):
        load("imagenet")
    with pytest.raises(errors.FileError, match="there is no folder"):
        load("mnist", tmp_path / "missing")
    assert load("Digits").name == "digits"


def test_the_status_of_every_set(tmp_path, draw):
    write_mnist(tmp_path / "kmnist", draw)
    table = {row.spec.name: row for row in datasets_table(tmp_path)}
    assert list(table) == list(SPECS)
    assert {name for name, row in table.items() if row.found} == {"kmnist", "digits"}
    assert table["kmnist"].found == str(tmp_path / "kmnist")
    assert tmp_path / "svhn" in table["svhn"].looked
    assert "ufldl.stanford.edu" in table["svhn"].how


# The hub, with a stand-in for the package


class Split(list):
    """The part of `datasets.Dataset` that is used: rows, columns by name, and what the columns hold."""

    def __init__(self, rows, names):
        super().__init__(rows)
        self.features = {"label": types.SimpleNamespace(names=names)}

    def __getitem__(self, key):
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


def hub(monkeypatch, split, asked=None):
    def load_dataset(*arguments):
        if asked is not None:
            asked.append(arguments)
        if split is None:
            raise ConnectionError("no network")
        return {"train": split, "test": split}

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))


def test_the_hub_is_asked_only_on_request_and_only_if_needed(tmp_path, draw, monkeypatch):
    asked = []
    images = pixels(draw, 4, 32, 32, 3)
    rows = [{"image": Image.fromarray(image), "label": label} for label, image in enumerate(images)]
    hub(monkeypatch, Split(rows, list("0123456789")), asked)
    with pytest.raises(errors.FileError, match="not found"):
        load("svhn")
    assert asked == []
    data = load("svhn", hub=True, check=False)
    assert asked == [("ufldl-stanford/svhn", "cropped_digits")]
    np.testing.assert_array_equal(data.train.images(np.arange(4)), images)
    assert data.train.labels.tolist() == [0, 1, 2, 3]
    assert data.origin == "https://huggingface.co/datasets/ufldl-stanford/svhn"
    with pytest.raises(errors.FileError, match="expected 73,257 examples"):
        load("svhn", hub=True)
    asked.clear()
    write_mnist(tmp_path / "mnist", draw)
    load("mnist", tmp_path, hub=True, check=False)
    assert asked == []


def test_texts_from_the_hub_number_their_classes_as_files_do(monkeypatch):
    rows = [{"text": "how old", "label": 1}, {"text": "activate", "label": 0}]
    hub(monkeypatch, Split(rows, ["zebra", "apple"]))
    data = load("banking77", hub=True, check=False)
    assert (data.class_names, data.train.labels.tolist()) == (("apple", "zebra"), [0, 1])
    assert everything(data.train) == ["how old", "activate"]
    data = load("ag-news", hub=True, check=False)
    assert data.train.labels.tolist() == [1, 0]


def test_what_can_go_wrong_with_the_hub(monkeypatch):
    with pytest.raises(errors.FileError, match="no copy on the hub is known to be the same"):
        load("r8", hub=True)
    hub(monkeypatch, None)
    with pytest.raises(errors.FileError, match=r"ConnectionError: no network.*Check the network"):
        load("mnist", hub=True)
    hub(monkeypatch, Split([{"image": Image.new("L", (20, 28)), "label": 0}], None))
    with pytest.raises(errors.FileError, match=r"expected images of 28 by 28 .* number 0 has 28 by 20"):
        load("mnist", hub=True)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(errors.MissingInputError, match="pip install datasets"):
        load("mnist", hub=True)


# Repeats


@pytest.fixture
def flat():
    """Examples that are all zero, so that a repeated batch is its noise."""
    return TensorExamples(torch.zeros(500, 101), np.arange(500) % 7, [f"class {c}" for c in range(7)])


def test_repeats_know_their_originals(flat):
    repeated = Repeated(flat, repeats=3, noise=0)
    assert isinstance(repeated, Examples)
    assert len(repeated) == 1500
    assert repeated.originals(np.array([3, 503, 1003, 1499])).tolist() == [3, 3, 3, 499]
    np.testing.assert_array_equal(repeated.labels, np.tile(flat.labels, 3))
    assert repeated.class_names == flat.class_names
    rows = np.array([1499, 0, 700, 700])
    torch.testing.assert_close(repeated.batch(rows), flat.batch(rows % 500), rtol=0, atol=0)
    assert Repeated(TensorExamples(torch.zeros(2, 3)), 2).labels is None


def test_noise_depends_on_seed_row_and_element_only(flat):
    repeated = Repeated(flat, seed=1)
    whole = everything(repeated)
    shuffled = np.random.default_rng(0).permutation(len(repeated))
    assert torch.equal(repeated.batch(shuffled), whole[torch.from_numpy(shuffled)])
    for size in (1, 7, 64, 1999):
        parts = [repeated.batch(rows) for rows in np.split(np.arange(2000), range(size, 2000, size))]
        assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(everything(Repeated(flat, seed=1)), whole)
    assert not torch.equal(everything(Repeated(flat, seed=2)), whole)
    assert torch.equal(Repeated(flat, noise=0.2, seed=1).batch(np.arange(9)), 2 * whole[:9])
    # The same bits everywhere, or runs on two machines could not be compared.
    assert (
        hashlib.md5(repeated.batch(np.array([0, 1, 1999])).numpy().tobytes()).hexdigest()
        == "0cdb5650c9415b1afda947d9a12cbcfd"
    )


def test_noise_is_normal_and_independent(flat):
    noise = everything(Repeated(flat, repeats=4, noise=0.1, seed=3)).double().numpy()
    count = noise.size
    assert abs(noise.mean()) < 4 * 0.1 / count**0.5
    assert abs(noise.std() / 0.1 - 1) < 4 / (2 * count) ** 0.5
    assert stats.kstest(noise.ravel(), "norm", args=(0, 0.1)).pvalue > 0.01
    copies = noise.reshape(4, 500, 101)
    other = everything(Repeated(flat, repeats=4, noise=0.1, seed=4)).double().numpy().reshape(4, 500, 101)
    pairs = {
        "copies": (copies[0], copies[1]),
        "rows": (copies[:, 1:], copies[:, :-1]),
        "elements": (copies[:, :, 1:], copies[:, :, :-1]),
        "halves": (copies[:, :, 0:100:2], copies[:, :, 1:100:2]),
        "seeds": (copies, other),
    }
    for name, (one, two) in pairs.items():
        for power in (1, 2):  # squares show a dependence that is not linear
            correlation = np.corrcoef((one**power).ravel(), (two**power).ravel())[0, 1]
            assert abs(correlation) < 4 / one.size**0.5, (name, power)
    largest = np.linalg.eigvalsh(np.corrcoef(noise.T)).max()  # of independent columns: (1 + sqrt(101 / 2000))² = 1.50
    assert largest < 1.6


def test_repeated_images_are_noisy_after_scaling_and_when_shown(draw):
    images = torch.from_numpy(pixels(draw, 6, 3, 5, 4))
    plain = TensorExamples(images, mean=[0.5, 0.4, 0.3], std=[0.2, 0.1, 0.3])
    repeated = Repeated(plain, repeats=2, noise=0.5)
    rows = np.arange(12)
    noise = repeated.batch(rows) - plain.batch(rows % 6)
    assert abs(float(noise.std()) - 0.5) < 0.05
    shown = repeated.images(rows)
    expected = plain.images(rows % 6) + noise.permute(0, 2, 3, 1).numpy() * np.array([0.2, 0.1, 0.3]) * 255
    assert shown.dtype == np.uint8
    np.testing.assert_allclose(shown, expected.clip(0, 255), atol=0.51)
    assert Repeated(TensorExamples(torch.zeros(2, 3))).images(np.array([0])) is None
    unscaled = Repeated(TensorExamples(images), repeats=1, noise=0)
    np.testing.assert_array_equal(unscaled.images(np.arange(6)), plain.images(np.arange(6)))


def test_repeats_hold_no_copies(flat):
    repeated = Repeated(flat)
    assert repeated.examples.inputs is flat.inputs
    held = [value for value in vars(repeated).values() if isinstance(value, np.ndarray | torch.Tensor)]
    assert sum(value.nbytes for value in held) < 100


def test_bad_repeats(flat):
    for bad in (0, -1, 1.5, True):
        with pytest.raises(errors.ParameterError, match="repeats must be a whole number"):
            Repeated(flat, repeats=bad)
    for bad in (-0.1, float("nan"), float("inf")):
        with pytest.raises(errors.ParameterError, match="noise must be"):
            Repeated(flat, noise=bad)
    with pytest.raises(errors.ParameterError, match="seed"):
        Repeated(flat, seed=-1)
    with pytest.raises(errors.ParameterError, match="must be TensorExamples, not TextExamples"):
        Repeated(TextExamples(["a"]))
    for bad in (-1, 2000):
        with pytest.raises(errors.ParameterError, match="from 0 to 1999"):
            Repeated(flat).batch(np.array([0, bad]))


def test_repeats_by_name(tmp_path):
    data = load("digits", repeats=3, noise=0.2, seed=5)
    assert (len(data.train), len(data.test)) == (3 * 1297, 500)
    assert torch.equal(everything(data.train), everything(Repeated(load("digits").train, 3, 0.2, 5)))
    for split in ("train", "test"):
        write(tmp_path / f"{split}.csv", b"text,label\nx,acq\n")
    with pytest.raises(errors.ParameterError, match="noise cannot be added to texts"):
        load("r8", tmp_path, repeats=2)


# A user's own pictures


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
    with pytest.raises(errors.FileError, match=r"photos/missing.png: not a picture that can be read"):
        open_data(tmp_path / "set")
    write(tmp_path / "set" / "labels.csv", b"file,label\na,x\na,y\n")
    with pytest.raises(errors.FileError, match="'a' is there 2 times"):
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
    with pytest.raises(errors.ParameterError, match="channels must be"):
        open_data(tmp_path, channels=2)


def test_pictures_of_every_mode(tmp_path, draw):
    grey = Image.fromarray(pixels(draw, 5, 5))
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK"):
        grey.convert("RGB").convert(mode).save(tmp_path / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}")
    assert open_data(tmp_path).examples.inputs.shape == (7, 3, 5, 5)
    Image.fromarray(np.zeros((5, 5), np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(errors.FileError, match=r"deep.png: has more than 8 bits a pixel"):
        open_data(tmp_path)


def test_damaged_and_dangerous_pictures(tmp_path, draw, monkeypatch):
    picture(tmp_path / "a.png", pixels(draw, 30, 30))
    whole = (tmp_path / "a.png").read_bytes()
    for damaged in (b"", b"not a picture", whole[: len(whole) // 2]):
        write(tmp_path / "b.png", damaged)
        with pytest.raises(errors.FileError, match=r"b.png: not a picture that can be read"):
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
    with pytest.raises(errors.FileError, match="expected pictures, or one folder of pictures a class; found none"):
        open_data(tmp_path)
    picture(tmp_path / "cat" / "a.png", pixels(draw, 4, 4))
    picture(tmp_path / "b.png", pixels(draw, 4, 4))
    with pytest.raises(errors.FileError, match=r"b.png lies beside the folders of classes"):
        open_data(tmp_path)


# A user's own texts


RECORDS = [("one, two", "pos"), ('say "hi"\nthere', ""), ("drei ü", "neg")]


def test_texts_in_every_kind_of_table(tmp_path, monkeypatch):
    text = io.StringIO()
    csv.writer(text).writerows([("text", "label"), *RECORDS])
    write(tmp_path / "t.csv", text.getvalue().encode())
    write(tmp_path / "t.csv.gz", text.getvalue().encode())
    lines = [json.dumps({"text": body, "label": label or None}) for body, label in RECORDS]
    write(tmp_path / "t.jsonl", "\n\n".join(lines).encode())
    write(tmp_path / "t.parquet", b"read by the stand-in")
    column = lambda values: types.SimpleNamespace(to_pylist=lambda: values)  # noqa: E731
    table = types.SimpleNamespace(
        column_names=["text", "label"],
        column=lambda name: column([row[name == "label"] or None for row in RECORDS]),
    )
    monkeypatch.setitem(sys.modules, "pyarrow", types.ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", types.SimpleNamespace(read_table=lambda path: table))
    for name in ("t.csv", "t.csv.gz", "t.jsonl", "t.parquet"):
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
    assert open_data(tmp_path / "t.tsv", text="body", label="none").labels is None


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("t.csv", b"body,label\nx,y\n", "expected a column 'text' of texts or a column 'file' .* found body, label"),
        ("t.csv", b"text,file\nx,y\n", "and not both"),
        ("t.csv", b"text,text\nx,y\n", "a different name for each column"),
        ("t.csv", b"text,label\n", "expected at least one row under the header"),
        ("t.csv", b"id,text\n1,a\n1,b\n", "'1' is there 2 times"),
        ("t.jsonl", b'{"text": "a"}\n{"text": ', "line 2: not JSON"),
        ("t.jsonl", b'["a"]', "line 1: expected an object"),
        ("t.jsonl", b'{"text": 3}', "row 0: expected a text as 'text', found 3"),
        ("t.jsonl", b'{"text": "a", "label": [1]}', "row 0: expected the name or number of a class"),
        ("t.jsonl", b"", "found none"),
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


# A user's own arrays


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


# Real data


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SPECS if name != "digits"])
def test_real_data(name):
    if not REAL.is_dir():
        pytest.skip(f"no folder {REAL}; set POOLWISE_TEST_DATA to one with real data sets")
    row = next(row for row in datasets_table(REAL) if row.spec.name == name)
    if row.found is None:
        pytest.skip(f"{name} is not in {REAL}")
    data = load(name, REAL, check=name != "ag-news")  # of AG News, a part of the training split is handed around
    assert len(data.test) == data.spec.count[1]
    assert len(data.class_names) == data.spec.class_count
    if data.kind == "image":
        batch = data.train.batch(np.arange(0, len(data.train), 10))
        assert batch.mean((0, 2, 3)).abs().max() < 0.03
        assert (batch.std((0, 2, 3)) - 1).abs().max() < 0.03
