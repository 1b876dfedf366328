"""A fingerprint of the data, by which a learner that is opened again knows whether its labels still fit the rows.

Each row that is read gets a hash of what a model would see of it. Of data in memory these are all rows, up to a limit.
Of larger data, and of data that is read item by item, these are a fixed sample and every row that has a label, is asked
for or is held out.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from poolwise.arrays import Array
from poolwise.data.examples import DatasetExamples, Examples, Subset, TensorExamples, TextExamples
from poolwise.data.joining import Joined
from poolwise.data.repeats import Repeated
from poolwise.data.tokens import TokenExamples
from poolwise.seeding import stream

# Data in memory is read whole up to this many rows, and this many bytes as float32: about two seconds.
_ALL_ROWS, _ALL_BYTES = 100_000, 1 << 31
# Of other data, this many rows are read.
_SAMPLE = 2_000
# Rows that are read a second time, to find out whether the data is random.
_TWICE = 32
# Bytes that are hashed at a time.
_BLOCK = 1 << 24
# An odd factor (of MurmurHash2) that keeps the order of what is combined.
_FACTOR = np.uint64(0xC6A4A7935BD1E995)


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What is remembered of some data.

    Attributes:
        examples: N, how many rows there are.
        positions: `[m]` ascending positions of the rows that were read.
        hashes: `[m]` uint64 hash of each of them.
        ids: `[N]` uint64 hash of each example's id, or None where they have none.
        random: whether a row is different each time it is read, so that there is nothing to compare.
    """

    examples: int
    positions: Array
    hashes: Array
    ids: Array | None = None
    random: bool = False

    def arrays(self) -> dict[str, Array]:
        """Plain arrays, for a file."""
        size = np.array([self.examples, self.random], np.int64)
        ids = {} if self.ids is None else {"ids": self.ids}
        return {"size": size, "positions": self.positions, "hashes": self.hashes, **ids}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> "Fingerprint":
        """The fingerprint that `arrays` was made of."""
        examples, random = arrays["size"].tolist()
        return cls(examples, arrays["positions"], arrays["hashes"], arrays.get("ids"), bool(random))


def fingerprint(
    data: Examples, needed: Array, *, ids: Sequence[str | int] | None = None, labels: bool = False
) -> Fingerprint:
    """The fingerprint of some data.

    Args:
        data: the examples.
        needed: positions of rows that must be part of it.
        ids: the ids of the examples, if they have any.
        labels: whether the labels that the data carries are part of its rows.
    """
    hashed_ids = None if ids is None else hash_texts(ids)
    positions = _positions(data, needed)
    hashes = hash_rows(data, positions, labels=labels)
    some = positions[np.linspace(0, len(positions) - 1, min(_TWICE, len(positions))).astype(np.int64)]
    if hashes is None or is_random(data, some, hashes[np.searchsorted(positions, some)], labels=labels):
        return Fingerprint(len(data), np.empty(0, np.int64), np.empty(0, np.uint64), hashed_ids, random=True)
    return Fingerprint(len(data), positions, hashes, hashed_ids)


def extended(old: Fingerprint, data: Examples, needed: Array) -> Fingerprint:
    """The same fingerprint with more rows in it."""
    new = np.setdiff1d(needed, old.positions)
    hashes = None if old.random or not len(new) else hash_rows(data, new)
    if hashes is None:
        return old
    order = np.argsort(positions := np.concatenate([old.positions, new]))
    return Fingerprint(old.examples, positions[order], np.concatenate([old.hashes, hashes])[order], old.ids)


def grown(old: Fingerprint, data: Examples, *, ids: Sequence[str | int] | None = None) -> Fingerprint:
    """The fingerprint of data that has more rows at its end than before; the old rows are not read.

    Args:
        old: the fingerprint of the first rows.
        data: all rows.
        ids: the ids of all rows, if they have any.
    """
    N, before = len(data), old.examples
    hashed_ids = None if ids is None else hash_texts(ids)
    new = before + _positions(Subset(data, np.arange(before, N)), np.empty(0, np.int64))
    if len(old.positions) < before and len(new) > _SAMPLE:  # what was sampled before is sampled from now on
        new = np.sort(stream(0, "fingerprint", before).choice(new, _SAMPLE, replace=False))
    hashes = None if old.random else hash_rows(data, new)
    if hashes is None:
        return Fingerprint(N, np.empty(0, np.int64), np.empty(0, np.uint64), hashed_ids, random=True)
    return Fingerprint(N, np.concatenate([old.positions, new]), np.concatenate([old.hashes, hashes]), hashed_ids)


