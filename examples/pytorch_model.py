"""A trained PyTorch network with dropout: which examples should it learn next?"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import poolwise as pw

digits = load_digits()
images, labels = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
known, pool = images[:100], images[100:]

# Your own training loop, whatever it is.
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(200):
    optimiser.zero_grad()
    F.cross_entropy(network(known), labels[:100]).backward()
    optimiser.step()

# One call: 50 dropout masks, the same for every example. The network stays as it is.
predictions = pw.mc_dropout(network, pool, samples=50, embeddings=True)
batch = pw.select(predictions, batch_size=20)
print("posterior-coverage:", batch.indices + 100)  # positions in `images`
print(batch.diagnostics)

# Other methods on the same predictions.
for method in ("margin", "badge", "power-lbb"):
    print(f"{method}:", pw.select(predictions, 20, method).indices + 100)
