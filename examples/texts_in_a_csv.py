"""Texts in a CSV, some with a label: which to label next? Writes the answer to a CSV of its own.

python examples/texts_in_a_csv.py [FILE.csv]     # columns: message, team (empty where unknown), id
"""

import csv
import sys
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import poolwise as pw

path = Path(sys.argv[1] if len(sys.argv) > 1 else "tickets.csv")
if not path.exists():  # something to try it on
    topics = {"billing": "invoice amount refund", "technical": "crash error screen", "account": "login password name"}
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "message", "team"])
        for number in range(120):
            team = list(topics)[number % 3]
            words = rng.choice([*topics[team].split(), "please", "help", "my", "the", "since", "monday"], 6)
            table.writerow([f"t{number:03d}", " ".join(words), team if number < 12 else ""])

data = pw.data.open_data(path, text="message", label="team")
known = np.flatnonzero(data.labels >= 0)
pool = pw.Pool(data.examples, classes=len(data.class_names))
pool.label(known, data.labels[known])

classifier = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=1000))
learner = pw.ActiveLearner(pw.posteriors.Committee(classifier, members=10), pool, batch_size=10)
query = learner.query()

with open("to_label.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["id", "message"])
    table.writerows([data.ids[index], data.examples.texts[index]] for index in query.indices)
print(f"{len(known)} of {len(pool)} texts have a label; label these {len(query)} next: to_label.csv")