def is_random(data: Examples, positions_n: Array, hashes_n: Array, *, labels: bool = False) -> bool:
    """Whether rows that were read before are different now, though nothing was done to them."""
    if in_memory(data) or not len(positions_n):
        return False
    again = hash_rows(data, positions_n[:_TWICE], labels=labels)
    return again is None or bool((again != hashes_n[:_TWICE]).any())


def in_memory(data: Examples) -> bool:
    """Whether rows are read from memory, which costs little and gives the same each time."""
    if isinstance(data, Subset):
        return in_memory(data._examples)
    if isinstance(data, Joined):
        return all(map(in_memory, data.parts))
    if isinstance(data, DatasetExamples):
        return type(data.dataset) is TensorDataset
    return isinstance(data, TensorExamples | TextExamples | TokenExamples | Repeated)


def _positions(data: Examples, needed: Array) -> Array:
    """Which rows to read."""
    N = len(data)
    if N <= _SAMPLE or (in_memory(data) and N <= _ALL_ROWS and N * _row_bytes(data) <= _ALL_BYTES):
        return np.arange(N)
    sample = stream(0, "fingerprint").choice(N, _SAMPLE, replace=False)
    return np.union1d(sample, needed).astype(np.int64)


def _row_bytes(data: Examples) -> int:
    row = data.batch(np.arange(1)) if len(data) else []
    return row.nbytes if isinstance(row, Tensor) else 0


def hash_rows(data: Examples, positions_n: Array, *, labels: bool = False) -> Array | None:
    """`[n]` uint64 hash of each row, or None if what the rows are made of cannot be hashed.

    Rows that are read item by item are read alone: what they look like beside others may depend on those.
    """
    step = max(1, _BLOCK // max(1, _row_bytes(data))) if in_memory(data) else 1
    blocks = [_hash(data.batch(positions_n[i : i + step])) for i in range(0, len(positions_n), step)]
    if any(block is None for block in blocks):
        return None
    hashes_n = np.concatenate([np.empty(0, np.uint64), *(block for block in blocks if block is not None)])
    if labels and data.labels is not None:
        hashes_n = hashes_n * _FACTOR + data.labels[positions_n].astype(np.uint64)
    return hashes_n


def _hash(inputs: Any) -> Array | None:
    """`[n]` hashes of a batch of inputs: a tensor, texts, or a dictionary or tuple of such."""
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "fiub":
        inputs = torch.from_numpy(np.ascontiguousarray(inputs))
    if isinstance(inputs, Tensor):
        return _hash_numbers(inputs)
    if isinstance(inputs, list | tuple) and all(isinstance(text, str) for text in inputs):
        return hash_texts(inputs)
    if isinstance(inputs, Mapping):
        inputs = tuple(inputs[name] for name in sorted(inputs, key=str))
    if not isinstance(inputs, list | tuple) or not inputs:
        return None
    total: Array | None = None
    for part in map(_hash, inputs):
        if part is None or (total is not None and len(part) != len(total)):
            return None
        total = part if total is None else total * _FACTOR + part
    return total


def _hash_numbers(inputs: Tensor) -> Array:
    """`[n]` hashes of the rows of a tensor.

    Two sums of 32-bit words times random 64-bit keys, modulo 2^64, of which the upper halves are kept: two rows that
    differ have the same hash with a probability of about 2^-64 (multilinear hashing, Lemire and Kaser 2014). A word of
    0 adds nothing, so padding at the end changes nothing either; token ids are moved by one to make theirs 0.
    """
    flat = inputs.detach().cpu().resolve_neg().resolve_conj()
    flat = torch.view_as_real(flat) if flat.is_complex() else flat
    flat = flat.flatten(1) if flat.ndim > 1 else flat[:, None]
    if not flat.is_floating_point():
        flat = flat.long() + 1
    elif flat.element_size() < 4:
        flat = flat.float()
    words_n_W = flat.contiguous().numpy().view(np.uint32).astype(np.uint64)
    sums_n_2: Array = words_n_W @ _keys(words_n_W.shape[1])
    high = sums_n_2 >> np.uint64(32)
    combined: Array = (high[:, 0] << np.uint64(32)) | high[:, 1]
    return combined


@lru_cache(maxsize=4)
def _keys(words: int) -> Array:
    """`[W, 2]` fixed random keys; those of fewer words are the first of those of more."""
    return np.frombuffer(hashlib.shake_256(b"poolwise rows").digest(16 * words), np.dtype("<u8")).reshape(-1, 2)


def hash_texts(texts: Sequence[str | int]) -> Array:
    """`[n]` uint64 hash of each text; a whole number has that of its digits."""
    plain = (str(text).encode("utf-8", "surrogatepass") for text in texts)
    digests = (hashlib.blake2b(text, digest_size=8).digest() for text in plain)
    return np.frombuffer(b"".join(digests), np.dtype("<u8")).astype(np.uint64)
