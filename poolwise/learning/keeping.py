"""Saving a learner to its directory, and resuming from there."""

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.data.examples import Examples
from poolwise.data.pool import Pool
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
from poolwise.learning.hold import Hold
from poolwise.learning.identity import Identity
from poolwise.learning.query import Query
from poolwise.learning.settings import Settings
from poolwise.learning.standing import Standing
from poolwise.learning.state import PoolState, State, damaged, read_state
from poolwise.posteriors.posterior import Posterior

_NOT_COMPARED = ("memory", "agreement")  # settings that change no batch
_TRIES = 5  # to read a directory without its lock, while another process may write to it


@dataclass(frozen=True)
class Parts:
    """What a learner is made of."""

    posterior: Posterior
    pool: Pool
    test: Examples | None
    validation: Examples | None

    def objects(self) -> dict[str, Any]:
        """What must be saved for `load` to need nothing else, by name; None for what there is not."""
        return {
            "posterior": self.posterior,
            "data": self.pool.data,
            "test": self.test,
            "validation": self.validation,
        }


class Keeper:
    """Keeps a learner in its directory.

    Args:
        folder: the directory.
        identity: by which the data is recognised, or None not to check it.
        self_contained: whether posterior and data are saved too.
        read_only: whether nothing will be written.
    """

    def __init__(self, folder: Path, identity: Identity | None, *, self_contained: bool, read_only: bool) -> None:
        self.folder, self._identity = folder, identity
        self._hold = None if read_only else Hold(folder)
        self._checkpoint = Checkpoint(folder)
        self._self_contained = self_contained
        self._objects = 0 if self_contained else None  # the number of the file of posterior and data
        self.current = False  # whether the latest model is saved

    @property
    def exists(self) -> bool:
        """Whether there is a learner in the directory."""
        return (self.folder / STATE).exists()

    def check(self) -> None:
        """Refuse if nothing may be written, before any work is done."""
        if self._hold is None:
            raise StateError(f"this learner was opened with read_only=True. To change it, load {self.folder} again.")
        self._hold.check()

    def close(self) -> None:
        """Leave the directory to others."""
        if self._hold is not None:
            self._hold.close()

    def undo(self) -> None:
        """Leave the directory to the learner that had it before, since this one could not be opened."""
        if self._hold is not None:
            self._hold.undo()

    def renew(self) -> None:
        """Save posterior and data anew with the next state."""
        if self._self_contained:
            self._objects = 0 if self._objects is None else self._objects + 1

    def save(self, settings: Settings, parts: Parts, standing: Standing) -> None:
        """Bring the directory up to date: the files that the state names first, then the state."""
        self.check()
        files: dict[str, Writer] = {}
        fingerprint = None
        objects = parts.objects()
        if self._objects is not None:
            files[objects_name(self._objects)] = objects_writer(objects)
        if self._identity is not None:
            prints = self._identity.prints(_needed(parts.pool, standing.query))
            fingerprint = sum(len(found.positions) for found in prints.values())
            files[ROWS.format(fingerprint)] = rows_writer(prints)
        if standing.model:
            files[WEIGHTS.format(standing.model)] = lambda file: torch.save(parts.posterior.state(), file)
        if standing.classes is not None:
            classes_N = standing.classes
            files[CLASSES.format(standing.classes_round)] = lambda file: np.save(file, classes_N, allow_pickle=False)
        state = State(
            settings=settings,
            objects=[name for name, value in objects.items() if value is not None],
            pool=PoolState(**parts.pool.state()),
            rounds=standing.rounds,
            query=None if standing.query is None else standing.query.as_dict(),
            trained=standing.trained,
            model=standing.model,
            classes=None if standing.classes is None else standing.classes_round,
            fingerprint=fingerprint,
            saved=self._objects or 0,
        )
        assert self._hold is not None
        with self._hold.writing():
            self._checkpoint.write(state, files)
        self.current = True

    def resume(self, settings: Settings, parts: Parts) -> Standing:
        """Take up what is in the directory: the labels go to the pool, the weights to the posterior."""
        for left in reversed(range(_TRIES)):
            state = self._checkpoint.read_state()
            try:
                return self._take_up(state, settings, parts)
            except FileError:
                # Without the lock, files may be replaced while they are read.
                if self._hold is not None or not left or read_state(self.folder / STATE) == state:
                    raise
        raise AssertionError("the last try returns or raises")

    def _take_up(self, state: State, settings: Settings, parts: Parts) -> Standing:
        _compare(state.settings, settings, self.folder)
        if self._identity is not None and state.fingerprint is not None:
            advice = "Restore it from a copy, or pass check_data=False to open the directory without it."
            saved = self._checkpoint.read(state, ROWS.format(state.fingerprint), read_rows, advice)
            self._identity.check(saved, self.folder)
        try:
            parts.pool.load_state(vars(state.pool))
            query = None if state.query is None else _checked(Query.from_dict(state.query), parts.pool)
        except ParameterError as error:
            raise DataMismatchError(f"{self.folder}: {error}") from None
        except (StateError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise damaged(self.folder / STATE, error) from error
        standing = Standing(list(state.rounds), query, state.trained, state.model)
        if state.classes is not None:
            standing.classes_round = state.classes
            standing.classes = self._classes(state, len(parts.pool))
        if state.model:
            self._load_weights(state, parts.posterior, standing)
        contained = (self.folder / objects_name(state.saved)).exists()
        self._objects = state.saved if contained else None
        self.current = True
        return standing

    def _classes(self, state: State, N: int) -> Array:
        assert state.classes is not None
        name = CLASSES.format(state.classes)
        classes_N: Array = self._checkpoint.read(state, name, partial(np.load, allow_pickle=False))
        if classes_N.shape != (N,) or classes_N.dtype != np.int64:
            raise damaged(self.folder / name, f"expected {N} whole numbers, not {classes_N.dtype} {classes_N.shape}")
        return classes_N

    def _load_weights(self, state: State, posterior: Posterior, standing: Standing) -> None:
        name = WEIGHTS.format(state.model)
        # Weights that are gone are trained again, with the same result, unless training starts from them.
        warm = getattr(posterior, "_warm_start", False)
        if not (self.folder / name).exists() and self._hold is not None and not warm:
            standing.model, standing.trained = 0, None
            return
        weights = self._checkpoint.read(state, name, partial(torch.load, weights_only=True))
        try:
            posterior.load_state(weights)
        except PoolwiseError as error:
            raise type(error)(f"{self.folder / name}: {' '.join(str(error).split())}") from error
        except Exception as error:  # weights of another make can make a posterior fail in any way
            raise damaged(self.folder / name, error or type(error).__name__) from error


def _compare(saved: Settings, mine: Settings, folder: Path) -> None:
    """Refuse to resume with other settings."""
    now = json.loads(json.dumps(asdict(mine)))  # as it would be read, with lists for tuples
    for name, before in asdict(saved).items():
        if name not in _NOT_COMPARED and now[name] != before:
            raise StateError(
                f"{folder} holds a learner with {name} = {before!r}, not {now[name]!r}. Use another directory, or "
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
    return query
