"""Saving a learner to its directory, and resuming from there."""

import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.data.examples import Examples
from poolwise.data.pool import Pool
from poolwise.data.pool_names import carried_ids
from poolwise.errors import (
    DataMismatchError,
    FileError,
    ParameterError,
    PoolwiseError,
    StateError,
)
from poolwise.learning.checkpoint import (
    CLASSES,
    ROWS,
    STATE,
    WEIGHTS,
    Checkpoint,
    Writer,
    objects_name,
    objects_writer,
    read_rows,
    rows_writer,
)
from poolwise.learning.current import Current
from poolwise.learning.features import array_setting
from poolwise.learning.history import HistoryFile
from poolwise.learning.identity import Identity
from poolwise.learning.model import Model
from poolwise.learning.ownership import Ownership
from poolwise.learning.query import Query
from poolwise.learning.settings import Settings
from poolwise.learning.state import PoolState, State, damaged, read_state
from poolwise.posteriors.posterior import Posterior

_NOT_COMPARED = ("memory", "agreement", "test_samples")  # settings that change no batch
_TRIES = 5  # to read a directory without its lock, while another process may write to it


@dataclass(frozen=True)
class Parts:
    """What a learner is made of."""

    model: Model
    pool: Pool
    test: Examples | None
    validation: Examples | None
    features: Any = None

    def objects(self) -> dict[str, Any]:
        """What must be saved for `load` to need nothing else, by name; None for what there is not."""
        return {
            "posterior": self.model.given,
            "data": self.pool.data,
            "test": self.test,
            "validation": self.validation,
            **({} if self.features is None else {"features": self.features}),
            **({} if carried_ids(self.pool.data, len(self.pool)) == self.pool.ids else {"ids": self.pool.ids}),
        }


