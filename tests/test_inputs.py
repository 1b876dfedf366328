"""What networks are called with: data loaders, dictionaries, several tensors, ids."""

import numpy as np
import pytest
import torch
from small_networks import QUICK, inputs, made, mlp, values
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import poolwise as pw
from poolwise import errors
from poolwise.data.examples import as_examples

LABELS = torch.arange(40) % 3
IDS = torch.randint(0, 20, (40, 7), generator=torch.Generator().manual_seed(0))
MASK = (torch.arange(7) < torch.arange(40)[:, None] % 5 + 2).long()


class Texts(nn.Module):
    """Takes tokens as Hugging Face models do."""

    def __init__(self):
        super().__init__()
        self.table, self.drop, self.head = nn.Embedding(20, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, input_ids, attention_mask=None, labels=None):
        assert input_ids.dtype == torch.int64
        assert labels is None
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        mean = (self.table(input_ids) * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return {"logits": self.head(self.drop(mean))}


class Items(Dataset):
    def __init__(self, item, count=40):
        self.item, self.count = item, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.item(index)


def tokens(index):
    return {"input_ids": IDS[index], "attention_mask": MASK[index], "labels": LABELS[index]}


def ragged(index):
    length = int(MASK[index].sum())
    return {"input_ids": IDS[index, :length].tolist(), "label": int(LABELS[index]), "text": "a text"}


def padded(items):
    """A collate function that pads, as DataCollatorWithPadding does."""
    longest = max(len(item["input_ids"]) for item in items)
    ids = torch.zeros(len(items), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, item in enumerate(items):
        ids[row, : len(item["input_ids"])] = torch.tensor(item["input_ids"])
        mask[row, : len(item["input_ids"])] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([item["label"] for item in items])}


@pytest.mark.parametrize(
    "data",
    [
        {"input_ids": IDS, "attention_mask": MASK, "labels": LABELS},
        {"input_ids": IDS.numpy(), "attention_mask": MASK.numpy(), "label": LABELS.numpy()},
        Items(tokens),
        [tokens(index) for index in range(40)],
        Items(lambda index: ({"input_ids": IDS[index], "attention_mask": MASK[index]}, int(LABELS[index]))),
        TensorDataset(IDS, MASK, LABELS),
        Items(lambda index: ((IDS[index], MASK[index]), LABELS[index])),
        Items(lambda index: {**{k: v.tolist() for k, v in tokens(index).items()}, "text": "a text"}),
        DataLoader(Items(tokens), batch_size=8),
        DataLoader(Items(tokens), batch_size=8, shuffle=True, drop_last=True),
        DataLoader(TensorDataset(IDS, MASK, LABELS), batch_size=3),
        DataLoader(Items(ragged), batch_size=8, collate_fn=padded),
    ],
)
def test_tokens_of_every_kind(data, global_state):
    network = made(Texts)
    with torch.no_grad():
        expected = network.eval()(IDS, MASK)["logits"].log_softmax(1)
    torch.testing.assert_close(values(pw.ensemble([network], data))[:, 0], expected, rtol=0, atol=1e-5)
    masks = pw.mc_dropout(network, data, 4, embeddings=True)
    whole = pw.mc_dropout(network, {"input_ids": IDS, "attention_mask": MASK}, 4, embeddings=True)
    torch.testing.assert_close(values(masks), values(whole), rtol=0, atol=1e-5)
    np.testing.assert_allclose(masks.embeddings, whole.embeddings, atol=1e-5)
    np.testing.assert_array_equal(as_examples(data).labels, LABELS)
    fitted = pw.posteriors.DeepEnsemble(Texts, 2, training=QUICK).fit(data, data)
    reference = pw.posteriors.DeepEnsemble(Texts, 2, training=QUICK).fit(Items(tokens), Items(tokens))
    torch.testing.assert_close(
        values(fitted.predict(data)), values(reference.predict(Items(tokens))), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16])
def test_ids_in_one_tensor_stay_whole(dtype):
    class Own(nn.Module):
        """Looks ids up without an embedding layer."""

        def __init__(self):
            super().__init__()
            self.head = nn.Linear(20, 3)

        def forward(self, ids):
            return self.head(nn.functional.one_hot(ids, 20).float().mean(1))

    for make in (Texts, Own):
        network = made(make)
        with torch.no_grad():
            raw = network.eval()(IDS)
        expected = (raw["logits"] if make is Texts else raw).log_softmax(1)
        for data in (
            IDS.to(dtype),
            IDS.to(dtype).numpy(),
            TensorDataset(IDS.to(dtype), LABELS),
            DataLoader(IDS.to(dtype)),
        ):
            found = values(pw.ensemble([network], data))[:, 0]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
        pw.posteriors.DeepEnsemble(make, 2, training=QUICK).fit((IDS.to(dtype), LABELS), (IDS.to(dtype), LABELS))


