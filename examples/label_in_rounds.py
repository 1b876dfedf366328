"""You label digits at the keyboard; stop whenever you like and start it again to continue.

python examples/label_in_rounds.py          # asks you
python examples/label_in_rounds.py --known  # answers by itself, from the known labels
"""

import sys

import numpy as np
from sklearn.datasets import load_digits

import poolwise as pw

digits = load_digits()
images = (digits.data / 16).astype(np.float32)
posterior = pw.posteriors.DeepEnsemble(lambda: pw.models.mlp((64,), 10), members=5, training=pw.Training(steps=150))
learner = pw.ActiveLearner(posterior, pw.Pool(images, classes=10), batch_size=10, directory="runs/keyboard")
print(learner.pool)

asking = "--known" not in sys.argv and sys.stdin is not None and sys.stdin.isatty()
while len(learner.pool.labelled) < 30:
    for index in learner.query().indices:
        if asking:
            for row in digits.images[index]:
                print("".join(" .:oO@"[int(value / 3)] for value in row))
            label = int(input("which digit? "))
        else:
            label = digits.target[index]
        learner.update([index], [label])  # on the disk before the next question
    learner.fit()
    accuracy = pw.metrics.evaluate(learner.predict(images), digits.target)["accuracy"]
    print(f"{len(learner.pool.labelled)} labels: accuracy {accuracy:.3f}")
