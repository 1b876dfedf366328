"""Files of data that several tests write, and reading all of it."""

import gzip

import numpy as np

# An experiment on a table: `.format(path=..., more=...)` names the file and other settings of its data.
CONFIG = """
name = "mine"
seeds = 1
[data]
path = "{path}"
{more}
[posterior]
kind = "committee"
members = 2
[acquisition]
methods = ["margin"]
batch_size = 4
labels = 8
"""


def pixels(draw, *shape):
    return draw.integers(0, 256, shape, dtype=np.uint8)


def everything(examples):
    return examples.batch(np.arange(len(examples)))


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
