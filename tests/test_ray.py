"""Predictions, selections and experiments on a local Ray; workers are killed while they work."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from pools import features, pool

import poolwise as pw
from poolwise import cluster
from poolwise.errors import ClusterError, FileError, NotFiniteError, ParameterError
from poolwise.predictions import ShardWriter

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'poolwise[ray]'")

pytestmark = [
    pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def session():
    """One Ray on this machine, small, for all tests of this file."""
    with cluster.connect("local", cpus=2, memory=100 << 20):
        yield


def write(folder, x, shards, dtype="float32", embeddings=None):
    rows = -(-len(x) // shards)
    width = None if embeddings is None else embeddings.shape[1]
    with ShardWriter(folder, x.shape, dtype=dtype, rows_per_shard=rows, embeddings=width) as writer:
        for number in range(writer.count):
            part = writer.rows(number)
            writer.put(number, x[part], None if embeddings is None else embeddings[part])
    return folder


def same(one, other):
    assert one.indices.tolist() == other.indices.tolist()
    assert one.scores.tolist() == other.scores.tolist()


REQUESTS = [
    ("lbb", {}),
    ("power-lbb", {}),
    ("batchbald", {"configurations": 100}),
    ("gp-variance", {}),
    ("posterior-coverage", {}),
    ("badge", {"embeddings": features(403)}),
    ("epig", {}),
    ("power-bald", {}),
    ("lbb-released", {}),
]


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_the_same_picks(shards, tmp_path):
    """Held in Ray or in a folder that workers read: picks, scores and information of one machine, bit for bit."""
    x = pool(403, 6, 4, seed=2)
    held, opened = cluster.hold(x, shards), cluster.open_folder(write(tmp_path, x, shards))
    for method, parameters in REQUESTS:
        expected = pw.select(x, 12, method, seed=3, **parameters)
        for predictions in (held, opened):
            batch = pw.select(predictions, 12, method, seed=3, **parameters)
            same(batch, expected)
            assert batch.diagnostics.information.tolist() == expected.diagnostics.information.tolist()
    assert f"{shards} shard" in repr(held)
