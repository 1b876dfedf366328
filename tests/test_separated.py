"""Tables of texts as people save them: separators, encodings, quotes, headers."""

import csv
import io
import warnings

import pytest
from data_files import CONFIG, everything, write

from poolwise import errors
from poolwise.data import open_data

pytestmark = pytest.mark.usefixtures("no_data_of_this_machine")

ROWS = [("Café, très bon; vraiment", "gut"), ('he said "no"', "schlecht"), ("two\nlines | and a bar", "gut")]


def table(separator=",", header=("text", "label"), newline="\r\n"):
    text = io.StringIO()
    quoting = csv.QUOTE_ALL if newline == "\r" else csv.QUOTE_MINIMAL  # which does not quote other line breaks
    writer = csv.writer(text, delimiter=separator, lineterminator=newline, quoting=quoting)
    writer.writerows([header, *ROWS] if header else ROWS)
    return text.getvalue()


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_and_encodings_are_found_where_they_are_certain(tmp_path, separator, encoding, newline):
    write(tmp_path / "t.csv", table(separator, newline=newline).encode(encoding))
    opened = open_data(tmp_path / "t.csv")
    assert everything(opened.examples) == [text for text, _ in ROWS]
    assert (opened.class_names, opened.labels.tolist()) == (("gut", "schlecht"), [0, 1, 0])
    write(tmp_path / "t.csv", table(separator, ("review", "mood"), newline).encode(encoding))
    assert everything(open_data(tmp_path / "t.csv", text="review", label="mood").examples)[0] == ROWS[0][0]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16-le", "utf-16-be", "shift_jis", "cp037"])
def test_encodings_can_be_named(tmp_path, encoding):
    text = table().replace("é", "e").replace("è", "e") if encoding == "shift_jis" else table()
    write(tmp_path / "t.csv", text.encode(encoding))
    opened = open_data(tmp_path / "t.csv", encoding=encoding)
    assert everything(opened.examples)[0].endswith("bon; vraiment")
    write(tmp_path / "t.jsonl", '{"text": "Café"}'.encode("cp1252"))
    assert everything(open_data(tmp_path / "t.jsonl", encoding="cp1252").examples) == ["Café"]


def test_encodings_that_are_not_certain_are_refused_with_the_way_out(tmp_path):
    write(tmp_path / "t.csv", table().encode("cp1252"))
    with pytest.raises(errors.FileError, match=r"line 2: not UTF-8 text \(byte 0xe9\).*encoding='cp1252'.*Café, très"):
        open_data(tmp_path / "t.csv")
    for name in ("utf-16-le", "utf-16-be"):
        write(tmp_path / "t.csv", table().encode(name))
        with pytest.raises(errors.FileError, match=f"looks like UTF-16 .*encoding='{name}'"):
            open_data(tmp_path / "t.csv")
    write(tmp_path / "t.csv", b"PK\x03\x04\0\0\0")
    with pytest.raises(errors.FileError, match="perhaps an Excel workbook"):
        open_data(tmp_path / "t.csv")
    write(tmp_path / "t.csv", table().encode("utf-8-sig"))
    with pytest.raises(errors.FileError, match="begins with the mark of UTF-8, so it is not latin-1"):
        open_data(tmp_path / "t.csv", encoding="latin-1")
    write(tmp_path / "t.csv", table().encode())
    with pytest.raises(errors.FileError, match="not ASCII text"):
        open_data(tmp_path / "t.csv", encoding="ascii")
    for bad in ("klingon", "rot13", "", 5):
        with pytest.raises(errors.ParameterError, match="encoding must be a name"):
            open_data(tmp_path / "t.csv", encoding=bad)


def test_a_likely_misreading_is_warned_about(tmp_path):
    write(tmp_path / "t.csv", table().encode())
    with pytest.warns(errors.DataWarning, match=r"read as latin-1.*valid UTF-8"):
        opened = open_data(tmp_path / "t.csv", encoding="latin-1")
    assert everything(opened.examples)[0].startswith("CafÃ©")
    write(tmp_path / "t.csv", table().replace("é", "e").replace("è", "e").encode())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_data(tmp_path / "t.csv", encoding="latin-1")


