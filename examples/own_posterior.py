"""A posterior of your own: draws of a Bayesian linear model, in a learner, checked."""

import numpy as np
from sklearn.datasets import load_digits

import poolwise as pw
from poolwise.testing import check_posterior


class BayesianRegression(pw.posteriors.BasePosterior):
    """Least squares on one-hot labels, with K draws of the weights."""

    outputs = "logits"
    settings = ("samples", "classes")

    def __init__(self, classes, samples=50):
        self.classes, self.samples = classes, samples

    def fit(self, data, validation=None, *, seed=0, report=None):
        inputs, labels = pw.posteriors.arrays(data)
        features = np.c_[inputs, np.ones(len(inputs))]
        covariance = np.linalg.inv(features.T @ features + np.eye(features.shape[1]))
        mean = covariance @ features.T @ (8 * np.eye(self.classes)[labels] - 4)
        noise = np.random.default_rng(seed).normal(size=(self.samples, *mean.shape))
        self.weights = mean + np.linalg.cholesky(covariance) @ noise  # drawn once: sample k is one model
        return self

    def sample(self, inputs):
        return np.einsum("nd,kdc->nkc", np.c_[inputs, np.ones(len(inputs))], self.weights)


digits = load_digits()
inputs, labels = digits.data / 16, digits.target
check_posterior(BayesianRegression(10, samples=5), (inputs[:200], labels[:200]))

for method in ("random", "posterior-coverage"):
    pool = pw.Pool(inputs[:1200], classes=10)
    test = (inputs[1200:], labels[1200:])
    learner = pw.ActiveLearner(BayesianRegression(10), pool, method, batch_size=20, test=test)
    rounds = [entry for entry in pw.simulate(learner, labels[:1200], budget=100) if entry.metrics]
    print(f"{method:20}", ", ".join(f"{r.labelled}: {r.metrics['accuracy']:.3f}" for r in rounds))
