"""Digits with file names: labels by name, one that cannot be labelled, a class that comes later, corrections.

python examples/real_labelling.py  # run it again: it continues
"""

import numpy as np
from sklearn.datasets import load_digits

import poolwise as pw

digits = load_digits()
images = (digits.data / 16).astype(np.float32)
files = [f"{number:04}.png" for number in range(len(images))]
names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[digits.target]
truth = dict(zip(files, names.tolist(), strict=True))


def posterior(classes: int) -> pw.posteriors.DeepEnsemble:
    """Networks with one output per class, built anew when a class is added."""
    return pw.posteriors.DeepEnsemble(
        lambda: pw.models.linear((64,), classes), members=3, training=pw.Training(steps=50)
    )


seen_first = sorted(set(names) - {"nine"})
pool = pw.Pool(images, ids=files, class_names=seen_first)
with pw.ActiveLearner(posterior, pool, batch_size=20, directory="runs/real", grow=True) as learner:
    for _ in range(3):
        query = learner.query()
        learner.update(query.ids, [truth[file] for file in query.ids], author="anna", new_classes=True)
    learner.reject(learner.query().ids[:1], reason="smudged", author="anna")
    wrong = learner.pool.ids_of(learner.pool.labelled[:1])
    learner.correct(wrong, [truth[file] for file in wrong], author="ben")
    print(learner.pool)
    for event in learner.history[-3:]:
        print(event.author, event.kind, event.item, event.class_name or event.reason)
