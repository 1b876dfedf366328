"""The pool: which examples are labelled, which are not, which are kept for validation.

Every index in the public interface is a position in the data. This object alone translates between those and positions
among the unlabelled examples, which is what a selection method sees.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.data.examples import Examples, Subset, as_examples, as_labels, needed_labels
from poolwise.errors import LabelError, ParameterError
from poolwise.seeding import stream


class Pool:
    """Examples, the labels that are known of them, and the examples held back for validation.

    Args:
        data: examples, or anything that `as_examples` takes. Labels that it carries are not used unless asked for, by
            `reveal`, `start_balanced` or `hold_out`: what a pool knows is what it was told.
        classes: the number of classes; by default that of the data's class names, or else of its labels.
    """

    def __init__(self, data: object, classes: int | None = None) -> None:
        self.data: Examples = as_examples(data)
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
        """Positions in the data of the examples held back for validation, ascending."""
        return np.flatnonzero(self._validation_N)

    def labelled_examples(self) -> Subset:
        """The labelled examples with the labels given to them; classes without a name are called by their number."""
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
            labels: their labels.
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
        """Label exactly so many examples of every class, by the labels that the data carries, drawn from the seed."""
        drawn = self._balanced(per_class, stream(seed, "initial set"), "initial set")
        self.reveal(drawn)
        return drawn

    def start_random(self, count: int, seed: int = 0) -> Array:
        """Label so many examples, drawn at random from the seed, by the labels that the data carries."""
        drawn = self._draw(count, stream(seed, "initial set"), "initial set")
        self.reveal(drawn)
        return drawn

    def hold_out(self, count: int, seed: int = 0, *, balanced: bool = False) -> Array:
        """Keep some unlabelled examples, whose labels the data carries, for validation.

        Args:
            count: how many in all.
            seed: where the draw comes from.
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
        array = array.astype(np.int64)
        outside = array[(array < 0) | (array >= len(self))]
        if outside.size:
            raise LabelError(
                f"there is no example {outside[0]}: the pool has {len(self)} examples, 0 to {len(self) - 1}."
            )
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
        """Take up a saved state; the data must be the same."""
        if (state["examples"], state["classes"]) != (len(self), self.classes):
            raise ParameterError(
                f"the saved pool has {state['examples']} examples of {state['classes']} classes, this data has "
                f"{len(self)} of {self.classes}. Load it with the same data."
            )
        self._order = [int(index) for index in state["labelled"]]
        self._labels_N[:] = -1
        self._labels_N[self._order] = state["labels"]
        self._validation_N[:] = False
        self._validation_N[np.array(state["validation"], np.int64)] = True

    def _record(self, indices: object, labels: object, correcting: bool) -> None:
        indices_n = self.positions(indices)
        labels_n = as_labels(np.atleast_1d(np.asarray(labels)), len(indices_n))
        unknown = labels_n[labels_n >= self.classes]
        if unknown.size:
            raise LabelError(f"there is no class {unknown[0]}: the classes are 0 to {self.classes - 1}.")
        held = indices_n[self._validation_N[indices_n]]
        if held.size:
            raise LabelError(f"example {held[0]} is kept for validation and cannot be labelled.")
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
