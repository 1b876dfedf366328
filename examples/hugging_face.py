"""A pretrained text encoder from Hugging Face, and a small network on its embeddings.

python examples/hugging_face.py [CHECKPOINT]     # a folder, a name on the hub, or minilm (needs no download)
"""

import sys

import numpy as np

import poolwise as pw

checkpoint = sys.argv[1] if len(sys.argv) > 1 else "minilm"
subjects = {"sport": ["the match", "the coach", "the team"], "money": ["the bank", "the share price", "the budget"]}
endings = ["was discussed on monday", "surprised everybody", "is better than last year", "made people angry"]
texts = [f"{subject} {ending}" for listed in subjects.values() for subject in listed for ending in endings]
labels = np.repeat([0, 1], len(texts) // 2)

# Each text is encoded once and kept in a folder: run this again, and nothing is encoded.
embedded = pw.data.encoded(texts, checkpoint, cache="embeddings")
width = embedded.inputs.shape[1]

posterior = pw.posteriors.DeepEnsemble(
    lambda: pw.models.mlp((width,), 2, hidden=(32,)), members=5, training=pw.Training(steps=100)
)
learner = pw.ActiveLearner(posterior, pw.Pool(embedded, classes=2), batch_size=4, test=(embedded.inputs, labels))
for entry in pw.simulate(learner, labels, budget=12):
    if entry.metrics:
        print(f"{entry.labelled} labels: accuracy {entry.metrics['accuracy']:.2f}")
    for index in entry.indices:
        print("   label next:", texts[index])