class Saver:
    """Keeps a learner in its directory.

    Args:
        folder: the directory.
        identity: by which the data is recognised, or None not to check it.
        self_contained: whether posterior and data are saved too.
        read_only: whether nothing will be written.
    """

    def __init__(self, folder: Path, identity: Identity | None, *, self_contained: bool, read_only: bool) -> None:
        self.folder, self._identity = folder, identity
        self._ownership = None if read_only else Ownership(folder)
        self._checkpoint, self._history = Checkpoint(folder), HistoryFile(folder)
        self._self_contained = self_contained
        self._objects = 0 if self_contained else None  # the number of the file of posterior and data
        self.current = False  # whether the latest model is saved
        self.grew = False  # whether rows or classes were taken in that are not saved yet

    @property
    def exists(self) -> bool:
        """Whether there is a learner in the directory."""
        return (self.folder / STATE).exists()

    def check(self) -> None:
        """Refuse if nothing may be written, before any work is done."""
        if self._ownership is None:
            raise StateError(f"this learner was opened with read_only=True. To change it, load {self.folder} again.")
        self._ownership.check()

    def close(self) -> None:
        """Leave the directory to others."""
        if self._ownership is not None:
            self._ownership.close()

    def undo(self) -> None:
        """Leave the directory to the learner that had it before, since this one could not be opened."""
        if self._ownership is not None:
            self._ownership.undo()

    def renew(self) -> None:
        """Save posterior and data again with the next state."""
        if self._self_contained:
            self._objects = 0 if self._objects is None else self._objects + 1

    def save(self, settings: Settings, parts: Parts, now: Current) -> None:
        """Bring the directory up to date: the files that the state names first, then the state."""
        self.check()
        known = {} if self._identity is None else dict(self._identity.known)
        files: dict[str, Writer] = {}
        objects = parts.objects()
        try:
            fingerprint = self._fingerprint(parts.pool, now, files)
            if self._objects is not None:
                files[objects_name(self._objects)] = objects_writer(objects)
            if now.model:
                files[WEIGHTS.format(now.model)] = lambda file: torch.save(parts.model.posterior.state(), file)
            if now.classes is not None:
                classes_N = now.classes
                files[CLASSES.format(now.classes_round)] = lambda file: np.save(file, classes_N, allow_pickle=False)
            state = State(
                settings=settings,
                objects=[name for name, value in objects.items() if value is not None],
                pool=PoolState(**parts.pool.state()),
                rounds=now.rounds,
                query=None if now.query is None else now.query.as_dict(),
                trained=now.trained,
                model=now.model,
                classes=None if now.classes is None else now.classes_round,
                fingerprint=fingerprint,
                saved=self._objects or 0,
                model_classes=parts.model.classes,
                outdated=now.outdated,
            )
            self._write(state, files, now)
        except BaseException:
            if self._identity is not None:
                self._identity.known = known
            raise
        self.current, self.grew = True, False

    def _fingerprint(self, pool: Pool, now: Current, files: dict[str, Writer]) -> int | None:
        """The number of the file of fingerprints, which is added to the files to write; None if there is none."""
        if self._identity is None:
            return None
        prints = self._identity.prints(_needed(pool, now.query))
        # It grows with every row that is compared, and with every row that there is.
        number = sum(len(found.positions) + found.examples for found in prints.values())
        files[ROWS.format(number)] = rows_writer(prints)
        return number

    def _write(self, state: State, files: dict[str, Writer], now: Current) -> None:
        assert self._ownership is not None
        with self._ownership.writing():
            with self._history.adding(now.history) as saved:
                self._checkpoint.write(replace(state, history=saved), files)
            self._checkpoint.clean([*files, self._history.name])

    def resume(self, settings: Settings, parts: Parts, *, grow: bool = False) -> Current:
        """Take up what is in the directory: the labels go to the pool, the weights to the posterior.

        Args:
            settings: those of the learner, to be compared with those of the directory.
            parts: what the learner is made of.
            grow: whether the pool may have more rows and classes than the directory knows.
        """
        for left in reversed(range(_TRIES)):
            state = self._checkpoint.read_state()
            try:
                return self._take_up(state, settings, parts, grow)
            except FileError:
                # Without the lock, files may be replaced while they are read.
                if self._ownership is not None or not left or read_state(self.folder / STATE) == state:
                    raise
        raise AssertionError("the last try returns or raises")

    def _take_up(self, state: State, settings: Settings, parts: Parts, grow: bool) -> Current:
        more = grow and len(parts.pool) > state.pool.examples
        _compare(state.settings, settings, self.folder, parts.features if more else None, state.pool.examples)
        if self._identity is not None and state.fingerprint is None and more:
            raise DataMismatchError(
                f"{self.folder} does not say what its rows were, so it cannot be checked that they are unchanged. Open "
                "it once with the same rows, which are noted then, or pass check_data=False."
            )
        if self._identity is not None and state.fingerprint is not None:
            advice = "Restore it from a copy, or pass check_data=False to open the directory without it."
            saved = self._checkpoint.read(state, ROWS.format(state.fingerprint), read_rows, advice)
            self._identity.check(saved, self.folder, grow=grow)
        try:
            parts.pool.load_state(vars(state.pool), grow=grow)
            query = None if state.query is None else _checked(Query.from_dict(state.query), parts.pool)
        except ParameterError as error:
            raise DataMismatchError(f"{self.folder}: {error}") from None
        except (StateError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise damaged(self.folder / STATE, error) from error
        now = Current(list(state.rounds), query, state.trained, state.model, outdated=state.outdated)
        now.history = self._history.read(state.history)
        new_classes = parts.pool.classes > state.pool.classes
        if new_classes:
            now.retrain()
        if state.classes is not None:
            now.classes_round = state.classes
            now.classes = self._classes(state, len(parts.pool))
        if state.model:
            self._load_weights(state, parts.model, now)
        contained = (self.folder / objects_name(state.saved)).exists()
        self._objects = state.saved if contained else None
        self.current, self.grew = True, more or new_classes
        return now

    def _classes(self, state: State, N: int) -> Array:
        assert state.classes is not None
        name = CLASSES.format(state.classes)
        classes_N: Array = self._checkpoint.read(state, name, partial(np.load, allow_pickle=False))
        if classes_N.ndim != 1 or len(classes_N) > N or classes_N.dtype != np.int64:
            raise damaged(self.folder / name, f"expected {N} whole numbers, not {classes_N.dtype} {classes_N.shape}")
        return np.concatenate([classes_N, np.full(N - len(classes_N), -1, np.int64)])  # rows that came later

    def _load_weights(self, state: State, model: Model, now: Current) -> None:
        model.suit(state.model_classes or state.pool.classes)
        posterior: Posterior = model.posterior
        name = WEIGHTS.format(state.model)
        # Weights that are gone are trained again, with the same result, unless training starts from them.
        warm = getattr(posterior, "_warm_start", False)
        if not (self.folder / name).exists() and self._ownership is not None and not warm:
            now.model, now.trained = 0, None
            return
        weights = self._checkpoint.read(state, name, partial(torch.load, weights_only=True))
        try:
            posterior.load_state(weights)
        except PoolwiseError as error:
            raise type(error)(f"{self.folder / name}: {' '.join(str(error).split())}") from error
        except Exception as error:  # weights of another make can make a posterior fail in any way
            raise damaged(self.folder / name, error or type(error).__name__) from error


def _compare(saved: Settings, mine: Settings, folder: Path, features: Any = None, examples: int = 0) -> None:
    """Refuse to resume with other settings.

    Args:
        saved: those of the directory.
        mine: those of the learner.
        folder: the directory.
        features: an array of features that may have more rows than before.
        examples: how many rows there were.
    """
    if isinstance(features, np.ndarray):
        mine = replace(mine, features=array_setting(features[:examples]))
    now = json.loads(json.dumps(asdict(mine)))  # as it would be read, with lists for tuples
    for name, before in asdict(saved).items():
        if name not in _NOT_COMPARED and now[name] != before:
            raise StateError(
                f"{folder} has a learner with {name} = {before!r}, not {now[name]!r}. Use another directory, or "
                "ActiveLearner.load to resume with the saved settings."
            )


def _needed(pool: Pool, query: Query | None) -> Array:
    """Positions of the rows that labels or questions belong to."""
    asked = np.empty(0, np.int64) if query is None else query.indices
    return np.concatenate([pool.labelled, pool.validation, asked])


def _checked(query: Query, pool: Pool) -> Query:
    """The query, if its examples can be asked for."""
    if query.indices.ndim != 1 or query.indices.shape != query.scores.shape:
        raise StateError("the examples that are asked for do not fit their scores")
    if not np.isin(query.indices, pool.unlabelled).all() or len(np.unique(query.indices)) < len(query):
        raise StateError("the examples that are asked for are not unlabelled examples of the pool")
    return replace(query, ids=pool.ids_of(query.indices))