def test_separators_can_be_named_and_must_be_if_two_are_possible(tmp_path):
    write(tmp_path / "t.csv", b"a;b,c\n1;2,3\n")
    with pytest.raises(errors.FileError, match=r"separated by commas or semicolons. Name .* separator="):
        open_data(tmp_path / "t.csv", text="x")
    assert everything(open_data(tmp_path / "t.csv", text="a").examples) == ["1"]
    assert everything(open_data(tmp_path / "t.csv", text="a;b").examples) == ["1;2"]
    assert everything(open_data(tmp_path / "t.csv", text="b,c", separator=";").examples) == ["2,3"]
    write(tmp_path / "t.csv", b"text:label\na:b\n")
    assert open_data(tmp_path / "t.csv", separator=":").class_names == ("b",)
    for bad in ("", ",,", '"', "\n", 5):
        with pytest.raises(errors.ParameterError, match="separator must be one character"):
            open_data(tmp_path / "t.csv", separator=bad)


def test_one_column_and_texts_with_commas(tmp_path):
    write(tmp_path / "t.csv", b"text\none\ntwo; three\n")
    assert everything(open_data(tmp_path / "t.csv").examples) == ["one", "two; three"]
    write(tmp_path / "t.csv", b"text\none, two\n")
    with pytest.raises(errors.FileError, match=r"line 2: expected 1 fields .* found 2\. .*commas in double quotes; or"):
        open_data(tmp_path / "t.csv")
    assert everything(open_data(tmp_path / "t.csv", separator="\t").examples) == ["one, two"]


def test_files_without_a_header_row(tmp_path):
    write(tmp_path / "t.csv", table(";", header=None).encode())
    with pytest.raises(errors.FileError, match=r"If its first row is not a header, name its columns with columns="):
        open_data(tmp_path / "t.csv")
    opened = open_data(tmp_path / "t.csv", columns=["text", "label"])
    assert everything(opened.examples) == [text for text, _ in ROWS]
    with pytest.raises(errors.FileError, match="columns names 3 columns, but the first row has"):
        open_data(tmp_path / "t.csv", columns=["text", "label", "more"], separator=";")


def test_headers_as_spreadsheets_write_them(tmp_path):
    write(tmp_path / "t.csv", b' text , label ,,\n a ,"x",,\n b , "y, z" ,,\n'.replace(b'" ,,', b'",,'))
    opened = open_data(tmp_path / "t.csv")
    assert (opened.class_names, [text.strip() for text in everything(opened.examples)]) == (("x", "y, z"), ["a", "b"])
    write(tmp_path / "t.csv", b"text,label,label\na,b,c\n")
    with pytest.raises(errors.FileError, match="'label' occurs twice: text, label, label"):
        open_data(tmp_path / "t.csv")


def test_tabs_with_and_without_quotes(tmp_path):
    write(tmp_path / "t.tsv", b'text\tlabel\nsay "hi"\ta\n"unfinished\tb\n')
    assert everything(open_data(tmp_path / "t.tsv").examples) == ['say "hi"', '"unfinished']
    write(tmp_path / "t.tsv", table("\t").encode())
    assert everything(open_data(tmp_path / "t.tsv").examples) == [text for text, _ in ROWS]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"\n\r\n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"text,label\n", "at least one row"),
        (b'text,label\n"a,b\nc,d\n', "line 3: unexpected end of data"),
        (b'text,label\n"a"b,c\n', "line 2: ',' expected after"),
        (b"text,label\na,b,c\n", "line 2: expected 2 fields as in the first row, found 3"),
        (b"text,label\na,b\nc\n", "line 3: expected 2 fields as in the first row, found 1"),
        (b"text,label,id\na,b,\n", "row 0: its id is missing"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, content, match):
    write(tmp_path / "t.csv", content)
    with pytest.raises(errors.FileError, match=match):
        open_data(tmp_path / "t.csv")


def test_very_long_fields(tmp_path):
    write(tmp_path / "t.csv", b"text,label\na," + b"9" * 5_000 + b"\nb,1\n")
    assert open_data(tmp_path / "t.csv").labels.tolist() == [1, 0]
    before = csv.field_size_limit()
    write(tmp_path / "t.csv", b'text,label\n"' + b"x\n" * 500_000 + b'",a\n')
    assert len(everything(open_data(tmp_path / "t.csv").examples)[0]) == 1_000_000
    assert csv.field_size_limit() == before


def test_which_column_is_which(tmp_path):
    write(tmp_path / "t.csv", b"review,file,text\ngood,a.pdf,x\nbad,b.pdf,y\n")
    assert everything(open_data(tmp_path / "t.csv", text="review").examples) == ["good", "bad"]
    with pytest.raises(errors.FileError, match="and not both"):
        open_data(tmp_path / "t.csv")
    with pytest.raises(errors.FileError, match="and not both"):
        open_data(tmp_path / "t.csv", text="review", file="file")
    with pytest.raises(errors.FileError, match=r"data.text or data.file"):
        open_data({"review": ["a"]})


