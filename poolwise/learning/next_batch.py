"""What a learner may ask for, and how it finds what to ask for next: predict, then select."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data.examples import Examples, Subset
from poolwise.data.pool import Pool
from poolwise.errors import FeaturesWarning, LabelError, MissingInputError, ParameterError
from poolwise.learning.features import Features
from poolwise.learning.query import Query
from poolwise.posteriors.posterior import Posterior
from poolwise.predictions import Predictions
from poolwise.progress import Report
from poolwise.scores.pool import score_pool
from poolwise.seeding import child_seed, stream
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
        seconds: time taken to train on a part of the labels, to predict and to select.
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
    features: Features,
    seed: int,
    classes: bool,
    memory: int | str,
    report: Report,
    held_out: Callable[[], Mapping[str, Any]],
) -> Asked:
    """Predict what is unlabelled, as far as the method needs it, and select from it.

    Args:
        posterior: the trained model.
        pool: the pool.
        method: the method.
        count: how many examples to ask for.
        parameters: the method's parameters, and `candidates` and `information`.
        features: where features come from, for the methods that need them.
        seed: of the selection.
        classes: whether the predicted classes of all unlabelled examples are wanted.
        memory: working memory.
        report: told about progress.
        held_out: trains on a part of the labels and predicts the others, see `predict_held_out`.
    """
    started = time.perf_counter()
    unlabelled, examples = pool.unlabelled, pool.unlabelled_examples()
    needs = method.inputs(parameters)
    chosen = features.choose(method, posterior) if needs & {"embeddings", "labelled_embeddings"} else None
    by_network = chosen is not None and chosen.network
    with_embeddings = "embeddings" in needs
    if "predictions" in needs or classes:
        predictions = posterior.predict(
            examples, embeddings=with_embeddings and by_network, memory=memory, report=report
        )
    else:
        predictions = predictions_on_demand(posterior, examples, memory)
        if with_embeddings and by_network:
            predictions = predictions.with_embeddings(posterior.embed(examples, memory=memory))
    if with_embeddings and not by_network:
        predictions = predictions.with_embeddings(features.rows(unlabelled))
    known: dict[str, Any] = {}
    if chosen is not None:
        known["labelled_embeddings"] = chosen.labelled
    if "labelled_predictions" in needs:
        known["labelled_predictions"] = posterior.predict(pool.labelled_examples(), memory=memory)
    if "labels" in needs:
        known["labels"] = pool.labels
    before = time.perf_counter()
    if needs & {"held_out_predictions", "held_out_labels"}:
        known |= held_out()
    again = time.perf_counter() - before
    found = score_pool(predictions, lambda block: block.probs.mean(1).argmax(1).double()) if classes else None
    predicted = time.perf_counter()
    batch = select(
        predictions,
        count,
        method,
        seed=seed,
        memory=memory,
        report=report,
        **known,
        **{**parameters, "candidates": _among(unlabelled, pool, parameters.get("candidates"))},
    )
    diagnostics = batch.diagnostics if chosen is None else replace(batch.diagnostics, features=chosen.words)
    return Asked(
        Query(unlabelled[batch.indices], batch.scores, diagnostics),
        None if found is None else found.astype(np.int64),
        {"train": again, "predict": predicted - started - again, "select": time.perf_counter() - predicted},
    )


def first_batch(
    pool: Pool,
    method: Method | None,
    count: int,
    candidates: object,
    *,
    features: Features,
    seed: int,
    number: int,
    memory: int | str,
    report: Report,
) -> Query:
    """A batch without a model: selected by a method, or drawn at random where there is none or no features.

    Args:
        pool: the pool, in which nothing is labelled.
        method: a method that needs nothing but features, or None.
        count: how many examples to ask for.
        candidates: those of the learner.
        features: where features come from.
        seed: that of the learner.
        number: of the round.
        memory: working memory.
        report: told about progress.
    """
    if method is not None:
        try:
            child = child_seed(seed, "first batch", number)
            return ask_first(
                pool, method, count, candidates, features=features, seed=child, memory=memory, report=report
            )
        except MissingInputError as error:
            text = f"the first batch is drawn at random, not selected by {method.name}: {error}"
            warnings.warn(text, FeaturesWarning, stacklevel=4)
    drawn = stream(seed, "first batch", number).choice(choices(pool, candidates), count, replace=False)
    return Query(drawn, np.full(count, np.nan), None, "random")


def ask_first(
    pool: Pool,
    method: Method,
    count: int,
    candidates: object,
    *,
    features: Features,
    seed: int,
    memory: int | str,
    report: Report,
) -> Query:
    """Select without a model, by the fixed features alone.

    Args:
        pool: the pool, in which nothing is labelled.
        method: a method that needs nothing but features.
        count: how many examples to ask for.
        candidates: those of the learner; a prefilter by bounds, which need predictions, is left out.
        features: where features come from.
        seed: of the selection.
        memory: working memory.
        report: told about progress.
    Raises:
        MissingInputError: if there are no fixed features.
    """
    unlabelled = pool.unlabelled
    rows = features.rows(unlabelled) if "embeddings" in method.inputs({}) else None
    if isinstance(candidates, str) and candidates.strip().startswith("top:"):
        candidates = None
    # One sample that does not know anything: nothing is computed from it.
    nothing = np.broadcast_to(np.float32(-np.log(pool.classes)), (len(unlabelled), 1, pool.classes))
    predictions = Predictions.from_log_probs(nothing, layout="NKC", validate=False)
    predictions._checked = True
    batch = select(
        predictions,
        count,
        method,
        seed=seed,
        candidates=_among(unlabelled, pool, candidates),
        embeddings=rows,
        memory=memory,
        information=False,
        report=report,
    )
    diagnostics = replace(batch.diagnostics, features="fixed" if rows is not None else None)
    return Query(unlabelled[batch.indices], batch.scores, diagnostics, "first")


def _among(unlabelled: Array, pool: Pool, candidates: Any) -> Any:
    """Candidates as `select` takes them: positions among the unlabelled examples, in place of positions in the data."""
    if not isinstance(candidates, np.ndarray):
        return candidates
    allowed = choices(pool, candidates)
    return None if len(allowed) == len(unlabelled) else np.searchsorted(unlabelled, allowed)


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
