"""Label texts in rounds with files: a batch is written, its labels are filled in, taken back, and learnt from.

python examples/label_from_a_spreadsheet.py
"""

import csv

import numpy as np

import poolwise as pw

# Something to try it on. The classes are known here, so that a program can stand in for the person.
topics = {"billing": "invoice amount refund", "technical": "crash error screen", "account": "login password name"}
rng, true = np.random.default_rng(0), {}
with open("tickets.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["id", "message"])
    for number in range(120):
        team = list(topics)[number % 3]
        words = rng.choice([*topics[team].split(), "please", "help", "my", "the", "since", "monday"], 6)
        table.writerow([f"t{number:03d}", " ".join(words)])
        true[f"t{number:03d}"] = team

with pw.Project.open("tickets.csv", classes=list(topics), encoder="tfidf", seed=0) as project:
    for _ in range(3):
        batch = project.next(10)
        with open("labels.csv", "w", newline="") as file:  # a person fills this in
            table = csv.writer(file)
            table.writerow(["id", "label"])
            table.writerows([name, true[name]] for name in batch.ids)
        print(project.add("labels.csv", replace=True))
    predicted = project.apply("predictions.csv")
    print(*project.status().lines(), sep="\n")

best = [predicted.classes[place] for place in predicted.probs.argmax(1)]
right = np.mean([label == true[name] for name, label in zip(predicted.ids, best, strict=True)])
print(f"{right:.0%} of all tickets are predicted right: predictions.csv")
