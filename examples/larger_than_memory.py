"""Predictions that do not fit memory: written to a folder shard by shard, read in bounded memory.

Kill it and start it again: it continues with the first shard that is missing.
"""

import numpy as np
import torch
from torch import nn

import poolwise as pw

N = 20_000  # yours may be ten million
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10))
pool = np.random.default_rng(0).normal(size=(N, 16)).astype(np.float32)  # np.load("pool.npy", mmap_mode="r"), say

posterior = pw.posteriors.MCDropout(network, samples=20, seed=0)
predictions = pw.write_predictions(posterior, pool, "preds", rows_per_shard=5_000)
print(predictions)

batch = pw.select(predictions, 100, "power-lbb", memory="200MB")  # no result depends on the memory
print(batch.diagnostics)

quick = pw.select(predictions, 100, "lbb", candidates="top:5000")  # a prefilter says what it could have cost
print(quick.diagnostics.prefilter)