def test_what_was_opened_is_described_in_a_line(tmp_path):
    rows = "".join(f"k{n};text {n};{n % 9 if n else ''}\n" for n in range(1_000))
    write(tmp_path / "t.csv", f"key;review;stars\n{rows}".encode())
    assert repr(open_data(tmp_path / "t.csv", text="review", label="stars", id="key")) == (
        "OpenedData(1,000 texts; 9 classes: 0 111, 1 111, 2 111, 3 111, 4 111, 5 111, ...; 1 without a label; columns "
        "text='review', label='stars', id='key'; ids 'k0', 'k1', 'k2', ...)"
    )
    assert repr(open_data(tmp_path / "t.csv", text="review")) == (
        "OpenedData(1,000 texts; no labels; columns text='review'; ids '0', '1', '2', ...)"
    )


@pytest.fixture
def reviews(tmp_path):
    lines = [f"Wörter {n}, {'gut' if n % 2 else 'schlecht'};{'ja' if n % 2 else 'nein'}" for n in range(60)]
    write(tmp_path / "reviews.csv", "\n".join(["Text der Meinung;positiv", *lines]).encode("cp1252"))
    return tmp_path / "reviews.csv"


def test_an_experiment_on_a_table_of_one_s_own(reviews, tmp_path, run):
    named = ["encoding='cp1252'", "text='Text der Meinung'", "label='positiv'"]
    for count, match in enumerate(
        ["encoding='cp1252'", "data.text or data.file", "Name the column of labels with data.label"]
    ):
        (tmp_path / "mine.toml").write_text(CONFIG.format(path=reviews, more="\n".join(named[:count])))
        assert match in run("run", "mine.toml", code=2).err
    (tmp_path / "mine.toml").write_text(CONFIG.format(path=reviews, more="\n".join(named)))
    run("run", "mine.toml", "-o", "done")
    more = [*named, "separator = ';'", "classes = ['nein', 'ja']"]
    (tmp_path / "mine.toml").write_text(CONFIG.format(path=reviews, more="\n".join(more)))
    run("run", "mine.toml", "-o", "named")
    (tmp_path / "bare.csv").write_bytes(reviews.read_bytes().split(b"\n", 1)[1])
    more = ["encoding='cp1252'", "columns=['text', 'label']", "separator=';'"]
    (tmp_path / "mine.toml").write_text(CONFIG.format(path=tmp_path / "bare.csv", more="\n".join(more)))
    run("run", "mine.toml", "-o", "bare")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("data.text=none", "has no column 'none'"),
        ("data.encoding=klingon", "encoding must be a name"),
        ('data.separator=",,"', "separator must be one character"),
        ("data.options={speed = 1}", "takes no 'speed'"),
        ("data.reader=nothing", "the reader 'nothing'"),
        ("data.test_share=0.001", "leaves 0 to test on"),
        ("data.repeats=100000000", "Lower data.repeats"),
        ("data.repeats=99999999999999999999", "at most 18 digits"),
        ("data.noise=nan", "finite number"),
        ("data.channels=2", "1 or 3"),
    ],
)
def test_settings_that_cannot_be_used(reviews, tmp_path, run, change, match):
    named = "encoding='cp1252'\ntext='Text der Meinung'\nlabel='positiv'"
    (tmp_path / "mine.toml").write_text(CONFIG.format(path=reviews, more=named))
    assert match in run("run", "mine.toml", "--set", change, code=2).err


def test_columns_are_for_data_of_one_s_own(tmp_path, run):
    (tmp_path / "mine.toml").write_text('name = "x"\n[data]\nname = "digits"\ntext = "review"\n')
    assert "text is for path" in run("run", "mine.toml", code=2).err
    (tmp_path / "mine.toml").write_text('name = "x"\n[data]\nname = "digits"\nrepeats = 1_000_000_000\n')
    assert "Lower data.repeats" in run("run", "mine.toml", code=2).err


def test_pictures_of_different_sizes_in_an_experiment(tmp_path, run, draw):
    from PIL import Image

    for n in range(24):
        folder = tmp_path / "photos" / f"class{n % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (8 + n % 3, 9, 3), dtype="uint8")).save(folder / f"{n}.png")
    (tmp_path / "mine.toml").write_text(CONFIG.format(path=tmp_path / "photos", more=""))
    assert "Pass size=" in run("run", "mine.toml", code=2).err
    run("run", "mine.toml", "-o", "sized", "--set", "data.size=6", "--set", "data.channels=1")
