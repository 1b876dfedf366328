"""Predictions that another program made: an array, a file, a table, a folder of shards. The same batch from each."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import poolwise as pw

rng = np.random.default_rng(0)
log_probs = np.log(rng.dirichlet(np.ones(10), (500, 5))).astype(np.float32)  # [N, K, C]
expected = pw.select(log_probs, 20).indices

# A file, mapped: it is read as it is needed.
np.save("preds.npy", log_probs)
from_file = pw.select(pw.Predictions.open("preds.npy"), 20).indices

# Samples first, as many programs write them.
np.save("by_sample.npy", log_probs.transpose(1, 0, 2))
from_samples = pw.select(pw.Predictions.open("by_sample.npy", layout="KNC"), 20).indices

# A Parquet column of flat lists of K · C numbers.
flat = pa.FixedSizeListArray.from_arrays(pa.array(log_probs.reshape(-1)), 50)
pq.write_table(pa.table({"log_probs": flat}), "preds.parquet")
from_table = pw.select(pw.Predictions.open("preds.parquet", samples=5), 20).indices

# Shards in a folder, with a manifest made once.
Path("shards").mkdir(exist_ok=True)
for number, start in enumerate((0, 200)):
    np.save(f"shards/part-{number:05d}.npy", log_probs[start : start + (200, 300)[number]])
if not Path("shards/manifest.json").exists():
    pw.predictions.adopt("shards", kind="log-probs", layout="NKC")
from_shards = pw.select(pw.Predictions.open("shards"), 20).indices

for found in (from_file, from_samples, from_table, from_shards):
    assert (found == expected).all()
print("the same 20 points from each:", expected)
