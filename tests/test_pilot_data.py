"""What a pilot says of data that it cannot use, of data that look wrong, and of data that have changed."""

import csv

import numpy as np
import pytest
from PIL import Image

from poolwise.errors import ConfigError, FileError
from poolwise.experiments.pilot import pilot_config
from poolwise.labelling import model
from poolwise.labelling.labelled import open_labelled
from poolwise.labelling.piloting import open_pilot


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


# Labels that are no classes


def classes_of(names, table, numbers):
    of = open_pilot(table(x=numbers[: len(names)], y=names), label="y").plan()
    pilot_config(of)
    return " ".join(of.doubts())


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([f"words {n}" for n in range(120)], "120 labels are of 120 classes, 120 of which have one example"),
        ([f"words {min(n, 119)}" if n % 3 else "many" for n in range(120)], "81 classes, 80 of which have one"),
        (["many"] * 100 + [f"w{n}" for n in range(20)], "21 classes, 20 of which have one example"),
        ([n // 2 * 1.5 for n in range(120)], "60 classes, all of them numbers. A pilot needs classes, not numbers on"),
        ([n // 3 * 7 for n in range(120)], "40 classes, all of them numbers"),
    ],
    ids=["texts", "mostly texts", "most classes have one example", "fractions", "whole numbers with gaps"],
)
def test_labels_that_cannot_be_classes_are_refused(names, says, table, numbers):
    with pytest.raises(ConfigError) as raised:
        classes_of(names, table, numbers)
    assert says in str(raised.value)
    assert "If 'y' is not the column of the classes, name the right one with label=" in str(raised.value)


@pytest.mark.parametrize(
    "names",
    [
        [n % 40 for n in range(120)],  # consecutive
        [n % 12 * 1000 for n in range(120)],
        [n % 20 / 2 for n in range(120)],
        [f"class {n % 55}" for n in range(120)],
    ],
    ids=["40 numbers", "12 codes", "20 ratings", "55 names"],
)
def test_many_classes_are_no_reason_to_refuse(names, table, numbers):
    assert not classes_of(names, table, numbers)


def test_numbers_on_a_scale_are_refused_in_every_kind_of_table(tmp_path):
    rows = "\n".join(f'{{"x": {n}, "y": {n // 2 + 0.5}}}' for n in range(120))
    (tmp_path / "table.jsonl").write_text(rows)
    with pytest.raises(ConfigError, match="120 labels are of 60 classes, all of them numbers"):
        pilot_config(open_pilot(tmp_path / "table.jsonl", label="y").plan())


def test_the_wrong_column_of_labels_is_said_before_what_is_odd_about_the_others(table, numbers):
    with pytest.raises(ConfigError, match="If 'x' is not the column of the classes"):
        open_pilot(table(x=numbers, words=ODD, more=ODD), label="x")


def test_classes_that_look_wrong_are_said(table, numbers):
    names = [*ODD[:100], *["Benign ", "benign"] * 8, "?", "?", "odd", "unknown"]
    says = classes_of(names, table, numbers)
    assert "2 classes have one example, which is in the test set or in the pool: 'odd', 'unknown'." in says
    assert "'Benign' (8) and 'benign' (8) are different classes here." in says
    assert "'?' is a class here, with 2 examples. If it says that a label is missing, leave the label empty" in says
    assert "'unknown' is a class here, with 1 example." in says
    assert not classes_of(ODD, table, numbers)
    assert not classes_of(["+-"[n % 2] for n in range(120)], table, numbers)
    assert "'-' is a class" in classes_of(["a-"[n % 2] for n in range(120)], table, numbers)


@pytest.mark.usefixtures("small")
def test_what_was_read_is_said_before_anything_runs(run, table, numbers):
    path = table(x=numbers, label=["", "A", *ODD[2:]])
    done = run("pilot", path, "-m", "margin", "--seeds", "1", *QUICK)
    lines = done.err.splitlines()
    assert "poolwise: warning" in lines[0]
    assert "'A'" in lines[0]
    before = [line for line in lines if "seed 0" not in line]
    assert before.index(
        "Read 119 labelled examples of 3 classes, and 1 without a label. Of the labelled, 36 are the test set and 83 "
        "the pool."
    ) < lines.index(next(line for line in lines if "seed 0" in line))


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
    for mark, says, todo in (
        ("", "no value", "fill it in"),
        ("NA", "'NA'", "fill it in"),
        ("inf", "'inf'", "correct it"),
        ("12;5", "'12;5'", "correct it"),
    ):
        path = table(width=[mark, *numbers[1:]], label=ODD)
        with pytest.raises(FileError) as raised:
            open_labelled(path)
        assert f"'width' has {says} in row 1 (line 2 of the file): {todo} or leave the row out;" in str(raised.value)


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


# Methods and seeds, and what else is in the folder


@pytest.mark.usefixtures("small")
def test_the_answer_is_of_what_was_asked_for(run, table, numbers):
    path = table(x=numbers, label=ODD)
    alone = run("pilot", path, "--seeds", "1", "-m", "bald", "-o", "alone", *QUICK)
    run("pilot", path, "--seeds", "2", "-m", "margin", "-m", "entropy,margin", *QUICK)
    done = run("pilot", path, "--seeds", "1", "-m", "bald", *QUICK)
    assert done.out == alone.out
    assert (
        "pilot/pilot has other finished runs, which are kept and not counted: entropy (2 seeds), margin (2 seeds), "
        "random (1 seed)."
    ) in done.err
    assert "other finished runs" not in alone.err
    done = run("pilot", path, "--seeds", "2", "-m", "margin", "-m", "bald", *QUICK)
    assert sorted(line.partition(":")[0] for line in done.out.splitlines()[:2]) == ["bald", "margin"]


def test_the_default_method_by_its_name_is_the_same(table, numbers, monkeypatch):
    monkeypatch.setattr("poolwise.labelling.choosing._ALL_COVERED", 100)
    of = open_pilot(table(x=numbers, label=ODD)).plan()
    by_default, by_name = (
        pilot_config(of, methods=methods).acquisition.methods[1] for methods in ((), ("mutual-herding",))
    )
    assert by_default == by_name
    assert by_name.parameters


@pytest.mark.usefixtures("small")
def test_data_that_changed_are_said_to_have_changed(run, table, numbers):
    path = table(x=numbers, label=ODD)
    options = ("--seeds", "1", "-m", "margin")
    run("pilot", path, *options, *QUICK)
    done = run("pilot", path, *options, "--labels", "30", "-b", "10", code=2)
    assert "pilot/pilot has 2 runs with other settings: acquisition.labels is 20 there and 30 here" in done.err
    assert "name in the configuration" not in done.err
    table(x=numbers[1:], label=ODD[1:])
    done = run("pilot", path, *options, *QUICK, code=2)
    assert f"{path}: the data, or the features made of them, have changed since 2 runs in pilot/pilot were" in done.err
    assert "Use another output folder (-o)" in done.err
    assert "npz" not in done.err


@pytest.mark.usefixtures("small")
def test_a_damaged_run_that_was_not_asked_for_changes_nothing(run, table, numbers, tmp_path):
    path = table(x=numbers, label=ODD)
    first = run("pilot", path, "--seeds", "1", "-m", "margin", *QUICK)
    place = tmp_path / "pilot" / "pilot" / "bald" / "seed-0"
    place.mkdir(parents=True)
    (place / "run.json").write_text("{")
    assert run("pilot", path, "--seeds", "1", "-m", "margin", *QUICK).out == first.out


# Images


def test_images_that_cannot_be_read_are_counted(tmp_path):
    draw = np.random.default_rng(0)
    for number in range(80):
        place = tmp_path / "photos" / "ab"[number % 2] / f"{number:02}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (12, 12), dtype=np.uint8)).save(place)
    broken = tmp_path / "photos" / "a" / "00.png"
    broken.write_bytes(b"no image")
    made, said = open_pilot(tmp_path / "photos", encoder="patches").prepare(tmp_path / "features")
    assert f"1 labelled image cannot be read and is left out: {broken}." in said
    assert made.summary().startswith("Read 79 labelled examples of 2 classes, and 0 without")
    (tmp_path / "photos" / "a" / "02.png").write_bytes(b"no image")
    _, said = open_pilot(tmp_path / "photos", encoder="patches").prepare(tmp_path / "features")
    assert f"2 labelled images, which cannot be read, are left out: {broken}, ..." in said


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
