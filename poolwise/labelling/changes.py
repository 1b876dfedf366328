"""What happened to the data since it was last opened: rows appended, edited, moved or removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poolwise.errors import DataMismatchError
from poolwise.labelling.items import Items
from poolwise.labelling.store import Known, Store

# Ids shown in a sentence.
_SHOWN = 5


@dataclass(frozen=True)
class Changes:
    """The ids of items that are not as they were.

    Attributes:
        first: whether the data was never opened before.
        appended: new items.
        edited: items with another content.
        removed: items that are gone.
        labelled: those of the edited and removed ones that have labels.
    """

    first: bool = False
    appended: Sequence[str] = ()
    edited: Sequence[str] = ()
    removed: Sequence[str] = ()
    labelled: frozenset[str] = frozenset()

    def sentences(self) -> list[str]:
        """What a person should know."""
        said = []
        if self.appended and not self.first:
            said.append(f"{_count(self.appended, 'new item', 'new items')} since last time")
        if self.edited:
            kept = self._with_labels(self.edited, "their labels are kept; check them")
            said.append(
                f"{_count(self.edited, 'item was', 'items were')} edited since last time: {_listed(self.edited)}{kept}"
            )
        if self.removed:
            kept = self._with_labels(self.removed, "their labels are kept, and not used until they are back")
            said.append(
                f"{_count(self.removed, 'item is', 'items are')} gone from the data: {_listed(self.removed)}{kept}"
            )
        return said

    def _with_labels(self, items: Sequence[str], what: str) -> str:
        count = sum(item in self.labelled for item in items)
        return f"; {count:,} of them have labels: {what}" if count else ""


def _count(items: Sequence[str], one: str, many: str) -> str:
    return f"{len(items):,} {one if len(items) == 1 else many}"


def _listed(items: Sequence[str]) -> str:
    return ", ".join(items[:_SHOWN]) + (", ..." if len(items) > _SHOWN else "")


def notice_changes(items: Items, store: Store, where: str) -> Changes:
    """Compare the data with what is known of it, and remember how it is now.

    Items that are called by their row are refused if rows have moved: their labels would be those of others.
    """
    known = store.items()
    now, appended, edited = [], [], []
    for place, name in enumerate(items.ids):
        before = known.get(name)
        stamp = items.stamp(place)
        same_file = before is not None and stamp and before.stamp == stamp
        digest = before.digest if same_file and before is not None else items.digest(place)
        if before is None:
            appended.append(name)
        elif before.digest != digest:
            edited.append(name)
        entry = Known(name, place, digest, stamp)
        if entry != before:
            now.append(entry)
    removed = [name for name, before in known.items() if before.position >= 0 and name not in items.position]
    if items.by_row:
        _refuse_moved(known, {entry.id: entry.digest for entry in now}, edited, where)
    if now or removed:
        store.set_items([*now, *(Known(name, -1, known[name].digest, known[name].stamp) for name in removed)])
    labels = store.current() if edited or removed else {}
    labelled = frozenset(name for name in (*edited, *removed) if name in labels and labels[name].label is not None)
    return Changes(not known, appended, edited, removed, labelled)


def _refuse_moved(known: Mapping[str, Known], digests: Mapping[str, str], edited: Sequence[str], where: str) -> None:
    """Rows have moved if a changed row now has what another changed row had."""
    before = {known[name].digest for name in edited}
    moved = [name for name in edited if digests[name] in before]
    if moved:
        raise DataMismatchError(
            f"{where}: rows were inserted, removed or sorted since last time: row {moved[0]} now has what another row "
            "had. Items are called by their row here, so labels would go to the wrong ones. Restore the file and "
            "append new rows at its end; or begin a new project on a table with a column of ids."
        )
