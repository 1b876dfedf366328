"""A batch and its predictions for FiftyOne (tags of samples) and Argilla (records with suggestions).

Written as plain JSON by the schemas of their documentation. With the packages installed (pip install argilla fiftyone),
as their own objects too. A data set of FiftyOne needs MongoDB, so it is made on request, with the argument fiftyone.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import poolwise as pw

draw = np.random.default_rng(0)
Path("photos").mkdir(exist_ok=True)
truth = {f"{number:02}.png": ["rows", "columns"][number % 2] for number in range(24)}
for name, label in truth.items():
    stripes = np.tile((np.arange(12) % 4 < 2) * 200, (12, 1)) + draw.integers(0, 50, (12, 12))
    Image.fromarray((stripes if label == "columns" else stripes.T).astype(np.uint8)).save(Path("photos") / name)

with pw.Project.open("photos", classes=["rows", "columns"], batch_size=8) as project:
    first = project.next()
    project.add({item.id: truth[item.id] for item in first.items}, person="anna")
    batch, current, predicted = project.next(), project.store.current(), project.predicted()

    samples, records = [], []
    for place, name in enumerate(project.items.ids):
        label = current[name].label if name in current else None
        chosen = next((item for item in batch.items if item.id == name), None)
        probs = predicted.probs[place]
        said, share = predicted.classes[int(probs.argmax())], float(probs.max())
        tags = [f"poolwise-batch-{batch.number}"] if chosen else ["labelled"] if label else []
        path = str(project.items.files[place].absolute())
        samples.append({"filepath": path, "tags": tags, "label": label, "prediction": said, "confidence": share})
        if chosen:
            metadata = {"why": chosen.why, "rank": batch.ids.index(name) + 1}
            suggestion = {"question_name": "label", "value": said, "score": share, "agent": "poolwise"}
            records.append({"id": name, "fields": {"text": name}, "metadata": metadata, "suggestions": [suggestion]})

Path("fiftyone.json").write_text(json.dumps(samples, indent=1))
Path("argilla.json").write_text(json.dumps(records, indent=1))
print(f"{len(samples)} samples in fiftyone.json, {len(records)} records in argilla.json")

if importlib.util.find_spec("argilla"):
    import argilla as rg

    made = [rg.Record(**{**r, "suggestions": [rg.Suggestion(**s) for s in r["suggestions"]]}) for r in records]
    print("argilla:", made[0].id, made[0].metadata["rank"], made[0].suggestions["label"].value)
if importlib.util.find_spec("fiftyone"):
    import fiftyone as fo

    said = [fo.Classification(label=s["prediction"], confidence=s["confidence"]) for s in samples]
    found = [fo.Sample(s["filepath"], s["tags"], prediction=one) for s, one in zip(samples, said, strict=True)]
    print("fiftyone:", sum("labelled" in sample.tags for sample in found), "labelled,", found[0].prediction.label)
    if "fiftyone" in sys.argv:
        (dataset := fo.Dataset()).add_samples(found)
        print("fiftyone:", dataset.count_sample_tags())
