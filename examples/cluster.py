"""The same selection on one machine and on Ray (pip install 'poolwise[ray]').

python examples/cluster.py [HOST:PORT]     # without an address, Ray is started here
"""

import sys

import numpy as np
import torch
from torch import nn

import poolwise as pw
from poolwise import cluster

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4))
pool = np.random.default_rng(0).normal(size=(2_000, 16)).astype(np.float32)
posterior = pw.posteriors.MCDropout(network, samples=20, seed=0)

with cluster.connect(*sys.argv[1:]):
    predictions = cluster.predict(posterior, pool)  # kept in Ray; pass a folder to write shards
    far = pw.select(predictions, 50)
    print(far.diagnostics.traffic)

near = pw.select(posterior.predict(pool), 50)
print("the same picks:", (near.indices == far.indices).all())
