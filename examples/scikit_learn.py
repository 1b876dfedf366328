"""scikit-learn: a random forest as a posterior, in rounds, against random labels."""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import poolwise as pw

digits = load_digits()
inputs, test_inputs, labels, test_labels = train_test_split(digits.data, digits.target, random_state=0)

for method in ("random", "margin", "posterior-coverage"):
    posterior = pw.posteriors.Committee(RandomForestClassifier(30, random_state=0))  # member k is tree k
    learner = pw.ActiveLearner(
        posterior, pw.Pool(inputs, classes=10), method, batch_size=20, seed=0, test=(test_inputs, test_labels)
    )
    rounds = list(pw.simulate(learner, labels, budget=100))
    curve = ", ".join(f"{r.labelled}: {r.metrics['accuracy']:.3f}" for r in rounds if r.metrics)
    print(f"{method:20} test accuracy by labels  {curve}")
