"""A Hugging Face `Dataset` and `Trainer` in the loop (pip install datasets accelerate, and 'poolwise[text]').

`Trainer` trains, `pw.mc_dropout` predicts, `pw.select` chooses. The model is tiny and random, to need no
download.
"""

import numpy as np
import torch
from datasets import Dataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments

import poolwise as pw

draw = np.random.default_rng(0)
truth = draw.integers(0, 2, 200)
tokens = draw.integers(1, 40, (200, 8)) + 40 * (truth[:, None] * (draw.random((200, 8)) < 0.4))  # two vocabularies
data = Dataset.from_dict({"input_ids": tokens.tolist(), "attention_mask": np.ones_like(tokens).tolist()})
data = data.add_column("labels", truth.tolist())  # a simulation: only those of chosen rows are ever read


def new_model():
    torch.manual_seed(0)
    sizes = {"dim": 32, "hidden_dim": 64, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 16}
    return DistilBertForSequenceClassification(DistilBertConfig(vocab_size=90, num_labels=2, **sizes))


settings = TrainingArguments(
    "trained", max_steps=60, learning_rate=3e-3, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
    logging_strategy="no",
)  # fmt: skip
labelled = draw.choice(len(data), 20, replace=False).tolist()
for _ in range(3):
    model = new_model()
    Trainer(model, settings, train_dataset=data.select(labelled)).train()
    inputs = {name: torch.tensor(data[name][:]) for name in ("input_ids", "attention_mask")}
    predictions = pw.mc_dropout(model, inputs, samples=10, seed=0)
    right = (predictions.probs.mean(1).argmax(-1) == truth).mean()
    batch = pw.select(predictions, 10, candidates=np.setdiff1d(np.arange(len(data)), labelled))
    print(f"{len(labelled)} labels: {right:.0%} of the pool right; next: {batch.indices[:5].tolist()} ...")
    labelled += batch.indices.tolist()  # here a person labels them
