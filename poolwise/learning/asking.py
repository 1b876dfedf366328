"""What a learner may ask for, and how it finds what to ask for next: predict, then select."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data.examples import Examples, Subset
from poolwise.data.pool import Pool
from poolwise.errors import LabelError, ParameterError
from poolwise.learning.query import Query
from poolwise.posteriors.posterior import Posterior
from poolwise.predictions import Predictions
from poolwise.progress import Report
from poolwise.scores.pool import score_pool
from poolwise.selection.candidates import choose
from poolwise.selection.registry import Method
from poolwise.selection.select import select

_CANDIDATES = 'a share like "10%", a number, positions in the data, "top:100000" or "sample:100000"'


def read_candidates(given: object, pool: Pool) -> str | int | Array | None:
    """Candidates as they were given, checked: a share, a number, or `[n]` positions in the data."""
    if given is None:
        return None
    if isinstance(given, str):
        if not given.strip().startswith(("top:", "sample:")):
            choose(given, None, max(1, len(pool)), 1, 0)
        return given
    array = _as_array(given)
    if array is None or array.dtype.kind not in "iu" or array.ndim > 1 or not array.size:
        empty = array is not None and array.ndim == 1 and not array.size
        raise ParameterError(f"candidates must be {_CANDIDATES}, not {'empty' if empty else _short(given)}.")
    if array.ndim == 0:
        if array < 1:
            raise ParameterError(f"candidates must be at least 1, not {array}.")
        return int(array)
    try:
        return pool.positions(array)
    except LabelError as error:
        raise ParameterError(f"candidates must be different positions in the data: {error}") from None


def _short(value: object) -> str:
    return " ".join(repr(value).split())[:80]


def _as_array(given: object) -> Array | None:
    if isinstance(given, Tensor):
        return given.detach().cpu().numpy()
    if isinstance(given, bool) or not (isinstance(given, Integral) or hasattr(given, "__len__")):
        return None
    try:
        return np.asarray(given)
    except (TypeError, ValueError):
        return None


def choices(pool: Pool, candidates: object) -> Array:
    """Positions in the data of what may be asked for: unlabelled, and among the candidates if those are positions."""
    unlabelled = pool.unlabelled
    return np.intersect1d(candidates, unlabelled) if isinstance(candidates, np.ndarray) else unlabelled


@dataclass(frozen=True)
class Asked:
    """What to ask for next.

    Attributes:
        query: the examples.
        classes: `[n]` the class that the model predicts for each unlabelled example, where that was wanted.
        seconds: time taken to predict and to select.
    """

    query: Query
    classes: Array | None
    seconds: dict[str, float]


def ask(
    posterior: Posterior,
    pool: Pool,
    method: Method,
    count: int,
    parameters: Mapping[str, Any],
    *,
    seed: int,
    classes: bool,
    memory: int | str,
    report: Report,
) -> Asked:
    """Predict what is unlabelled, as far as the method needs it, and select from it.

    Args:
        posterior: the trained model.
        pool: the pool.
        method: the method.
        count: how many examples to ask for.
        parameters: the method's parameters, and `candidates` and `information`.
        seed: of the selection.
        classes: whether the predicted classes of all unlabelled examples are wanted.
        memory: working memory.
        report: told about progress.
    """
    started = time.perf_counter()
    unlabelled, examples = pool.unlabelled, pool.unlabelled_examples()
    needs = method.inputs(parameters)
    with_embeddings = "embeddings" in needs
    if "predictions" in needs or classes:
        predictions = posterior.predict(examples, embeddings=with_embeddings, memory=memory, report=report)
    else:
        predictions = predictions_on_demand(posterior, examples, memory)
        if with_embeddings:
            predictions = predictions.with_embeddings(posterior.embed(examples, memory=memory))
    if with_embeddings:
        known = posterior.embed(pool.labelled_examples(), memory=memory)
        predictions = predictions.with_embeddings(labelled_embeddings=known)
    found = score_pool(predictions, lambda block: block.probs.mean(1).argmax(1).double()) if classes else None
    predicted = time.perf_counter()
    candidates = parameters.get("candidates")
    if isinstance(candidates, np.ndarray):
        allowed = choices(pool, candidates)
        candidates = None if len(allowed) == len(unlabelled) else np.searchsorted(unlabelled, allowed)
    batch = select(
        predictions,
        count,
        method,
        seed=seed,
        memory=memory,
        report=report,
        **{**parameters, "candidates": candidates},
    )
    return Asked(
        Query(unlabelled[batch.indices], batch.scores, batch.diagnostics),
        None if found is None else found.astype(np.int64),
        {"predict": predicted - started, "select": time.perf_counter() - predicted},
    )


def predictions_on_demand(posterior: Posterior, examples: Examples, memory: int | str) -> Predictions:
    """Predictions that are made when they are read, for methods that select without them.

    What is left to read are the picks, to say how much information is in them.
    """
    predictions = Predictions(_OnDemand(posterior, examples, memory), "log-probs")
    predictions._checked = True  # a check would read, and so predict, the whole pool
    return predictions


class _OnDemand:
    """A source of log-probabilities that predicts the rows that are asked for."""

    where = ""

    def __init__(self, posterior: Posterior, examples: Examples, memory: int | str) -> None:
        self._posterior, self._examples, self._memory = posterior, examples, memory
        first = posterior.predict(Subset(examples, np.arange(1)), memory=memory)
        self.shape = (len(examples), *first.shape[1:])
        self.dtype = first.dtype

    def part(self, rows: slice) -> Tensor:
        """Consecutive rows."""
        return self.at(np.arange(rows.start, rows.stop))

    def at(self, positions_n: Array) -> Tensor:
        """The rows at some positions."""
        if not len(positions_n):
            return torch.empty(0, *self.shape[1:], dtype=self.dtype)
        predictions = self._posterior.predict(Subset(self._examples, positions_n), memory=self._memory)
        return predictions.rows(np.arange(len(positions_n))).log_probs
