"""Features: a first batch without labels, selected by them, and what it is worth against a random one."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import poolwise as pw

digits = load_digits()
inputs, test_inputs, labels, test_labels = train_test_split(digits.data, digits.target, random_state=0)

for first in ("random", "k-means"):
    posterior = pw.posteriors.Committee(RandomForestClassifier(100, random_state=0))
    learner = pw.ActiveLearner(
        posterior,
        pw.Pool(inputs, classes=10),
        "margin",
        batch_size=20,
        test=(test_inputs, test_labels),
        first=first,
        features=np.sqrt,  # or "fixed" for the pixels themselves
    )
    rounds = list(pw.simulate(learner, labels, budget=80))
    curve = ", ".join(f"{r.labelled}: {r.metrics['accuracy']:.3f}" for r in rounds if r.metrics)
    print(f"first batch: {rounds[0].origin:8} test accuracy by labels  {curve}")
