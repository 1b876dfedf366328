"""The pool: which examples are labelled, which are not, which are held out for validation.

Every index in the public interface is a position in the data. This object alone translates between those and positions
among the unlabelled examples, which is what a selection method sees.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.data.examples import Examples, Subset, as_examples, as_labels, needed_labels
from poolwise.errors import LabelError, ParameterError, StateError
from poolwise.seeding import stream


class Pool:
    """Examples, the labels that are known of them, and the examples held out for validation.

    Args:
        data: examples, or anything that `as_examples` takes. Labels that it carries are not used unless asked for, by
            `reveal`, `start_balanced`, `start_random` or `hold_out`.
        classes: the number of classes; by default that of the data's class names, or else of its labels.

    Attributes:
        data: the examples.
        classes: the number of classes.
        ids: what the examples are called, where the data has `ids` (texts, one per example), else None.

    Example:
        >>> import numpy as np
        >>> pool = Pool(np.zeros((5, 2)), classes=2)
        >>> pool.label([3, 1], [0, 1])
        >>> pool.labelled, pool.labels, pool.unlabelled
        (array([3, 1]), array([0, 1]), array([0, 2, 4]))
    """

    def __init__(self, data: object, classes: int | None = None) -> None:
        self.data: Examples = as_examples(data)
        self.ids = _ids(data, len(self.data)) or _ids(self.data, len(self.data))
        if classes is None and self.data.class_names is not None:
            classes = len(self.data.class_names)
        if classes is None and self.data.labels is not None and len(self.data):
            classes = int(self.data.labels.max()) + 1
        if classes is None or classes < 2:
            raise ParameterError(f"classes must be given as a number of at least 2: the data says {classes}.")
        self.classes = classes
        self._labels_N = np.full(len(self.data), -1, np.int64)
        self._order: list[int] = []
        self._validation_N = np.zeros(len(self.data), bool)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return (
            f"Pool({len(self):,} examples, {self.classes} classes: {len(self._order):,} labelled, "
            f"{len(self.unlabelled):,} unlabelled, {len(self.validation):,} for validation)"
        )

    @property
    def labelled(self) -> Array:
        """Positions in the data of the labelled examples, in the order in which they were labelled."""
        return np.array(self._order, np.int64)

    @property
    def labels(self) -> Array:
        """Labels of the `labelled` examples, in the same order."""
        labels: Array = self._labels_N[self.labelled]
        return labels

    @property
    def unlabelled(self) -> Array:
        """Positions in the data of what can still be asked for, ascending."""
        return np.flatnonzero((self._labels_N < 0) & ~self._validation_N)

    @property
    def validation(self) -> Array:
        """Positions in the data of the examples held out for validation, ascending."""
        return np.flatnonzero(self._validation_N)

    def labelled_examples(self) -> Subset:
        """The labelled examples with the labels given to them; a class without a name gets its number as its name."""
        return Subset(self.data, self.labelled, self.labels, tuple(map(str, range(self.classes))))

    def unlabelled_examples(self) -> Subset:
        """The unlabelled examples."""
        return Subset(self.data, self.unlabelled)

    def validation_examples(self) -> Subset | None:
        """The validation examples, or None if there are none."""
        return Subset(self.data, self.validation) if self._validation_N.any() else None

    def label(self, indices: object, labels: object) -> None:
        """Record labels of unlabelled examples; either all are recorded or, on an error, none.

        Args:
            indices: positions in the data.
            labels: their labels, in the same order. A pandas Series is read by position, whatever its index.
        """
        self._record(indices, labels, correcting=False)

    def correct(self, indices: object, labels: object) -> None:
        """Replace labels given before."""
        self._record(indices, labels, correcting=True)

    def reveal(self, indices: object) -> None:
        """Record the labels that the data itself carries, as a simulation does."""
        indices_n = self.positions(indices)
        self.label(indices_n, needed_labels(self.data, "a simulation")[indices_n])

    def start_balanced(self, per_class: int, seed: int = 0) -> Array:
        """Label this many examples of every class, drawn from the seed, with the labels that the data carries."""
        drawn = self._balanced(per_class, stream(seed, "initial set"), "initial set")
        self.reveal(drawn)
        return drawn

    def start_random(self, count: int, seed: int = 0) -> Array:
        """Label this many examples, drawn from the seed, with the labels that the data carries."""
        drawn = self._draw(count, stream(seed, "initial set"), "initial set")
        self.reveal(drawn)
        return drawn

    def hold_out(self, count: int, seed: int = 0, *, balanced: bool = False) -> Array:
        """Hold out some unlabelled examples for validation, with the labels that the data carries.

        Args:
            count: how many in all.
            seed: root of the draw.
            balanced: the same number of every class; `count` must then be a multiple of the number of classes.
        """
        needed_labels(self.data, "a validation set")
        if balanced and count % self.classes:
            raise ParameterError(
                f"a balanced validation set of {count} examples is not possible with {self.classes} classes: "
                f"take a multiple of {self.classes}."
            )
        generator = stream(seed, "validation set")
        if balanced:
            drawn = self._balanced(count // self.classes, generator, "validation set")
        else:
            drawn = self._draw(count, generator, "validation set")
        self._validation_N[drawn] = True
        return drawn

    def positions(self, indices: object) -> Array:
        """Positions in the data as int64, each checked to exist and to occur once."""
        array = np.atleast_1d(np.asarray(indices))
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise LabelError(
                f"indices must be a list of whole numbers, not {array.dtype} of shape {list(array.shape)}."
            )
        outside = array[(array < 0) | (array >= len(self))]  # before they are converted, which could wrap
        if outside.size:
            raise LabelError(
                f"there is no example {outside[0]}: the pool has {len(self)} examples, 0 to {len(self) - 1}."
            )
        array = array.astype(np.int64)
        if len(np.unique(array)) < len(array):
            values, counts = np.unique(array, return_counts=True)
            raise LabelError(f"example {values[counts > 1][0]} occurs more than once in the same call.")
        return array

    def state(self) -> dict[str, Any]:
        """What must be saved: positions and labels; the data itself is not part of it."""
        return {
            "examples": len(self),
            "classes": self.classes,
            "labelled": self._order.copy(),
            "labels": self.labels.tolist(),
            "validation": self.validation.tolist(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Return to a saved state; the data must be the same."""
        if (state["examples"], state["classes"]) != (len(self), self.classes):
            raise ParameterError(
                f"the saved pool has {state['examples']} examples of {state['classes']} classes, this data has "
                f"{len(self)} of {self.classes}. Load it with the same data."
            )
        order, labels, held = (_whole_numbers(state, name) for name in ("labelled", "labels", "validation"))
        used = np.concatenate([order, held])
        if len(order) != len(labels) or len(np.unique(used)) < len(used):
            raise StateError("the saved pool contradicts itself: an example occurs twice, or labels are missing.")
        if used.size and not 0 <= used.min() <= used.max() < len(self):
            raise StateError(f"the saved pool names examples outside 0 to {len(self) - 1}.")
        if labels.size and not 0 <= labels.min() <= labels.max() < self.classes:
            raise StateError(f"the saved pool has labels outside 0 to {self.classes - 1}.")
        self._order = order.tolist()
        self._labels_N[:] = -1
        self._labels_N[order] = labels
        self._validation_N[:] = False
        self._validation_N[held] = True

    def _record(self, indices: object, labels: object, correcting: bool) -> None:
        indices_n = self.positions(indices)
        labels_n = as_labels([labels] if np.ndim(labels) == 0 else labels, len(indices_n))  # type: ignore[arg-type]
        unknown = labels_n[labels_n >= self.classes]
        if unknown.size:
            raise LabelError(f"there is no class {unknown[0]}: the classes are 0 to {self.classes - 1}.")
        held = indices_n[self._validation_N[indices_n]]
        if held.size:
            raise LabelError(f"example {held[0]} is held out for validation and cannot be labelled.")
        known_n = self._labels_N[indices_n] >= 0
        if not correcting and known_n.any():
            raise LabelError(f"example {indices_n[known_n][0]} has a label already. To change it, use correct().")
        if correcting and not known_n.all():
            raise LabelError(f"example {indices_n[~known_n][0]} has no label to correct. Use label() or update().")
        self._labels_N[indices_n] = labels_n
        if not correcting:
            self._order.extend(indices_n.tolist())

    def _draw(self, count: int, generator: np.random.Generator, what: str) -> Array:
        free = self.unlabelled
        if not 0 <= count <= len(free):
            raise ParameterError(f"a {what} of {count} examples is not possible: {len(free)} are unlabelled.")
        return generator.choice(free, count, replace=False)

    def _balanced(self, per_class: int, generator: np.random.Generator, what: str) -> Array:
        if per_class < 0:
            raise ParameterError(f"a {what} needs a number of examples per class of at least 0, not {per_class}.")
        free = self.unlabelled
        labels = needed_labels(self.data, f"a balanced {what}")[free]
        drawn = []
        for c in range(self.classes):
            members = free[labels == c]
            if len(members) < per_class:
                raise ParameterError(
                    f"a balanced {what} of {per_class} examples per class is not possible: class {c} has "
                    f"{len(members)}. Ask for at most {len(members)} per class."
                )
            drawn.append(generator.choice(members, per_class, replace=False))
        # Classes in turn, so that a prefix of the set is as balanced as it can be.
        return np.stack(drawn, 1).reshape(-1) if drawn else np.empty(0, np.int64)


def _ids(data: object, count: int) -> tuple[str, ...] | None:
    """The ids of examples, if they have any: texts, one per example. Token ids are numbers, and something else."""
    ids = getattr(data, "ids", None)
    if isinstance(ids, Sequence) and len(ids) == count and all(isinstance(name, str) for name in ids):
        return tuple(ids)
    return None


def _whole_numbers(state: Mapping[str, Any], name: str) -> Array:
    """`[n]` whole numbers of a saved state."""
    array = np.asarray(state[name])
    if array.ndim != 1 or (array.size and array.dtype.kind != "i"):
        raise StateError(f"the saved pool has no list of whole numbers as {name!r}.")
    return array.astype(np.int64)
