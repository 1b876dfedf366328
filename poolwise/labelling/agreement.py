"""How well people agree, beyond what chance would give."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from poolwise.labelling.measuring import wilson
from poolwise.labelling.store import Event


@dataclass(frozen=True)
class Agreement:
    """Agreement on items that more than one person has labelled.

    Attributes:
        name: `"Cohen's kappa"` for two people, `"Fleiss' kappa"` for more.
        kappa: 1 for full agreement, 0 for what chance would give; None if chance alone explains everything.
        low: lower end of its 95 % interval.
        high: upper end.
        observed: the share of pairs of labels that agree.
        items: how many items were compared.
        people: who labelled them.
    """

    name: str
    kappa: float | None
    low: float | None
    high: float | None
    observed: float
    items: int
    people: Sequence[str]


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement of two people (Cohen 1960): `(observed − expected) / (1 − expected)`.

    Args:
        pairs: what each of them said, item by item.
    Returns:
        None if there are no items, or if both always say the same one thing.

    Example:
        >>> cohen_kappa([("cat", "cat"), ("dog", "dog"), ("cat", "dog"), ("dog", "dog")])
        0.5
    """
    if not pairs:
        return None
    observed = sum(one == two for one, two in pairs) / len(pairs)
    return _beyond(observed, _cohen_chance(pairs))


def _cohen_chance(pairs: Sequence[tuple[str, str]]) -> float:
    """The share of items on which two people would agree by chance."""
    first, second = Counter(one for one, _ in pairs), Counter(two for _, two in pairs)
    return sum(first[name] * second[name] for name in first) / len(pairs) ** 2


def _beyond(share: float, chance: float) -> float | None:
    """Agreement beyond chance; None if chance alone explains everything."""
    return None if chance >= 1 else (share - chance) / (1 - chance)


def fleiss_kappa(counts: Sequence[Mapping[str, int]]) -> float | None:
    """Agreement of several people, not the same ones for every item (Fleiss 1971).

    Items may have different numbers of labels: each item's agreement is the share of its pairs of labels that agree.

    Args:
        counts: how often each class was given to an item, item by item; those with one label are left out.

    Example:
        >>> fleiss_kappa([{"cat": 2}, {"dog": 2}, {"cat": 1, "dog": 1}, {"dog": 2}])
        0.4666666666666667
    """
    counts = [row for row in counts if sum(row.values()) > 1]
    if not counts:
        return None
    observed = sum(_agreeing(row) for row in counts) / len(counts)
    return _beyond(observed, _fleiss_chance(counts))


def _fleiss_chance(counts: Sequence[Mapping[str, int]]) -> float:
    """The share of pairs of labels that would agree by chance."""
    classes: Counter[str] = Counter()
    for row in counts:
        classes.update(row)
    total = sum(classes.values())
    return sum((count / total) ** 2 for count in classes.values())


def _agreeing(row: Mapping[str, int]) -> float:
    """The share of pairs of labels of one item that agree."""
    total = sum(row.values())
    return sum(count * (count - 1) for count in row.values()) / (total * (total - 1))


@dataclass
class Answers:
    """What each person said by themselves. Corrections of a reviewer, who sees the others' labels, do not count.

    Attributes:
        items: the label of each person, for each item.
        given: how often each person gave each kind of answer.
        last: when each person last answered.
        reviewed: items whose label somebody has confirmed or corrected.
    """

    items: dict[str, dict[str, str]] = field(default_factory=dict)
    given: dict[str, Counter[str]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    reviewed: set[str] = field(default_factory=set)

    def add(self, event: Event) -> None:
        """Take one more event."""
        if event.kind == "rename-class":
            self._rename(str(event.item), str(event.label))
        if event.item is None or event.kind in ("class", "rename-class"):
            return
        self.given.setdefault(event.person, Counter())[event.kind] += 1
        self.last[event.person] = event.at or 0.0
        if event.kind == "correct":
            self.reviewed.add(event.item)
        elif event.kind == "label" and event.label is not None:
            self.items.setdefault(event.item, {})[event.person] = event.label
        else:
            self.items.get(event.item, {}).pop(event.person, None)

    def _rename(self, old: str, new: str) -> None:
        for row in self.items.values():
            for person, label in row.items():
                if label == old:
                    row[person] = new

    def agreement(self) -> Agreement | None:
        """How well people agree; None if nobody labelled the same items."""
        rows = [row for row in self.items.values() if len(row) > 1]
        if not rows:
            return None
        people = sorted({person for row in rows for person in row})
        counts = [Counter(row.values()) for row in rows]
        observed = sum(_agreeing(row) for row in counts) / len(rows)
        if len(people) == 2:
            name, chance = "Cohen's kappa", _cohen_chance([(row[people[0]], row[people[1]]) for row in rows])
        else:
            name, chance = "Fleiss' kappa", _fleiss_chance(counts)
        kappa = _beyond(observed, chance)
        # The interval is that of the observed share, with the share by chance taken as if it were known.
        low, high = (_beyond(share, chance) for share in wilson(observed * len(rows), len(rows)))
        return Agreement(name, kappa, None if low is None else max(-1.0, low), high, observed, len(rows), people)
