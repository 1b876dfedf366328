"""What a pilot says of data that it cannot use, of data that look wrong, and of data that have changed."""

import csv

import pytest

from poolwise.errors import FileError
from poolwise.labelling import model
from poolwise.labelling.labelled import open_labelled


@pytest.fixture
def small(monkeypatch, brief_training):
    """Small models, to be quick."""
    monkeypatch.setattr(model, "_MEMBERS", 2)
    monkeypatch.setattr(model, "_HIDDEN", 8)


QUICK = ("--labels", "20", "-b", "10")


@pytest.fixture
def table(tmp_path):
    """Writes a table: its columns by name."""

    def write(name="table.csv", **columns):
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return tmp_path / name

    return write


@pytest.fixture
def numbers(draw):
    """120 numbers as a table has them."""
    return [f"{value:.4f}" for value in draw.normal(size=120)]


ODD = ["ab"[n % 2] for n in range(120)]


# Numbers that are missing


@pytest.mark.parametrize("mark", ["NA", "N/A", "na", "nan", "NaN", "?", "-", "null", "None", " NA "])
def test_a_column_of_numbers_with_marks_for_missing_is_one_of_numbers(mark, table, numbers):
    gaps = [mark if n in range(7, 24) else value for n, value in enumerate(numbers)]
    for columns in ({"width": gaps}, {"width": gaps, "other": numbers}):
        with pytest.raises(FileError) as raised:
            open_labelled(table(**columns, label=ODD))
        assert (
            f"'width' has {mark!r} in row 8 (line 9 of the file), as in 17 rows: fill it in or leave the rows out"
        ) in str(raised.value)
    with pytest.raises(FileError, match=r"row 8 \(line 9 of the file\), as in 17 rows"):
        open_labelled(table(width=gaps, words=ODD, label=ODD), features=["width"])


def test_one_row_without_a_number_is_one_row(table, numbers):
    for mark, says in (("", "no value"), ("NA", "'NA'"), ("inf", "'inf'"), ("12;5", "'12;5'")):
        path = table(width=[mark, *numbers[1:]], label=ODD)
        with pytest.raises(FileError) as raised:
            open_labelled(path)
        assert f"'width' has {says} in row 1 (line 2 of the file): fill it in or leave the row out;" in str(
            raised.value
        )


def test_all_rows_and_columns_without_a_number_are_counted(table, numbers):
    gaps = ["?", "", *numbers[2:]]
    with pytest.raises(FileError) as raised:
        open_labelled(table(width=gaps, height=gaps, depth=numbers, label=ODD))
    assert (
        "'width' has '?' in row 1 (line 2 of the file), and no number in 2 rows (2 columns have such rows): fill "
        "them in or leave the rows out"
    ) in str(raised.value)


def test_a_line_is_only_said_where_it_is_certain(table, numbers, tmp_path):
    with pytest.raises(FileError, match="in row 2, as") as raised:
        open_labelled(table(width=[numbers[0], "NA", "NA", *numbers[3:]], label=["a\nb", *ODD[1:]]))
    assert "of the file" not in str(raised.value)
    rows = "\n".join(f'{{"x": {n if n else "null"}, "label": "{n % 2}"}}' for n in range(120))
    (tmp_path / "table.jsonl").write_text(rows)
    with pytest.raises(FileError, match="'x' has no value in row 1: fill"):
        open_labelled(tmp_path / "table.jsonl")


def test_columns_without_any_value_are_left_out_and_said(table, numbers):
    found = open_labelled(table(width=numbers, note=["-"] * 120, label=ODD))
    assert found.items.features.shape == (120, 1)
    assert list(found.said) == [
        "The column of numbers 'width' is the feature. Left out, since no row has a value: note."
    ]


def test_words_are_texts_though_some_of_them_are_numbers_or_marks(table, numbers):
    words = [numbers[n] if n % 2 else ("NA" if n % 3 else f"word {n}") for n in range(120)]
    assert open_labelled(table(words=words, label=ODD)).kind == "text"
    with pytest.raises(FileError, match="has texts in 'words' \\(such as 'word 6'\\)"):
        open_labelled(table(words=[numbers[0], *words[1:]], width=numbers, label=ODD))


def test_a_table_in_parquet_is_read_as_one_in_csv(tmp_path, numbers):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"width": list(map(float, numbers)), "y": ODD}), tmp_path / "t.parquet")
    assert open_labelled(tmp_path / "t.parquet", label="y").items.features.shape == (120, 1)


def test_texts_without_words_are_counted(table):
    found = open_labelled(table(text=["", " ", *map(str, range(118))], label=["", *ODD[1:]]))
    assert list(found.said) == ["1 labelled row has no text and is left out."]
    assert len(found.rows) == 118


# Data where a configuration is expected


@pytest.mark.parametrize("name", ["bank.csv", "bank.tsv", "bank.jsonl", "bank.parquet", "bank.csv.gz"])
def test_data_are_no_configuration(name, run, tmp_path):
    (tmp_path / name).write_bytes(b"text,label\na,b\n\xff")
    done = run("run", name, code=2)
    assert f"{name} is a file of data, and `poolwise run` takes a configuration: a TOML file" in done.err
    assert f"this compares methods: poolwise pilot {name}" in done.err


def test_folders_and_spreadsheets_are_no_configuration(run, tmp_path):
    (tmp_path / "my photos").mkdir()
    (tmp_path / "bank.xlsx").write_bytes(b"PK\x03\x04")
    assert "my photos is a folder, and" in run("run", "my photos", code=2).err
    assert "poolwise pilot 'my photos'" in run("run", "my photos", code=2).err
    assert "poolwise pilot bank.csv, once it is saved as CSV" in run("run", "bank.xlsx", code=2).err
    assert "cannot read lost.csv" in run("run", "lost.csv", code=2).err
