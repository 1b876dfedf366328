"""What people told a learner, event by event: who gave which label, when, and what was changed later.

Events are only ever appended. On the disk they are lines of JSON in one file. The state of the learner says how many
bytes of it count, so a line that was being written when the process was killed is ignored.
"""

import json
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from poolwise.arrays import Array
from poolwise.data.pool import Pool
from poolwise.errors import FileError, ParameterError
from poolwise.learning.state import ADVICE, SavedHistory
from poolwise.storage import sync_folder

EventKind = Literal["label", "correction", "rejection", "return"]
"""What happened: a label was given or changed, an example was rejected, or put back into the pool."""

NAME = "history-{:05}.jsonl"


@dataclass(frozen=True)
class Event:
    """One thing that somebody said about one example.

    Attributes:
        index: the example's position in the data.
        kind: `"label"`, `"correction"`, `"rejection"`, or `"return"` of what was rejected.
        label: the class number, or None if it is about no label.
        time: when, with its time zone.
        author: who, or None.
        id: the example's id, or None.
        class_name: the name of the class, or None.
        reason: why the example was rejected.
        asked: whether the example was part of the batch that the learner asked for.

    Example:
        >>> from datetime import UTC, datetime
        >>> event = Event(7, "label", 1, datetime(2026, 5, 4, tzinfo=UTC), "anna", id="7.png", class_name="dog")
        >>> event.item, event.class_name, event.author
        ('7.png', 'dog', 'anna')
    """

    index: int
    kind: EventKind
    label: int | None
    time: datetime
    author: str | None = None
    id: str | int | None = None
    class_name: str | None = None
    reason: str = ""
    asked: bool = False

    @property
    def item(self) -> str | int:
        """The example's id, or its position where it has none."""
        return self.index if self.id is None else self.id

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "time": self.time.isoformat()}


@dataclass(frozen=True)
class Witness:
    """Who says something, and when.

    Attributes:
        author: a name, or None.
        time: a time with its zone.
    """

    author: str | None
    time: datetime

    @classmethod
    def of(cls, author: object, at: object) -> "Witness":
        """Check what a caller passed.

        Args:
            author: a name, or None.
            at: a `datetime`, a text in ISO 8601, or None for now. Without a zone it is the local time.
        """
        if author is not None and (not isinstance(author, str) or not author.strip()):
            raise ParameterError(f"author must be a name, not {author!r}.")
        if isinstance(at, str):
            try:
                at = datetime.fromisoformat(at)
            except ValueError:
                raise ParameterError(f"at must be a time such as '2026-05-04T12:30:00+02:00', not {at!r}.") from None
        if at is not None and not isinstance(at, datetime):
            raise ParameterError(f"at must be a datetime or a text in ISO 8601, not {at!r}.")
        return cls(author, datetime.now(UTC) if at is None else at.astimezone(UTC))

    def events(
        self,
        pool: Pool,
        kinds: Sequence[EventKind],
        indices_n: Array,
        labels_n: Array | None = None,
        *,
        reason: str = "",
        asked: frozenset[int] = frozenset(),
    ) -> list[Event]:
        """One event per example.

        Args:
            pool: the pool, for ids and class names.
            kinds: what happened to each.
            indices_n: `[n]` positions in the data.
            labels_n: `[n]` class numbers, or None.
            reason: why examples were rejected.
            asked: positions that the learner asked for.
        """
        numbers = [None] * len(indices_n) if labels_n is None else labels_n.tolist()
        names = pool.class_names
        return [
            Event(
                index,
                kind,
                label,
                self.time,
                self.author,
                None if pool.ids is None else pool.ids[index],
                None if names is None or label is None else names[label],
                reason,
                index in asked,
            )
            for index, kind, label in zip(indices_n.tolist(), kinds, numbers, strict=True)
        ]


class HistoryFile:
    """The events of a learner in its directory.

    Args:
        folder: the directory.

    Attributes:
        saved: what the state of the learner says about the file; None before the first event.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._number, self._sure = folder, 0, True
        self.saved: SavedHistory | None = None

    @property
    def name(self) -> str | None:
        """The name of the file."""
        return None if self.saved is None else NAME.format(self.saved.number)

    @contextmanager
    def adding(self, events: Sequence[Event]) -> Iterator[SavedHistory | None]:
        """Append the events that are not in the file yet, while the caller writes the state that refers to them.

        If the caller fails, the file is as it was.

        Args:
            events: all events so far.
        """
        before = self.saved or SavedHistory(self._number, 0, 0, 0)
        if not self._sure:  # a write was interrupted: its state may or may not be there, so its file is left alone
            self._number += 1
            before = SavedHistory(self._number, 0, 0, 0)
        new = events[before.events :]
        if not new:
            yield self.saved
            return
        content = b"".join(json.dumps(event.as_dict(), ensure_ascii=False).encode() + b"\n" for event in new)
        path = self._folder / NAME.format(before.number)
        after = SavedHistory(
            before.number, len(events), before.bytes + len(content), zlib.crc32(content, before.checksum)
        )
        self._sure = False
        try:
            try:
                with path.open("r+b" if path.exists() else "xb") as file:
                    file.truncate(before.bytes)
                    file.seek(before.bytes)
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                text = f"cannot write {path} ({error.strerror}). What was there before is unchanged."
                raise FileError(text) from error
            sync_folder(self._folder)
            yield after
        except FileError:
            _cut(path, before.bytes)
            self._sure = True
            raise
        self.saved, self._sure = after, True

    def read(self, saved: SavedHistory | None) -> list[Event]:
        """The events that a state counts."""
        self.saved, self._sure, self._number = saved, True, 0 if saved is None else saved.number
        if saved is None:
            return []
        path = self._folder / NAME.format(saved.number)
        try:
            with path.open("rb") as file:
                content = file.read(saved.bytes)
            if len(content) < saved.bytes or zlib.crc32(content) != saved.checksum:
                raise ValueError("its contents do not fit its checksum")
            events = [_event(json.loads(line)) for line in content.splitlines()]
            if len(events) != saved.events:
                raise ValueError(f"it has {len(events)} events, not {saved.events}")
        except (OSError, ValueError, LookupError, TypeError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise FileError(f"{path} cannot be read, it may be missing or damaged ({reason}). {ADVICE}") from error
        return events


def _event(values: dict[str, Any]) -> Event:
    if values["kind"] not in get_args(EventKind):
        raise ValueError(f"unknown kind {values['kind']!r}")
    made = Event(**values)
    return replace(made, time=datetime.fromisoformat(values["time"]))


def _cut(path: Path, size: int) -> None:
    """Take back what was appended to a file."""
    with suppress(OSError):
        if size:
            os.truncate(path, size)
        else:
            path.unlink(missing_ok=True)
