"""Data sets by name, and repeats; every format is written here as its authors publish it."""

import csv
import gzip
import hashlib
import io
import os
import struct
import sys
import tarfile
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from data_files import everything, pixels, write
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
)
from poolwise.data.formats import archives

SHARED = Path(__file__).parents[2] / "shared" / "data"
REAL = Path(os.environ.get("POOLWISE_TEST_DATA", SHARED))

pytestmark = pytest.mark.usefixtures("no_data_of_this_machine")


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


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
    ("member", "match"),
    [
        ("../train.bin", "refused .*outside the destination"),
        ("a/../../train.bin", "refused .*outside the destination"),
        ("..\\train.bin", "does not contain train.bin"),
        ("C:\\train.bin", "does not contain train.bin"),
        (special("train.bin", tarfile.SYMTYPE, "/etc/passwd"), "refused .*link to an absolute path"),
        (special("train.bin", tarfile.SYMTYPE, "../../x"), "refused .*outside the destination"),
        (special("train.bin", tarfile.SYMTYPE, "test.bin"), "does not contain train.bin"),
        (special("train.bin", tarfile.LNKTYPE, "test.bin"), "does not contain train.bin"),
        (special("train.bin", tarfile.CHRTYPE), "refused .*special file"),
        (special("train.bin", tarfile.FIFOTYPE), "refused .*special file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_dangerous_tars_are_refused(tmp_path, member, match):
    folder = tmp_path / "cifar-100"
    folder.mkdir()
    tar(folder / "cifar-100-binary.tar.gz", [("test.bin", bytes(3074)), (member, b"")])
    with pytest.raises(errors.FileError, match=match):
        load("cifar-100", tmp_path, check=False)
    assert [entry.name for entry in folder.iterdir()] == ["cifar-100-binary.tar.gz"]
    assert not (tmp_path / "train.bin").exists()


def test_an_absolute_path_in_an_archive_is_taken_as_one_inside_it(tmp_path):
    folder = tmp_path / "cifar-100"
    folder.mkdir()
    outside = tmp_path / "outside"
    tar(
        folder / "cifar-100-binary.tar.gz",
        [(f"{outside}/train.bin", bytes(3074)), ("x/test.bin", bytes(3074))],
    )
    assert len(load("cifar-100", tmp_path, check=False).train) == 1
    assert not outside.exists()


def test_dangerous_zips_are_refused(tmp_path):
    link = zipfile.ZipInfo("gzip/emnist-balanced-train-images-idx3-ubyte")
    link.external_attr = 0o120777 << 16
    for member in ("../emnist-balanced-train-images-idx3-ubyte", "a/../../x", link):
        with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
            archive.writestr(member, b"/etc/passwd")
        with pytest.raises(errors.FileError, match=r"gzip.zip: refused"):
            load("emnist", tmp_path, check=False)


def test_archives_that_are_too_large_damaged_or_of_something_else(tmp_path, monkeypatch):
    path = tmp_path / "cifar-100-binary.tar.gz"
    tar(path, [("readme.txt", b"x")])
    with pytest.raises(errors.FileError, match=r"does not contain train.bin, test.bin"):
        load("cifar-100", tmp_path)
    tar(path, [("train.bin", bytes(3074 * 50)), ("test.bin", bytes(3074))])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(errors.FileError, match="cannot be extracted"):
        load("cifar-100", tmp_path)
    path.write_bytes(whole)
    monkeypatch.setattr(archives, "_LARGEST", 1000)
    with pytest.raises(errors.FileError, match="contains more than"):
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


# What is public


def test_public_names_only_and_nothing_imported_that_is_not_needed():
    import subprocess

    code = """
import sys
import poolwise.data as data
heavy = {"torch", "transformers", "datasets", "PIL", "pyarrow", "scipy", "sklearn", "pandas"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert dir(data) == sorted(data.__all__)
for name in data.__all__:
    assert getattr(data, name).__class__ is not type(sys), name
data.find_spec("mnist")
assert not (heavy - {"torch"}) & set(sys.modules), heavy & set(sys.modules)
assert dir(data) == sorted(data.__all__)
assert not hasattr(data, "nothing_of_this_name")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=500)
