"""What is in a pool, by name: examples by position or id, classes by number or name."""

from collections.abc import Sequence

import numpy as np

from poolwise.arrays import Array, Values
from poolwise.data.examples import Examples, as_examples, as_labels
from poolwise.data.joining import join
from poolwise.data.naming import Id, as_class_names, as_ids, find_ids, nearest, text_labels
from poolwise.errors import LabelError, MissingInputError, ParameterError


class PoolNames:
    """The examples and classes of a pool, and what the user calls them; the arguments are those of `Pool`.

    Attributes:
        data: the examples.
        classes: the number of classes.
        class_names: their names, or None.
        ids: what the examples are called, or None.
        added_classes: how many classes were added after the pool was made.
    """

    def __init__(self, data: object, classes: int | None, *, ids: object, class_names: object) -> None:
        examples, carried = _parts(data)
        self.data: Examples = examples
        N = len(examples)
        self.ids: tuple[Id, ...] | None = carried if ids is None else as_ids(ids, N)
        self._places: dict[Id, int] | None = None
        names = as_class_names(class_names) if class_names is not None else getattr(data, "class_names", None)
        names = tuple(names or examples.class_names or ()) or None
        if class_names is not None and names is not None and classes not in (None, len(names)):
            raise ParameterError(f"classes = {classes}, but there are {len(names)} class_names. Leave classes out.")
        if classes is None and names is not None:
            classes = len(names)
        if classes is None and examples.labels is not None and N:
            classes = int(examples.labels.max()) + 1
        if classes is None or classes < 2:
            raise ParameterError(
                f"classes must be given as a number of at least 2, or class_names as a list: the data says {classes}."
            )
        self.classes = int(classes)
        self.class_names = None if names is None else (*names, *map(str, range(len(names), self.classes)))[:classes]
        self.added_classes = 0

    def __len__(self) -> int:
        return len(self.data)

    def find(
        self, indices: Values | None = None, *, ids: Values | None = None, positions: Values | None = None
    ) -> Array:
        """`[n]` int64 positions in the data of some examples. Each must exist and occur once.

        Args:
            indices: positions in the data, or ids that are texts.
            ids: ids.
            positions: positions in the data.
        Raises:
            LabelError: if it is not clear which examples are meant, or one does not exist.

        Example:
            >>> from poolwise import Pool
            >>> Pool(["meow", "woof"], 2, ids=["a.wav", "b.wav"]).find(["b.wav"])
            array([1])
        """
        if sum(given is not None for given in (indices, ids, positions)) != 1:
            raise LabelError("say which examples, in one way: indices, ids=[...] or positions=[...].")
        if positions is not None:
            return self.positions(positions)
        if ids is not None:
            return self._by_id(ids)
        assert indices is not None
        if self.ids is not None and text_labels(indices) is not None:
            return self._by_id(indices)
        if self.ids and isinstance(self.ids[0], int) and np.size(indices):
            raise LabelError(
                "the ids of this pool are whole numbers, and so are positions. Say which you mean: ids=[...] or "
                "positions=[...]."
            )
        return self.positions(indices)

    def name(self, index: int) -> str:
        """How error messages call the example at a position."""
        return f"example {index}" if self.ids is None else f"example {index} (id {self.ids[index]!r})"

    def positions(self, indices: Values) -> Array:
        """Positions in the data as int64, each checked to exist and to occur once."""
        array = np.atleast_1d(np.asarray(indices))
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            hint = " For ids, make the pool with ids=[...]." if array.dtype.kind in "UO" and self.ids is None else ""
            raise LabelError(
                f"indices must be a list of whole numbers, not {array.dtype} of shape {list(array.shape)}.{hint}"
            )
        outside = array[(array < 0) | (array >= len(self))]  # before they are converted, which could wrap
        if outside.size:
            raise LabelError(
                f"there is no example {outside[0]}: the pool has {len(self)} examples, 0 to {len(self) - 1}."
            )
        return self._once(array.astype(np.int64))

    def ids_of(self, indices_n: Array) -> Array | None:
        """`[n]` ids of the examples at some positions, or None where they have none."""
        if self.ids is None:
            return None
        named = np.empty(len(indices_n), object)
        named[:] = [self.ids[index] for index in indices_n.tolist()]
        return named

    def add_class(self, name: str | None = None) -> int:
        """Add a class after the others, and return its number.

        Args:
            name: its name; its number, as a text, if it is left out.

        Example:
            >>> from poolwise import Pool
            >>> pool = Pool(["meow", "woof", "moo"], class_names=["cat", "dog"])
            >>> pool.add_class("cow")
            2
            >>> pool.class_names
            ('cat', 'dog', 'cow')
        """
        known = self.class_names or tuple(map(str, range(self.classes)))
        names = as_class_names([*known, str(self.classes) if name is None else name])
        if self.class_names is not None or name is not None:
            self.class_names = names
        self.classes += 1
        self.added_classes += 1
        return self.classes - 1

    def numbers(self, labels: Values | None, count: int, *, new_classes: bool = False) -> Array:
        """`[n]` class numbers of labels that are class names or numbers.

        Args:
            labels: the labels.
            count: how many there must be.
            new_classes: whether classes that are not known are added.
        Raises:
            LabelError: if there is no such class; it names the nearest ones.

        Example:
            >>> from poolwise import Pool
            >>> Pool(["meow", "woof"], class_names=["cat", "dog"]).numbers(["dog", "cat"], 2)
            array([1, 0])
        """
        if labels is None:
            raise MissingInputError("there are no labels. Pass them: labels=[...].")
        names = text_labels(labels) if self.class_names is not None or new_classes else None
        if names is not None:
            return self._numbers_of_names(names, count, new_classes)
        labels_n = as_labels([labels] if np.ndim(labels) == 0 else labels, count)
        unknown = np.unique(labels_n[labels_n >= self.classes])
        if unknown.size and new_classes and np.array_equal(unknown, self.classes + np.arange(len(unknown))):
            for _ in unknown:
                self.add_class()
        elif unknown.size:
            raise LabelError(f"there is no class {unknown[0]}: the classes are 0 to {self.classes - 1}.")
        return labels_n

    def _append(self, data: object, ids: object) -> int:
        """Append examples, and return how many."""
        more, carried = _parts(data)
        names = self._new_ids(carried if ids is None else as_ids(ids, len(more)))
        labels_M = more.labels
        theirs = getattr(data, "class_names", None) or more.class_names
        if labels_M is not None and theirs and self.class_names and tuple(theirs) != self.class_names[: len(theirs)]:
            labels_M = self._numbers_of_names([theirs[label] for label in labels_M.tolist()], len(more), False)
        self.data = join(self.data, more, labels_M)
        self.ids, self._places = names, None
        return len(more)

    def _by_id(self, ids: object) -> Array:
        if self.ids is None:
            raise LabelError("this pool has no ids. Make it with ids: Pool(data, ids=[...]).")
        if self._places is None:
            self._places = {name: position for position, name in enumerate(self.ids)}
            if len(self._places) < len(self.ids):  # ids that came with the data may occur twice
                values, counts = np.unique(np.array(self.ids, object), return_counts=True)
                self._places.update(dict.fromkeys(values[counts > 1].tolist(), -1))
        return self._once(find_ids(ids, self._places))

    def _once(self, array_n: Array) -> Array:
        if len(np.unique(array_n)) < len(array_n):
            values, counts = np.unique(array_n, return_counts=True)
            raise LabelError(f"{self.name(int(values[counts > 1][0]))} occurs more than once in the same call.")
        return array_n

    def _new_ids(self, names: tuple[Id, ...] | None) -> tuple[Id, ...] | None:
        """All ids, with those of new examples after the others."""
        if (names is None) != (self.ids is None):
            what = (
                "has ids: pass those of the new examples, ids=[...]" if names is None else "has no ids: leave ids out"
            )
            raise ParameterError(f"this pool {what}.")
        if names is None or self.ids is None:
            return None
        known = set(self.ids)
        twice = next((name for name in names if name in known), None)
        if twice is not None:
            raise ParameterError(f"the pool has an example with the id {twice!r} already. New examples need new ids.")
        if names and self.ids and type(names[0]) is not type(self.ids[0]):
            raise ParameterError(
                f"the ids of this pool are like {self.ids[0]!r}, those of the new rows like {names[0]!r}. All must be "
                "texts, or all whole numbers."
            )
        return (*self.ids, *names)

    def _numbers_of_names(self, names: Sequence[str], count: int, new_classes: bool) -> Array:
        if len(names) != count:
            as_labels(np.zeros(len(names), np.int64), count)  # raises, with the shapes
        known = self.class_names or tuple(map(str, range(self.classes)))
        unknown = [name for name in dict.fromkeys(names) if name not in known]
        if unknown and not new_classes:
            listed = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
            raise LabelError(
                f"there is no class {unknown[0]!r}.{nearest(unknown[0], known)} The classes are {listed}. To add it: "
                "new_classes=True, or add_class()."
            )
        for name in unknown:
            self.add_class(name)
        numbers = {name: number for number, name in enumerate((*known, *unknown))}
        return np.array([numbers[name] for name in names], np.int64)


def _parts(data: object) -> tuple[Examples, tuple[Id, ...] | None]:
    """Examples and their ids, if they have any, of what a caller has."""
    opened = getattr(data, "examples", None)
    whole = not isinstance(data, Examples) and isinstance(opened, Examples)  # what `open_data` returns
    examples = as_examples(opened if whole else data)
    return examples, carried_ids(data, len(examples)) or carried_ids(examples, len(examples))


def carried_ids(data: object, count: int) -> tuple[Id, ...] | None:
    """The ids that data carries, if any: texts, one per example. Token ids are numbers, and something else."""
    ids = getattr(data, "ids", None)
    if isinstance(ids, Sequence) and len(ids) == count and all(isinstance(name, str) for name in ids):
        return tuple(ids)
    return None
