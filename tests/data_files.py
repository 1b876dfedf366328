"""Files of data that several tests write, and reading all of it."""

import gzip

import numpy as np


def pixels(draw, *shape):
    return draw.integers(0, 256, shape, dtype=np.uint8)


def everything(examples):
    return examples.batch(np.arange(len(examples)))


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
