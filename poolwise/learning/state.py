"""The state of a learner as it is saved: what is in it, and how it is checked when it is read."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from poolwise.errors import FileError
from poolwise.learning.rounds import Round
from poolwise.learning.settings import Settings
from poolwise.storage import read_json, write_json

FORMAT = 3  # version 0.1 wrote no number; 2 had no history, ids, rejected examples or added classes
ADVICE = "Restore it from a copy, or use another directory to start anew."


@dataclass(frozen=True)
class PoolState:
    """What `Pool.state` returns."""

    examples: int
    classes: int
    labelled: list[int]
    labels: list[int]
    validation: list[int]
    rejected: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    class_names: list[str] | None = None
    added_classes: int = 0


@dataclass(frozen=True)
class SavedHistory:
    """How much of the file of events counts.

    Attributes:
        number: the number of the file.
        events: how many events there are.
        bytes: how many bytes they take.
        checksum: CRC-32 of those.
    """

    number: int
    events: int
    bytes: int
    checksum: int


@dataclass(frozen=True)
class State:
    """All that a learner knows, apart from the files that the state names.

    Attributes:
        settings: what it was made with.
        objects: what `load` needs: `"posterior"`, `"data"`, and `"test"`, `"validation"`, `"features"` and `"ids"` if
            there were any.
        pool: which examples are labelled, and how.
        rounds: the history.
        query: what is asked for, as `Query.as_dict` returns it, or None.
        trained: the round whose model is trained, if it is not in the history yet.
        model: the number of the file of weights, 0 for none.
        model_classes: the number of classes that the posterior of these weights was made for; None for that of the
            pool.
        outdated: whether labels were changed since the last model was trained.
        classes: the number of the file of predicted classes, or None.
        fingerprint: the number of the file of the data's fingerprint, or None.
        saved: the number of the file of posterior and data.
        history: which part of the file of events counts; None if there are no events.
        files: the checksum of each of these files.
        format: the version of this format; 1 is what Poolwise 0.1 wrote.
    """

    settings: Settings
    objects: list[str]
    pool: PoolState
    rounds: list[Round]
    query: dict[str, Any] | None
    trained: Round | None
    model: int
    classes: int | None
    fingerprint: int | None = None
    saved: int = 0
    model_classes: int | None = None
    outdated: bool = False
    history: SavedHistory | None = None
    files: dict[str, int] = field(default_factory=dict)
    format: int = 1


_STATE = TypeAdapter(State)


def write_state(path: Path, state: State) -> None:
    """Write a state, with a checksum of itself."""
    plain = {**vars(state), "format": FORMAT, "settings": vars(state.settings), "pool": vars(state.pool)}
    plain["history"] = None if state.history is None else vars(state.history)
    plain["rounds"] = [_plain(entry) for entry in state.rounds]
    plain["trained"] = None if state.trained is None else _plain(state.trained)
    write_json(path, {**plain, "checksum": _checksum(plain)}, compact=True)


def _plain(entry: Round) -> dict[str, Any]:
    """What `as_dict` gives, without copies."""
    return {**vars(entry), "made_by": None if entry.made_by is None else entry.made_by.as_dict()}


def read_state(path: Path) -> State:
    """Read a state, or raise an error that says what is wrong with the file."""
    plain = read_json(path, ADVICE)
    if not isinstance(plain, dict):
        raise damaged(path, "it does not contain the state of a learner")
    if isinstance(plain.get("format"), int) and plain["format"] > FORMAT:
        raise FileError(f"{path} was written by a newer version of Poolwise. Install that version to open it.")
    checksum = plain.pop("checksum", None)
    if ("format" in plain or checksum is not None) and checksum != _checksum(plain):
        raise damaged(path, "its contents do not fit its checksum")
    try:
        state = _STATE.validate_json(json.dumps(plain), strict=True)
    except (ValidationError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
        raise damaged(path, f"it is not the state of a learner ({reason})") from None
    if not {"posterior", "data"} <= {*state.objects} or state.pool.classes < 2:
        raise damaged(path, "it names no posterior, no data or fewer than two classes")
    return state


def damaged(path: Path, reason: object) -> FileError:
    """The error for a file that cannot be used."""
    said = str(reason).splitlines() or [type(reason).__name__]
    return FileError(f"{path} is damaged: {said[0].rstrip('.')}. {ADVICE}")


def _checksum(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]
