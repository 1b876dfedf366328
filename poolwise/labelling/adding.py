"""What adding labels by id would change, and the reasons to refuse it."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from poolwise.errors import LabelError
from poolwise.labelling.items import Items
from poolwise.labelling.results import Added
from poolwise.labelling.store import Event
from poolwise.labelling.store.events import Fold

# Ids or classes shown in an error.
_SHOWN = 5

MARKS = {"(skip)": "skip", "(don't know)": "unsure", "(cannot be labelled)": "unlabelable"}
"""What can stand in the place of a label, and the kind of answer that it is."""


def mark_of(value: str, classes: Sequence[str]) -> str | None:
    """The kind of answer that stands in the place of a label; None for a label. A class of that name is a label.

    Example:
        >>> mark_of("(Don’t know)", ["cat"]), mark_of("cat", ["cat"])
        ('unsure', None)
    """
    plain = " ".join(value.replace("\u2019", "'").casefold().split())
    return None if value in classes else MARKS.get(plain)


def plan(
    labels: Mapping[str, str | None],
    items: Items,
    fold: Fold,
    where: str,
    *,
    replace: bool,
    new_classes: bool,
    person: str = "",
) -> tuple[Added, list[Event]]:
    """The events that store some labels, or an error that says all that is wrong with them.

    Args:
        labels: the label of each item; None or empty where there is none.
        items: the items of the project.
        fold: the current labels.
        where: where the labels come from, for errors.
        replace: whether labels may differ from those that exist.
        new_classes: whether labels may be classes that the project does not have.
        person: who gave them.
    """
    given = {name: value.strip() for name, value in labels.items() if value is not None and value.strip()}
    unknown = [name for name in given if name not in items.position]
    if unknown:
        near = get_close_matches(unknown[0], list(items.ids)[:20_000], 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise LabelError(
            f"{where}: {_many(unknown, 'id')} not in the data: {_listed(unknown)}.{hint} Is this the file of another "
            "project? Nothing was stored."
        )
    marks = {name: kind for name, value in given.items() if (kind := mark_of(value, fold.classes))}
    marked, known = _plan_marks(marks, fold, where, replace, person)
    empty = len(labels) - len(given)
    given = {name: value for name, value in given.items() if name not in marks}
    classes = list(dict.fromkeys(name for name in given.values() if name not in fold.classes))
    if classes and not new_classes and fold.classes:
        alike = {name: found for name in classes[:_SHOWN] if (found := _like(name, fold.classes))}
        meant = [f"{found!r}" + (f" by {name!r}" if len(classes) > 1 else "") for name, found in alike.items()]
        hint = f" Did you mean {', '.join(meant)}?" if meant else ""
        raise LabelError(
            f"{where}: {_many(classes, 'class', 'classes')} not in the project: {_listed(classes)}.{hint} The classes "
            f"are: {_listed(fold.classes, 20)}. Correct the labels, or pass new_classes=True to add "
            f"{'it' if len(classes) == 1 else 'them'}. Nothing was stored."
        )
    before = {name: fold.items[name].label for name in given if name in fold.items}
    conflicts = [name for name in given if before.get(name) not in (None, given[name])]
    if conflicts and not replace:
        first = conflicts[0]
        raise LabelError(
            f"{where}: {_many(conflicts, 'item')} labelled otherwise already: {_listed(conflicts)}. The label of "
            f"{first!r} is {before[first]!r}, and {given[first]!r} here. Pass replace=True to replace the earlier "
            "labels. Nothing was stored."
        )
    same = [name for name in given if before.get(name) == given[name]]
    new = [name for name in given if before.get(name) is None]
    events = [Event("class", label=name) for name in classes]
    events += [Event("label", name, given[name]) for name in new]
    events += [Event("correct", name, given[name]) for name in conflicts]
    counts = {kind: sum(event.kind == kind for event in marked) for kind in MARKS.values()}
    return Added(len(new), len(conflicts), len(same) + known, empty, classes, **counts), events + marked


def _plan_marks(
    marks: Mapping[str, str], fold: Fold, where: str, replace: bool, person: str
) -> tuple[list[Event], int]:
    """The events of marks, and how many were there already. A mark takes the place of a label of the same person."""
    events, same = [], 0
    labelled = [name for name in marks if name in fold.items and fold.items[name].label is not None]
    others = [name for name in labelled if any(a.label and a.person != person for a in fold.items[name].answers)]
    if others or (labelled and not replace):
        first = (others or labelled)[0]
        advice = (
            f"Others gave labels to {_listed(others)}, and only they can take them back."
            if others
            else "Pass replace=True to replace the earlier labels."
        )
        raise LabelError(
            f"{where}: {_many(labelled, 'item')} labelled already: {_listed(labelled)}. The label of {first!r} is "
            f"{fold.items[first].label!r}, and here it is marked {_words(marks[first])}. {advice} Nothing was stored."
        )
    for name, kind in marks.items():
        mine = fold.items[name].by(person) if name in fold.items else None
        if mine is not None and mine.kind == kind:
            same += 1
        else:
            events.append(Event(kind, name))
    return events, same


def _like(name: str, known: Sequence[str]) -> str | None:
    """The class that somebody probably meant."""
    same = [found for found in known if found.casefold() == name.casefold()]
    return next(iter(same or get_close_matches(name, known, 1, 0.75)), None)


def _words(kind: str) -> str:
    return next(words for words, meaning in MARKS.items() if meaning == kind)


def _many(names: Sequence[str], one: str, many: str | None = None) -> str:
    return f"1 {one} is" if len(names) == 1 else f"{len(names):,} {many or one + 's'} are"


def _listed(names: Sequence[str], most: int = _SHOWN) -> str:
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