def test_numbers_are_converted_to_the_type_of_the_weights():
    network = made(mlp)
    expected = values(pw.ensemble([network], inputs()))
    double = made(mlp).double()
    for data in (inputs().double(), inputs().double().numpy(), TensorDataset(inputs().double()), inputs()):
        torch.testing.assert_close(values(pw.ensemble([network], data)), expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(values(pw.ensemble([double], data)), expected, rtol=0, atol=1e-5)
    whole = torch.randint(-3, 3, (40, 6), generator=torch.Generator().manual_seed(0))
    expected = values(pw.ensemble([network], whole.float()))
    for data in (whole, whole.int(), whole.numpy(), TensorDataset(whole, LABELS), {"anything": whole.float()}):
        assert torch.equal(values(pw.ensemble([network], data)), expected)


def test_loaders_are_read_in_the_order_of_their_data_set():
    network, x = made(mlp), inputs()
    expected = values(pw.ensemble([network], x))
    for loader in (
        DataLoader(x),
        DataLoader(TensorDataset(x, LABELS), batch_size=7, shuffle=True, drop_last=True),
        DataLoader(TensorDataset(x), batch_size=4),
        DataLoader(Subset(TensorDataset(x, LABELS), range(40)), batch_size=4),
    ):
        assert torch.equal(values(pw.ensemble([network], loader)), expected)
    pool = pw.Pool(DataLoader(TensorDataset(x), shuffle=True), 3)
    learner = pw.ActiveLearner(pw.posteriors.MCDropout(mlp, 3, training=QUICK), pool, batch_size=4)
    query = learner.query()
    learner.update(query.indices, LABELS[query.indices].numpy())
    assert len(learner.query().indices) == 4


class Stream(IterableDataset):
    def __iter__(self):
        return iter(inputs())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DataLoader(Stream()), "reads a stream"),
        (DataLoader(inputs(), batch_size=None), "has batch_size=None.*Pass loader.dataset"),
        (DataLoader(inputs(), sampler=SubsetRandomSampler(range(10))), "has a SubsetRandomSampler"),
        (DataLoader(inputs(), sampler=WeightedRandomSampler([1.0] * 40, 40)), "has a WeightedRandomSampler"),
        (DataLoader(inputs(), sampler=torch.utils.data.RandomSampler(inputs(), True)), "has a RandomSampler"),
        (Items(ragged), "differs in shape between examples.*DataCollatorWithPadding"),
        ({"input_ids": [[1, 2], [3]]}, 'padding=True, return_tensors="pt"'),
        ({"input_ids": IDS, "attention_mask": MASK[:5]}, "same number of examples"),
        (TensorDataset(IDS, MASK), "its last part is taken as the label"),
        ({"ids": IDS, "mask": MASK}, "takes input_ids, attention_mask, labels, and the examples have ids, mask"),
        ({}, "named inputs must be"),
    ],
)
def test_what_cannot_be_read_is_said(data, message):
    with pytest.raises(errors.InputError, match=message):
        pw.ensemble([made(Texts)], data)


def test_committees_say_what_they_take():
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(errors.ParameterError, match="a committee takes one array or texts"):
        pw.posteriors.Committee(LogisticRegression()).fit({"a": inputs(), "b": inputs(), "labels": LABELS})
    fitted = pw.posteriors.Committee(LogisticRegression(), 3).fit(DataLoader(TensorDataset(inputs(), LABELS)))
    assert fitted.predict(DataLoader(inputs())).shape == (40, 3, 3)


def test_a_hugging_face_model():
    transformers = pytest.importorskip("transformers")
    config = transformers.DistilBertConfig(
        vocab_size=20, dim=16, hidden_dim=32, n_layers=1, n_heads=2, max_position_embeddings=16, num_labels=3
    )
    network = made(lambda: transformers.DistilBertForSequenceClassification(config)).eval()
    loader = DataLoader(Items(ragged), batch_size=8, collate_fn=padded, shuffle=True)
    with torch.no_grad():
        expected = network(IDS * MASK, MASK).logits.log_softmax(1)
    torch.testing.assert_close(values(pw.ensemble([network], loader))[:, 0], expected, rtol=0, atol=1e-4)
    assert pw.mc_dropout(network, loader, 5, embeddings=True).embeddings.shape == (40, 16)
    posterior = pw.posteriors.MCDropout(network, 4, training=pw.Training(steps=2, batch_size=8))
    assert posterior.fit(loader).predict(loader).shape == (40, 4, 3)
    laplace = pw.posteriors.Laplace(network, 6, train=False).fit(loader)
    assert laplace.predict({"input_ids": IDS, "attention_mask": MASK}).shape == (40, 6, 3)
