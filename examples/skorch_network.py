"""A skorch network as a scikit-learn classifier in a committee (pip install skorch)."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch import NeuralNetClassifier
from torch import nn

import poolwise as pw


class Network(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def to_float32(inputs):
    return inputs.astype(np.float32)  # a Committee hands out float64, networks want float32


digits = load_digits()
inputs, labels = digits.data / 16, digits.target
torch.manual_seed(0)  # skorch draws initial weights from the global state
network = NeuralNetClassifier(
    Network,
    criterion=nn.CrossEntropyLoss,
    optimizer=torch.optim.Adam,
    lr=0.01,
    max_epochs=30,
    train_split=None,
    classes=list(range(10)),
    verbose=0,
)
posterior = pw.posteriors.Committee(make_pipeline(FunctionTransformer(to_float32), network), members=5, classes=10)
learner = pw.ActiveLearner(posterior, pw.Pool(inputs, classes=10), batch_size=20, test=(inputs, labels))
for entry in pw.simulate(learner, labels, budget=40):
    if entry.metrics:
        print(f"{entry.labelled} labels: accuracy {entry.metrics['accuracy']:.3f}")
