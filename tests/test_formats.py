"""File formats from outside: the decorator, the entry points and the reader that is passed."""

import sys

import numpy as np
import pytest
import torch
from data_files import CONFIG, everything

import poolwise as pw
from poolwise import errors
from poolwise.data import formats_table, open_data, reading

pytestmark = pytest.mark.usefixtures("no_data_of_this_machine")

MODULE = '''
import numpy as np

def read_lines(path, *, mark="+"):
    """A mark and a text per line."""
    rows = path.read_text().splitlines()
    return [row[1:] for row in rows], ["good" if row[0] == mark else "bad" for row in rows]

def read_grid(path):
    return np.loadtxt(path)

def read_rows(path):
    raise OSError("the disk is on fire")
'''


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(reading, "_formats", dict(reading._formats))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with two formats, as pip leaves it."""
    folder = tmp_path / "site"
    info = folder / "shop_formats-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "shop_formats.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-formats\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[poolwise.formats]\n.lines = shop_formats:read_lines\nbroken = shop_formats:read_rows\n"
        "gone = shop_formats:nothing\ngrid = shop_formats:read_grid\n"
    )
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("shop_formats", None)


@pytest.fixture
def lines(tmp_path):
    file = tmp_path / "mine.LINES"
    file.write_text("".join(f"{'+-'[n % 2]}text {n} {'fine' if n % 2 else 'awful'}\n" for n in range(40)))
    return file


def test_a_package_adds_a_format(package, lines, tmp_path):
    assert formats_table()[".lines"].origin == "shop-formats"
    assert "shop_formats" not in sys.modules  # a table imports nothing
    opened = open_data(lines)
    assert (opened.class_names, opened.labels.tolist()[:3], len(opened)) == (("bad", "good"), [1, 0, 1], 40)
    assert open_data(lines, mark="-").labels.tolist()[:3] == [0, 1, 0]
    with pytest.raises(errors.ParameterError, match=r"takes no 'separator'\. It takes mark"):
        open_data(lines, separator=";")
    (tmp_path / "x.broken").write_text("")
    with pytest.raises(
        errors.FileError,
        match=r"x.broken: read_rows cannot read it \(OSError: the disk is on fire; in shop_formats:read_rows, ",
    ):
        open_data(tmp_path / "x.broken")
    (tmp_path / "x.gone").write_text("")
    with pytest.raises(errors.ParameterError, match="'shop_formats:nothing' cannot be loaded"):
        open_data(tmp_path / "x.gone")


def test_two_packages_with_one_format(package, lines):
    other = package / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[poolwise.formats]\n.lines = elsewhere:read\n")
    with pytest.raises(errors.FileError, match="several installed packages: elsewhere:read, shop_formats:read_lines"):
        open_data(lines)
    assert len(open_data(lines, reader="shop_formats:read_lines")) == 40


def test_experiments_read_it(package, lines, tmp_path, run):
    config = tmp_path / "shop.toml"
    config.write_text(CONFIG.format(path=lines, more='options = {mark = "-"}'))
    run("run", config, "-q")
    config.write_text(CONFIG.format(path=lines.rename(tmp_path / "x.bin"), more='reader = "shop_formats:read_lines"'))
    run("run", config, "-o", "more", "-q")
    config.write_text(CONFIG.format(path=tmp_path / "x.bin", more=""))
    assert "cannot read '.bin' files" in run("run", config, "-o", "other", code=2).err


def test_predictions_read_it(package, tmp_path, run):
    torch.save(torch.nn.Linear(2, 3), tmp_path / "net.pt")
    for name in ("x.grid", "x.bin"):
        (tmp_path / name).write_text("1 2\n3 4\n5 6\n")
    run("predict", "x.grid", "--model", "net.pt", "-o", "one", "-q")
    run("predict", "x.bin", "--model", "net.pt", "-o", "two", "--reader", "shop_formats:read_grid", "-q")
    assert pw.Predictions.open("one").shape == pw.Predictions.open("two").shape == (3, 1, 3)
    assert "cannot read '.bin' files" in run("predict", "x.bin", "--model", "net.pt", "-o", "three", code=2).err


def test_a_decorator_adds_a_format(tmp_path):
    images = np.zeros((3, 1, 4, 4), np.uint8)

    @pw.data.reader(".blob", ".two.parts")
    def read(path):
        """Pictures with numbers as labels and ids."""
        return images, [2, -1, 0], ["x", "y", "z"]

    for name in ("a.blob", "b.two.parts"):
        (tmp_path / name).write_bytes(b"")
        opened = open_data(tmp_path / name)
        assert repr(opened) == (
            "OpenedData(3 images [1, 4, 4]; 3 classes: 0 1, 1 0, 2 1; 1 without a label; ids 'x', 'y', 'z')"
        )
    (tmp_path / "folder.blob").mkdir()  # a format may be a folder
    assert len(open_data(tmp_path / "folder.blob")) == 3


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (["a", "b"], "texts"),
        ({"text": ["a", "b"]}, "texts"),
        (np.zeros((2, 3)), "arrays"),
        ((np.zeros((2, 3)), None, None), "arrays"),
        ((pw.data.TextExamples(["a", "b"], [0, 1]), ["no", "yes"]), "texts"),
        ([(np.zeros(2), 0), (np.ones(2), 1)], "examples"),
        (pw.data.open_data({"text": ["a", "b"]}), "texts"),
    ],
)
def test_what_a_reader_may_return(tmp_path, content, kind):
    (tmp_path / "x.any").write_bytes(b"")
    opened = open_data(tmp_path / "x.any", reader=lambda path: content)
    assert (opened.kind, len(opened)) == (kind, 2)
    assert len(everything(opened.examples)) == 2


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (None, "returned nothing"),
        ([], "at least one"),
        ((["a", "b"], ["x"]), r"labels must be .* \[2\]"),
        ((["a", "b"], None, ["same", "same"]), "'same' occurs 2 times"),
        ((["a", "b"], None, ["one"]), "expected 2 ids"),
        ((np.zeros((2, 3)), [0, 2**40]), "label 1099511627776 is too large"),
        ((np.zeros((2, 3)), [0.0, 1.5]), "not float64"),
        (5, "data must be"),
        ({"text": ["a", "b"], "label": ["x"]}, "column 'label' has 1 rows, and the inputs have 2"),
    ],
)
def test_what_a_reader_may_not_return(tmp_path, content, match):
    (tmp_path / "x.any").write_bytes(b"")
    with pytest.raises(errors.InputError, match=match) as raised:
        open_data(tmp_path / "x.any", reader=lambda path: content)
    assert "x.any" in str(raised.value)


def test_readers_that_cannot_be_used(tmp_path):
    (tmp_path / "x.any").write_bytes(b"")
    for bad in ("no.such.module:f", "os.path", "os:nothing", "os:sep", ":", ""):
        with pytest.raises(errors.ParameterError, match="the reader"):
            open_data(tmp_path / "x.any", reader=bad)
    with pytest.raises(errors.ParameterError, match=r"files that end in .csv are read by poolwise already"):
        pw.data.reader(".csv")(lambda path: None)
    for bad in ((), ("lines",), (".",), (5,), ("./x",)):
        with pytest.raises(errors.ParameterError, match="ending"):
            pw.data.reader(*bad)
    pw.data.reader(".again")(lambda path: ["a"])
    pw.data.reader(".again")(lambda path: ["b"])  # as when a cell of a notebook is run again
    (tmp_path / "x.again").write_bytes(b"")
    assert everything(open_data(tmp_path / "x.again").examples) == ["b"]
