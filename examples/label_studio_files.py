"""Label Studio by files: a batch as tasks to import there, and its export as labels (pip install 'poolwise[label]').

With a server: poolwise sync label-studio texts.csv --url http://localhost:8080 --create "News" --classes sport,money
"""

import csv
import json
from pathlib import Path

import poolwise as pw
from poolwise.labelling.label_studio.files import write_batch

subjects = {"sport": ["the match", "the coach", "the team"], "money": ["the bank", "the share price", "the budget"]}
endings = ["was discussed on monday", "surprised everybody", "is better than last year", "made people angry"]
truth = {f"{name} {ending}": label for label, names in subjects.items() for name in names for ending in endings}
with open("texts.csv", "w", newline="") as file:
    csv.writer(file).writerows([["text"], *([text] for text in truth)])

with pw.Project.open("texts.csv", classes=list(subjects), encoder="tfidf", batch_size=8) as project:
    for round_number in (1, 2):
        batch = project.next()
        uid = project.description.uid
        config = write_batch("tasks.json", batch.items, project.items, uid, project.classes, project.predicted())
        if round_number == 1:
            print("The labelling interface of the project in Label Studio:", config, sep="\n")

        # People import tasks.json there, label, and export as JSON. Here, two people agree with the truth.
        tasks = json.loads(Path("tasks.json").read_text())
        for number, task in enumerate(tasks, 100 * round_number):
            choice = {"from_name": "label", "to_name": "text", "type": "choices"}
            choice["value"] = {"choices": [truth[task["data"]["text"]]]}
            when = f"2026-11-17T09:22:{number % 60:02}Z"
            task["annotations"] = [
                {
                    "id": number,
                    "completed_by": 1 + number % 2,
                    "result": [choice],
                    "created_at": when,
                    "updated_at": when,
                }
            ]
        Path("export.json").write_text(json.dumps(tasks))
        print(f"round {round_number}: {project.add('export.json')}")
    print(*project.status().lines(), sep="\n")
