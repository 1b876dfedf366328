"""What a pilot says of data that it cannot use, of data that look wrong, and of data that have changed."""

import csv

import pytest

from poolwise.labelling import model


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
