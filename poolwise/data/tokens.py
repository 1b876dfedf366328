"""Texts as tokens, for transformers: tokenised once, kept in one array, padded to the longest text of a batch."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array, Values
from poolwise.data import checkpoints
from poolwise.data.examples import Examples, as_examples, as_labels
from poolwise.errors import ParameterError, ShapeError

PADDING = -1
"""Fills up the shorter texts of a batch. No token has this id, so no part of a text is taken for it."""

MAX_LENGTH = 128
"""Tokens that are kept of a text by default."""

# Texts that are handed to the tokenizer at a time.
_BLOCK = 1_000


class TokenExamples:
    """Texts as token ids, one after another in one array.

    Args:
        ids: the ids of all texts, one text after another.
        lengths: `[N]` how many of them each text has, at least 1.
        labels: `[N]` labels, whole numbers from 0, or None.
        class_names: the names of the classes.

    Example:
        >>> import numpy as np
        >>> tokens = TokenExamples(np.array([7, 8, 9]), np.array([2, 1]))
        >>> tokens.batch(np.array([0, 1])).tolist()
        [[7, 8], [9, -1]]
    """

    def __init__(
        self, ids: Array, lengths: Array, labels: Values | None = None, class_names: Sequence[str] | None = None
    ) -> None:
        if len(lengths) and lengths.min() < 1:
            raise ShapeError(f"every text needs a token, and number {lengths.argmin()} has none.")
        if lengths.sum() != len(ids):
            raise ShapeError(f"lengths add up to {lengths.sum()}, and there are {len(ids)} ids. They must be the same.")
        if len(ids) and ids.min() < 0:
            raise ParameterError(f"token ids are whole numbers from 0, not {ids.min()}. Leave the padding out.")
        self.ids = ids.astype(np.int16 if len(ids) and ids.max() < 1 << 15 else np.int32)
        self.lengths: Array = lengths.astype(np.int32)
        self._starts = np.cumsum(lengths, dtype=np.int64) - lengths
        self.labels = None if labels is None else as_labels(labels, len(lengths))
        self.class_names = None if class_names is None else tuple(class_names)

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, indices_n: Array) -> Tensor:
        """`[n, T]` int64 ids, where T is the length of the longest of these texts; shorter ones end in `PADDING`.

        Args:
            indices_n: the positions.
        """
        lengths_n = self.lengths[indices_n]
        positions_T = np.arange(lengths_n.max(initial=0))
        inside_n_T = positions_T < lengths_n[:, None]
        batch_n_T = np.full(inside_n_T.shape, PADDING, np.int64)
        batch_n_T[inside_n_T] = self.ids[(self._starts[indices_n][:, None] + positions_T)[inside_n_T]]
        return torch.from_numpy(batch_n_T)


def tokenise(data: object, tokenizer: str | Path, max_length: int = MAX_LENGTH) -> TokenExamples:
    """Texts as the token ids that a transformer takes.

    Args:
        data: examples that are texts, a list of texts, or a column of a table.
        tokenizer: the checkpoint whose tokenizer it is: a folder, or a name on the Hugging Face hub.
        max_length: how many tokens of a text are kept, including those that mark its beginning and end.

    Example:
        >>> tokenise(["good film", "awful"], "minilm").lengths  # doctest: +SKIP
        array([4, 3], dtype=int32)
    """
    loaded = checkpoints.load("AutoTokenizer", tokenizer)
    least, most = least_length(loaded), int(loaded.model_max_length)
    if isinstance(max_length, bool) or not isinstance(max_length, int) or not least <= max_length <= most:
        raise ParameterError(
            f"max_length must be a whole number from {least} to {most} for {tokenizer}, not {max_length!r}."
        )
    return tokens_of(as_examples(data), loaded, max_length)


def tokens_of(examples: Examples, tokenizer: Any, max_length: int) -> TokenExamples:
    """Texts as token ids.

    Args:
        examples: examples that are texts.
        tokenizer: the tokenizer, loaded.
        max_length: tokens that are kept of a text.
    """
    # A text without any token gets the one that stands for the unknown, or the one that marks an end.
    nothing = next((token for token in (tokenizer.unk_token_id, tokenizer.eos_token_id) if token is not None), 0)
    ids, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for texts in blocks(examples, _BLOCK):
        rows = tokenizer(texts, truncation=True, max_length=max_length, return_attention_mask=False)["input_ids"]
        rows = [row or [nothing] for row in rows]
        ids.append(np.fromiter(chain.from_iterable(rows), np.int32))
        lengths.append(np.array([len(row) for row in rows], np.int32))
    return TokenExamples(np.concatenate(ids), np.concatenate(lengths), examples.labels, examples.class_names)


def least_length(tokenizer: Any) -> int:
    """The tokens of the shortest text: those that mark beginning and end, and one more."""
    return int(tokenizer.num_special_tokens_to_add()) + 1


def blocks(examples: Examples, size: int) -> Iterator[list[str]]:
    """The texts of examples, `size` at a time."""
    for start in range(0, len(examples), size):
        texts = examples.batch(np.arange(start, min(start + size, len(examples))))
        if isinstance(texts, Tensor) or not all(isinstance(text, str) for text in texts):
            raise ParameterError("these examples are not texts. Only texts can be tokenised or encoded.")
        yield texts
